/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/driver/context.h"

weft_status weft_cuda_context_take(weft_cuda_context *gpu, int device, weft_message *message) {
    int of = -1;
    void *current = NULL;
    gpu->device = device;
    gpu->retained = 0;
    if (gpu->driver->context_current(&current) == 0 && current && gpu->driver->context_device(&of) == 0 && of == device) {
        gpu->context = current;
        return WEFT_OK;
    }
    const weft_cu_result result = gpu->driver->primary_retain(&gpu->context, device);
    gpu->retained = result == 0;
    return result ? weft_cuda_fail(gpu->driver, result, "the GPU cannot be used", message) : WEFT_OK;
}

weft_status weft_cuda_context_open(weft_cuda_context *gpu, int index, weft_message *message) {
    weft_cuda_device device;
    *gpu = (weft_cuda_context){.driver = NULL};
    weft_status status = weft_cuda_driver_get(&gpu->driver, message);
    status = status ? status : weft_cuda_device_get(gpu->driver, index, &device, message);
    return status ? status : weft_cuda_context_take(gpu, device.handle, message);
}

void weft_cuda_context_close(weft_cuda_context *gpu) {
    if (gpu->retained) {
        gpu->driver->primary_release(gpu->device);
    }
    gpu->retained = 0;
}
