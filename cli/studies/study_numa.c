/* SPDX-License-Identifier: Apache-2.0 */
/* Choudhary et al.: Optimizing Attention on GPUs by Exploiting GPU Architectural NUMA Effects. FlashAttention 2 on an
 * MI300X: tiles of 128x64, one workgroup per tile, workgroup i on die i mod 8. Beside it the L2 hits of a pipelined kernel
 * on an MI355X (ROCm/FlyDSL, pull request 919). */
#include <math.h>

#include "studies/study.h"

enum { MAPPINGS = 4, NAIVE_BLOCK = 0, SWIZZLED_BLOCK, NAIVE_HEAD, SWIZZLED_HEAD };
static const struct {
    int32_t order;
    const char *name;
} MAPPING[MAPPINGS] = {{WEFT_ORDER_BLOCK_FIRST, "naive block-first"},
                       {WEFT_ORDER_BLOCK_FIRST_SWIZZLED, "swizzled block-first"},
                       {WEFT_ORDER_HEAD_FIRST, "naive head-first"},
                       {WEFT_ORDER_HEAD_FIRST_SWIZZLED, "swizzled head-first"}};

typedef struct mapped {
    double hits, seconds; /* hits in per cent */
} mapped;

static weft_attention attention(int64_t batch, int64_t heads, int64_t kv_heads, int64_t seq, int64_t head_dim) {
    weft_attention p = WEFT_ATTENTION_INIT;
    p.batch = batch;
    p.heads = heads;
    p.kv_heads = kv_heads;
    p.seq = p.kv_seq = seq;
    p.head_dim = head_dim;
    p.dtype = WEFT_BF16;
    p.layout = WEFT_BHSD;
    return p;
}

/* A kernel: its machine, its profile and its tiles. Backward, a tile is 128 keys and then 128 queries, and a step is 32 of
 * the others. */
typedef struct kernel {
    const char *machine, *profile;
    int64_t tile_m, tile_n;
} kernel;
static const kernel FORWARD = {"mi300x", "triton-mi300x", 128, 64},
                    BACKWARD = {"mi300x", "triton-mi300x-backward", 32, 128},
                    PIPELINED = {"mi355x", "flydsl-mi355x", 256, 64};

static mapped run_one(study *s, const kernel *k, const weft_attention *p, int mapping) {
    weft_schedule schedule = WEFT_SCHEDULE_INIT;
    schedule.tile_m = k->tile_m;
    schedule.tile_n = k->tile_n;
    schedule.order = MAPPING[mapping].order;
    schedule.sweep = WEFT_SWEEP_FORWARD;
    schedule.dispatch = WEFT_DISPATCH_GRID;
    const weft_simulation sim = study_simulate(s, k->machine, k->profile, p, &schedule, 1);
    return (mapped){100 * (double)sim.total.hits / (double)(sim.total.hits + sim.total.misses), sim.seconds};
}

static void run_all(study *s, const kernel *k, mapped *to, weft_attention p) {
    for (int i = 0; i < MAPPINGS; i++) {
        to[i] = run_one(s, k, &p, i);
    }
}

static double speed(const mapped *all, int mapping) {
    return all[SWIZZLED_HEAD].seconds / all[mapping].seconds;
}

static void mi300x_mha(study *s) {
    static const char hits[] = "figure 13, per cent L2 hits, H = 128, S = 128K, D = 128";
    static const char spread[] = "the spread per tile";
    mapped large[MAPPINGS], middle[MAPPINGS], small[MAPPINGS];
    run_all(s, &FORWARD, large, attention(1, 128, 128, 131072, 128));
    study_add(s, STUDY_COUNT, hits, 93, large[SWIZZLED_HEAD].hits, "swizzled head-first (published 90 to 96)");
    study_fitted(s, spread);
    study_between(s, hits, 50, large[NAIVE_HEAD].hits, 40, 60, "naive head-first (published 40 to 60)");
    study_fitted(s, spread);
    study_between(s, hits, 1, large[NAIVE_BLOCK].hits, 0, 2, "naive block-first (published about 1)");
    study_between(s, hits, 1, large[SWIZZLED_BLOCK].hits, 0, 2, "swizzled block-first (published about 1)");

    static const char speeds[] = "figure 12, speed over swizzled head-first";
    study_add(s, STUDY_SPEED, speeds, 0.67, speed(large, NAIVE_BLOCK), "naive block-first, H = 128, S = 128K");
    study_fitted(s, "the rate of products");
    study_add(s, STUDY_SPEED, speeds, 0.67, speed(large, SWIZZLED_BLOCK), "swizzled block-first, H = 128, S = 128K");
    study_fitted(s, "the rate of products");
    study_add(s, STUDY_SPEED, speeds, 0.9, speed(large, NAIVE_HEAD), "naive head-first, H = 128, S = 128K");
    study_fitted(s, "the spread per step");
    run_all(s, &FORWARD, middle, attention(1, 64, 64, 32768, 128));
    study_add(s, STUDY_SPEED, speeds, 0.67, speed(middle, NAIVE_BLOCK), "naive block-first, H = 64, S = 32K");
    study_fitted(s, "the last-level cache");
    study_add(s, STUDY_SPEED, speeds, 0.67, speed(middle, SWIZZLED_BLOCK), "swizzled block-first, H = 64, S = 32K");
    study_fitted(s, "the last-level cache");
    study_add(s, STUDY_SPEED, speeds, 1, speed(middle, NAIVE_HEAD), "naive head-first, H = 64, S = 32K: as fast");

    static const char few[] = "figure 13, per cent L2 hits, few heads and short sequences: about 90";
    run_all(s, &FORWARD, small, attention(1, 8, 8, 8192, 128));
    for (int i = 0; i < MAPPINGS; i++) {
        study_add(s, STUDY_COUNT, few, 90, small[i].hits, "%s, H = 8, S = 8K", MAPPING[i].name);
    }
}

static void mi300x_gqa(study *s) {
    static const char section[] = "figure 14, GQA with 8 kv heads, S = 128K, speed over swizzled head-first";
    mapped gqa[MAPPINGS];
    run_all(s, &FORWARD, gqa, attention(1, 128, 8, 131072, 128));
    study_between(s, section, NAN, speed(gqa, NAIVE_BLOCK), 0, 0.95, "naive block-first, H = 128: clearly slower");
    study_add(s, STUDY_SPEED, section, 1, speed(gqa, SWIZZLED_BLOCK), "swizzled block-first, H = 128: alike");
    study_between(s, section, NAN, speed(gqa, NAIVE_HEAD), 0.9, 1.05,
                  "naive head-first, H = 128: 0.90 to 0.95 in some cases");
}

static void mi300x_deepseek(study *s) {
    static const char section[] = "figure 15, DeepSeek-V3 prefill: H = 128, D = 56, S = 128K, batch 8, speed";
    const weft_attention p = attention(8, 128, 128, 131072, 56);
    mapped v3[MAPPINGS];
    v3[NAIVE_BLOCK] = run_one(s, &FORWARD, &p, NAIVE_BLOCK);
    v3[SWIZZLED_BLOCK] = run_one(s, &FORWARD, &p, SWIZZLED_BLOCK);
    v3[SWIZZLED_HEAD] = run_one(s, &FORWARD, &p, SWIZZLED_HEAD);
    study_add(s, STUDY_SPEED, section, 0.65, speed(v3, NAIVE_BLOCK), "naive block-first (published: under 0.65)");
    study_add(s, STUDY_SPEED, section, 0.76, speed(v3, SWIZZLED_BLOCK), "swizzled block-first");
}

static void mi300x_backward(study *s) {
    static const char section[] = "figure 16, backward, H = 128, S = 128K, speed over swizzled head-first";
    static const char shorter[] = "figure 16, backward, H = 128, speed over swizzled head-first: the gain grows with S";
    static const int64_t lengths[] = {8192, 32768};
    weft_attention p = attention(1, 128, 128, 131072, 128);
    mapped all[MAPPINGS];
    p.operation = WEFT_ATTENTION_BACKWARD;
    run_all(s, &BACKWARD, all, p);
    study_add(s, STUDY_SPEED, section, 0.91, speed(all, NAIVE_BLOCK), "naive block-first");
    study_fitted(s, "the rate of its products");
    study_add(s, STUDY_SPEED, section, 0.94, speed(all, SWIZZLED_BLOCK), "swizzled block-first");
    study_fitted(s, "the rate of its products");
    study_add(s, STUDY_SPEED, section, 0.91, speed(all, NAIVE_HEAD), "naive head-first");
    for (int i = 0; i < 2; i++) {
        mapped two[MAPPINGS];
        p.seq = p.kv_seq = lengths[i];
        two[NAIVE_BLOCK] = run_one(s, &BACKWARD, &p, NAIVE_BLOCK);
        two[SWIZZLED_HEAD] = run_one(s, &BACKWARD, &p, SWIZZLED_HEAD);
        study_between(s, shorter, NAN, speed(two, NAIVE_BLOCK), speed(all, NAIVE_BLOCK) - 0.01, 1,
                      "naive block-first, S = %dK: no slower than at 128K", (int)(lengths[i] / 1024));
    }
}

static void mi355x(study *s) {
    static const char section[] = "MI355X, FlyDSL pull request 919: H = 64, S = 64K, D = 128, per cent";
    const weft_attention p = attention(1, 64, 64, 65536, 128);
    const mapped block = run_one(s, &PIPELINED, &p, NAIVE_BLOCK);
    const mapped head = run_one(s, &PIPELINED, &p, SWIZZLED_HEAD);
    study_add(s, STUDY_COUNT, section, 97.64, 100 - block.hits, "L2 misses, block-first");
    study_fitted(s, "its spread per tile");
    study_add(s, STUDY_COUNT, section, 93.62, head.hits, "L2 hits, swizzled head-first");
    study_fitted(s, "its spread per tile");
}

void study_numa(study *s) {
    mi300x_mha(s);
    mi300x_gqa(s);
    mi300x_deepseek(s);
    mi300x_backward(s);
    mi355x(s);
}
