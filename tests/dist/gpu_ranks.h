/* Ranks that are threads and have the fake GPU: include it after fake_images.h. */
#ifndef WEFT_TESTS_DIST_GPU_RANKS_H
#define WEFT_TESTS_DIST_GPU_RANKS_H

#include "on_threads.h"

enum { FAKE_GPU = 40 }; /* the fake driver's handle of its first */

/* Makes the GPU's context current, with a stream of the rank's own. */
static inline void enter_gpu(part *m) {
    void *context;
    assert_int_equal(weft_cuda_driver_get(&m->gpu, NULL), WEFT_OK);
    assert_int_equal(m->gpu->primary_retain(&context, FAKE_GPU), 0);
    assert_int_equal(m->gpu->context_push(context), 0);
    assert_int_equal(m->gpu->stream_new(&m->stream, WEFT_CU_STREAM_NON_BLOCKING), 0);
}

static inline void leave_gpu(part *m) {
    free_part(m);
    m->gpu->stream_free(m->stream);
    m->gpu->primary_release(FAKE_GPU);
}

static inline void check_nothing_leaked(const fake_counts *before, const fake_counts *after) {
    assert_int_equal(after->allocations, before->allocations);
    assert_int_equal(after->contexts, before->contexts);
    assert_int_equal(after->streams, before->streams);
    assert_int_equal(after->events, before->events);
}

#endif
