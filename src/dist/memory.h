/* SPDX-License-Identifier: Apache-2.0 */
/* The memory in which a rank computes: the host's, or a device's. */
#ifndef WEFT_DIST_MEMORY_H
#define WEFT_DIST_MEMORY_H

#include <weft/weft.h>

/* What is copied or filled is in order with plans that are enqueued on the stream. */
typedef struct weft_dist_memory {
    void *self;
    int on_device;
    void *stream;
    void (*close)(void *self); /* null: nothing to close */
    weft_status (*take)(void *self, size_t bytes, void **at, weft_message *message);
    void (*give)(void *self, void *at); /* null is fine */

    /* `rows` rows of `width` bytes. */
    weft_status (*copy)(const struct weft_dist_memory *memory, void *to, size_t to_pitch, const void *from,
                        size_t from_pitch, size_t width, size_t rows, weft_message *message);
    weft_status (*fill)(const struct weft_dist_memory *memory, void *to, float value, size_t count, weft_message *message);
    weft_status (*read)(const struct weft_dist_memory *memory, void *to, const void *from, size_t bytes,
                        weft_message *message);                                          /* to the host: waits for it */
    weft_status (*settle)(const struct weft_dist_memory *memory, weft_message *message); /* waits for all so far */
    int (*is_busy)(const struct weft_dist_memory *memory); /* whether settle() would wait; null: never */
} weft_dist_memory;

/* That of a device. */
weft_status weft_dist_memory_of(weft_dist_memory *memory, const weft_device *device, weft_message *message);
weft_status weft_dist_memory_cuda(weft_dist_memory *memory, const weft_device *device, weft_message *message);

#endif
