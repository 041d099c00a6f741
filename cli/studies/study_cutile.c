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
    static const int64_t seqs[] = {1024, 2048, 4096, 8192, 16384};
    static const double remap[] = {377.0 / 373, 560.0 / 552, 696.0 / 684, 781.0 / 770, 835.0 / 813};
    static const double split[] = {16, 27, 31, 32, 31};
    static const double best_tile[] = {548.0 / 377, 708.0 / 560, 817.0 / 696, 887.0 / 781, 918.0 / 835};
    for (size_t i = 0; i < LENGTHS; i++) {
        const weft_simulation forward = run(s, seqs[i], 256, 128, WEFT_ORDER_HEAD_FIRST);
        const weft_simulation reverse = run(s, seqs[i], 256, 128, WEFT_ORDER_REVERSE);
        study_within(s, "step 4, program ids remapped: speed over head-first, tiles of 256x128", remap[i],
                     reverse.tflops / forward.tflops, 0.03, "S = %lld", (long long)seqs[i]);
    }
    for (size_t i = 0; i < LENGTHS; i++) {
        double best = 0;
        for (int64_t tile = 64; tile <= 256; tile *= 2) {
            best = fmax(best, run(s, seqs[i], tile, tile < 256 ? tile : 128, WEFT_ORDER_REVERSE).tflops);
        }
        study_show(s, "step 5, best tile per length over 256x128", best_tile[i],
                   best / run(s, seqs[i], 256, 128, WEFT_ORDER_REVERSE).tflops, "S = %lld", (long long)seqs[i]);
    }
    for (size_t i = 0; i < LENGTHS; i++) {
        study_show(s, "step 3, loop split: per cent of steps that need no mask (what masking costs is outside the model)",
                   NAN, 100 - masked_share(seqs[i], 256, 128), "S = %lld (the split gained %.0f %%)", (long long)seqs[i],
                   split[i]);
    }
}
