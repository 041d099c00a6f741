/* SPDX-License-Identifier: Apache-2.0 */
/* NVIDIA: Tuning Flash Attention for Peak Performance in CUDA Tile. B200, batch 4, 32 heads, head dim 128, causal, fp16.
 *
 * Of the ladder's steps the model sees the tile size (work on the diagonal, waves of tiles) and the remapped program ids
 * (balance of the last wave). Fast math and the cost of masking are inside a step, which the model takes as given: outside.
 * The tuner's choice is its list of results; a comment in its code says 256x128 from 8192 on. */
#include <math.h>

#include "studies/study.h"

enum { SMS = 148 };

static weft_simulation run(study *s, int64_t seq, int64_t tile_m, int64_t tile_n, int32_t order) {
    weft_attention p = WEFT_ATTENTION_INIT;
    p.batch = 4;
    p.heads = p.kv_heads = 32;
    p.seq = p.kv_seq = seq;
    p.head_dim = 128;
    p.dtype = WEFT_FP16;
    p.mask = WEFT_MASK_CAUSAL;
    p.layout = WEFT_BHSD;
    weft_schedule schedule = WEFT_SCHEDULE_INIT;
    schedule.tile_m = tile_m;
    schedule.tile_n = tile_n;
    schedule.order = order;
    schedule.sweep = WEFT_SWEEP_FORWARD;
    schedule.dispatch = WEFT_DISPATCH_GRID;
    schedule.workers = tile_m < 256 ? 2 * SMS : SMS; /* the tuner's "occupancy" */
    return study_simulate(s, "b200", "cutile", &p, &schedule, 0);
}

/* Steps that need a mask, in per cent of all. */
static double masked_share(int64_t seq, int64_t tile_m, int64_t tile_n) {
    const weft_reach reach = weft_reach_make(seq, seq, tile_m, tile_n, weft_slice_causal(seq, seq, 0));
    double steps = 0, masked = 0;
    for (int64_t block = 0; block * tile_m < seq; block++) {
        const weft_steps range = weft_reach_steps(&reach, block, 0);
        steps += (double)(range.end - range.begin);
        masked += (double)(range.end - range.begin - (range.full_end - range.full_begin));
    }
    return 100 * masked / steps;
}

/* What was published, by length. */
static const struct {
    int64_t seq;
    double split, remapped, tuned; /* TFLOP/s of steps 3, 4 and 5 */
    double gain;                   /* of step 3, in per cent */
    int64_t least, most;           /* queries of the tile that the tuner of step 5 chose, as far as it is said */
} lengths[] = {{1024, 373, 377, 548, 16, 64, 64},
               {2048, 552, 560, 708, 27, 64, 128},
               {4096, 684, 696, 817, 31, 128, 256},
               {8192, 770, 781, 887, 32, 128, 256},
               {16384, 813, 835, 918, 31, 128, 256}};
enum { LENGTHS = sizeof lengths / sizeof *lengths };

static void step_4(study *s) {
    for (size_t i = 0; i < LENGTHS; i++) {
        const int64_t seq = lengths[i].seq;
        study_add(s, STUDY_SPEED, "step 4, program ids remapped: speed over head-first, tiles of 256x128",
                  lengths[i].remapped / lengths[i].split,
                  run(s, seq, 256, 128, WEFT_ORDER_REVERSE).tflops / run(s, seq, 256, 128, WEFT_ORDER_HEAD_FIRST).tflops,
                  "S = %lld", (long long)seq);
    }
    for (size_t i = 0; i < LENGTHS; i++) {
        study_add(s, STUDY_COUNT, "step 4, tiles of 256x128, TFLOP/s", lengths[i].remapped,
                  run(s, lengths[i].seq, 256, 128, WEFT_ORDER_REVERSE).tflops, "S = %lld", (long long)lengths[i].seq);
        if (i == 0 || i == LENGTHS - 1) {
            study_fitted(s, i == 0 ? "prologue" : "scores");
        }
    }
}

/* The fastest of the tuner's three tiles, and how many TFLOP/s it has over 256x128. */
static int64_t fastest_tile(study *s, int64_t seq, double *gain) {
    double best = 0, tflops = 0;
    int64_t fastest = 0;
    for (int64_t tile = 64; tile <= 256; tile *= 2) {
        tflops = run(s, seq, tile, tile < 256 ? tile : 128, WEFT_ORDER_REVERSE).tflops;
        fastest = tflops > best ? tile : fastest;
        best = fmax(best, tflops);
    }
    *gain = best / tflops;
    return fastest;
}

static void step_5(study *s) {
    double gain;
    for (size_t i = 0; i < LENGTHS; i++) {
        const double fastest = (double)fastest_tile(s, lengths[i].seq, &gain);
        study_between(s, "step 5, queries of the fastest tile: 64, 128 or 256", (double)lengths[i].least, fastest,
                      (double)lengths[i].least, (double)lengths[i].most, "S = %lld: %lld to %lld",
                      (long long)lengths[i].seq, (long long)lengths[i].least, (long long)lengths[i].most);
        if (lengths[i].seq == 2048 || lengths[i].seq == 4096) {
            study_fitted(s, "cycles");
        }
    }
    for (size_t i = 0; i < LENGTHS; i++) {
        (void)fastest_tile(s, lengths[i].seq, &gain);
        study_add(s, STUDY_SPEED, "step 5, fastest tile: speed over 256x128", lengths[i].tuned / lengths[i].remapped, gain,
                  "S = %lld", (long long)lengths[i].seq);
        if (i == LENGTHS - 1) {
            study_fitted(s, "beside");
        }
    }
}

void study_cutile(study *s) {
    step_4(s);
    step_5(s);
    for (size_t i = 0; i < LENGTHS; i++) {
        study_unjudged(s, "what masking costs is inside a step", "step 3, loop split: per cent of steps that need no mask",
                       NAN, 100 - masked_share(lengths[i].seq, 256, 128), "S = %lld (the split gained %.0f %%)",
                       (long long)lengths[i].seq, lengths[i].gain);
    }
}
