/* SPDX-License-Identifier: Apache-2.0 */
/* Energy on a live GPU: the same products in several orders, with what the plan chooses in all else. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "options/lengths.h"
#include "progress.h"
#include "studies/study.h"

enum { MOST_SIZES = 8, ROUNDS = 3 };

static const struct {
    const char *label;
    int32_t order, sweep;
} orders[] = {
    {"raster-m", WEFT_ORDER_RASTER_M, WEFT_SWEEP_FORWARD},
    {"group", WEFT_ORDER_GROUP, WEFT_SWEEP_FORWARD},
    {"hilbert", WEFT_ORDER_HILBERT, WEFT_SWEEP_FORWARD},
    {"serpentine, sawtooth sweep", WEFT_ORDER_SERPENTINE, WEFT_SWEEP_SAWTOOTH},
};
enum { ORDERS = sizeof orders / sizeof *orders };

static device_case product(int64_t size) {
    device_case c = {.problem = {.gemm = WEFT_GEMM_INIT}, .schedule = WEFT_SCHEDULE_INIT, .device = WEFT_DEVICE_INIT};
    c.problem.gemm.m = c.problem.gemm.n = c.problem.gemm.k = size;
    c.problem.gemm.dtype = c.problem.gemm.c_dtype = WEFT_BF16;
    c.problem.gemm.b_major = WEFT_COL_MAJOR;
    return c;
}

/* Fixes what the plan of a product chooses beside the order, so that the order alone differs. */
static int choose(const study *s, device_case *c) {
    weft_plan_options options = WEFT_PLAN_OPTIONS_INIT;
    weft_device gpu = WEFT_DEVICE_INIT;
    weft_plan *plan = NULL;
    weft_message message = {""};
    gpu.kind = WEFT_DEVICE_CUDA;
    gpu.index = weft_study_index(s->bench);
    options.device = &gpu;
    const weft_status status = weft_plan_create(&plan, &c->problem, &options, &message);
    if (status) {
        return complain_status(status, &message);
    }
    const weft_schedule planned = weft_plan_schedule(plan);
    c->schedule.tile_m = planned.tile_m;
    c->schedule.tile_n = planned.tile_n;
    c->schedule.tile_k = planned.tile_k;
    c->schedule.cluster_m = planned.cluster_m;
    c->schedule.cluster_n = planned.cluster_n;
    c->schedule.split = planned.split;
    c->schedule.dispatch = planned.dispatch;
    weft_plan_destroy(plan);
    return EXIT_OK;
}

static void show(study *s, const char *section, const char *label, const device_case *c) {
    const char *unsettled = c->energy.settled ? "" : " (clocks had not settled)";
    study_measured(s, section, NAN, c->sim.tflops, c->tflops, "TFLOP/s, %s%s", label, unsettled);
    study_measured(s, section, NAN, NAN, c->energy.watts, "W, %s", label);
    study_measured(s, section, NAN, NAN, c->tflops / c->energy.watts, "TFLOP/J, %s", label);
    study_measured(s, section, NAN, (double)c->sim.total.dram_read_bytes / 1e9,
                   c->values[WEFT_COUNTER_DRAM_READ_BYTES] / 1e9, "DRAM reads (GB), %s", label);
}

/* Traffic first: where it cannot be counted, that is said before the GPU runs for long. */
static void one_size(study *s, const char *section, int64_t size, size_t rounds) {
    device_case base = product(size), c[ORDERS];
    if (s->counting) {
        s->units += ORDERS * (double)(1 + rounds);
        return;
    }
    s->failed = s->failed || choose(s, &base) != EXIT_OK;
    if (s->failed) {
        return;
    }
    for (int i = 0; i < ORDERS; i++) {
        c[i] = base;
        c[i].schedule.order = orders[i].order;
        c[i].schedule.sweep = orders[i].sweep;
    }
    progress_next(ORDERS);
    s->failed = device_bench_run(s->bench, c, ORDERS, DEVICE_COUNT_TRAFFIC | DEVICE_SIMULATE, 0) != EXIT_OK;
    progress_next(ORDERS * (double)rounds);
    s->failed = s->failed || device_bench_energy(s->bench, c, ORDERS, rounds) != EXIT_OK;
    for (int i = 0; i < ORDERS && !s->failed; i++) {
        show(s, section, orders[i].label, &c[i]);
        study_write_case(s, &c[i]);
    }
}

void device_energy(study *s) {
    static const int32_t usual[] = {8192, 16384};
    static char sections[MOST_SIZES][64]; /* rows point to them */
    const size_t rounds = s->repeat ? s->repeat : ROUNDS;
    int64_t count = 2;
    const int32_t *sizes = s->sizes ? lengths_counts(s->sizes, &count) : usual;
    if (!sizes || count > MOST_SIZES) {
        s->failed = complain(EXIT_FAILED, "--sizes %s are more than %d", s->sizes, MOST_SIZES);
        return;
    }
    s->failed = s->failed || (!s->counting && device_bench_check_energy(s->bench) != EXIT_OK);
    for (int64_t i = 0; i < count; i++) {
        snprintf(sections[i], sizeof sections[i], "%" PRId32 " x %" PRId32 " x %" PRId32 ", bf16", sizes[i], sizes[i],
                 sizes[i]);
        one_size(s, sections[i], sizes[i], rounds);
    }
}
