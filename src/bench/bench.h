/* A bench from the inside: the buffers of a problem, and where they are. */
#ifndef WEFT_BENCH_BENCH_H
#define WEFT_BENCH_BENCH_H

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

extern const weft_bench_memory weft_bench_memory_host, weft_bench_memory_cuda;

/* Where the pointer to a buffer stands in a data's struct. */
static inline void **weft_bench_pointer(weft_data *data, const weft_buffer *buffer) {
    return (void **)(void *)((char *)data + buffer->offset);
}

static inline size_t weft_bench_bytes(const weft_buffer *buffer) {
    return buffer->elements * weft_dtype_bytes(buffer->dtype);
}

/* Draws the first of a buffer's random normal numbers, which are the same for any number of threads: all of them, or as
 * many as are repeated from there on. Slopes are small and positive, and lengths divide the problem's rows evenly. Returns
 * how many; *numbers, which the caller frees, is null when memory ran out. */
size_t weft_bench_draw(const weft_problem *problem, const weft_buffer *buffer, uint64_t seed, void **numbers);

/* Fills a buffer as it is before the first run. */
weft_status weft_bench_fill(const weft_bench *bench, const weft_bench_memory *memory, size_t number, void *to,
                            weft_message *message);

/* bench_forward.c: gives a backward pass on a GPU the O and LSE of its inputs. */
weft_status weft_bench_forward(weft_bench *bench, const weft_plan *plan, weft_message *message);

/* Puts a run on the bench's stream; on the CPU it is done when this returns. */
weft_status weft_bench_enqueue(weft_bench *bench, const weft_plan *plan, weft_message *message);

/* weft_check_result() that tells how far it is, from any thread, one at a time. */
weft_status weft_bench_check_result(const void *problem, const void *data, const void *before, weft_progress progress,
                                    void *progress_user, weft_check *check, weft_message *message);

/* check.c: the relative error of rounding a result once, at most; and how many of `count` items, each of `cost` operations,
 * are checked: every so many, at least one. */
double weft_bench_rounding(weft_dtype dtype);
int64_t weft_bench_check_stride(int64_t count, double cost);

/* bench_time.c: seconds of a clock that only goes forward. */
double weft_bench_now(void);

/* bench_cuda.c: the stream and events of a plan's GPU, and waiting for the stream. Runs that are enqueued between `begin`,
 * if that succeeds, and `end` are timed, the context being current; `end` with null times nothing. */
weft_status weft_bench_cuda_open(weft_bench *bench, const weft_plan *plan, weft_message *message);
weft_status weft_bench_cuda_begin(weft_bench *bench, weft_message *message);
weft_status weft_bench_cuda_end(weft_bench *bench, double *seconds, weft_message *message);
weft_status weft_bench_cuda_wait(const weft_bench *bench, weft_message *message);
void weft_bench_cuda_close(weft_bench *bench);

#endif
