/* SPDX-License-Identifier: Apache-2.0 */
/* What studies load, looked for without a GPU. */
#include <weft/study.h>

#include "counters/cupti.h"
#include "counters/nvml.h"

weft_status weft_study_find_cupti(int32_t *version, weft_message *message) {
    weft_cupti cupti;
    const weft_status status = weft_cupti_load(&cupti, NULL, message);
    *version = (int32_t)cupti.version;
    if (status == WEFT_OK) {
        weft_cupti_unload(&cupti);
    }
    return status;
}

weft_status weft_study_find_nvml(weft_message *message) {
    return weft_nvml_find(message);
}
