/* SPDX-License-Identifier: Apache-2.0 */
/* A rank's memory on a GPU: buffers of the device, and copies on the run's stream. */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "cuda/driver/context.h"
#include "dist/memory.h"

static uint64_t address(const void *at) {
    return (uint64_t)(uintptr_t)at;
}

static weft_status answer(const weft_cuda_context *gpu, int pushed, weft_cu_result result, const char *what,
                          weft_message *message) {
    weft_cuda_leave(gpu->driver, pushed);
    return result ? weft_cuda_fail(gpu->driver, result, what, message) : WEFT_OK;
}

static weft_status take(void *self, size_t bytes, void **at, weft_message *message) {
    const weft_cuda_context *gpu = self;
    uint64_t pointer = 0;
    int pushed;
    *at = NULL;
    weft_status status = weft_cuda_enter(gpu->driver, gpu->context, &pushed, message);
    if (!status) {
        const weft_cu_result result = gpu->driver->memory_new(&pointer, bytes ? bytes : 1);
        status = answer(gpu, pushed, result, "a rank's buffers do not fit the GPU's memory", message);
    }
    *at = status ? NULL : (void *)(uintptr_t)pointer;
    return status;
}

static void give(void *self, void *at) {
    const weft_cuda_context *gpu = self;
    int pushed;
    if (at && weft_cuda_enter(gpu->driver, gpu->context, &pushed, NULL) == WEFT_OK) {
        gpu->driver->memory_free(address(at));
        weft_cuda_leave(gpu->driver, pushed);
    }
}

static weft_status copy(const weft_dist_memory *memory, void *to, size_t to_pitch, const void *from, size_t from_pitch,
                        size_t width, size_t rows, weft_message *message) {
    const weft_cuda_context *gpu = memory->self;
    const int in_one = rows == 1 || (to_pitch == width && from_pitch == width);
    const weft_cu_copy by_rows = {.from = {.type = WEFT_CU_MEMORY_DEVICE, .device = address(from), .pitch = from_pitch},
                                  .to = {.type = WEFT_CU_MEMORY_DEVICE, .device = address(to), .pitch = to_pitch},
                                  .width = width,
                                  .rows = rows};
    int pushed;
    if (width == 0 || rows == 0) {
        return WEFT_OK;
    }
    const weft_status status = weft_cuda_enter(gpu->driver, gpu->context, &pushed, message);
    return status ? status
                  : answer(gpu, pushed,
                           in_one ? gpu->driver->copy_inside(address(to), address(from), width * rows, memory->stream)
                                  : gpu->driver->copy_rows(&by_rows, memory->stream),
                           "a rank's rows cannot be copied", message);
}

static weft_status fill(const weft_dist_memory *memory, void *to, float value, size_t count, weft_message *message) {
    const weft_cuda_context *gpu = memory->self;
    unsigned bits;
    int pushed;
    memcpy(&bits, &value, sizeof bits);
    const weft_status status = count > 0 ? weft_cuda_enter(gpu->driver, gpu->context, &pushed, message) : WEFT_OK;
    return status || count == 0 ? status
                                : answer(gpu, pushed, gpu->driver->set_words(address(to), bits, count, memory->stream),
                                         "a rank's sums cannot be cleared", message);
}

static weft_status read(const weft_dist_memory *memory, void *to, const void *from, size_t bytes, weft_message *message) {
    const weft_cuda_context *gpu = memory->self;
    int pushed;
    const weft_status status = weft_cuda_enter(gpu->driver, gpu->context, &pushed, message);
    if (status) {
        return status;
    }
    weft_cu_result result = gpu->driver->copy_out_async(to, address(from), bytes, memory->stream);
    result = result ? result : gpu->driver->stream_synchronize(memory->stream);
    return answer(gpu, pushed, result, "a rank's values cannot be read", message);
}

static weft_status settle(const weft_dist_memory *memory, weft_message *message) {
    const weft_cuda_context *gpu = memory->self;
    int pushed;
    const weft_status status = weft_cuda_enter(gpu->driver, gpu->context, &pushed, message);
    return status ? status
                  : answer(gpu, pushed, gpu->driver->stream_synchronize(memory->stream), "a rank's work on the GPU fails",
                           message);
}

static int is_busy(const weft_dist_memory *memory) {
    const weft_cuda_context *gpu = memory->self;
    int pushed;
    if (weft_cuda_enter(gpu->driver, gpu->context, &pushed, NULL)) {
        return 0; /* settle() says why */
    }
    const weft_cu_result result = gpu->driver->stream_query(memory->stream);
    weft_cuda_leave(gpu->driver, pushed);
    return result == WEFT_CU_NOT_READY;
}

static void close(void *self) {
    weft_cuda_context_close(self);
    free(self);
}

weft_status weft_dist_memory_cuda(weft_dist_memory *memory, const weft_device *device, weft_message *message) {
    weft_cuda_context *gpu = calloc(1, sizeof *gpu);
    if (!gpu) {
        return weft_fail(message, WEFT_NO_MEMORY, "no memory for a rank's GPU");
    }
    const weft_status status = weft_cuda_context_open(gpu, device->index, message);
    if (status) {
        free(gpu);
        return status;
    }
    *memory = (weft_dist_memory){.self = gpu,
                                 .on_device = 1,
                                 .close = close,
                                 .take = take,
                                 .give = give,
                                 .copy = copy,
                                 .fill = fill,
                                 .read = read,
                                 .settle = settle,
                                 .is_busy = is_busy};
    return WEFT_OK;
}
