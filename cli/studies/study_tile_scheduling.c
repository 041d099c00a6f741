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
    return study_simulate(s, "h100", &p, &schedule, NULL);
}

void study_tile_scheduling(study *s) {
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
        study_within(s, rows[i].section, rows[i].sectors, (double)sim.total.sectors / 1e6, 0.10, "L2 sectors (M), %s",
                     rows[i].label);
        study_within(s, rows[i].section, rows[i].misses, (double)sim.total.misses / 1e6, 0.20, "L2 misses (M), %s",
                     rows[i].label);
        study_show(s, rows[i].section, rows[i].dram_gb,
                   (double)(sim.total.dram_read_bytes + sim.total.dram_write_bytes) / 1e9,
                   "DRAM (GB, from throughput and duration), %s", rows[i].label);
        study_show(s, rows[i].section, rows[i].ms, 1e3 * sim.seconds, "duration (ms), %s", rows[i].label);
    }
    static const char multicast[] = "cluster of 2x1";
    const double hilbert = (double)run(s, WEFT_ORDER_HILBERT, 0, WEFT_DISPATCH_DYNAMIC, 1).total.sectors;
    const double hilbert_2 = (double)run(s, WEFT_ORDER_HILBERT, 0, WEFT_DISPATCH_DYNAMIC, 2).total.sectors;
    const double group = (double)run(s, WEFT_ORDER_SERPENTINE, 24, WEFT_DISPATCH_DYNAMIC, 1).total.sectors;
    const double group_2 = (double)run(s, WEFT_ORDER_SERPENTINE, 24, WEFT_DISPATCH_DYNAMIC, 2).total.sectors;
    study_within(s, multicast, 532.9, hilbert / 1e6, 0.10, "L2 sectors (M), Hilbert, no multicast");
    study_within(s, multicast, 441.9, hilbert_2 / 1e6, 0.10, "L2 sectors (M), Hilbert, multicast");
    study_within(s, multicast, 539.0, group / 1e6, 0.10, "L2 sectors (M), group of 24, no multicast");
    study_within(s, multicast, 364.7, group_2 / 1e6, 0.10, "L2 sectors (M), group of 24, multicast");
}
