/* SPDX-License-Identifier: Apache-2.0 */
/* The Hopper attention kernel on a real GPU: every variant on random problems against the reference, with the masks,
 * lengths and changes of scores that it was compiled for; scores that grow, jump or are all the same; tiles that end with a
 * short step, or begin at any; borders that stay as they are; the same bits every time, and whatever is beside. Exits 77,
 * with one line, where there is no such GPU.
 *
 *   hopper_attention_device [ROUNDS [small [NAME [BUT]]]]
 *
 * ROUNDS (24) is how many of each for a variant: few, where a sanitizer makes them slow; variants then differ in what kinds
 * they get. With `small`, what is repeated is small, and nothing is timed: for the emulated GPU (emulate/emulate.h).
 * Only variants with NAME in theirs, and without BUT, are tested; plain ones also for the same bits every time. */
#include "attention_trial.h"

#include "cuda/sm90/attention/params.h"

static const weft_hopper_attention_variant variants[] = {
#define WEFT_HOPPER_ATTENTION(...) WEFT_HOPPER_ATTENTION_VARIANT(__VA_ARGS__),
#include "cuda/sm90/attention/variants.def"
};
enum { VARIANTS = sizeof variants / sizeof *variants };

static const char *only = "", *but = " "; /* parts of the names of the variants to test, and of those not to */

/* Those with pages take KV caches: see cache_device.c. */
static int is_tested(const weft_hopper_attention_variant *v) {
    return strstr(v->symbol, only) != NULL && strstr(v->symbol, but) == NULL && v->form != WEFT_HOPPER_PAGES;
}

static int tests_plain(void) {
    int count = 0;
    for (int i = 0; i < VARIANTS; i++) {
        count += variants[i].form == WEFT_HOPPER_PLAIN && is_tested(&variants[i]);
    }
    return count > 0;
}

static void run(const problem *x, const weft_schedule *s, const char *name) {
    weft_plan *plan = plan_new(&x->asked, s, "hopper_attention");
    weft_message message = {""};
    char what[1400], text[1024];
    poison(x);
    CHECK(weft_plan_run(plan, &x->device, &message) == WEFT_OK, "%s", message.text);
    fetch(x);
    weft_plan_text(plan, text, sizeof text);
    snprintf(what, sizeof what, "%s: %s", name, text);
    compare(x, what);
    weft_plan_destroy(plan);
}

static weft_schedule schedule_of(const weft_hopper_attention_variant *v, uint64_t *random) {
    weft_schedule s = WEFT_SCHEDULE_INIT;
    s.tile_m = v->tile_m;
    s.tile_n = v->tile_n;
    s.split = v->splits ? random_between(random, 1, WEFT_HOPPER_MAX_SPLIT) : 1;
    s.sweep = (int32_t)random_between(random, 0, v->splits ? WEFT_SWEEP_FORWARD : WEFT_COMMON_SWEEPS);
    s.dispatch = (int32_t)random_between(random, 0, v->splits ? WEFT_DISPATCH_GRID : WEFT_DISPATCHES);
    s.workers = random_between(random, 0, 1) ? 0 : random_between(random, s.split, 40);
    static int number;
    s.order = number++ % 3 == 1 ? WEFT_ORDER_CUSTOM : WEFT_ORDER_CHOOSE;
    return s;
}

/* A tree mask, a block mask where there can be one, or both. */
static void draw_pairs(uint64_t *random, weft_attention *p, int tree, int64_t side, drawn_pairs *room) {
    if (tree) {
        draw_tree_in(random, p, room);
    }
    if (p->sequences == 0 && (!tree || random_between(random, 0, 1))) {
        draw_blocks_in(random, p, side, room);
    }
}

/* Gives a problem what a variant was compiled for. */
static void dress(weft_attention *p, const weft_hopper_attention_variant *v, lengths *room, uint64_t *random) {
    const int64_t which = random_between(random, 0, 3);
    p->extras |= v->form == WEFT_HOPPER_BIAS ? WEFT_BIAS : 0;
    const int pairs = v->form == WEFT_HOPPER_PAIRS, tree = pairs && random_between(random, 0, 1);
    p->seq = tree && p->seq > 32 ? 32 : p->seq; /* twice as many, if two batches are packed, are all that a tree can have */
    const weft_attention before = *p;
    if (v->form == WEFT_HOPPER_MASKS || (v->form > WEFT_HOPPER_MASKS && random_between(random, 0, 1))) {
        draw_band(random, p, room);
    }
    if (pairs) {
        *p = p->sequences > 0 && !tree ? before : *p; /* a packed batch has no blocks */
        draw_pairs(random, p, tree, v->tile_m, &room->pairs);
    }
    if (v->form == WEFT_HOPPER_BIAS) {
        draw_bias(random, p);
    }
    if (v->form == WEFT_HOPPER_SCORES || (pairs && random_between(random, 0, 1))) {
        p->softcap = which != 1 ? 1 + (double)random_between(random, 0, 20) : 0;
        p->extras |= which != 0 ? WEFT_ALIBI : 0;
        p->alibi_stride = which == 2 ? p->heads : 0;
    }
    p->extras |= random_between(random, 0, 2) == 0 ? WEFT_SINKS : 0;
}

static void spread(weft_strides *s, weft_layout layout, int64_t seq, int64_t heads, int64_t dim, int64_t gap) {
    const int64_t step = dim + gap;
    *s = layout == WEFT_BSHD ? (weft_strides){seq * heads * step + gap, heads * step, step}
                             : (weft_strides){seq * heads * step + gap, step, seq * step};
}

/* What lies between the rows of O still has the poison's bits. */
static void borders(const problem *x, const char *name) {
    const weft_attention *p = &x->p;
    const uint16_t *o = x->host.o;
    char *owned = calloc(x->size.o, 1);
    size_t touched = 0;
    DEMAND(!owned);
    for (int64_t i = 0; i < p->batch * p->heads * p->seq; i++) {
        const size_t at = weft_row_index(&p->o_strides, i / p->seq / p->heads, i % p->seq, i / p->seq % p->heads);
        memset(owned + at, i % p->seq < weft_attention_rows(p), (size_t)p->head_dim);
    }
    for (size_t i = 0; i < x->size.o; i++) {
        touched += !owned[i] && o[i] != 0xffff;
    }
    CHECK(touched == 0, "%s: %zu elements beside the output were written", name, touched);
    free(owned);
}

static int random_problems(int rounds) {
    uint64_t random = random_seed(80);
    int count = 0;
    for (int i = 0; i < VARIANTS; i++) {
        const weft_hopper_attention_variant *v = &variants[i];
        for (int round = i; round < i + rounds && is_tested(v); round++, count++) {
            const int64_t kv_heads = random_between(&random, 1, 2);
            const int64_t least = v->depth <= 64 ? 1 : v->depth <= 128 ? v->depth / 8 - 3 : v->depth / 8 - 7;
            const int thin = round % 4 > 1; /* the last tile has queries for one warpgroup, and the others help it */
            weft_attention p =
                attention(random_between(&random, 1, 2), kv_heads * random_between(&random, 1, 3), kv_heads,
                          thin ? v->tile_m * random_between(&random, 0, 2) + random_between(&random, 1, 64)
                               : random_between(&random, 1, 400),
                          random_between(&random, thin ? 256 : 1, thin ? 900 : 500),
                          8 * random_between(&random, least, v->depth / 8), v->dtype, (weft_mask)(round % 3));
            p.offset = p.mask == WEFT_MASK_CAUSAL ? random_between(&random, -300, 300) : 0;
            p.layout = (weft_layout)(round / 3 % 2);
            p.scale = round % 4 == 3 ? 1.5 : 0;
            lengths room;
            dress(&p, v, &room, &random);
            if (round % 2) {
                spread(&p.q_strides, p.layout, p.seq, p.heads, p.head_dim, 8);
                spread(&p.k_strides, p.layout, p.kv_seq, p.kv_heads, p.head_dim, 24);
                spread(&p.v_strides, p.layout, p.kv_seq, p.kv_heads, p.head_dim, 16);
                spread(&p.o_strides, p.layout, p.seq, p.heads, p.head_dim, 40);
            }
            problem x = problem_new(&p, &random);
            const weft_schedule s = schedule_of(v, &random);
            run(&x, &s, v->symbol);
            borders(&x, v->symbol);
            problem_free(&x);
        }
    }
    return count;
}

/* Few queries and fewer workers than tiles, so that heads that share K and V share tiles. */
static int packed_problems(int rounds) {
    static const int64_t groups[] = {8, 2, 4, 6, 16, 64};
    uint64_t random = random_seed(83);
    int count = 0;
    for (int i = 0; i < VARIANTS; i++) {
        const weft_hopper_attention_variant *v = &variants[i];
        for (int round = i; round < i + rounds && is_tested(v); round++, count++) {
            const int64_t kv_heads = random_between(&random, 1, 3), group = groups[(round + i / 6) % 6];
            weft_attention p = attention(random_between(&random, 1, 2), kv_heads * group, kv_heads,
                                         random_between(&random, 1, round % 2 ? 8 : 24), random_between(&random, 1, 900),
                                         v->depth - 8 * random_between(&random, 0, 3), v->dtype, (weft_mask)(round % 3));
            p.offset = p.mask == WEFT_MASK_CAUSAL ? random_between(&random, -30, 300) : 0;
            p.layout = (weft_layout)(round / 3 % 2);
            if (round % 2) {
                spread(&p.q_strides, p.layout, p.seq, p.heads, p.head_dim, 8);
                spread(&p.o_strides, p.layout, p.seq, p.heads, p.head_dim, 40);
            }
            p.chunk = v->form != WEFT_HOPPER_PLAIN ? random_between(&random, 1, 400) : 0;
            p.softcap = v->form == WEFT_HOPPER_SCORES ? 3 : 0;
            drawn_pairs room;
            if (v->form == WEFT_HOPPER_PAIRS) {
                draw_tree_in(&random, &p, &room);
            }
            if (v->form == WEFT_HOPPER_BIAS) {
                draw_bias(&random, &p);
            }
            problem x = problem_new(&p, &random);
            weft_schedule s = schedule_of(v, &random);
            s.workers = s.split;
            weft_plan *plan = plan_new(&p, &s, "hopper_attention");
            CHECK(plan->heads_in_tile == (v->form == WEFT_HOPPER_BIAS ? 1
                                          : group == 6                ? 2
                                                                      : group),
                  "%s: %d heads of %d in a tile", v->symbol, (int)plan->heads_in_tile, (int)group);
            weft_plan_destroy(plan);
            run(&x, &s, v->symbol);
            borders(&x, v->symbol);
            problem_free(&x);
        }
    }
    return count;
}

/* Gives a problem a block mask or a bias, where that is what a variant is for. */
static void draw_form(uint64_t *random, weft_attention *p, const weft_hopper_attention_variant *v, drawn_pairs *room) {
    if (v->form == WEFT_HOPPER_PAIRS) {
        draw_blocks_in(random, p, v->tile_m, room);
    }
    if (v->form == WEFT_HOPPER_BIAS) {
        draw_bias(random, p);
    }
}

/* Column 0 of Q is 1 and of K what makes the scores interesting; the rest is random. */
static double steered(int kind, int64_t key, int64_t keys) {
    switch (kind) {
    case 0:
        return 0.5 * (double)key; /* every block far above the one before */
    case 1:
        return key < keys / 2 ? 0 : 1e4; /* a jump */
    case 2:
        return key == keys / 3 ? 1e4 : -1e4; /* one key has it all */
    case 3:
        return -1e4; /* all far below 0 */
    default:
        return 1e4 - 40 * (double)key; /* falling */
    }
}

/* Of one batch and kv head. Kind 5: all scores are the same. */
static void steer(const problem *x, int kind) {
    const weft_attention *p = &x->p;
    void *q = (void *)(uintptr_t)x->host.q, *k = (void *)(uintptr_t)x->host.k;
    for (int64_t row = 0; row < p->seq * p->heads; row++) {
        weft_ref_store(p->dtype, q, (size_t)(row * p->head_dim), 1);
    }
    for (int64_t key = 0; key < p->kv_seq; key++) {
        for (int64_t d = 0; d < (kind == 5 ? p->head_dim : 1); d++) {
            weft_ref_store(p->dtype, k, (size_t)(key * p->head_dim + d), kind == 5 ? 0.25 : steered(kind, key, p->kv_seq));
        }
    }
    DEMAND(driver->copy_in((uint64_t)(uintptr_t)x->device.q, q, x->size.q * 2));
    DEMAND(driver->copy_in((uint64_t)(uintptr_t)x->device.k, k, x->size.k * 2));
}

static int steered_problems(int kinds) {
    static const char *const names[] = {"rising", "jump", "one key", "low", "falling", "all the same"};
    uint64_t random = random_seed(81);
    int count = 0;
    for (int i = 0; i < VARIANTS; i++) {
        for (int k = 0; k < kinds && is_tested(&variants[i]); k++, count++) {
            const int kind = (i + k) % 6;
            const weft_hopper_attention_variant *v = &variants[i];
            weft_attention p =
                attention(1, 2, 1, v->tile_m + 60, 900, v->depth, v->dtype, kind % 2 ? WEFT_MASK_CAUSAL : WEFT_MASK_NONE);
            p.offset = kind % 2 ? 600 : 0;
            p.scale = 1;
            p.chunk = v->form != WEFT_HOPPER_PLAIN ? 700 : 0;
            p.softcap = v->form == WEFT_HOPPER_SCORES ? 50 : 0;
            drawn_pairs room;
            draw_form(&random, &p, v, &room);
            problem x = problem_new(&p, &random);
            steer(&x, kind);
            const weft_schedule s = schedule_of(v, &random);
            run(&x, &s, names[kind]);
            problem_free(&x);
        }
    }
    return count;
}

/* One number for all keys but the first ones, which are hidden. */
static void level(const problem *x, double number, int64_t hidden) {
    const weft_attention *p = &x->p;
    const weft_dtype dtype = weft_attention_bias_dtype(p);
    for (int64_t i = 0; i < p->seq * p->kv_seq; i++) {
        const int64_t at = i / p->kv_seq * p->bias_strides.seq + i % p->kv_seq;
        weft_ref_store(dtype, (void *)(uintptr_t)x->host.bias, (size_t)at, i % p->kv_seq < hidden ? -INFINITY : number);
    }
    DEMAND(driver->copy_in((uint64_t)(uintptr_t)x->device.bias, x->host.bias,
                           weft_attention_bias_extent(p) * weft_dtype_bytes(dtype)));
}

/* Scores are next to nothing beside a bias that is the same for all keys: the output is the mean of V, however large or low
 * the bias is, and however late a row sees its first key. */
static int level_problems(void) {
    static const double levels[] = {-1e4, -1e5, -1e7, -1e9, -1e12, -1e30, -0x1.fep127, 1e9};
    enum { LEVELS = sizeof levels / sizeof *levels };
    uint64_t random = random_seed(86);
    int count = 0;
    for (int i = 0; i < VARIANTS; i++) {
        const weft_hopper_attention_variant *v = &variants[i];
        for (int k = 0; k < 2 * LEVELS && v->form == WEFT_HOPPER_BIAS && is_tested(v); k++, count++) {
            weft_attention p = attention(1, 1, 1, 70, 3 * v->tile_n + 40, v->depth, v->dtype, WEFT_MASK_NONE);
            p.scale = 1e-6;
            p.extras = WEFT_BIAS;
            p.bias_type = v->dtype == WEFT_BF16 && k % 3 ? WEFT_BIAS_DTYPE : WEFT_BIAS_FP32;
            problem x = problem_new(&p, &random);
            level(&x, levels[k % LEVELS], k < LEVELS ? 0 : 2 * v->tile_n);
            const weft_schedule s = schedule_of(v, &random);
            run(&x, &s, "level");
            problem_free(&x);
        }
    }
    return count;
}

/* Tiles that end with 64 keys or about as many, or few: their last step is short, or just not. Scores as they come, or
 * rising, so that the step is done again. */
static int short_problems(int rounds) {
    static const int64_t left[] = {64, 1, 63, 64, 65, 40};
    uint64_t random = random_seed(85);
    int count = 0;
    for (int i = 0; i < VARIANTS; i++) {
        const weft_hopper_attention_variant *v = &variants[i];
        for (int round = i; round < i + rounds && v->tile_n > 64 && is_tested(v); round++, count++) {
            const int packed = round % 12 >= 6 && round % 2 == 0, rising = round / 3 % 2;
            weft_attention p = attention(
                1, packed ? 8 : 2, 1, packed ? random_between(&random, 9, 24) : v->tile_m + random_between(&random, 1, 200),
                (1 + round / 4 % 3) * v->tile_n + left[round % 6], v->depth, v->dtype,
                round % 3 == 2 ? WEFT_MASK_CAUSAL_BOTTOM_RIGHT : WEFT_MASK_NONE);
            p.scale = rising;
            p.chunk = v->form != WEFT_HOPPER_PLAIN ? v->tile_n + 64 : 0;
            p.softcap = v->form == WEFT_HOPPER_SCORES ? 20 : 0;
            drawn_pairs room;
            draw_form(&random, &p, v, &room);
            problem x = problem_new(&p, &random);
            weft_schedule s = schedule_of(v, &random);
            s.workers = s.split;
            if (rising) {
                steer(&x, 0);
            }
            run(&x, &s, v->symbol);
            problem_free(&x);
        }
    }
    return count;
}

/* Slopes without a mask: keys before and behind a tile's queries, for tiles that begin at any of their steps. A steep slope
 * has work done again; others let far keys count, so that the sums say what each step was taken for. */
static int sloped_problems(int rounds) {
    static const float slopes[] = {0.004f, 0.5f, -0.01f};
    uint64_t random = random_seed(87);
    int count = 0;
    for (int i = 0; i < VARIANTS; i++) {
        const weft_hopper_attention_variant *v = &variants[i];
        for (int round = i; round < i + rounds && v->form == WEFT_HOPPER_SCORES && is_tested(v); round++, count++) {
            const float *slope = &slopes[round % 3];
            const int packed = round % 2; /* then some tiles may stand before all keys of their sequence */
            const int64_t keys = (3 + packed) * v->tile_n + random_between(&random, 1, v->tile_n);
            const int64_t further = random_between(&random, -60, packed ? v->tile_m : 60);
            weft_attention p = attention(1, 1, 1, keys + further, keys, v->depth, v->dtype, WEFT_MASK_NONE);
            lengths room = {.q_starts = {0, (int32_t)random_between(&random, 0, 80), (int32_t)p.seq},
                            .kv_starts = {0, (int32_t)random_between(&random, 0, 2 * v->tile_n), (int32_t)p.kv_seq},
                            .kv_pad = {0, (int32_t)random_between(&random, 0, 90)}};
            if (packed) {
                p.sequences = 2;
                p.lengths = (weft_lengths){
                    .q_starts = room.q_starts, .kv_starts = room.kv_starts, .kv_pad = round % 4 == 3 ? room.kv_pad : NULL};
            }
            p.extras = WEFT_ALIBI;
            problem x = problem_new(&p, &random);
            memcpy((void *)(uintptr_t)x.host.alibi, slope, sizeof *slope);
            DEMAND(driver->copy_in((uint64_t)(uintptr_t)x.device.alibi, slope, sizeof *slope));
            const weft_schedule s = schedule_of(v, &random);
            run(&x, &s, "sloped");
            problem_free(&x);
        }
    }
    return count;
}

/* Makes the queries of the first of two sequences larger, so that their scores are of another kind. */
static void enlarge_first(const problem *x) {
    void *q = (void *)(uintptr_t)x->host.q;
    for (size_t i = 0; i < x->size.q / 2; i++) {
        weft_ref_store(x->p.dtype, q, i, 32 * weft_ref_load(x->p.dtype, q, i));
    }
    DEMAND(driver->copy_in((uint64_t)(uintptr_t)x->device.q, q, x->size.q * 2));
}

/* One worker computes a sequence after another: the second one's bits do not depend on what it has met in the first. */
static int apart_problems(void) {
    uint64_t random = random_seed(88);
    int count = 0;
    for (int i = 0; i < VARIANTS; i++) {
        const weft_hopper_attention_variant *v = &variants[i];
        if (!is_tested(v)) {
            continue;
        }
        weft_attention p =
            attention(2, 1, 1, v->tile_m + 60, 3 * v->tile_n + 40, v->depth, v->dtype, (weft_mask)(count++ % 2));
        p.softcap = v->form == WEFT_HOPPER_SCORES ? 20 : 0;
        p.chunk = v->form == WEFT_HOPPER_MASKS ? p.seq / 2 : 0;
        drawn_pairs room;
        draw_form(&random, &p, v, &room);
        problem x = problem_new(&p, &random);
        weft_schedule s = schedule_of(v, &random);
        s.order = WEFT_ORDER_HEAD_FIRST;
        s.workers = s.split;
        weft_plan *plan = plan_new(&x.asked, &s, "hopper_attention");
        const size_t rows = x.size.lse / 2, elements = x.size.o / 2;
        uint16_t *const o = x.host.o, *before = malloc(elements * sizeof *before);
        float *lse = malloc(rows * sizeof *lse);
        DEMAND(!before || !lse);
        for (int run = 0; run < 2; run++) {
            poison(&x);
            DEMAND(weft_plan_run(plan, &x.device, NULL));
            fetch(&x);
            if (run == 0) {
                memcpy(before, o + elements, elements * sizeof *before);
                memcpy(lse, x.host.lse + rows, rows * sizeof *lse);
                enlarge_first(&x);
            }
        }
        CHECK(memcmp(before, o + elements, elements * sizeof *before) == 0 &&
                  memcmp(lse, x.host.lse + rows, rows * sizeof *lse) == 0,
              "%s: a sequence has other bits after another one", v->symbol);
        free(before);
        free(lse);
        weft_plan_destroy(plan);
        problem_free(&x);
    }
    return count;
}

/* The same bits from run to run, whoever takes which tile. */
static void repeated(int32_t dispatch, int64_t split, int64_t length, int times) {
    uint64_t random = random_seed(82);
    const weft_attention p = attention(2, 6, 3, length, length, 128, WEFT_BF16, WEFT_MASK_CAUSAL);
    weft_schedule s = WEFT_SCHEDULE_INIT;
    s.dispatch = dispatch;
    s.split = split;
    problem x = problem_new(&p, &random);
    weft_plan *plan = plan_new(&p, &s, "hopper_attention");
    const size_t bytes = x.size.o * 2;
    void *first = malloc(bytes);
    DEMAND(!first);
    for (int i = 0; i < times; i++) {
        poison(&x);
        DEMAND(weft_plan_run(plan, &x.device, NULL));
        fetch(&x);
        if (i == 0) {
            memcpy(first, x.host.o, bytes);
        }
        CHECK(memcmp(first, x.host.o, bytes) == 0, "run %d under dispatch %d, split %d, differs", i, (int)dispatch,
              (int)split);
    }
    free(first);
    weft_plan_destroy(plan);
    problem_free(&x);
}

/* Workers that keep step (sawtooth, dynamic dispatch, several waves, enough keys) compute what others do, and leave their
 * counters ready for the next launch. */
static void in_step(int64_t queries, int64_t keys, int64_t workers, int times) {
    uint64_t random = random_seed(84);
    const weft_attention p = attention(1, 2, 2, queries, keys, 64, WEFT_BF16, WEFT_MASK_NONE);
    weft_schedule s = WEFT_SCHEDULE_INIT;
    s.sweep = WEFT_SWEEP_SAWTOOTH;
    s.workers = workers;
    problem x = problem_new(&p, &random);
    const size_t bytes = x.size.o * 2;
    void *first = malloc(bytes);
    DEMAND(!first);
    for (int dispatch = WEFT_DISPATCH_STATIC; dispatch <= WEFT_DISPATCH_DYNAMIC; dispatch++) {
        s.dispatch = dispatch;
        weft_plan *plan = plan_new(&p, &s, "hopper_attention");
        for (int i = 0; i < times; i++) {
            poison(&x);
            DEMAND(weft_plan_run(plan, &x.device, NULL));
            fetch(&x);
            if (dispatch == WEFT_DISPATCH_STATIC && i == 0) {
                memcpy(first, x.host.o, bytes);
            }
            CHECK(memcmp(first, x.host.o, bytes) == 0, "run %d in step under dispatch %d differs", i, dispatch);
        }
        weft_plan_destroy(plan);
    }
    free(first);
    problem_free(&x);
}

/* All of that, of plain variants. */
static void repeat(int is_small) {
    for (int32_t dispatch = 1; dispatch <= WEFT_DISPATCHES; dispatch++) {
        repeated(dispatch, 1, is_small ? 300 : 1000, is_small ? 2 : 20);
    }
    repeated(WEFT_DISPATCH_GRID, 4, is_small ? 300 : 1000, is_small ? 2 : 20);
    if (is_small) { /* more than 32 steps in a tile, from where on workers look */
        in_step(300, 4300, 2, 1);
        DEMAND(setenv("FAKE_CUDA", "capture=1", 1)); /* a captured launch finds its counters by itself, and runs at once */
        repeated(WEFT_DISPATCH_DYNAMIC, 1, 300, 2);
        in_step(300, 4300, 2, 1);
    } else {
        in_step(6000, 9000, 8, 5);
    }
}

/* Says how far it is: references take most of the time, and a run may be cut short. */
static int told(const char *what, int count) {
    printf("%d %s done, %d failed so far\n", count, what, failures);
    fflush(stdout);
    return count;
}

int main(int argc, char **argv) {
    weft_cuda_device device;
    const int rounds = argc > 1 ? atoi(argv[1]) : 24, is_small = argc > 2 && strcmp(argv[2], "small") == 0;
    only = argc > 3 ? argv[3] : only;
    but = argc > 4 ? argv[4] : but;
    open_gpu(90, &device);
    const int steered_ones = told("steered problems", steered_problems(rounds < 6 ? rounds : 6));
    const int flat = told("problems with a level bias", level_problems());
    const int ended = told("problems that end short", short_problems((rounds + 1) / 2));
    const int packed = told("problems with packed heads", packed_problems((rounds + 1) / 2));
    const int apart = told("problems beside others", apart_problems());
    const int sloped = told("sloped problems", sloped_problems((rounds + 1) / 2));
    const int drawn = told("random problems", random_problems(rounds));
    if (tests_plain()) {
        repeat(is_small);
    }
    printf("hopper_attention_device on %s: %d random problems, %d with packed heads, %d steered, %d with a level bias, %d "
           "that end short, %d beside others, %d sloped, 3 dispatches and a split repeated: %d failed\n",
           device.name, drawn, packed, steered_ones, flat, ended, apart, sloped, failures);
    if (is_small) {
        return failures != 0 || drawn == 0;
    }
    printf("a call costs the host %.2f us under static dispatch, %.2f under dynamic\n",
           enqueue_cost(WEFT_DISPATCH_STATIC, "hopper_attention"), enqueue_cost(WEFT_DISPATCH_DYNAMIC, "hopper_attention"));
    return failures != 0;
}
