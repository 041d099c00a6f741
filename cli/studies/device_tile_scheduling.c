/* SPDX-License-Identifier: Apache-2.0 */
/* Jonah's tables on a live GPU: 8192^3 in bf16, tiles of 128x128; orders, group sizes and dispatches, and multicast. */
#include <math.h>

#include "progress.h"
#include "studies/study.h"

enum { SIZE = 8192, TILE = 128, MAX_CASES = 32 };

static device_case case_of(int32_t order, int64_t group, int32_t table, int32_t dispatch, int64_t cluster_m) {
    device_case c = {.problem = {.gemm = WEFT_GEMM_INIT}, .schedule = WEFT_SCHEDULE_INIT, .device = WEFT_DEVICE_INIT};
    c.problem.gemm.m = c.problem.gemm.n = c.problem.gemm.k = SIZE;
    c.problem.gemm.dtype = c.problem.gemm.c_dtype = WEFT_BF16;
    c.problem.gemm.b_major = WEFT_COL_MAJOR;
    c.schedule.tile_m = c.schedule.tile_n = TILE;
    c.schedule.order = order;
    c.schedule.group = group;
    c.schedule.table = table;
    c.schedule.sweep = WEFT_SWEEP_FORWARD;
    c.schedule.dispatch = dispatch;
    c.schedule.cluster_m = cluster_m;
    c.schedule.cluster_n = 1;
    c.schedule.split = 1;
    return c;
}

/* What was published of one order: milliseconds without persistence, static and dynamic. */
static const struct {
    const char *label;
    int32_t order;
    int64_t group;
    int32_t table;
    double ms[3];
} orders[] = {
    {"raster", WEFT_ORDER_RASTER_N, 0, 0, {2.116, 2.284, 2.129}},
    {"Hilbert, table", WEFT_ORDER_HILBERT, 0, 1, {1.880, 2.189, 1.862}},
    {"Hilbert, computed", WEFT_ORDER_HILBERT, 0, 0, {NAN, NAN, NAN}},
    {"group of 8, computed", WEFT_ORDER_SERPENTINE, 8, 0, {1.952, 2.062, 1.914}},
    {"group of 12, computed", WEFT_ORDER_SERPENTINE, 12, 0, {1.944, 2.099, 1.898}},
    {"group of 16, computed", WEFT_ORDER_SERPENTINE, 16, 0, {1.933, 2.087, 1.880}},
    {"group of 20, computed", WEFT_ORDER_SERPENTINE, 20, 0, {1.908, 2.095, 1.854}},
    {"group of 24, computed", WEFT_ORDER_SERPENTINE, 24, 0, {1.907, 2.089, 1.847}},
    {"group of 28, computed", WEFT_ORDER_SERPENTINE, 28, 0, {1.906, 2.104, 1.856}},
    {"group of 32, computed", WEFT_ORDER_SERPENTINE, 32, 0, {1.928, 2.137, 1.904}},
    {"group of 8, table", WEFT_ORDER_SERPENTINE, 8, 1, {1.946, 2.054, 1.917}},
    {"group of 12, table", WEFT_ORDER_SERPENTINE, 12, 1, {1.933, 2.103, 1.908}},
    {"group of 16, table", WEFT_ORDER_SERPENTINE, 16, 1, {1.914, 2.088, 1.879}},
    {"group of 20, table", WEFT_ORDER_SERPENTINE, 20, 1, {1.911, 2.089, 1.860}},
    {"group of 24, table", WEFT_ORDER_SERPENTINE, 24, 1, {1.897, 2.102, 1.846}},
    {"group of 28, table", WEFT_ORDER_SERPENTINE, 28, 1, {1.912, 2.105, 1.860}},
    {"group of 32, table", WEFT_ORDER_SERPENTINE, 32, 1, {1.953, 2.154, 1.890}},
};
enum { ORDERS = sizeof orders / sizeof *orders };

/* Tables 1 and 3: durations. They are timed alone; what they move is in the other tables. */
static void durations(study *s, const char *section, int32_t dispatch) {
    device_case c[ORDERS];
    for (int i = 0; i < ORDERS; i++) {
        c[i] = case_of(orders[i].order, orders[i].group, orders[i].table, dispatch, 1);
    }
    if (s->counting) {
        s->units += ORDERS;
        return;
    }
    progress_next(ORDERS);
    if (!s->failed && device_bench_run(s->bench, c, ORDERS, DEVICE_TIME | DEVICE_SIMULATE, 0)) {
        s->failed = 1;
    }
    for (int i = 0; i < ORDERS && !s->failed; i++) {
        const double published = orders[i].ms[dispatch == WEFT_DISPATCH_GRID     ? 0
                                              : dispatch == WEFT_DISPATCH_STATIC ? 1
                                                                                 : 2];
        study_measured(s, section, published, 1e3 * c[i].sim.seconds, 1e3 * c[i].seconds, "duration (ms), %s",
                       orders[i].label);
    }
}

/* One published launch and its counters; NaN for what was not given. */
typedef struct counted {
    const char *label;
    int32_t order;
    int64_t group, cluster_m;
    double hit_rate, dram_gb, sectors, hits, misses, ms; /* DRAM: throughput x duration x 3.35 TB/s; counts in millions */
} counted;

static void counters(study *s, const char *section, const counted *rows, size_t count, int32_t dispatch) {
    device_case c[MAX_CASES];
    for (size_t i = 0; i < count; i++) {
        c[i] = case_of(rows[i].order, rows[i].group, 0, dispatch, rows[i].cluster_m);
    }
    if (!study_run_cases(s, c, count, 0)) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        const counted *r = &rows[i];
        const double *v = c[i].values;
        const weft_traffic *t = &c[i].sim.total;
        const double hits = v[WEFT_COUNTER_L2_HITS], misses = v[WEFT_COUNTER_L2_MISSES];
        study_measured(s, section, r->ms, 1e3 * c[i].sim.seconds, 1e3 * c[i].seconds, "duration (ms), %s", r->label);
        study_measured(s, section, r->hit_rate, 100 * weft_hit_rate(t), 100 * hits / (hits + misses),
                       "L2 hits (per cent), %s", r->label);
        study_measured(s, section, r->dram_gb, (double)(t->dram_read_bytes + t->dram_write_bytes) / 1e9,
                       (v[WEFT_COUNTER_DRAM_READ_BYTES] + v[WEFT_COUNTER_DRAM_WRITE_BYTES]) / 1e9, "DRAM (GB), %s",
                       r->label);
        study_measured(s, section, r->sectors, (double)t->sectors / 1e6, v[WEFT_COUNTER_L2_SECTORS] / 1e6,
                       "L2 sectors (M), %s", r->label);
        study_measured(s, section, r->hits, (double)t->hits / 1e6, hits / 1e6, "L2 hits (M), %s", r->label);
        study_measured(s, section, r->misses, (double)t->misses / 1e6, misses / 1e6, "L2 misses (M), %s", r->label);
        study_measured(s, section, NAN, (double)t->fabric_sectors / 1e6, v[WEFT_COUNTER_FABRIC_SECTORS] / 1e6,
                       "fabric sectors (M), %s", r->label);
    }
}

void device_tile_scheduling(study *s) {
    static const counted grid[] = {
        {"raster", WEFT_ORDER_RASTER_N, 0, 1, 51.77, 5.72, 605.277, 306.263, 293.533, 2.06},
        {"Hilbert", WEFT_ORDER_HILBERT, 0, 1, 75.44, 2.13, 516.215, 388.933, 121.084, 1.89},
        {"group of 12", WEFT_ORDER_SERPENTINE, 12, 1, 77.96, 2.06, 545.137, 422.634, 118.394, 1.94}};
    static const counted dynamic[] = {
        {"raster", WEFT_ORDER_RASTER_N, 0, 1, 51.00, 5.93, 601.691, 311.524, 307.231, 2.08},
        {"Hilbert", WEFT_ORDER_HILBERT, 0, 1, 80.44, 2.14, 530.110, 417.309, 116.239, 1.86},
        {"group of 24", WEFT_ORDER_SERPENTINE, 24, 1, 66.23, 3.40, 542.489, 378.908, 173.167, 1.84}};
    static const counted multicast[] = {
        {"Hilbert, no multicast", WEFT_ORDER_HILBERT, 0, 1, NAN, NAN, 532.9, NAN, NAN, 1.88},
        {"Hilbert, multicast", WEFT_ORDER_HILBERT, 0, 2, NAN, NAN, 441.9, NAN, NAN, 1.57},
        {"group of 24, no multicast", WEFT_ORDER_SERPENTINE, 24, 1, NAN, NAN, 539.0, NAN, NAN, 1.83},
        {"group of 24, multicast", WEFT_ORDER_SERPENTINE, 24, 2, NAN, NAN, 364.7, NAN, NAN, 1.39}};
    durations(s, "without persistence", WEFT_DISPATCH_GRID);
    durations(s, "static persistence", WEFT_DISPATCH_STATIC);
    durations(s, "dynamic persistence", WEFT_DISPATCH_DYNAMIC);
    counters(s, "counters without persistence", grid, sizeof grid / sizeof *grid, WEFT_DISPATCH_GRID);
    counters(s, "counters under dynamic persistence", dynamic, sizeof dynamic / sizeof *dynamic, WEFT_DISPATCH_DYNAMIC);
    counters(s, "cluster of 2x1", multicast, sizeof multicast / sizeof *multicast, WEFT_DISPATCH_DYNAMIC);
    study_show_errors(s);
}
