/* SPDX-License-Identifier: Apache-2.0 */
#include "dist/memory.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

static weft_status take(void *self, size_t bytes, void **at, weft_message *message) {
    (void)self;
    *at = NULL;
    const size_t rounded = (bytes + 127) / 64 * 64;
    *at = bytes > SIZE_MAX / 2 ? NULL : aligned_alloc(64, rounded);
    return *at ? WEFT_OK : weft_fail(message, WEFT_NO_MEMORY, "no memory for %zu bytes of a rank's buffers", bytes);
}

static void give(void *self, void *at) {
    (void)self;
    free(at);
}

static weft_status copy(const weft_dist_memory *memory, void *to, size_t to_pitch, const void *from, size_t from_pitch,
                        size_t width, size_t rows, weft_message *message) {
    (void)memory;
    (void)message;
    if (to_pitch == width && from_pitch == width) {
        memcpy(to, from, width * rows);
        return WEFT_OK;
    }
    for (size_t i = 0; i < rows; i++) {
        memcpy((char *)to + i * to_pitch, (const char *)from + i * from_pitch, width);
    }
    return WEFT_OK;
}

static weft_status fill(const weft_dist_memory *memory, void *to, float value, size_t count, weft_message *message) {
    (void)memory;
    (void)message;
    for (size_t i = 0; i < count; i++) {
        ((float *)to)[i] = value;
    }
    return WEFT_OK;
}

static weft_status read(const weft_dist_memory *memory, void *to, const void *from, size_t bytes, weft_message *message) {
    (void)memory;
    (void)message;
    memcpy(to, from, bytes);
    return WEFT_OK;
}

static weft_status settle(const weft_dist_memory *memory, weft_message *message) {
    (void)memory;
    (void)message;
    return WEFT_OK;
}

weft_status weft_dist_memory_of(weft_dist_memory *memory, const weft_device *device, weft_message *message) {
    if (device->kind == WEFT_DEVICE_CUDA) {
        return weft_dist_memory_cuda(memory, device, message);
    }
    *memory = (weft_dist_memory){.take = take, .give = give, .copy = copy, .fill = fill, .read = read, .settle = settle};
    return WEFT_OK;
}
