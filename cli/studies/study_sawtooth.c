/* SPDX-License-Identifier: Apache-2.0 */
/* Zhu, Pan, Ding: Sawtooth Wavefront Reordering. Flash attention on a GB10: one head, head dim 64, fp16. */
#include <math.h>

#include "studies/study.h"
#include <weft/model.h>

static const char CUDA[] = "sawtooth-cuda", CUDA_TILE[] = "sawtooth-cutile";

static weft_attention attention_of(int64_t batch, int64_t queries, int64_t keys, int causal) {
    weft_attention p = WEFT_ATTENTION_INIT;
    p.batch = batch;
    p.seq = queries;
    p.kv_seq = keys;
    p.head_dim = 64;
    p.dtype = WEFT_FP16;
    p.mask = causal ? WEFT_MASK_CAUSAL : WEFT_MASK_NONE;
    return p;
}

static weft_schedule tiles_of(int64_t tile, int32_t sweep, int32_t dispatch, int64_t workers) {
    weft_schedule s = WEFT_SCHEDULE_INIT;
    s.tile_m = s.tile_n = tile;
    s.order = WEFT_ORDER_HEAD_FIRST;
    s.sweep = sweep;
    s.dispatch = dispatch;
    s.workers = workers;
    return s;
}

static weft_simulation run(study *s, const char *profile, weft_attention p, weft_schedule schedule) {
    return study_simulate(s, "gb10", profile, &p, &schedule, 0);
}

static double saved(weft_simulation forward, weft_simulation sawtooth) {
    const double compulsory = (double)forward.compulsory_misses;
    return 100 * (1 - ((double)sawtooth.total.misses - compulsory) / ((double)forward.total.misses - compulsory));
}

/* The persistent kernel of table 1 leaves out the last, incomplete query tile: 409 of 409.6 and 1638 of 1638.4. */
static void tables_1_and_2(study *s) {
    static const struct {
        int64_t seq;
        double grid, persistent;
    } rows[] = {{32768, 107741184, 107478656}, {131072, 1719664640, 1719093980}};
    for (int i = 0; i < 2; i++) {
        const int64_t seq = rows[i].seq;
        const weft_simulation sim =
            run(s, CUDA, attention_of(1, seq, seq, 0), tiles_of(80, WEFT_SWEEP_FORWARD, WEFT_DISPATCH_GRID, 48));
        study_add(s, STUDY_EXACT, "table 2, non-persistent CTAs", rows[i].grid, (double)sim.total.sectors_from_sm,
                  "L2 sectors from SMs, S = %lldK", (long long)seq / 1024);
    }
    for (int i = 0; i < 2; i++) {
        static const char section[] = "table 1, persistent CTAs (whole query tiles only)";
        const int64_t seq = rows[i].seq;
        const weft_simulation sim = run(s, CUDA, attention_of(1, seq / 80 * 80, seq, 0),
                                        tiles_of(80, WEFT_SWEEP_FORWARD, WEFT_DISPATCH_STATIC, 48));
        /* At 128K the table has 0.03 % more sectors from the L1 than the L1 was asked for. */
        study_add(s, seq == 32768 ? STUDY_EXACT : STUDY_COUNT, section, rows[i].persistent,
                  (double)sim.total.sectors_from_sm, "L2 sectors from SMs, S = %lldK", (long long)seq / 1024);
    }
}

/* Mean distance of the closed form from the simulator, in per cent. */
static void table_3(study *s) {
    static const char section[] = "table 3, mean error of the closed forms, S = 8K .. 128K";
    double sums[2] = {0, 0};
    int count = 0;
    for (int64_t seq = 8192; seq <= 131072; seq += 8192, count++) {
        const weft_sector_model m = {(double)seq, 80, 64, 2, 32};
        for (int causal = 0; causal < 2; causal++) {
            const weft_simulation sim =
                run(s, CUDA, attention_of(1, seq, seq, causal), tiles_of(80, WEFT_SWEEP_FORWARD, WEFT_DISPATCH_STATIC, 48));
            const double model = causal ? weft_model_sectors_causal(&m) : weft_model_sectors(&m);
            sums[causal] += 100 * fabs(model / (double)sim.total.sectors_from_sm - 1);
        }
    }
    study_between(s, section, 0.5389, sums[0] / count, 0, 1, "per cent, sectors from SMs, no mask: less than 1");
    study_between(s, section, 1.1286, sums[1] / count, 0, 1.1286, "per cent, sectors from SMs, causal: at most 1.1286");
}

static void figure_5(study *s) {
    static const char section[] = "figure 5, misses while K and V fit";
    double leaves = 0;
    for (int64_t seq = 16384; seq <= 114688; seq += seq < 65536 ? 16384 : 4096) {
        const weft_simulation sim =
            run(s, CUDA, attention_of(1, seq, seq, 0), tiles_of(80, WEFT_SWEEP_FORWARD, WEFT_DISPATCH_STATIC, 48));
        const weft_sector_model m = {(double)seq, 80, 64, 2, 32};
        const double cold = weft_model_compulsory(&m);
        if (seq <= 73728) { /* K and V up to 18 MiB */
            study_add(s, STUDY_COUNT, section, cold, (double)sim.total.misses, "L2 misses, S = %lldK, against 16 S",
                      (long long)seq / 1024);
        }
        if (leaves == 0 && (double)sim.total.misses > 1.05 * cold) {
            leaves = (double)seq / 1024;
        }
    }
    study_add(s, STUDY_COUNT, section, 80, leaves, "S (in K) where misses leave the cold line");
}

/* The figure's hit rates follow 1 - 1/N. Misses are judged: 10 % of a hit rate of 98 % would allow five times as many. */
static void figure_6(study *s) {
    static const int64_t workers[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 40, 48};
    for (size_t i = 0; i < sizeof workers / sizeof *workers; i++) {
        const weft_simulation sim = run(s, CUDA, attention_of(1, 131072, 131072, 0),
                                        tiles_of(80, WEFT_SWEEP_FORWARD, WEFT_DISPATCH_STATIC, workers[i]));
        study_add(s, STUDY_COUNT, "figure 6, misses against active SMs, S = 128K",
                  100 * (1 - weft_model_wavefront_hits((double)workers[i])), 100 * (1 - weft_hit_rate(&sim.total)),
                  "per cent misses, %lld SMs, against 1/N", (long long)workers[i]);
    }
}

/* The length is not given; 128K is the one of section 4.3, and the one that gives the speeds of figure 7. */
static void section_4_2(study *s) {
    static const char misses[] = "figure 8, CUDA kernel, S = 128K: non-compulsory misses saved by sawtooth";
    static const char speed[] = "figure 7, CUDA kernel, S = 128K: speed";
    for (int64_t batch = 1; batch <= 8; batch *= 2) {
        const weft_attention p = attention_of(batch, 131072, 131072, 0);
        const weft_simulation forward = run(s, CUDA, p, tiles_of(80, WEFT_SWEEP_FORWARD, WEFT_DISPATCH_STATIC, 48));
        const weft_simulation sawtooth = run(s, CUDA, p, tiles_of(80, WEFT_SWEEP_SAWTOOTH, WEFT_DISPATCH_STATIC, 48));
        study_add(s, STUDY_COUNT, misses, 50, saved(forward, sawtooth), "per cent, batch %lld", (long long)batch);
        if (batch == 8) {
            study_add(s, STUDY_COUNT, speed, 1.3, forward.tflops, "TFLOP/s, cyclic, batch 8");
            study_fitted(s, "matrix");
            study_add(s, STUDY_COUNT, speed, 2.4, sawtooth.tflops, "TFLOP/s, sawtooth, batch 8");
            study_add(s, STUDY_SPEED, speed, 2.4 / 1.3, sawtooth.tflops / forward.tflops, "sawtooth over cyclic, batch 8");
        }
    }
}

/* Static CTAs take the sawtooth by their own tiles, the tile-based form by pairs of tiles. */
static void section_4_3(study *s) {
    static const char *const sections[] = {"section 4.3, CUDA Tile, batch 8, S = 128K, tiles of 64",
                                           "section 4.3, CUDA Tile, causal, batch 8, S = 128K, tiles of 64"};
    static const struct {
        const char *name;
        int32_t dispatch, sweep;
    } forms[] = {{"static", WEFT_DISPATCH_STATIC, WEFT_SWEEP_SAWTOOTH},
                 {"tile-based", WEFT_DISPATCH_GRID, WEFT_SWEEP_PAIR}};
    for (int causal = 0; causal < 2; causal++) {
        for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
            const weft_attention p = attention_of(8, 131072, 131072, causal);
            const weft_simulation forward = run(s, CUDA_TILE, p, tiles_of(64, WEFT_SWEEP_FORWARD, forms[i].dispatch, 48));
            const weft_simulation sawtooth = run(s, CUDA_TILE, p, tiles_of(64, forms[i].sweep, forms[i].dispatch, 48));
            const double share = 100 * (1 - (double)sawtooth.total.misses / (double)forward.total.misses);
            if (causal) { /* "significantly reduces": at least half of the 67 % without a mask */
                study_between(s, sections[1], 67, share, 33, 100, "per cent of misses saved, %s: clearly", forms[i].name);
                study_fitted(s, "queue");
            } else {
                study_add(s, STUDY_COUNT, sections[0], 370, (double)forward.total.misses / 1e6, "L2 misses (M), %s, cyclic",
                          forms[i].name);
                study_add(s, STUDY_COUNT, sections[0], 120, (double)sawtooth.total.misses / 1e6,
                          "L2 misses (M), %s, sawtooth", forms[i].name);
            }
            study_add(s, STUDY_SPEED, sections[causal], causal ? 66.0 / 41 : 69.0 / 61, sawtooth.tflops / forward.tflops,
                      "speed of sawtooth over cyclic, %s", forms[i].name);
            study_fitted(s, causal ? "queue" : "matrix, waiting");
        }
    }
}

void study_sawtooth(study *s) {
    tables_1_and_2(s);
    table_3(s);
    figure_5(s);
    figure_6(s);
    section_4_2(s);
    section_4_3(s);
}
