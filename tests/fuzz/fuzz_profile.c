/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer target: any bytes as a profile's file. What is accepted must be simulable, what is refused must say where. */
#include <math.h>

#include <weft/profile.h>

#include "require.h"

static int is_share(double value) {
    return value >= 0 && value <= 1;
}

static void check_profile(const weft_profile *p) {
    require(p->name[0] && memchr(p->name, 0, sizeof p->name) != NULL);
    require(p->title[0] && memchr(p->title, 0, sizeof p->title) != NULL);
    require(p->stages >= 0 && p->stages <= 16);
    require(is_share(p->spread_step) && is_share(p->spread_tile) && is_share(p->spread_load));
    require(is_share(p->matrix) && p->matrix > 0 && is_share(p->clock) && p->clock > 0);
    require(is_share(p->overlap) && is_share(p->hidden) && is_share(p->launch));
    require(isfinite(p->merge) && p->merge >= 1);
    const double times[] = {p->step_cycles, p->prologue, p->epilogue};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        require(isfinite(times[i]) && times[i] >= 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const weft_profile none = WEFT_PROFILE_INIT;
    weft_profile profile = WEFT_PROFILE_INIT;
    weft_message message = {""};
    memset(&profile, 0x5a, sizeof profile);
    profile.struct_size = sizeof profile;
    const weft_status status = weft_profile_parse(&profile, (const char *)data, size, "fuzz", &message);
    if (status == WEFT_OK) {
        check_profile(&profile);
        require(message.text[0] == '\0');
    } else {
        require(status == WEFT_INVALID && memcmp(&profile, &none, sizeof none) == 0);
        require(strncmp(message.text, "fuzz:", 5) == 0 && memchr(message.text, 0, sizeof message.text) != NULL);
    }
    return 0;
}
