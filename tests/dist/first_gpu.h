/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that compute on the first GPU there is. */
#ifndef WEFT_TESTS_DIST_FIRST_GPU_H
#define WEFT_TESTS_DIST_FIRST_GPU_H

#include "cuda/driver/context.h"

/* Makes its context current, with a stream. Returns whether there is one; else why not is in the message. */
static inline int open_first_gpu(const weft_cuda_driver **gpu, void **stream, weft_message *message) {
    weft_cuda_device device;
    void *context;
    return weft_cuda_driver_get(gpu, message) == WEFT_OK && weft_cuda_device_get(*gpu, 0, &device, message) == WEFT_OK &&
           (*gpu)->primary_retain(&context, device.handle) == 0 && (*gpu)->context_push(context) == 0 &&
           (*gpu)->stream_new(stream, WEFT_CU_STREAM_NON_BLOCKING) == 0;
}

#endif
