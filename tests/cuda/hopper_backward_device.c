/* SPDX-License-Identifier: Apache-2.0 */
/* The Hopper backward on a GPU, held to the reference: gradients of random attentions with every feature that it has, under
 * all its sweeps, orders and dispatches, scores of 1e4 and scores that are all the same, queries without keys, the lowest
 * biases, the same bits in every run. Exits 77, with one line, where there is no such GPU.
 *
 *   hopper_backward_device [ROUNDS [MOST [STEP]]]
 *
 * ROUNDS (120) is how many problems are drawn, MOST (700) the most queries and keys they have, and STEP one of those in
 * main(), for a tool under which all of them take long. Built for the fake driver, the kernels run on a CPU: see
 * emulate/emulate.h. */
#include "backward_trial.h"
#include "cuda/sm90/backward/params.h"

enum { ROUNDS = 120, MOST = 700 };

static const char *const variants[] = {
#define WEFT_HOPPER_BACKWARD(symbol, ...) #symbol,
#include "cuda/sm90/backward/variants.def"
};

static weft_attention draw_problem(uint64_t *random, weft_dtype dtype, int64_t most) {
    static const int64_t dims[][2] = {{16, 16},   {64, 64},   {96, 40},   {128, 128}, {128, 128}, {136, 136},
                                      {160, 160}, {192, 192}, {192, 128}, {176, 64},  {256, 256}, {216, 200}};
    enum { DIMS = sizeof dims / sizeof *dims };
    weft_attention p = WEFT_ATTENTION_INIT;
    p.operation = WEFT_ATTENTION_BACKWARD;
    p.batch = random_between(random, 1, 2);
    p.kv_heads = random_between(random, 1, 2);
    p.heads = p.kv_heads * random_between(random, 1, 4);
    const int64_t *drawn = dims[random_between(random, 0, DIMS - 1)];
    p.head_dim = drawn[0];
    p.head_dim_v = drawn[1];
    p.seq = random_between(random, 1, most);
    p.kv_seq = random_between(random, 0, 2) ? p.seq : random_between(random, 1, most);
    p.dtype = dtype;
    p.layout = (weft_layout)random_between(random, 0, 1);
    p.scale = random_between(random, 0, 1) ? 0 : random_real_between(random, 0.01, 0.3);
    static const weft_mask masks[] = {WEFT_MASK_NONE, WEFT_MASK_CAUSAL, WEFT_MASK_CAUSAL_BOTTOM_RIGHT};
    p.mask = masks[random_between(random, 0, 2)];
    p.offset = p.mask == WEFT_MASK_CAUSAL && random_between(random, 0, 1) ? random_between(random, -most / 2, most / 2) : 0;
    return p;
}

static int is_wide(const weft_attention *p) {
    return p->head_dim > 128 || p->head_dim_v > 128;
}

/* Features of the general form, two at a time and each in turn; and, full, with a bias, dropout or both, which it does not
 * have beside pairs. */
static const int32_t general[] = {WEFT_HAS_WINDOW, WEFT_HAS_LENGTHS, WEFT_HAS_BLOCKS, WEFT_HAS_SOFTCAP, WEFT_HAS_CHUNK,
                                  WEFT_HAS_SINKS,  WEFT_HAS_TREE,    WEFT_HAS_PREFIX, WEFT_HAS_ALIBI};
enum { GENERAL = sizeof general / sizeof *general };

static void make_general(uint64_t *random, weft_attention *p, int number, int32_t more, drawn_lengths *lengths) {
    const int32_t drawn = general[number % GENERAL] | general[random_between(random, 0, GENERAL - 1)];
    const int32_t bits = drawn | (drawn & (WEFT_HAS_BLOCKS | WEFT_HAS_TREE) ? 0 : more);
    draw_mask(random, p);
    if (bits & WEFT_HAS_WINDOW) {
        p->mask = random_between(random, 0, 1) ? WEFT_MASK_WINDOW : WEFT_MASK_WINDOW_BOTTOM_RIGHT;
        p->offset = p->mask == WEFT_MASK_WINDOW ? p->offset : 0;
        p->left = random_between(random, 0, p->kv_seq / 2);
        p->right = random_between(random, -1, p->kv_seq / 2);
    }
    const int64_t dims_v = p->head_dim_v;
    draw_features(random, p, bits, is_wide(p) ? 64 : 128, lengths);
    p->head_dim_v = dims_v;
}

/* The largest split up to `most` that a problem takes on so many workers, of which 0 are all: a block mask's lists are not
 * cut, and seven parts do not fit where V has another head dim. */
static int64_t split_of(const weft_attention *p, int64_t most, int64_t workers) {
    int64_t split = workers > 0 ? weft_smaller(most, workers) : most;
    while ((p->block_rows > 0 && p->heads / p->kv_heads % split != 0) ||
           (split == 7 && p->head_dim > 128 && p->head_dim_v <= 128)) {
        split--;
    }
    return split;
}

/* What a problem can have: shift-causal needs a causal mask, and no packed batch. Tiles that are split are not taken as
 * they come. */
static weft_schedule draw_schedule(uint64_t *random, const weft_attention *p) {
    weft_schedule s = WEFT_SCHEDULE_INIT;
    static int number;
    const int causal = p->mask == WEFT_MASK_CAUSAL || p->mask == WEFT_MASK_CAUSAL_BOTTOM_RIGHT;
    s.sweep = number++ % (WEFT_SWEEPS + 1);
    s.sweep = weft_sweep_folds(s.sweep) && (!causal || p->sequences > 0) ? WEFT_SWEEP_SHIFT : s.sweep;
    s.order = (int32_t)random_between(random, WEFT_ORDER_BLOCK_FIRST, WEFT_ORDER_LONGEST_FIRST);
    s.domains = random_between(random, 0, 2);
    s.dispatch = (int32_t)random_between(random, 0, WEFT_DISPATCHES);
    s.workers = random_between(random, 0, 1) ? 0 : random_between(random, 1, 8);
    s.split = random_between(random, 0, 3) ? split_of(p, random_between(random, 1, 8), s.workers) : 0;
    s.dispatch = s.split > 1 && s.dispatch == WEFT_DISPATCH_DYNAMIC ? WEFT_DISPATCH_CHOOSE : s.dispatch;
    return s;
}

static void problems(int rounds, int64_t most) {
    uint64_t random = random_seed(241);
    static drawn_lengths none, drawn;
    for (int round = 0; random_round(&random, &round, rounds) && failures < 5; round++) {
        weft_attention p = draw_problem(&random, round % 2 ? WEFT_BF16 : WEFT_FP16, most);
        const drawn_lengths *lengths = round / 2 % 2 ? &drawn : &none;
        if (lengths == &drawn) {
            static const int32_t full[] = {0, WEFT_HAS_DROPOUT, WEFT_HAS_BIAS, WEFT_HAS_BIAS | WEFT_HAS_DROPOUT};
            make_general(&random, &p, round / 4 * 2 + round % 2, full[random_between(&random, 0, 3)], &drawn);
        }
        const weft_schedule s = draw_schedule(&random, &p);
        if (!is_there(&p, "hopper_backward", variants, sizeof variants / sizeof *variants)) {
            continue;
        }
        gradients x = gradients_new(&p, lengths, random_between(&random, 0, 1) ? 8 : 0, 1, &random);
        gradients_try(&x, round % 8 < 6 ? &s : NULL, "hopper_backward", (int)random_between(&random, 0, 1));
    }
}

/* Sums that are far below 0: keys that are not there would weigh more than a float holds. */
static void few_keys(void) {
    uint64_t random = random_seed(245);
    static const int32_t used[] = {3};
    static drawn_lengths lengths;
    lengths.all.kv_used = used; /* all of them, but it takes the general form */
    for (int i = 0; i < 4; i++) {
        weft_attention p = plain_backward(1, 2, 1, 130, used[0], 64 * (i + 1), WEFT_BF16, WEFT_MASK_NONE);
        p.lengths = lengths.all;
        p.scale = 500;
        gradients x = gradients_new(&p, &lengths, 0, 2, &random);
        gradients_run(&x, NULL, "hopper_backward", 0);
        gradients_free(&x);
    }
}

/* Workers that are given tiles as they come, since lengths are not known: the fifth tile of eight, the shortest of those
 * that five workers begin with, is done first, and waits for the adds of the sixth. Who took that one while the fifth still
 * waits would wait for ever. Parts of tiles are in turn, two clusters of them. keys: of a tile. */
static void few_workers(int32_t keys, int64_t dim, int64_t split) {
    uint64_t random = random_seed(246);
    const int32_t used[] = {8 * keys};
    static drawn_lengths lengths;
    weft_attention p = plain_backward(1, 1, 1, used[0], used[0], dim, WEFT_BF16, WEFT_MASK_CAUSAL);
    lengths.all.kv_used = used;
    p.lengths = lengths.all;
    weft_schedule s = WEFT_SCHEDULE_INIT;
    s.order = WEFT_ORDER_HEAD_FIRST;
    s.sweep = WEFT_SWEEP_CLIMB;
    s.dispatch = split > 1 ? WEFT_DISPATCH_STATIC : WEFT_DISPATCH_DYNAMIC;
    s.workers = 5;
    s.split = split;
    gradients x = gradients_new(&p, &lengths, 0, 1, &random);
    gradients_run(&x, &s, "hopper_backward", 0);
    gradients_free(&x);
}

/* Runs with workers by side of the L2. */
static int placed;

/* Workers by side of the L2, as many as there are SMs and fewer; in no run where the L2 has no sides. */
static void sides(int64_t most) {
    uint64_t random = random_seed(247);
    static drawn_lengths none;
    weft_attention p = plain_backward(1, 6, 3, most, most, 64, WEFT_BF16, WEFT_MASK_CAUSAL);
    gradients x = gradients_new(&p, &none, 0, 1, &random);
    for (int i = 0; i < 8; i++) {
        weft_schedule s = WEFT_SCHEDULE_INIT;
        s.order = i % 2 ? WEFT_ORDER_HEAD_FIRST_SWIZZLED : WEFT_ORDER_BLOCK_FIRST_SWIZZLED;
        s.dispatch = i / 2 % 2 ? WEFT_DISPATCH_STATIC : WEFT_DISPATCH_DYNAMIC;
        s.domains = 2;
        s.workers = i / 4 ? 5 : 0;
        s.split = 1; /* clusters are not placed */
        weft_plan *plan = plan_new(&p, &s, "hopper_backward");
        placed += ((const weft_cuda_plan *)plan->placed)->side_of_sm != 0;
        weft_plan_destroy(plan);
        gradients_run(&x, &s, "hopper_backward", 0);
    }
    gradients_free(&x);
}

/* Groups of six heads, and of one, whole and in parts of heads, of queries and of both, of all head dims and forms: dK and
 * dV of the parts are added, and the same bits come in every run. Some parts have no queries. */
static void splits(int rounds, int64_t most) {
    (void)rounds;
    uint64_t random = random_seed(249);
    static const int64_t dims[][2] = {{64, 64}, {128, 128}, {72, 40}, {192, 128}, {192, 192}, {256, 256}};
    static drawn_lengths none;
    for (int i = 0; i < 36; i++) {
        const int64_t *d = dims[i % 6];
        weft_attention p =
            plain_backward(2, i % 7 ? 12 : 2, 2, most / 3, most / 2, d[0], i % 2 ? WEFT_BF16 : WEFT_FP16, WEFT_MASK_CAUSAL);
        weft_schedule s = WEFT_SCHEDULE_INIT;
        p.head_dim_v = d[1];
        p.extras = i / 6 % 3 == 0 ? 0 : i / 6 % 3 == 1 ? WEFT_BIAS : WEFT_SINKS | WEFT_ALIBI; /* plain, full, general */
        s.split = split_of(&p, 2 + (i + i / 6) % 7, 0);
        s.dispatch = i / 2 % 4;
        if (!is_there(&p, "hopper_backward", variants, sizeof variants / sizeof *variants)) {
            continue;
        }
        gradients x = gradients_new(&p, &none, 0, 1, &random);
        const size_t bytes = gradients_bytes(&x);
        void *first = malloc(bytes), *again = malloc(bytes);
        DEMAND(!first || !again);
        gradients_run(&x, &s, "hopper_backward", 0);
        gradients_copy(&x, first);
        gradients_run(&x, &s, "hopper_backward", 1);
        gradients_copy(&x, again);
        CHECK(memcmp(first, again, bytes) == 0, "split %d gave other bits", (int)s.split);
        free(first);
        free(again);
        gradients_free(&x);
    }
}

/* The full form of wide tiles with much at once: a bias of each type, dense or with repeated heads and apart keys, its
 * gradient, dropout, a cap, lengths whose other rows are NaN, and split groups; and dropout over packed sequences, whose
 * keys begin anywhere. */
static void wide_full(int rounds, int64_t most) {
    (void)rounds;
    uint64_t random = random_seed(250);
    static const int64_t dims[][2] = {{192, 128}, {136, 136}, {256, 256}, {64, 200}};
    static const int32_t used[] = {45, 3}, starts[] = {0, 21, 22, 90};
    static drawn_lengths lengths, none;
    for (int i = 0; i < 16; i++) {
        const int packed = i % 4 == 3, other = (i + i / 4) % 2;
        weft_attention p = plain_backward(packed ? 1 : 2, 4, 2, 90, most / 2 + 90, dims[i % 4][0],
                                          i < 12 ? WEFT_BF16 : WEFT_FP16, i % 3 ? WEFT_MASK_CAUSAL : WEFT_MASK_NONE);
        weft_schedule s = WEFT_SCHEDULE_INIT;
        p.head_dim_v = dims[i % 4][1];
        p.dropout = 0.3;
        p.softcap = i / 4 % 2 ? 2 : 0;
        s.split = 1 + other;
        lengths = none;
        if (packed) {
            p.sequences = 3;
            lengths.all.q_starts = starts;
        } else {
            p.extras = WEFT_BIAS | (other ? WEFT_ALIBI : WEFT_SINKS);
            p.bias_type = i % 3;
            lengths.all.q_used = other ? used : NULL;
        }
        if (i / 4 == 2 && !packed) { /* the same for all heads, every other key's */
            p.bias_key_stride = 2;
            p.bias_strides.seq = 2 * p.kv_seq + 1;
            p.bias_strides.batch = p.seq * p.bias_strides.seq;
        }
        p.lengths = lengths.all;
        if (!is_there(&p, "hopper_backward", variants, sizeof variants / sizeof *variants)) {
            continue;
        }
        gradients x = gradients_new(&p, &lengths, 0, 1, &random);
        x.data.grad_bias = packed ? NULL : (void *)(uintptr_t)x.t[GRAD_BIAS].device; /* not at random */
        gradients_run(&x, &s, "hopper_backward", 0);
        gradients_free(&x);
    }
}

/* Biases that hide, and finite ones that are as low as a float can be: they hide nothing where a query sees only such. */
static void low_biases(void) {
    uint64_t random = random_seed(248);
    static drawn_lengths none;
    for (int i = 0; i < 8; i++) {
        weft_attention p = plain_backward(1, 2, 1, 70, i < 4 ? 1 : 150, 64 * (i % 4 + 1), WEFT_BF16, WEFT_MASK_NONE);
        p.extras = WEFT_BIAS;
        p.bias_type = WEFT_BIAS_FP32;
        gradients x = gradients_new(&p, &none, 0, 1, &random);
        for (size_t j = 0; j < x.t[BIAS].elements; j++) {
            const int64_t kind = random_between(&random, 0, 3);
            ((float *)x.t[BIAS].host)[j] = kind == 0 ? -INFINITY : kind == 1 ? -3.4e38f : -100 + (float)kind;
        }
        gradients_solve_again(&x);
        gradients_run(&x, NULL, "hopper_backward", 0);
        gradients_free(&x);
    }
}

/* Takes a block of keys out of all lists. */
static void forget_keys(weft_attention *p, drawn_pairs *room, int64_t lists, int32_t block) {
    int32_t n = 0;
    for (int64_t i = 0, at = 0; i < lists; i++) {
        const int64_t end = room->starts[i + 1];
        for (room->starts[i] = n; at < end; at++) {
            room->list[n] = room->list[at];
            room->bits_at[n] = room->bits_at[at];
            n += room->list[at] != block;
        }
    }
    room->starts[lists] = n;
    p->block_entries = n;
}

/* The least blocks that a block mask may have, so that many lists have gaps, keys that none of them names, all sweeps and
 * dispatches, whole groups and parts: the same bits in every run. */
static void block_masks(int64_t most) {
    uint64_t random = random_seed(250);
    static const int64_t dims[][2] = {{128, 128}, {256, 256}, {64, 64}, {192, 128}, {72, 40}, {192, 192}};
    static drawn_lengths drawn;
    for (int i = 0; i < 12; i++) {
        const int64_t *d = dims[i % 6];
        weft_attention p = plain_backward(1 + i / 6, 4, 2, most, most + 250, d[0], i % 4 < 2 ? WEFT_BF16 : WEFT_FP16,
                                          i % 5 ? WEFT_MASK_NONE : WEFT_MASK_CAUSAL_BOTTOM_RIGHT);
        weft_schedule s = WEFT_SCHEDULE_INIT;
        p.head_dim_v = d[1];
        p.block_rows = 64;
        p.block_columns = is_wide(&p) ? 64 : 128;
        p.softcap = i % 7 == 6 ? 20 : 0;
        draw_lists_in(&random, &p, &drawn.room);
        const int64_t rows = weft_ceil_divide(p.seq, p.block_rows);
        forget_keys(&p, &drawn.room, (p.batch - 1) * p.block_batch_stride + (p.heads - 1) * p.block_head_stride + rows, 1);
        drawn.pairs = p.pairs;
        s.dispatch = i % 4 ? i % 4 : WEFT_DISPATCH_CHOOSE;
        s.sweep = i == 0 ? WEFT_SWEEP_CHOOSE : 1 + i % WEFT_SWEEPS;
        s.sweep = weft_sweep_folds(s.sweep) && p.mask == WEFT_MASK_NONE ? WEFT_SWEEP_SHIFT : s.sweep;
        s.workers = i % 3 ? 0 : 3;
        s.split = s.dispatch == WEFT_DISPATCH_DYNAMIC ? 0 : split_of(&p, 1 + i % 2, s.workers);
        if (!is_there(&p, "hopper_backward", variants, sizeof variants / sizeof *variants)) {
            continue;
        }
        gradients x = gradients_new(&p, &drawn, 0, 1, &random);
        const size_t bytes = gradients_bytes(&x);
        void *first = malloc(bytes), *again = malloc(bytes);
        DEMAND(!first || !again);
        gradients_run(&x, &s, "hopper_backward", 0);
        gradients_copy(&x, first);
        gradients_run(&x, &s, "hopper_backward", 1);
        gradients_copy(&x, again);
        CHECK(memcmp(first, again, bytes) == 0, "a block mask gave other bits, row %d", i);
        free(first);
        free(again);
        gradients_free(&x);
    }
}

/* What a launch dealt, in memory of the host. */
typedef struct dealt {
    weft_walk walk; /* with its lengths and its mask */
    int64_t group;  /* heads of a tile */
    weft_coming *comings;
    uint32_t *next, *table;
} dealt;

static void *fetched(const void *from, int64_t bytes) {
    void *to = malloc((size_t)bytes);
    DEMAND(!to || driver->copy_out(to, (uint64_t)(uintptr_t)from, (size_t)bytes));
    return to;
}

/* How long a part of a position's tile takes; below 0: it has no key. *start: when it begins. */
static int64_t time_of_part(const dealt *d, const weft_attention *p, int64_t position, int64_t rank, int64_t *start) {
    const weft_blocks *blocks = &d->walk.reach.blocks;
    weft_walk walk = d->walk;
    weft_visit visit;
    walk.comings = NULL; /* it is to say all steps of the tile */
    DEMAND(!weft_walk_visit_of(&walk, position, 0, 0, walk.reach.kind, 1, rank, &visit));
    const weft_tile t = visit.tile;
    const weft_coming *c = &d->comings[weft_walk_line(&walk, t.batch, t.row) * walk.cols + t.col];
    const int listed = p->block_rows > 0;
    int64_t steps = visit.steps * d->group;
    if (visit.cut.rows.begin >= visit.cut.rows.end) {
        return -1;
    }
    *start = listed ? c->at : c->at + c->first;
    for (int64_t i = 0; listed && i < visit.steps * d->group; i++) {
        const int64_t head = t.row * d->group + i / visit.steps, block = visit.wrap + i % visit.steps;
        steps -= weft_blocks_entry(blocks, t.batch, head, block * walk.reach.tile_columns, visit.cut.rows.begin) < 0;
    }
    CHECK(listed || visit.steps == 0 || (c->first >= visit.wrap && c->first <= visit.edge && c->steps == visit.steps),
          "a tile begins at %d", (int)c->first);
    return steps + WEFT_HOPPER_BACKWARD_BESIDE;
}

/* How long the tile takes: as the longest of its parts, which begin together. */
static int64_t time_of(const dealt *d, const weft_attention *p, int64_t position, int64_t *start) {
    int64_t longest = -1;
    for (int64_t rank = 0; rank < d->walk.cluster_rows; rank++) {
        int64_t begins = 0;
        longest = weft_larger(longest, time_of_part(d, p, position, rank, &begins));
        CHECK(longest < 0 || rank == 0 || begins == *start, "a part begins at %d, another at %d", (int)begins, (int)*start);
        *start = begins;
    }
    return longest;
}

/* Every tile is given out once, the longest of a section first if it is sorted at a time, and to whoever is free first; who
 * takes one begins it when the one before has ended. */
static void check_dealt(const dealt *d, const weft_attention *p) {
    const weft_walk *walk = &d->walk;
    const int64_t count = walk->order.count, workers = weft_smaller(walk->workers, count);
    const int64_t section = (int64_t)walk->order.by_group.value;
    const int is_sorted = section * walk->cols <= WEFT_HOPPER_BACKWARD_DEALT_SORTED;
    int64_t *free_at = calloc((size_t)workers, sizeof *free_at), *times = calloc((size_t)count, sizeof *times);
    int64_t *starts = calloc((size_t)count, sizeof *starts), with_keys = 0, met = 0, at = 0;
    unsigned char *seen = calloc((size_t)count, 1);
    DEMAND(!free_at || !times || !starts || !seen);
    for (int64_t i = 0; i < count; i++) {
        DEMAND(d->table[i] >= count || seen[d->table[i]]++);
        times[i] = time_of(d, p, i, &starts[i]);
        CHECK(times[i] < 0 || with_keys == i, "tiles without keys come before others");
        with_keys += times[i] >= 0;
    }
    for (int64_t i = 0; i < with_keys; i++) {
        const int same = is_sorted && i > 0 && d->table[i - 1] / walk->cols / section == d->table[i] / walk->cols / section;
        int64_t first = 0;
        for (int64_t w = 1; w < workers; w++) {
            first = free_at[w] < free_at[first] ? w : first;
        }
        CHECK(starts[i] == free_at[first], "a tile begins at %d, and a worker is free at %d", (int)starts[i],
              (int)free_at[first]);
        CHECK(!same || times[i] <= times[i - 1], "a tile of %d comes behind one of %d", (int)times[i], (int)times[i - 1]);
        free_at[first] += times[i];
    }
    for (int64_t w = 0; w < workers; w++) {
        for (at = w; at < count && met <= count; met++) {
            const int64_t after = d->next[at];
            CHECK(after >= count || (times[at] >= 0 && starts[after] == starts[at] + times[at]),
                  "who ends at %d begins at %d", (int)(starts[at] + times[at]), (int)starts[after < count ? after : 0]);
            at = after;
        }
    }
    CHECK(met == weft_larger(with_keys, workers), "%d tiles are given out, of %d", (int)met, (int)with_keys);
    free(free_at);
    free(times);
    free(starts);
    free(seen);
}

/* Makes a plan's timetable and checks it: `host` has its lengths and its mask here. */
static void deal_and_check(const weft_attention *asked, const weft_schedule *s, const weft_attention_gradients *data,
                           const weft_attention *host) {
    weft_plan *plan = plan_new(asked, s, "hopper_backward");
    const weft_cuda_plan *c = plan->placed;
    const weft_walk walk = weft_cuda_walk_with(plan, c->main, data);
    const int64_t count = walk.order.count;
    const weft_counters none = {0};
    weft_attention_gradients with = *data;
    weft_hopper_backward_params to = {0};
    void *arguments[] = {&to};
    uint64_t workspace = 0;
    DEMAND(driver->memory_new(&workspace, weft_plan_workspace(plan)));
    with.workspace = (void *)(uintptr_t)workspace;
    for (const weft_cuda_pass *pass = c->passes; pass <= c->main; pass++) {
        const weft_cuda_choice *made = &pass->choice;
        DEMAND(c->family->fill(plan, pass, &with, &walk, &none, &to, NULL));
        if (pass + 1 < c->main) {
            DEMAND(driver->launch(pass->function, pass->grid, 1, 1, (unsigned)made->threads, 1, 1, made->shared_bytes, NULL,
                                  arguments, NULL));
        }
    }
    DEMAND(!to.dealing.comings);
    dealt d = {to.walk, to.group, fetched(to.dealing.comings, count * to.splits * (int64_t)sizeof *d.comings),
               fetched(to.dealing.next, count * (int64_t)sizeof *d.next),
               fetched(to.dealing.table, count * (int64_t)sizeof *d.table)};
    d.walk.order.table = d.table;
    d.walk.reach.sequences = weft_attention_sequences(host);
    d.walk.reach.blocks.pairs = host->pairs;
    check_dealt(&d, host);
    runs++;
    free(d.comings);
    free(d.next);
    free(d.table);
    weft_plan_destroy(plan);
    DEMAND(driver->memory_free(workspace));
}

/* Packed batches, used lengths and block masks, groups of heads and parts of tiles, few workers and many. */
static void timetables(int64_t most) {
    uint64_t random = random_seed(252);
    static drawn_lengths drawn;
    for (int i = 0; i < 12; i++) {
        const int32_t bits = i % 3 == 2 ? WEFT_HAS_BLOCKS : WEFT_HAS_LENGTHS;
        weft_attention p = plain_backward(1 + i / 6, 4, i % 2 ? 2 : 4, most, most + 250, 64, WEFT_BF16,
                                          i % 4 ? WEFT_MASK_NONE : WEFT_MASK_CAUSAL_BOTTOM_RIGHT);
        weft_schedule s = WEFT_SCHEDULE_INIT;
        draw_features(&random, &p, bits, 128, &drawn);
        s.workers = random_between(&random, 1, 9);
        s.split = split_of(&p, 1 + i % 4, s.workers);
        s.group = random_between(&random, 0, 3);
        if (is_there(&p, "hopper_backward", variants, sizeof variants / sizeof *variants)) {
            gradients x = gradients_new(&p, &drawn, 0, 1, &random);
            deal_and_check(&x.asked, &s, &x.data, &x.p);
            gradients_free(&x);
        }
    }
}

/* More positions than are sorted at a time, in sections of several sizes. Nothing but lengths is read. */
static void long_timetables(void) {
    uint64_t random = random_seed(253);
    enum { BATCHES = 6 };
    static const int64_t groups[] = {1, 7, 0};
    for (int i = 0; i < 3; i++) {
        weft_attention p = plain_backward(BATCHES, 10, 10, 1000, 150 * 128 - 5, 64, WEFT_BF16,
                                          WEFT_MASK_CAUSAL_BOTTOM_RIGHT),
                       host;
        weft_schedule s = WEFT_SCHEDULE_INIT;
        int32_t used[BATCHES];
        for (int j = 0; j < BATCHES; j++) {
            used[j] = (int32_t)random_between(&random, 0, p.kv_seq);
        }
        p.extras = WEFT_KV_USED;
        s.group = groups[i];
        DEMAND(resolve_attention(&host, &p, NULL));
        host.lengths.kv_used = used;
        const uint64_t lengths = there(used, sizeof used);
        void *some = (void *)(uintptr_t)lengths; /* any address */
        weft_attention_gradients data = WEFT_ATTENTION_GRADIENTS_INIT;
        data.q = data.k = data.v = data.o = data.grad_o = some;
        data.lengths.kv_used = some;
        deal_and_check(&p, &s, &data, &host);
        DEMAND(driver->memory_free(lengths));
    }
}

/* An infinite dO of a query: its own part of the gradient of the bias may be NaN, and no other, though keys end within a
 * tile. The first keys of the next query, which it does not see, stay 0. */
static void infinite(void) {
    uint64_t random = random_seed(251);
    static drawn_lengths none;
    enum { QUERY = 100 };
    for (int64_t dim = 128; dim <= 256; dim += 128) {
        weft_attention p = plain_backward(1, 1, 1, 128, 150, dim, WEFT_BF16, WEFT_MASK_WINDOW);
        size_t own = 0, others = 0;
        weft_message message = {""};
        p.left = 10;
        p.right = 60;
        p.extras = WEFT_BIAS;
        gradients x = gradients_new(&p, &none, 0, 1, &random);
        ((uint16_t *)x.t[GRAD_O].host)[weft_row_index(&x.p.o_strides, 0, QUERY, 0)] = 0x7f80;
        DEMAND(driver->copy_in(x.t[GRAD_O].device, x.t[GRAD_O].host, x.t[GRAD_O].bytes));
        x.data.grad_bias = (void *)(uintptr_t)x.t[GRAD_BIAS].device;
        x.data.workspace = NULL;
        gradients_poison(&x);
        weft_plan *plan = plan_new(&x.asked, NULL, "hopper_backward");
        CHECK(weft_plan_run(plan, &x.data, &message) == WEFT_OK, "%s", message.text);
        weft_plan_destroy(plan);
        gradients_fetch(&x);
        for (size_t i = 0; i < x.t[GRAD_BIAS].elements; i++) {
            const int is_own = i / (size_t)p.kv_seq == QUERY, is_finite = isfinite(((const float *)x.t[GRAD_BIAS].host)[i]);
            own += is_own && !is_finite;
            others += !is_own && !is_finite;
        }
        CHECK(own > 0 && others == 0, "%zu of its own elements are not finite, and %zu others", own, others);
        runs++;
        gradients_free(&x);
    }
}

/* Trees whose keys are in the middle of a tile, cross two, and are all there are; also of packed sequences. */
static void tree_masks(void) {
    uint64_t random = random_seed(251);
    static const int64_t dims[] = {128, 256, 64, 192};
    static drawn_lengths drawn;
    for (int i = 0; i < 8; i++) {
        const int packed = i % 4 / 2;
        weft_attention p = plain_backward(packed ? 1 : 2, 4, 2, 64, 64 + (int64_t[]){137, 86, 0, 39}[i % 4], dims[i / 2],
                                          WEFT_BF16, i % 3 ? WEFT_MASK_NONE : WEFT_MASK_CAUSAL_BOTTOM_RIGHT);
        draw_features(&random, &p, WEFT_HAS_TREE, 0, &drawn);
        if (packed) {
            draw_lengths(&random, &p, 1, &drawn);
        }
        if (!is_there(&p, "hopper_backward", variants, sizeof variants / sizeof *variants)) {
            continue;
        }
        gradients x = gradients_new(&p, &drawn, 0, 1, &random);
        gradients_try(&x, NULL, "hopper_backward", i % 2);
    }
}

static void scores_of_all_sizes(int rounds, int64_t most) {
    (void)rounds;
    extremes(most, 64, "hopper_backward");
    extremes(most, 256, "hopper_backward");
    few_keys();
    low_biases();
    infinite();
}

static void waits(int rounds, int64_t most) {
    (void)rounds;
    few_workers(128, 64, 0);
    few_workers(128, 64, 2);
    few_workers(64, 192, 0);
    sides(most);
}

static void pairs(int rounds, int64_t most) {
    (void)rounds;
    block_masks(most);
    tree_masks();
}

static void dealing(int rounds, int64_t most) {
    (void)rounds;
    timetables(most);
    long_timetables();
}

static void the_same_bits(int rounds, int64_t most) {
    const int times = rounds < ROUNDS ? 1 : 100;
    for (int32_t dispatch = WEFT_DISPATCH_CHOOSE; dispatch <= WEFT_DISPATCHES; dispatch++) {
        repeats(most, 128, 0, "hopper_backward", dispatch, times);
    }
    repeats(most, 256, 0, "hopper_backward", WEFT_DISPATCH_CHOOSE, times);
    for (int64_t dim = 128; dim <= 192; dim += 64) {
        repeats(most, dim, WEFT_SINKS | WEFT_ALIBI, "hopper_backward", WEFT_DISPATCH_CHOOSE, times);
    }
    for (int64_t dim = 128; dim <= 256; dim += 128) {
        repeats(most, dim, WEFT_BIAS, "hopper_backward", WEFT_DISPATCH_CHOOSE, times);
    }
    streams(most, "hopper_backward", 2 * times);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(int rounds, int64_t most);
    } steps[] = {{"problems", problems}, {"scores", scores_of_all_sizes},
                 {"waits", waits},       {"splits", splits},
                 {"full", wide_full},    {"pairs", pairs},
                 {"deals", dealing},     {"bits", the_same_bits}};
    const int rounds = argc > 1 ? atoi(argv[1]) : ROUNDS;
    const int64_t most = argc > 2 ? atoll(argv[2]) : MOST;
    weft_cuda_device device;
    open_gpu(90, &device);
    int taken = 0;
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        if (argc <= 3 || strcmp(argv[3], steps[i].name) == 0) {
            steps[i].run(rounds, most);
            taken++;
        }
    }
    CHECK(taken > 0, "there is no step %s", argv[3]);
    printf("hopper_backward_device: %d runs, %d failed, %d with workers by side, error at most %.2f of what is allowed\n",
           runs, failures, placed, worst);
    return failures != 0;
}
