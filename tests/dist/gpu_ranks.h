/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that are threads and have the fake GPU: include it after fake_images.h. */
#ifndef WEFT_TESTS_DIST_GPU_RANKS_H
#define WEFT_TESTS_DIST_GPU_RANKS_H

#include "on_threads.h"

enum { FAKE_GPU = 40 }; /* the fake driver's handle of its first */

/* Makes the GPU's context current, with a stream of the rank's own. */
static inline void enter_gpu(const weft_cuda_driver **gpu, void **stream) {
    void *context;
    assert_int_equal(weft_cuda_driver_get(gpu, NULL), WEFT_OK);
    assert_int_equal((*gpu)->primary_retain(&context, FAKE_GPU), 0);
    assert_int_equal((*gpu)->context_push(context), 0);
    assert_int_equal((*gpu)->stream_new(stream, WEFT_CU_STREAM_NON_BLOCKING), 0);
}

/* When all that the rank has is freed. */
static inline void leave_gpu(const weft_cuda_driver *gpu, void *stream) {
    gpu->stream_free(stream);
    gpu->primary_release(FAKE_GPU);
}

/* A rank, on the GPU, as a thread. */
static inline void *rank_on_gpu(void *at) {
    thread_rank *r = at;
    void *context;
    const weft_cuda_driver **gpu = r->product ? &r->product->gpu : &r->part->gpu;
    enter_gpu(gpu, r->product ? &r->product->stream : &r->part->stream);
    thread_rank_run(r);
    (*gpu)->context_pop(&context);
    return NULL;
}

static inline void free_part_on_gpu(part *m) {
    free_part(m);
    leave_gpu(m->gpu, m->stream);
}

static inline void free_product_on_gpu(part_product *m) {
    free_product_part(m);
    leave_gpu(m->gpu, m->stream);
}

static inline void check_nothing_leaked(const fake_counts *before, const fake_counts *after) {
    assert_int_equal(after->allocations, before->allocations);
    assert_int_equal(after->contexts, before->contexts);
    assert_int_equal(after->streams, before->streams);
    assert_int_equal(after->events, before->events);
}

#endif
