/* SPDX-License-Identifier: Apache-2.0 */
/* A GPU to work on: its driver and a context, for whoever holds memory, streams or events there without a plan. */
#ifndef WEFT_CUDA_DRIVER_CONTEXT_H
#define WEFT_CUDA_DRIVER_CONTEXT_H

#include "cuda/driver/driver.h"

typedef struct weft_cuda_context {
    const weft_cuda_driver *driver;
    void *context;
    int device, retained; /* the driver's handle; whether the context is the primary one, held by this */
} weft_cuda_context;

/* The context that is current, if it is one of this GPU, else the primary one: as a plan takes it. */
weft_status weft_cuda_context_open(weft_cuda_context *gpu, int index, weft_message *message);
weft_status weft_cuda_context_take(weft_cuda_context *gpu, int device, weft_message *message);
void weft_cuda_context_close(weft_cuda_context *gpu);

#endif
