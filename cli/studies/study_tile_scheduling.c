/* SPDX-License-Identifier: Apache-2.0 */
/* Jonah: Tile Scheduling. A bf16 matrix product of 8192^3 in tiles of 128x128 on an H100. */
#include "studies/study.h"

static weft_simulation run(study *s, int32_t order, int64_t group, int32_t dispatch, int64_t cluster_m) {
    weft_gemm p = WEFT_GEMM_INIT;
    p.m = p.n = p.k = 8192;
    p.dtype = p.c_dtype = WEFT_BF16;
    p.b_major = WEFT_COL_MAJOR;
    weft_schedule schedule = WEFT_SCHEDULE_INIT;
    schedule.tile_m = schedule.tile_n = 128;
    schedule.tile_k = 64;
    schedule.order = order;
    schedule.group = group;
    schedule.sweep = WEFT_SWEEP_FORWARD;
    schedule.dispatch = dispatch;
    schedule.cluster_m = cluster_m;
    schedule.cluster_n = 1;
    return study_simulate(s, "h100", "tile-scheduling", &p, &schedule, 0);
}

/* Counters of one launch each, by Nsight Compute. */
static void counters(study *s) {
    static const struct {
        const char *section, *label;
        int32_t order, dispatch;
        int64_t group;
        double sectors, misses, dram_gb, ms; /* DRAM: throughput x duration x 3.35 TB/s */
    } rows[] = {
        {"without persistence", "raster", WEFT_ORDER_RASTER_N, WEFT_DISPATCH_GRID, 0, 605.277, 293.533, 5.72, 2.06},
        {"without persistence", "Hilbert", WEFT_ORDER_HILBERT, WEFT_DISPATCH_GRID, 0, 516.215, 121.084, 2.13, 1.89},
        {"without persistence", "group of 12", WEFT_ORDER_SERPENTINE, WEFT_DISPATCH_GRID, 12, 545.137, 118.394, 2.06, 1.94},
        {"dynamic persistence", "raster", WEFT_ORDER_RASTER_N, WEFT_DISPATCH_DYNAMIC, 0, 601.691, 307.231, 5.93, 2.08},
        {"dynamic persistence", "Hilbert", WEFT_ORDER_HILBERT, WEFT_DISPATCH_DYNAMIC, 0, 530.110, 116.239, 2.14, 1.86},
        {"dynamic persistence", "group of 24", WEFT_ORDER_SERPENTINE, WEFT_DISPATCH_DYNAMIC, 24, 542.489, 173.167, 3.40,
         1.84}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const weft_simulation sim = run(s, rows[i].order, rows[i].group, rows[i].dispatch, 1);
        const int is_raster = rows[i].order == WEFT_ORDER_RASTER_N; /* the profile is fitted to the others */
        study_add(s, STUDY_COUNT, rows[i].section, rows[i].sectors, (double)sim.total.sectors / 1e6, "L2 sectors (M), %s",
                  rows[i].label);
        study_fitted(s, "merge");
        study_add(s, STUDY_COUNT, rows[i].section, rows[i].misses, (double)sim.total.misses / 1e6, "L2 misses (M), %s",
                  rows[i].label);
        study_fitted(s, is_raster ? NULL : "load");
        study_add(s, STUDY_COUNT, rows[i].section, rows[i].dram_gb,
                  (double)(sim.total.dram_read_bytes + sim.total.dram_write_bytes) / 1e9,
                  "DRAM (GB, from throughput and duration), %s", rows[i].label);
        study_add(s, STUDY_COUNT, rows[i].section, rows[i].ms, 1e3 * sim.seconds, "duration (ms), %s", rows[i].label);
        study_fitted(s, is_raster ? NULL : "prologue, epilogue");
    }
}

/* The tables of durations: orders side by side, and static beside dynamic persistence. */
static void durations(study *s) {
    static const char *const sections[] = {"without persistence: speed over raster",
                                           "static persistence: slower than dynamic by, as a ratio",
                                           "dynamic persistence: speed over raster"};
    static const struct {
        const char *label;
        int32_t order;
        int64_t group;
        double ms[3]; /* grid, static, dynamic */
    } rows[] = {{"raster", WEFT_ORDER_RASTER_N, 0, {2.116, 2.284, 2.129}},
                {"Hilbert", WEFT_ORDER_HILBERT, 0, {1.880, 2.189, 1.862}},
                {"group of 24", WEFT_ORDER_SERPENTINE, 24, {1.907, 2.089, 1.847}}};
    static const int32_t dispatches[] = {WEFT_DISPATCH_GRID, WEFT_DISPATCH_STATIC, WEFT_DISPATCH_DYNAMIC};
    double seconds[3][3];
    for (int i = 0; i < 3; i++) {
        for (int d = 0; d < 3; d++) {
            seconds[i][d] = run(s, rows[i].order, rows[i].group, dispatches[d], 1).seconds;
        }
    }
    for (int d = 0; d < 3; d++) {
        for (int i = d == 1 ? 0 : 1; i < 3; i++) {
            if (d == 1) {
                study_add(s, STUDY_SPEED, sections[d], rows[i].ms[1] / rows[i].ms[2], seconds[i][1] / seconds[i][2], "%s",
                          rows[i].label);
            } else {
                study_add(s, STUDY_SPEED, sections[d], rows[0].ms[d] / rows[i].ms[d], seconds[0][d] / seconds[i][d], "%s",
                          rows[i].label);
            }
        }
    }
}

static void groups(study *s) {
    static const char section[] = "without persistence: groups of 8 .. 32";
    double best = 0, at_8 = 0;
    int64_t best_group = 0;
    for (int64_t group = 8; group <= 32; group += 4) {
        const double seconds = run(s, WEFT_ORDER_SERPENTINE, group, WEFT_DISPATCH_GRID, 1).seconds;
        at_8 = group == 8 ? seconds : at_8;
        if (group == 8 || seconds < best) {
            best = seconds;
            best_group = group;
        }
    }
    study_between(s, section, 28, (double)best_group, 24, 28, "the fastest group: 24 to 28");
    study_add(s, STUDY_SPEED, section, 1.952 / 1.906, at_8 / best, "speed of the fastest over a group of 8");
}

static void multicast(study *s) {
    static const char section[] = "cluster of 2x1";
    static const struct {
        const char *label;
        int32_t order;
        int64_t group;
        double sectors[2], ms[2]; /* without and with multicast */
    } rows[] = {{"Hilbert", WEFT_ORDER_HILBERT, 0, {532.9, 441.9}, {1.88, 1.57}},
                {"group of 24", WEFT_ORDER_SERPENTINE, 24, {539.0, 364.7}, {1.83, 1.39}}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const weft_simulation alone = run(s, rows[i].order, rows[i].group, WEFT_DISPATCH_DYNAMIC, 1);
        const weft_simulation pair = run(s, rows[i].order, rows[i].group, WEFT_DISPATCH_DYNAMIC, 2);
        study_add(s, STUDY_COUNT, section, rows[i].sectors[0], (double)alone.total.sectors / 1e6,
                  "L2 sectors (M), %s, no multicast", rows[i].label);
        study_fitted(s, "merge");
        study_add(s, STUDY_COUNT, section, rows[i].sectors[1], (double)pair.total.sectors / 1e6,
                  "L2 sectors (M), %s, multicast", rows[i].label);
        study_add(s, STUDY_SPEED, section, rows[i].ms[0] / rows[i].ms[1], alone.seconds / pair.seconds,
                  "speed of multicast, %s", rows[i].label);
    }
}

void study_tile_scheduling(study *s) {
    counters(s);
    durations(s);
    groups(s);
    multicast(s);
}
