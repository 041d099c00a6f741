/* SPDX-License-Identifier: Apache-2.0 */
/* NVIDIA's ladder of a CUDA Tile kernel on a live GPU: batch 4, 32 heads, head dim 128, causal, fp16. Published on a B200.
 */
#include <math.h>

#include "studies/study.h"

enum { LENGTHS = 5, RUNGS = 5, TILES = 4, CASES = RUNGS + TILES };

/* The rungs: each changes one thing of the one before. */
static const struct {
    const char *section;
    int64_t tile_m, tile_n;
    int32_t precise, mask_every_block, order;
    double published[LENGTHS];
} rungs[RUNGS] = {
    {"baseline, tiles of 64x64, TFLOP/s", 64, 64, 1, 1, WEFT_ORDER_HEAD_FIRST, {330, 441, 511, 546, 566}},
    {"1. larger tiles, 256x128", 256, 128, 1, 1, WEFT_ORDER_HEAD_FIRST, {187, 268, 347, 415, 463}},
    {"2. fast math", 256, 128, 0, 1, WEFT_ORDER_HEAD_FIRST, {322, 436, 524, 585, 620}},
    {"3. loop split: masked only where it can matter", 256, 128, 0, 0, WEFT_ORDER_HEAD_FIRST, {373, 552, 684, 770, 813}},
    {"4. longest tiles first", 256, 128, 0, 0, WEFT_ORDER_REVERSE, {377, 560, 696, 781, 835}}};

static const int64_t tiles[TILES][2] = {{64, 64}, {128, 64}, {128, 128}, {256, 128}};
static const double best_published[LENGTHS] = {548, 708, 817, 887, 918};
static const int64_t seqs[LENGTHS] = {1024, 2048, 4096, 8192, 16384};

static device_case case_of(int64_t seq, int64_t tile_m, int64_t tile_n, int32_t order) {
    device_case c = {
        .problem = {.attention = WEFT_ATTENTION_INIT}, .schedule = WEFT_SCHEDULE_INIT, .device = WEFT_DEVICE_INIT};
    c.problem.attention.batch = 4;
    c.problem.attention.heads = c.problem.attention.kv_heads = 32;
    c.problem.attention.seq = c.problem.attention.kv_seq = seq;
    c.problem.attention.head_dim = 128;
    c.problem.attention.dtype = WEFT_FP16;
    c.problem.attention.mask = WEFT_MASK_CAUSAL;
    c.problem.attention.layout = WEFT_BHSD;
    c.device.kernel = "study"; /* the one that has every knob */
    c.schedule.tile_m = tile_m;
    c.schedule.tile_n = tile_n;
    c.schedule.order = order;
    c.schedule.sweep = WEFT_SWEEP_FORWARD;
    c.schedule.dispatch = WEFT_DISPATCH_GRID;
    return c;
}

/* The ladder for one length, then every tile with all that came before. */
static void make_cases(int64_t seq, device_case *c) {
    for (int i = 0; i < RUNGS; i++) {
        c[i] = case_of(seq, rungs[i].tile_m, rungs[i].tile_n, rungs[i].order);
        c[i].options.precise = rungs[i].precise;
        c[i].options.mask_every_block = rungs[i].mask_every_block;
    }
    for (int i = 0; i < TILES; i++) {
        c[RUNGS + i] = case_of(seq, tiles[i][0], tiles[i][1], WEFT_ORDER_REVERSE);
    }
}

void device_cutile(study *s) {
    device_case all[LENGTHS][CASES];
    for (int l = 0; l < LENGTHS; l++) {
        make_cases(seqs[l], all[l]);
        if (!study_run_cases(s, all[l], CASES, 1)) {
            return;
        }
    }
    for (int i = 0; i < RUNGS; i++) {
        for (int l = 0; l < LENGTHS; l++) {
            /* The model takes the cost of a step as given, so it sees neither precise math nor needless masks. */
            const double sim = rungs[i].precise || rungs[i].mask_every_block ? NAN : all[l][i].sim.tflops;
            study_measured(s, rungs[i].section, rungs[i].published[l], sim, all[l][i].tflops, "S = %lld",
                           (long long)seqs[l]);
        }
    }
    for (int l = 0; l < LENGTHS; l++) {
        const device_case *best = &all[l][RUNGS];
        double foretold = 0;
        for (int i = 0; i < TILES; i++) {
            const device_case *c = &all[l][RUNGS + i];
            best = c->tflops > best->tflops ? c : best;
            foretold = fmax(foretold, c->sim.tflops);
        }
        study_measured(s, "5. best tile per length", best_published[l], foretold, best->tflops, "S = %lld: %lldx%lld here",
                       (long long)seqs[l], (long long)best->schedule.tile_m, (long long)best->schedule.tile_n);
    }
    study_show_errors(s);
}
