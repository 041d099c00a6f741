/* SPDX-License-Identifier: Apache-2.0 */
/* A bench from the inside: the buffers of a problem, and where they are. */
#ifndef WEFT_BENCH_STATE_H
#define WEFT_BENCH_STATE_H

#include <weft/bench.h>

#include "plan/plan.h"

/* Memory that plans read and write: the host's or a GPU's. */
typedef struct weft_bench_memory {
    weft_status (*allocate)(const weft_bench *b, void **memory, size_t bytes, weft_message *message);
    void (*release)(const weft_bench *b, void *memory);
    weft_status (*write)(const weft_bench *b, void *to, const void *from, size_t bytes, weft_message *message);
    weft_status (*read)(const weft_bench *b, void *to, const void *from, size_t bytes, weft_message *message);
    weft_status (*poison)(const weft_bench *b, void *to, size_t bytes, weft_message *message); /* all bits set: NaN */
} weft_bench_memory;

struct weft_bench {
    weft_bench_options options;
    const weft_operation_row *operation;
    weft_problem problem; /* resolved */
    void *kept;           /* what it points to */
    weft_buffer buffers[WEFT_BUFFERS];
    size_t count; /* of these */
    const weft_bench_memory *memory;
    weft_data data; /* where plans run */
    weft_data host; /* the same in the host's memory: `data` itself, or copies that weft_bench_data() makes */

    weft_data first;    /* what was checked first: copies of what runs write, with check_once */
    weft_check checked; /* how that went; checked.checked is 0 before */

    const void *driver; /* of a GPU: a weft_cuda_driver; null for the CPU */
    void *context, *stream, *start, *end;
    int mode;   /* of captures, for weft_cuda_restore() */
    int pushed; /* between begin and end: whether the context was made current */

    double
        warm_up; /* seconds that a plan runs alone until a GPU's clock is what its power allows; 0: clocks do not follow */
    double patience;            /* seconds left to wait for moments without other programs */
    int (*waiting)(void *user); /* asked while waiting for such a moment: anything but 0 ends that; or null */
    void *waiting_user;
    int64_t disturbed; /* runs that did not count */
};

/* Where the pointer to a buffer stands in a data's struct. */
static inline void **weft_bench_pointer(weft_data *data, const weft_buffer *buffer) {
    return (void **)(void *)((char *)data + buffer->offset);
}

static inline size_t weft_bench_bytes(const weft_buffer *buffer) {
    return buffer->elements * weft_dtype_bytes(buffer->dtype);
}

#endif
