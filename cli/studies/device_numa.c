/* SPDX-License-Identifier: Apache-2.0 */
/* The mappings of Choudhary et al. on a live GPU, the sides of its L2 as domains: head dim 128, bf16, one persistent CTA an
 * SM. Forward in tiles of 128x64 by the study's kernel, backward by the best that there is.
 *
 * Long problems have fewer queries than keys, so that a launch stays short: what a head's tiles share is its K and V.
 * Backward they have fewer keys than queries, since there it is Q, dO and the sums of dQ. */
#include <math.h>

#include "studies/study.h"

enum { HEAD_DIM = 128, TILE_M = 128, TILE_N = 64, DOMAINS = 2 };

static const struct {
    const char *name;
    int32_t order;
    int by_side;
    int foretold; /* the simulator supposes that domains are sides */
} mappings[] = {{"block-first", WEFT_ORDER_BLOCK_FIRST, 0, 1},
                {"block-first by side", WEFT_ORDER_BLOCK_FIRST_SWIZZLED, 1, 1},
                {"head-first", WEFT_ORDER_HEAD_FIRST, 0, 1},
                {"head-first by side", WEFT_ORDER_HEAD_FIRST_SWIZZLED, 1, 1},
                {"head-first in halves, ignoring sides", WEFT_ORDER_HEAD_FIRST_SWIZZLED, 0, 0}};
enum { MAPPINGS = sizeof mappings / sizeof *mappings, NAIVE_HEAD = 2, SIDE_HEAD = 3 };
enum { PUBLISHED = 4 }; /* of them, the first ones */

/* Queries of each head, or backward keys: all of them, or as many tiles as a launch of about 1.2e13 operations forward, 2.5
 * times that backward, has. */
static int64_t rows_of(int64_t heads, int64_t seq) {
    const double affordable = 1.2e13 / (4.0 * (double)heads * (double)seq * HEAD_DIM);
    const int64_t limit = (int64_t)affordable / TILE_M * TILE_M;
    return limit < seq ? limit : seq;
}

static device_case case_of(int64_t heads, int64_t seq, int mapping) {
    device_case c = {
        .problem = {.attention = WEFT_ATTENTION_INIT}, .schedule = WEFT_SCHEDULE_INIT, .device = WEFT_DEVICE_INIT};
    c.problem.attention.heads = c.problem.attention.kv_heads = heads;
    c.problem.attention.seq = rows_of(heads, seq);
    c.problem.attention.kv_seq = seq;
    c.problem.attention.head_dim = HEAD_DIM;
    c.problem.attention.dtype = WEFT_BF16;
    c.problem.attention.layout = WEFT_BHSD;
    c.device.kernel = "study"; /* the one that has every knob */
    c.schedule.tile_m = TILE_M;
    c.schedule.tile_n = TILE_N;
    c.schedule.order = mappings[mapping].order;
    c.schedule.sweep = WEFT_SWEEP_FORWARD;
    c.schedule.dispatch = WEFT_DISPATCH_STATIC;
    c.schedule.domains = DOMAINS;
    c.options.ctas = 1;
    c.by_side = mappings[mapping].by_side;
    c.no_simulation = !mappings[mapping].foretold;
    return c;
}

/* Backward. The kernel for Hopper places its workers by side where the order says so, and sweeps as it does best. */
static device_case backward_case_of(int64_t heads, int64_t seq, int mapping, int hopper) {
    device_case c = case_of(heads, seq, mapping);
    c.problem.attention.operation = WEFT_ATTENTION_BACKWARD;
    c.problem.attention.kv_seq = c.problem.attention.seq;
    c.problem.attention.seq = seq;
    c.schedule.tile_m = c.schedule.tile_n = 0;
    if (hopper) {
        c.device.kernel = "hopper_backward";
        c.schedule.sweep = WEFT_SWEEP_CHOOSE;
        c.options.ctas = 0;
    }
    return c;
}

static void show(study *s, const char *section, const device_case *c, int count) {
    for (int i = 0; i < count; i++) {
        const double *v = c[i].values;
        const weft_traffic *t = &c[i].sim.total;
        const int none = c[i].no_simulation;
        study_measured(s, section, NAN, none ? NAN : (double)t->dram_read_bytes / 1e9,
                       v[WEFT_COUNTER_DRAM_READ_BYTES] / 1e9, "DRAM reads (GB), %s", mappings[i].name);
        study_measured(s, section, NAN, none ? NAN : (double)t->fabric_sectors / 1e6, v[WEFT_COUNTER_FABRIC_SECTORS] / 1e6,
                       "fabric sectors (M), %s", mappings[i].name);
        study_measured(s, section, NAN, none ? NAN : 100 * (double)t->hits / (double)(t->hits + t->misses),
                       100 * v[WEFT_COUNTER_L2_HITS] / (v[WEFT_COUNTER_L2_HITS] + v[WEFT_COUNTER_L2_MISSES]),
                       "L2 hits (per cent), %s", mappings[i].name);
        study_measured(s, section, NAN, none ? NAN : c[i].sim.tflops, c[i].tflops, "TFLOP/s, %s", mappings[i].name);
    }
    study_measured(s, section, NAN, c[NAIVE_HEAD].sim.seconds / c[SIDE_HEAD].sim.seconds,
                   c[NAIVE_HEAD].seconds / c[SIDE_HEAD].seconds, "speed of head-first by side over head-first");
}

static void forward(study *s, const char *section, int64_t heads, int64_t seq) {
    device_case c[MAPPINGS];
    for (int i = 0; i < MAPPINGS; i++) {
        c[i] = case_of(heads, seq, i);
    }
    if (study_run_cases(s, c, MAPPINGS, 0)) {
        show(s, section, c, MAPPINGS);
    }
}

/* By the kernel for Hopper or, where the GPU is another, by the study's. */
static void backward(study *s, const char *section, int64_t heads, int64_t seq) {
    device_case c[PUBLISHED];
    for (int hopper = 1; hopper >= 0; hopper--) {
        for (int i = 0; i < PUBLISHED; i++) {
            c[i] = backward_case_of(heads, seq, i, hopper);
        }
        if (!study_run_cases(s, c, PUBLISHED, hopper) || s->counting) {
            return;
        }
        if (c[0].kernel[0]) {
            show(s, section, c, PUBLISHED);
            return;
        }
    }
}

void device_numa(study *s) {
#define ROW(HEADS, SEQ)                                                                                                    \
    { "H = " #HEADS ", S = " #SEQ "K", "backward, H = " #HEADS ", S = " #SEQ "K", HEADS, SEQ * 1024 }
    static const struct {
        const char *forward, *backward;
        int64_t heads, seq;
    } problems[] = {ROW(8, 8),    ROW(8, 32),  ROW(8, 128),  ROW(32, 8),   ROW(32, 32),
                    ROW(32, 128), ROW(128, 8), ROW(128, 32), ROW(128, 128)};
#undef ROW
    enum { PROBLEMS = sizeof problems / sizeof *problems };
    for (size_t i = 0; i < PROBLEMS && !s->failed; i++) {
        forward(s, problems[i].forward, problems[i].heads, problems[i].seq);
    }
    for (size_t i = 0; i < PROBLEMS && !s->failed; i++) {
        backward(s, problems[i].backward, problems[i].heads, problems[i].seq);
    }
    study_show_errors(s);
}
