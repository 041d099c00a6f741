/* SPDX-License-Identifier: Apache-2.0 */
/* What the hardware counts of a plan. */
#include <string.h>

#include "bench/state.h"
#include "counters/counters.h"
#include "study/study.h"

enum {
    THREADS = 512,
    /* A line of the other half of the L2 has a copy in the near half, and copies outlast what is read once: after one
     * reading a launch of a few MB counts a third fewer misses than from an empty L2, after four a sixth, after 16 none. */
    READINGS = 16,
    SHIFTS = 8, /* each reading gives a line to another SM, of either half; a MiB is more than they skip */
};

/* One run that is counted. */
typedef struct work {
    const weft_study *study;
    weft_bench *bench;
    const weft_plan *plan;
    int64_t passes, done; /* each runs the plan once */
} work;

static weft_status empty_cache(void *user, weft_message *message) {
    const weft_study *s = ((const work *)user)->study;
    weft_cu_result result = 0;
    for (int i = 0; i < READINGS && !result; i++) {
        const uint64_t shift = (uint64_t)(i % SHIFTS) * THREADS * 16;
        uint64_t count = (s->flush_bytes - shift) / 16, buffer = s->flush + shift, sink = s->flush + s->flush_bytes;
        void *values[] = {&buffer, &count, &sink};
        result = s->driver->launch(s->read_stream, 4 * (unsigned)s->device.multiprocessors, 1, 1, THREADS, 1, 1, 0, NULL,
                                   values, NULL);
    }
    result = result ? result : s->driver->context_synchronize();
    return result ? weft_cuda_fail(s->driver, result, "the L2 cannot be emptied", message) : WEFT_OK;
}

static weft_status launch(void *user, weft_message *message) {
    work *w = user;
    const weft_bench_options *o = &w->bench->options;
    const weft_status status = weft_bench_run(w->bench, w->plan, message);
    if (o->progress && status == WEFT_OK) {
        w->done += w->done < w->passes;
        o->progress(o->progress_user, w->done, w->passes);
    }
    return status;
}

void weft_study_end_session(weft_study *s) {
    weft_counters_close(s->session);
    s->session = NULL;
}

/* A session for these counters: the last one, where it is the same. */
static weft_status take_session(weft_study *s, const weft_counter *wanted, size_t count, weft_message *message) {
    const size_t named = wanted ? count : 0;
    if (s->session && named == s->count && (named == 0 || memcmp(s->wanted, wanted, named * sizeof *wanted) == 0)) {
        return WEFT_OK;
    }
    weft_study_end_session(s);
    const weft_counters_request request = {s->context, s->device.handle, wanted, named, NULL};
    weft_counters *session = NULL;
    const weft_status status = weft_counters_open(&session, &request, message);
    s->session = session;
    s->count = named;
    if (named > 0 && named <= WEFT_COUNTERS) {
        memcpy(s->wanted, wanted, named * sizeof *wanted);
    }
    return status;
}

weft_status weft_study_count(weft_study *study, weft_bench *bench, const weft_plan *plan, const weft_counter *wanted,
                             size_t count, double *values, weft_message *message) {
    work w = {.study = study, .bench = bench, .plan = plan};
    const weft_counters_work counted = {empty_cache, launch, &w};
    const weft_status status = take_session(study, wanted, count, message);
    w.passes = status ? 0 : (int64_t)weft_counters_passes(study->session);
    return status ? status : weft_counters_measure(study->session, &counted, values, message);
}
