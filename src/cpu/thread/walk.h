/* SPDX-License-Identifier: Apache-2.0 */
/* Walks over threads: who visits which tile, and in which memory. */
#ifndef WEFT_CPU_THREAD_WALK_H
#define WEFT_CPU_THREAD_WALK_H

#include "cpu/kernel/kernel.h"

/* What a worker does with one visit; `scratch` is its thread's. */
typedef void (*weft_cpu_visit)(void *context, void *scratch, const weft_visit *visit);

/* Items 0 .. count - 1, which threads take as they come free. */
typedef void (*weft_cpu_item)(void *context, void *scratch, int64_t item);
typedef struct weft_cpu_stage {
    int64_t count;
    weft_cpu_item item;
    void *context;
} weft_cpu_stage;

/* How many parts of a tile are taken, in a cache line of its own. weft_cpu_taken_new() makes an array for so many tiles,
 * all 0, or null; weft_cpu_free() releases it. */
typedef struct weft_cpu_taken {
    _Alignas(64) int64_t parts;
} weft_cpu_taken;
weft_cpu_taken *weft_cpu_taken_new(int64_t tiles);

/* The next of a tile's `parts` that nobody has taken; -1: there is none. */
static inline int64_t weft_cpu_take_part(weft_cpu_taken *taken, int64_t parts) {
    if (__atomic_load_n(&taken->parts, __ATOMIC_RELAXED) >= parts) { /* looking is cheaper than taking */
        return -1;
    }
    const int64_t part = __atomic_fetch_add(&taken->parts, 1, __ATOMIC_RELAXED);
    return part < parts ? part : -1;
}

/* What threads do on a walk, every one with `scratch` bytes of its own, whose first 64 are 0 at first. */
typedef struct weft_cpu_visitor {
    const weft_cpu_kernel *kernel; /* started and stopped by each thread; null: none */
    weft_cpu_visit visit;
    void *context;
    size_t scratch;
    weft_cpu_stage before; /* done when the walk begins, without scratch memory; no items: nothing */
    int steals; /* work stealing: idle threads walk others' tiles again, and a visit skips parts that are taken */
    weft_progress progress; /* null: nobody wants to know */
    void *progress_user;
} weft_cpu_visitor;

/* Visits all tiles of a walk: each worker's in their order, workers spread over threads. Returns WEFT_NO_MEMORY when there
 * is none for the threads; then nothing was visited. */
weft_status weft_cpu_walk(const weft_walk *walk, const weft_cpu_visitor *visitor, weft_message *message);

/* The same for an operation without kernels here: no scratch memory, no stealing. */
weft_status weft_cpu_run_tiles(const weft_walk *walk, void (*visit)(void *context, const weft_visit *visit), void *context,
                               weft_progress progress, void *user, weft_message *message);

/* Runs items over threads, every thread with `scratch` bytes of its own. */
weft_status weft_cpu_each(int64_t count, const weft_cpu_kernel *kernel, size_t scratch, weft_cpu_item item, void *context,
                          weft_message *message);

#endif
