/* SPDX-License-Identifier: Apache-2.0 */
#include "study/study.h"

#include <stdlib.h>

#include "base/status.h"
#include "cuda/driver/module.h"

enum { MIB = 1 << 20 };

static weft_status take_device(weft_study *s, int32_t index, weft_message *message) {
    weft_status status;
    if ((status = weft_cuda_driver_get(&s->driver, message)) ||
        (status = weft_cuda_device_get(s->driver, index, &s->device, message))) {
        return status;
    }
    weft_cu_result result = s->driver->primary_retain(&s->context, s->device.handle);
    if (result) {
        s->context = NULL;
        return weft_cuda_fail(s->driver, result, "the GPU cannot be used", message);
    }
    if ((status = weft_cuda_enter(s->driver, s->context, &s->pushed, message)) ||
        (status = weft_cuda_function_get(s->driver, "read_stream", "read_stream", &s->read_stream, message))) {
        return status;
    }
    s->flush_bytes = 4 * ((uint64_t)s->device.l2_bytes >> 20) * MIB + MIB;
    result = s->driver->memory_new(&s->flush, s->flush_bytes + 16);
    result = result ? result : s->driver->set_words(s->flush, 0, (s->flush_bytes + 16) / 4, NULL);
    return result ? weft_cuda_fail(s->driver, result, "no memory on the GPU", message) : WEFT_OK;
}

weft_status weft_study_open(weft_study **study, int32_t index, weft_message *message) {
    if (!study) {
        return weft_fail(message, WEFT_INVALID, "study is null");
    }
    weft_study *s = *study = calloc(1, sizeof *s);
    const weft_status status = s ? take_device(s, index, message) : weft_fail(message, WEFT_NO_MEMORY, "out of memory");
    if (status) {
        weft_study_close(s);
        *study = NULL;
    }
    return status;
}

void weft_study_close(weft_study *s) {
    if (s && s->context) {
        weft_study_end_session(s);
        if (s->flush) {
            s->driver->memory_free(s->flush);
        }
        if (s->worker_of_sm) {
            s->driver->memory_free(s->worker_of_sm);
        }
        weft_cuda_leave(s->driver, s->pushed);
        s->driver->primary_release(s->device.handle);
    }
    if (s) {
        weft_nvml_close(&s->nvml);
    }
    free(s);
}

const char *weft_study_name(const weft_study *study) {
    return study->device.name;
}

int32_t weft_study_index(const weft_study *study) {
    return study->device.index;
}
