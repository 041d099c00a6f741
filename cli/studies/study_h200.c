/* SPDX-License-Identifier: Apache-2.0 */
/* Streams on an H200: what its two L2 sides hold. Measured by Nsight Compute; everything is per distinct sector.
 *
 * Near the capacity the counts depend on where the buffers lie: of 49 placements, each side reading one buffer of 18 MiB
 * took 1.00 to 1.38 DRAM reads, of 20 MiB 1.05 to 9.7 (docs/results/h200-streams.csv). The model has no addresses and
 * gives one figure for all of them, which is judged beside their medians too. */
#include "studies/study.h"

enum { MIB = 1 << 20, BLOCK = 32768 };

typedef struct per_sector {
    double dram, misses, fabric;
} per_sector;

/* A stream of blocks. */
static weft_stream stream_of(int64_t buffers, int64_t mib, int64_t passes, weft_stream_sharing sharing) {
    weft_stream stream = WEFT_STREAM_INIT;
    stream.buffers = buffers;
    stream.buffer_bytes = mib * MIB;
    stream.block_bytes = BLOCK;
    stream.passes = passes;
    stream.sharing = sharing;
    return stream;
}

/* `drift` as in weft_simulate_options: 0 is the machine's, -1 none. */
static per_sector run(study *s, const weft_machine *machine, weft_stream stream, double drift) {
    const weft_simulation sim = study_stream(s, machine, &stream, drift);
    const double distinct = (double)sim.compulsory_misses;
    return (per_sector){(double)sim.total.dram_read_bytes / (double)machine->l2_sector / distinct,
                        (double)sim.total.misses / distinct, (double)sim.total.fabric_sectors / distinct};
}

/* Two buffers of X MiB, 16 passes over each in all, as fast as it goes. */
static void capacity(study *s, const weft_machine *machine) {
    static const int64_t sizes[] = {4, 14, 16, 18, 20, 24};
    static const struct {
        const char *section;
        weft_stream_sharing sharing;
        int64_t passes, fitted; /* the size to which a number of the machine was fitted; 0: none */
        per_sector measured[6];
    } modes[] = {{"experiment 2, every SM reads both buffers",
                  WEFT_STREAM_SHARED,
                  8,
                  0,
                  {{1.00, 2.00, 1.05},
                   {1.00, 2.01, 1.02},
                   {5.62, 11.24, 5.63},
                   {7.03, 14.06, 7.04},
                   {8.00, 16.00, 8.01},
                   {8.00, 16.00, 8.01}}},
                 {"experiment 2, each side reads one buffer",
                  WEFT_STREAM_BY_DOMAIN,
                  16,
                  18,
                  {{1.00, 1.51, 0.55},
                   {1.00, 1.50, 0.51},
                   {1.00, 1.50, 0.51},
                   {1.19, 1.79, 0.61},
                   {1.39, 2.09, 0.72},
                   {15.88, 23.80, 7.95}}},
                 {"experiment 2, half of the SMs each, ignoring sides",
                  WEFT_STREAM_BY_PAIR,
                  16,
                  14,
                  {{1.00, 2.00, 1.05},
                   {1.01, 2.01, 1.02},
                   {10.87, 21.73, 10.88},
                   {13.91, 27.82, 13.92},
                   {15.99, 31.98, 16.00},
                   {16.00, 32.00, 16.01}}}};
    for (size_t m = 0; m < sizeof modes / sizeof *modes; m++) {
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            const weft_stream stream = stream_of(2, sizes[i], modes[m].passes, modes[m].sharing);
            const per_sector sim = run(s, machine, stream, 0), measured = modes[m].measured[i];
            const double published[] = {measured.dram, measured.misses, measured.fabric};
            const double simulated[] = {sim.dram, sim.misses, sim.fabric};
            static const char *const names[] = {"DRAM reads", "L2 misses", "fabric"};
            for (int k = 0; k < 3; k++) {
                study_add(s, STUDY_COUNT, modes[m].section, published[k], simulated[k], "%s, X = %lld MiB", names[k],
                          (long long)sizes[i]);
                if (sizes[i] == modes[m].fitted) {
                    study_fitted(s, "crowded");
                }
            }
        }
    }
}

/* The medians of 49 placements of the buffers, of which the table above has one. */
static void placements(study *s, const weft_machine *machine) {
    static const struct {
        int64_t size;
        double dram;
    } rows[] = {{18, 1.011}, {20, 1.370}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const weft_stream stream = stream_of(2, rows[i].size, 16, WEFT_STREAM_BY_DOMAIN);
        study_add(s, STUDY_COUNT, "experiment 2, each side reads one buffer: the median of 49 placements", rows[i].dram,
                  run(s, machine, stream, 0).dram, "DRAM reads, X = %lld MiB", (long long)rows[i].size);
    }
}

/* One buffer of N MiB, 8 passes, a step takes at least 2,000 clocks. */
static void paced(study *s, const weft_machine *machine) {
    static const int64_t sizes[] = {28, 32, 36, 40, 48, 64, 96};
    static const double measured[2][7] = {{1.05, 6.18, 8.00, 8.00, 8.00, 8.00, 8.00},
                                          {1.01, 1.58, 2.29, 2.87, 3.72, 4.80, 5.86}};
    for (int sawtooth = 0; sawtooth < 2; sawtooth++) {
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            weft_stream stream = stream_of(1, sizes[i], 8, WEFT_STREAM_SHARED);
            stream.sawtooth = sawtooth;
            stream.step_seconds = 2000 / machine->clock;
            study_add(s, STUDY_COUNT, sawtooth ? "experiment 3, paced, sawtooth" : "experiment 3, paced, forward",
                      measured[sawtooth][i], run(s, machine, stream, -1).dram, "DRAM reads, N = %lld MiB",
                      (long long)sizes[i]);
            if (!sawtooth && (sizes[i] == 32 || sizes[i] == 36)) {
                study_fitted(s, "slack");
            }
        }
    }
}

/* Kernels of others, one launch each, no mask, bf16, tiles as those kernels cut them. Nothing of the machine was fitted to
 * these. */
static void peers(study *s) {
    static const struct {
        const char *kernel, *profile;
        int64_t batch, heads, seq, head_dim, tile_m, tile_n;
        double dram_gb, misses, fabric; /* misses and fabric in millions of sectors */
    } rows[] = {{"FA3, D = 64, batch 8, S = 128K", "flash-attention-3", 8, 1, 131072, 64, 192, 128, 1.61, 100, 53},
                {"cuDNN, D = 64, batch 8, S = 128K", "cudnn", 8, 1, 131072, 64, 128, 128, 2.22, 140, 70},
                {"FA3, D = 128, 16 heads, S = 32K", "flash-attention-3", 1, 16, 32768, 128, 128, 176, 0.61, 38, 21},
                {"cuDNN, D = 128, 8 heads, S = 128K", "cudnn", 1, 8, 131072, 128, 128, 128, 5.44, 304, 165},
                {"FA3, D = 128, 8 heads, S = 128K", "flash-attention-3", 1, 8, 131072, 128, 128, 176, 7.18, 382, 227}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weft_attention p = WEFT_ATTENTION_INIT;
        weft_schedule schedule = WEFT_SCHEDULE_INIT;
        p.batch = rows[i].batch;
        p.heads = p.kv_heads = rows[i].heads;
        p.seq = p.kv_seq = rows[i].seq;
        p.head_dim = rows[i].head_dim;
        p.dtype = WEFT_BF16;
        p.layout = WEFT_BHSD;
        schedule.tile_m = rows[i].tile_m;
        schedule.tile_n = rows[i].tile_n;
        schedule.order = WEFT_ORDER_HEAD_FIRST;
        schedule.sweep = WEFT_SWEEP_FORWARD;
        schedule.dispatch = WEFT_DISPATCH_GRID;
        const weft_simulation sim = study_simulate(s, "h200", rows[i].profile, &p, &schedule, 0);
        const double published[] = {rows[i].dram_gb, rows[i].misses, rows[i].fabric};
        const double simulated[] = {(double)sim.total.dram_read_bytes / 1e9, (double)sim.total.misses / 1e6,
                                    (double)sim.total.fabric_sectors / 1e6};
        static const char *const names[] = {"DRAM reads (GB)", "L2 misses (M)", "fabric (M)"};
        for (int k = 0; k < 3; k++) {
            static const char section[] = "other kernels on an H200";
            study_add(s, STUDY_COUNT, section, published[k], simulated[k], "%s, %s", names[k], rows[i].kernel);
        }
    }
}

void study_h200(study *s) {
    const weft_machine machine = study_machine(s, "h200");
    capacity(s, &machine);
    placements(s, &machine);
    paced(s, &machine);
    peers(s);
}
