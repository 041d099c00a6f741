#include "verbs/count.h"

#include <math.h>
#include <stdio.h>

#include "cli.h"
#include "plan/plan.h"

static device_case case_of(const weft_plan *plan) {
    device_case c = {.subject = plan->subject,
                     .problem = plan->attention,
                     .gemm = plan->gemm,
                     .schedule = plan->schedule,
                     .device = plan->device};
    c.no_simulation = plan->schedule.split > 1 || (plan->subject == WEFT_SUBJECT_GEMM && plan->gemm.batch > 1);
    return c;
}

int count_plan(const weft_plan *plan, device_case *counted) {
    device_bench *bench = NULL;
    int code = device_bench_open(&bench, plan->device.index);
    if (code == EXIT_OK) {
        *counted = case_of(plan);
        code = device_bench_run(bench, counted, 1, DEVICE_COUNT | DEVICE_SIMULATE, 0);
    }
    device_bench_close(bench);
    return code;
}

int count_candidates(const candidate *list, size_t count, weft_subject subject, device_case *counted) {
    device_bench *bench = NULL;
    int code = EXIT_OK;
    for (size_t i = 0; i < count && code == EXIT_OK; i++) {
        weft_plan *plan = NULL;
        code = make_plan(&list[i].chosen, subject, &plan);
        if (code == EXIT_OK) {
            counted[i] = case_of(plan);
            code = bench ? EXIT_OK : device_bench_open(&bench, plan->device.index);
        }
        weft_plan_destroy(plan);
    }
    code = code ? code : device_bench_run(bench, counted, count, DEVICE_COUNT, 0);
    device_bench_close(bench);
    return code;
}

void count_print(const device_case *counted) {
    const double *v = counted->values;
    const double hits = v[WEFT_COUNTER_L2_HITS], misses = v[WEFT_COUNTER_L2_MISSES];
    printf("%50s%9.2f%10.2f%10.2f%10.3f\n", "counted", 100 * hits / (hits + misses), misses / 1e6,
           v[WEFT_COUNTER_FABRIC_SECTORS] / 1e6, v[WEFT_COUNTER_DRAM_READ_BYTES] / 1e9);
}
