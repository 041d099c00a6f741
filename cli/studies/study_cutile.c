/* NVIDIA: Tuning Flash Attention for Peak Performance in CUDA Tile. B200, batch 4, 32 heads, head dim 128, causal, fp16.
 *
 * Of the ladder's steps the model sees the tile size (work on the diagonal, waves of tiles) and the remapped program ids
 * (balance of the last wave). Fast math and the cost of masking are inside a step, which the model takes as given: outside.
 */
#include <math.h>

#include "studies/study.h"

enum { LENGTHS = 5 };

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
    return study_simulate(s, "b200", &p, &schedule, NULL);
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

void study_cutile(study *s) {
    static const struct {
        int64_t seq;
        double split, remapped, tuned; /* TFLOP/s of steps 3, 4 and 5 */
        double gain;                   /* of step 3, in per cent */
        int64_t least, most;           /* rows of the tile that step 5 chose */
    } rows[] = {{1024, 373, 377, 548, 16, 64, 64},
                {2048, 552, 560, 708, 27, 64, 128},
                {4096, 684, 696, 817, 31, 128, 256},
                {8192, 770, 781, 887, 32, 256, 256},
                {16384, 813, 835, 918, 31, 256, 256}};
    for (size_t i = 0; i < LENGTHS; i++) {
        const weft_simulation forward = run(s, rows[i].seq, 256, 128, WEFT_ORDER_HEAD_FIRST);
        const weft_simulation reverse = run(s, rows[i].seq, 256, 128, WEFT_ORDER_REVERSE);
        study_add(s, STUDY_SPEED, "step 4, program ids remapped: speed over head-first, tiles of 256x128",
                  rows[i].remapped / rows[i].split, reverse.tflops / forward.tflops, "S = %lld", (long long)rows[i].seq);
        study_add(s, STUDY_COUNT, "step 4, tiles of 256x128, TFLOP/s", rows[i].remapped, reverse.tflops, "S = %lld",
                  (long long)rows[i].seq);
    }
    for (size_t i = 0; i < LENGTHS; i++) {
        static const char section[] = "step 5, best tile per length over 256x128";
        double best = 0, at_256 = 0;
        int64_t best_tile = 0;
        for (int64_t tile = 64; tile <= 256; tile *= 2) {
            at_256 = run(s, rows[i].seq, tile, tile < 256 ? tile : 128, WEFT_ORDER_REVERSE).tflops;
            best_tile = at_256 > best ? tile : best_tile;
            best = fmax(best, at_256);
        }
        study_between(s, "step 5, queries of the fastest tile", (double)rows[i].least, (double)best_tile,
                      (double)rows[i].least, (double)rows[i].most, "S = %lld: %lld to %lld", (long long)rows[i].seq,
                      (long long)rows[i].least, (long long)rows[i].most);
        if (rows[i].most < 256) {
            study_add(s, STUDY_SPEED, section, rows[i].tuned / rows[i].remapped, best / at_256, "S = %lld",
                      (long long)rows[i].seq);
        } else {
            study_unjudged(s, "the tuner chose 256x128 too, so its gain is not the tile's", section,
                           rows[i].tuned / rows[i].remapped, best / at_256, "S = %lld", (long long)rows[i].seq);
        }
    }
    for (size_t i = 0; i < LENGTHS; i++) {
        study_unjudged(s, "what masking costs is inside a step", "step 3, loop split: per cent of steps that need no mask",
                       NAN, 100 - masked_share(rows[i].seq, 256, 128), "S = %lld (the split gained %.0f %%)",
                       (long long)rows[i].seq, rows[i].gain);
    }
}
