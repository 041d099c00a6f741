/* Choudhary et al.: Optimizing Attention on GPUs by Exploiting GPU Architectural NUMA Effects. FlashAttention 2 on an
 * MI300X: tiles of 128x64, one workgroup per tile, workgroup i on die i mod 8. */
#include <math.h>

#include "studies/study.h"

static const int32_t ORDERS[] = {WEFT_ORDER_BLOCK_FIRST, WEFT_ORDER_BLOCK_FIRST_SWIZZLED, WEFT_ORDER_HEAD_FIRST,
                                 WEFT_ORDER_HEAD_FIRST_SWIZZLED};
enum { MAPPINGS = 4, NAIVE_BLOCK = 0, SWIZZLED_BLOCK, NAIVE_HEAD, SWIZZLED_HEAD };

typedef struct mappings {
    double hits[MAPPINGS];     /* per cent */
    double relative[MAPPINGS]; /* speed, over swizzled head-first */
} mappings;

/* All four mappings of one problem. Long problems repeat themselves, so about `limit` steps are simulated. */
static mappings run(study *s, int64_t batch, int64_t heads, int64_t kv_heads, int64_t seq, int64_t head_dim,
                    uint64_t limit) {
    weft_attention p = WEFT_ATTENTION_INIT;
    p.batch = batch;
    p.heads = heads;
    p.kv_heads = kv_heads;
    p.seq = p.kv_seq = seq;
    p.head_dim = head_dim;
    p.dtype = WEFT_BF16;
    p.layout = WEFT_BHSD;
    weft_simulate_options options = WEFT_SIMULATE_INIT;
    options.limit = limit;
    mappings result = {{0}, {0}};
    double seconds[MAPPINGS];
    for (int i = 0; i < MAPPINGS; i++) {
        weft_schedule schedule = WEFT_SCHEDULE_INIT;
        schedule.tile_m = 128;
        schedule.tile_n = 64;
        schedule.order = ORDERS[i];
        schedule.sweep = WEFT_SWEEP_FORWARD;
        schedule.dispatch = WEFT_DISPATCH_GRID;
        const weft_simulation sim = study_simulate(s, "mi300x", &p, &schedule, &options);
        result.hits[i] = 100 * (double)sim.total.hits / (double)(sim.total.hits + sim.total.misses);
        seconds[i] = sim.seconds;
    }
    for (int i = 0; i < MAPPINGS; i++) {
        result.relative[i] = seconds[SWIZZLED_HEAD] / seconds[i];
    }
    return result;
}

void study_numa(study *s) {
    static const char hits[] = "figure 13, per cent L2 hits, H = 128, S = 128K, D = 128";
    static const char speed[] = "figure 12, speed over swizzled head-first (predicted: bandwidth and latency only)";
    static const char why[] = "the simulated launch is bound by compute";
    const mappings large = run(s, 1, 128, 128, 131072, 128, 32000000);
    study_between(s, hits, 93, large.hits[SWIZZLED_HEAD], 85, 100, "swizzled head-first");
    study_between(s, hits, 1, large.hits[NAIVE_BLOCK], 0, 5, "naive block-first");
    study_between(s, hits, 1, large.hits[SWIZZLED_BLOCK], 0, 5, "swizzled block-first");
    study_between(s, hits, 50, large.hits[NAIVE_HEAD], large.hits[NAIVE_BLOCK], large.hits[SWIZZLED_HEAD],
                  "naive head-first (published 40 to 60): between the others");
    study_unjudged(s, why, speed, 0.67, large.relative[NAIVE_BLOCK], "naive block-first, H = 128, S = 128K");
    study_unjudged(s, why, speed, 0.67, large.relative[SWIZZLED_BLOCK], "swizzled block-first, H = 128, S = 128K");
    study_unjudged(s, why, speed, 0.9, large.relative[NAIVE_HEAD], "naive head-first, H = 128, S = 128K");

    static const char small_section[] = "figure 13, per cent L2 hits, few heads and short sequences: about 90";
    const mappings small = run(s, 1, 8, 8, 8192, 128, 0);
    static const char *const names[] = {"naive block-first", "swizzled block-first", "naive head-first",
                                        "swizzled head-first"};
    for (int i = 0; i < MAPPINGS; i++) {
        study_between(s, small_section, 90, small.hits[i], 80, 100, "%s, H = 8, S = 8K", names[i]);
    }

    static const char gqa_section[] = "figure 14, GQA with 8 kv heads: both swizzled orders alike";
    for (int64_t heads = 32; heads <= 128; heads *= 2) {
        const mappings gqa = run(s, 1, heads, 8, 131072, 128, 8000000);
        study_between(s, gqa_section, NAN, gqa.hits[SWIZZLED_BLOCK], gqa.hits[SWIZZLED_HEAD] - 5,
                      gqa.hits[SWIZZLED_HEAD] + 5, "per cent hits, swizzled block-first, H = %lld; head-first %.2f",
                      (long long)heads, gqa.hits[SWIZZLED_HEAD]);
    }

    static const char deepseek[] = "figure 15, DeepSeek-V3 prefill: H = 128, D = 56, S = 128K, batch 8";
    const mappings v3 = run(s, 8, 128, 128, 131072, 56, 16000000);
    study_unjudged(s, why, deepseek, 0.65, v3.relative[NAIVE_BLOCK], "speed of naive block-first (published: under 0.65)");
    study_unjudged(s, why, deepseek, 0.76, v3.relative[SWIZZLED_BLOCK], "speed of swizzled block-first");
    study_between(s, deepseek, 93, v3.hits[SWIZZLED_HEAD], 85, 100, "per cent hits, swizzled head-first");

    if (s->brief) {
        return;
    }
    static const char sweep[] =
        "table 2, the whole sweep, per cent hits, none published: swizzled head-first (beside it the others)";
    for (int64_t heads = 8; heads <= 128; heads *= 2) {
        for (int64_t seq = 8192; seq <= 131072; seq *= 4) {
            for (int64_t batch = 1; batch <= 8; batch *= 2) {
                const mappings m = run(s, batch, heads, heads, seq, 128, 2000000);
                study_unjudged(s, "no hit rate is published", sweep, NAN, m.hits[SWIZZLED_HEAD],
                               "H = %lld, S = %lldK, batch %lld; naive head-first %.1f", (long long)heads,
                               (long long)seq / 1024, (long long)batch, m.hits[NAIVE_HEAD]);
            }
        }
    }
}
