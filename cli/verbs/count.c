/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/count.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"

/* The case of a schedule; a problem that contradicts itself has been refused before. */
static device_case case_of(const settings *s, const weft_schedule *schedule) {
    device_case c = {.schedule = *schedule, .device = device_of(s)};
    weft_message unused;
    (void)problem_of(s, &c.problem, &unused);
    return c;
}

int count_plan(const settings *s, const weft_plan *plan, device_case *counted) {
    const weft_schedule schedule = weft_plan_schedule(plan);
    device_bench *bench = NULL;
    int code = device_bench_open(&bench, (int32_t)s->gpu);
    if (code == EXIT_OK) {
        *counted = case_of(s, &schedule);
        counted->may_be_unknown = 1;
        code = device_bench_run(bench, counted, 1, DEVICE_COUNT | DEVICE_SIMULATE, 0);
    }
    device_bench_close(bench);
    return code;
}

int count_ranking(const settings *s, const ranking *r, device_case *counted) {
    const size_t count = (size_t)r->summary.count;
    device_bench *bench = NULL;
    int code = device_bench_open(&bench, (int32_t)s->gpu);
    for (size_t i = 0; i < count; i++) {
        counted[i] = case_of(s, &r->rows[i].schedule);
    }
    code = code ? code : device_bench_run(bench, counted, count, DEVICE_COUNT, 0);
    device_bench_close(bench);
    return code;
}
