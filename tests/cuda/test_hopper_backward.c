/* SPDX-License-Identifier: Apache-2.0 */
/* Plans of the Hopper backward with the fake driver: their launches and parameters, from which the fake runs the reference
 * and nothing else; who takes turns; what is refused. */
#include "fake_images.h"

#include <weft/sim.h>

#include "backward_trial.h"
#include "cuda/sm90/backward/params.h"

static weft_device gpu(void) {
    weft_device device = WEFT_DEVICE_INIT;
    device.kind = WEFT_DEVICE_CUDA;
    return device;
}

static weft_attention problem(void) {
    return plain_backward(1, 2, 1, 100, 500, 72, WEFT_BF16, WEFT_MASK_CAUSAL_BOTTOM_RIGHT);
}

static void open_fake(void) {
    script(NULL);
    assert_int_equal(weft_cuda_driver_get(&driver, NULL), WEFT_OK);
}

static void nothing_left(void) {
    assert_int_equal(failures, 0);
    assert_int_equal(counts()->allocations, 0);
    assert_int_equal(counts()->contexts, 0);
}

/* Features of the general form, and of the full one. */
static const int32_t general[] = {WEFT_HAS_WINDOW, WEFT_HAS_LENGTHS, WEFT_HAS_SOFTCAP, WEFT_HAS_CHUNK,
                                  WEFT_HAS_BIAS,   WEFT_HAS_SINKS,   WEFT_HAS_PREFIX,  WEFT_HAS_ALIBI,
                                  WEFT_HAS_BLOCKS, WEFT_HAS_DROPOUT, WEFT_HAS_TREE};
enum { GENERAL = sizeof general / sizeof *general };

/* Any mask, sweep and dispatch: the parameters say all of the problem, and every block of queries gets all of its adds. */
static void parameters(void **state) {
    (void)state;
    uint64_t random = random_seed(242);
    static drawn_lengths lengths;
    open_fake();
    for (int round = 0; random_round(&random, &round, 44); round++) {
        static const weft_mask masks[] = {WEFT_MASK_NONE, WEFT_MASK_CAUSAL, WEFT_MASK_CAUSAL_BOTTOM_RIGHT};
        weft_attention p = problem();
        weft_schedule s = WEFT_SCHEDULE_INIT;
        p.batch = random_between(&random, 1, 2);
        p.seq = random_between(&random, 1, 100);
        p.kv_seq = random_between(&random, 1, 280);
        p.heads = p.kv_heads * (1 + round % 4);
        s.split = random_between(&random, 0, 6);
        static const int64_t dims[][2] = {{8, 8}, {72, 72}, {72, 40}, {8, 8}, {192, 192}, {8, 8}, {192, 128}, {8, 8}};
        const int64_t *drawn = dims[round % 8];
        p.head_dim = drawn[0];
        p.dtype = round / 2 % 2 ? WEFT_BF16 : WEFT_FP16;
        p.mask = masks[round % 3];
        p.offset = p.mask == WEFT_MASK_CAUSAL ? random_between(&random, -100, 100) : 0;
        int32_t bits = round % 2 ? 0 : general[round / 2 % GENERAL] | general[round / 6 % GENERAL];
        bits |= round == 12 ? WEFT_HAS_BIAS : round == 14 ? WEFT_HAS_DROPOUT : 0; /* wide tiles, too */
        /* The reference, which the fake runs, has queries that do not count in the gradient of a sink: here they are NaN.
         */
        bits &= bits & WEFT_HAS_SINKS ? ~WEFT_HAS_LENGTHS : ~0;
        const int no_full = bits & (WEFT_HAS_BLOCKS | WEFT_HAS_TREE);
        bits &= no_full ? ~(WEFT_HAS_BIAS | WEFT_HAS_DROPOUT) : ~0;
        if (bits & WEFT_HAS_WINDOW) {
            draw_mask(&random, &p);
        }
        draw_features(&random, &p, bits, p.head_dim > 128 ? 64 : 128, &lengths);
        p.head_dim_v = drawn[1];
        const int causal = p.mask == WEFT_MASK_CAUSAL || p.mask == WEFT_MASK_CAUSAL_BOTTOM_RIGHT;
        s.sweep = 1 + round % WEFT_SWEEPS;
        s.sweep = weft_sweep_folds(s.sweep) && (!causal || p.sequences > 0) ? WEFT_SWEEP_SHIFT : s.sweep;
        s.order = (int32_t)random_between(&random, WEFT_ORDER_BLOCK_FIRST, WEFT_ORDER_LONGEST_FIRST);
        s.domains = random_between(&random, 0, 3);
        s.dispatch = 1 + round / 6 % WEFT_DISPATCHES;
        s.workers = random_between(&random, 0, 7);
        s.split = s.workers > 0 ? weft_smaller(s.split, s.workers) : s.split;
        const int heads_alone = p.block_rows > 0 && p.heads / p.kv_heads % weft_larger(s.split, 1) != 0;
        const int as_they_come = s.dispatch == WEFT_DISPATCH_DYNAMIC && (bits & (WEFT_HAS_LENGTHS | WEFT_HAS_BLOCKS));
        s.split = heads_alone || as_they_come ? 1 : s.split; /* others are refused */
        gradients x = gradients_new(&p, &lengths, random_between(&random, 0, 1) ? 8 : 0, 1, &random);
        gradients_run(&x, round % 5 ? &s : NULL, "hopper_backward", round % 2);
        gradients_free(&x);
        nothing_left();
    }
}

/* Workers that wait for each other are launched together: not where each waits for those that began before it. */
static void launches(void **state) {
    (void)state;
    uint64_t random = random_seed(243);
    static drawn_lengths none;
    const weft_device device = gpu();
    weft_attention p = problem();
    weft_plan *plan;
    open_fake();
    gradients x = gradients_new(&p, &none, 0, 1, &random);
    for (int grid = 0; grid < 2; grid++) {
        weft_schedule s = WEFT_SCHEDULE_INIT;
        s.dispatch = grid ? WEFT_DISPATCH_GRID : WEFT_DISPATCH_CHOOSE;
        assert_int_equal(plan_on(&plan, &p, &s, NULL, &device, NULL), WEFT_OK);
        const weft_cuda_plan *c = plan->placed;
        assert_int_equal(c->pass_count, 3);
        assert_string_equal(weft_plan_kernel(plan), "attention_backward_bf16_d128__hopper_ragged_main");
        assert_int_equal(plan->schedule.sweep, grid ? WEFT_SWEEP_DESCENDING : WEFT_SWEEP_SHIFT);
        assert_int_equal(plan->schedule.dispatch, grid ? WEFT_DISPATCH_GRID : WEFT_DISPATCH_DYNAMIC);
        assert_int_equal(weft_plan_workspace(plan), 4 * p.batch * p.heads * p.seq * p.head_dim);
        const int before = counts()->launches, together = counts()->cooperative;
        assert_int_equal(weft_plan_run(plan, &x.data, NULL), WEFT_OK);
        assert_int_equal(counts()->launches - before, 3);
        assert_int_equal(counts()->cooperative - together, grid ? 0 : 1);
        weft_plan_destroy(plan);
    }
    gradients_free(&x);
    nothing_left();
}

/* Tiles are split where there are few of them for the 12 SMs, or unlike ones; not where there are plenty, nor where a split
 * is given. Heads that share keys come first, then lines of queries. */
static void splits(void **state) {
    (void)state;
    const struct {
        int64_t batch, heads, kv_heads, seq, given;
        weft_mask mask;
        int64_t expected, kv_seq; /* 0: as seq */
    } rows[] = {
        {1, 8, 8, 256, 0, WEFT_MASK_NONE, 1, 0},     /* 16 short tiles: parts would cost more than they save */
        {1, 1, 1, 768, 0, WEFT_MASK_NONE, 2, 0},     /* six of twelve steps for twelve workers */
        {1, 1, 1, 1024, 0, WEFT_MASK_NONE, 1, 0},    /* eight of sixteen: two turns of half of it, and costs */
        {1, 1, 1, 1536, 0, WEFT_MASK_CAUSAL, 2, 0},  /* the longest of twelve are waited for no longer */
        {1, 1, 1, 8192, 0, WEFT_MASK_NONE, 4, 384},  /* three long ones: heads share no keys, so lines of queries */
        {1, 2, 1, 8192, 0, WEFT_MASK_NONE, 4, 384},  /* heads, and lines of each */
        {1, 4, 1, 8192, 0, WEFT_MASK_NONE, 4, 384},  /* heads are enough */
        {1, 1, 1, 8192, 1, WEFT_MASK_NONE, 1, 512},  /* none is wanted, */
        {1, 1, 1, 8192, 8, WEFT_MASK_NONE, 8, 512},  /* or as many as there can be */
        {1, 6, 1, 1024, 4, WEFT_MASK_NONE, 4, 0},    /* of halves of heads and lines */
        {12, 8, 1, 4096, 0, WEFT_MASK_NONE, 1, 0},   /* 384 tiles */
        {12, 8, 1, 4096, 0, WEFT_MASK_CAUSAL, 2, 0}, /* under a mask a tile has four heads at most */
        {2, 4, 2, 1024, 0, WEFT_MASK_CAUSAL, 1, 0},  /* or as many as there are, */
        {1, 4, 1, 1536, 0, WEFT_MASK_CAUSAL, 2, 0},  /* but for few blocks of queries */
        {1, 12, 2, 8192, 0, WEFT_MASK_NONE, 1, 0},   /* 128 tiles, plenty */
        {1, 16, 1, 4096, 0, WEFT_MASK_NONE, 3, 0},   /* 32 tiles take 3 turns of 12 workers, in thirds 8 of 4 clusters */
        {3, 8, 2, 256, 0, WEFT_MASK_NONE, 1, 0},     /* as many tiles as workers */
        {1, 12, 1, 512, 0, WEFT_MASK_NONE, 3, 0},    /* four tiles for twelve workers */
        {6, 16, 1, 256, 0, WEFT_MASK_CAUSAL, 4, 0},  /* as many as workers, every other half as long */
        {1, 12, 1, 512, 1, WEFT_MASK_NONE, 1, 0},    /* given */
        {1, 12, 1, 512, 8, WEFT_MASK_NONE, 8, 0},
    };
    const weft_device device = gpu();
    weft_plan *plan;
    open_fake();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const weft_attention p =
            plain_backward(rows[i].batch, rows[i].heads, rows[i].kv_heads, rows[i].seq,
                           rows[i].kv_seq ? rows[i].kv_seq : rows[i].seq, 128, WEFT_BF16, rows[i].mask);
        weft_schedule s = WEFT_SCHEDULE_INIT;
        s.split = rows[i].given;
        assert_int_equal(plan_on(&plan, &p, &s, NULL, &device, NULL), WEFT_OK);
        const weft_cuda_plan *c = plan->placed;
        const int64_t split = plan->schedule.split;
        const size_t blocks = (size_t)(rows[i].batch * rows[i].heads * rows[i].seq / 64);
        if (split != rows[i].expected) {
            fail_msg("row %zu: split %d", i, (int)split);
        }
        assert_int_equal(plan->walk.order.grid.rows, rows[i].kv_heads);
        assert_int_equal(plan->walk.cluster_rows, split);
        int64_t heads = weft_smaller(split, rows[i].heads / rows[i].kv_heads); /* the largest divisor of both */
        while (split % heads != 0 || rows[i].heads / rows[i].kv_heads % heads != 0) {
            heads--;
        }
        assert_int_equal(plan->walk.reach.parts, split / heads);
        assert_int_equal(c->pass_count, 3);
        /* Nothing of it is for parts. */
        assert_int_equal(weft_plan_workspace(plan), 4 * blocks * 64 * 128);
        weft_plan_destroy(plan);
    }
    nothing_left();
}

/* Where lengths come with the data, no lines are cut but where that is asked for. */
static void unknown_lengths(void **state) {
    (void)state;
    const weft_device device = gpu();
    weft_attention p = plain_backward(1, 2, 1, 1024, 1024, 128, WEFT_BF16, WEFT_MASK_CAUSAL);
    weft_schedule s = WEFT_SCHEDULE_INIT;
    weft_plan *plan;
    open_fake();
    p.extras = WEFT_KV_USED;
    assert_int_equal(plan_on(&plan, &p, NULL, NULL, &device, NULL), WEFT_OK);
    assert_int_equal(plan->walk.reach.parts, 1);
    weft_plan_destroy(plan);
    s.split = 8;
    assert_int_equal(plan_on(&plan, &p, &s, NULL, &device, NULL), WEFT_OK);
    assert_int_equal(plan->walk.reach.parts, 4);
    weft_plan_destroy(plan);
    p.extras = WEFT_STARTS; /* of queries; those of keys are known */
    p.sequences = 2;
    p.lengths.kv_starts = (const int32_t[]){0, 500, 1024};
    assert_int_equal(plan_on(&plan, &p, NULL, NULL, &device, NULL), WEFT_OK);
    assert_int_equal(plan->walk.reach.parts, 1);
    weft_plan_destroy(plan);
    nothing_left();
}

/* A launch makes the timetable where the host does not know how long tiles are, of narrow tiles in the order and sweep that
 * go with it; there are no tickets then, also in a capture. Not where there are too many tiles. */
static void dealt(void **state) {
    (void)state;
    const struct {
        int64_t dim, heads, kv_seq, split;
        int32_t extras, order, sweep, dispatch;
        int expected;
    } rows[] = {
        {128, 2, 500, 0, WEFT_KV_USED, 0, 0, 0, 1},
        {64, 2, 500, 2, WEFT_Q_USED | WEFT_BIAS, 0, 0, 0, 1},
        {128, 2, 500, 0, WEFT_KV_PAD, WEFT_ORDER_LONGEST_FIRST, WEFT_SWEEP_SHIFT, WEFT_DISPATCH_DYNAMIC, 1},
        {128, 2, 500, 0, 0, 0, 0, 0, 0},
        {192, 2, 500, 0, WEFT_KV_USED, 0, 0, 0, 0},
        {128, 2, 500, 0, WEFT_KV_USED, WEFT_ORDER_HEAD_FIRST, 0, 0, 0},
        {128, 2, 500, 0, WEFT_KV_USED, 0, WEFT_SWEEP_CLIMB, 0, 0},
        {128, 2, 500, 0, WEFT_KV_USED, 0, 0, WEFT_DISPATCH_STATIC, 0},
        {128, 2, 500, 0, WEFT_KV_USED, 0, 0, WEFT_DISPATCH_GRID, 0},
        {128, 64, 512 * 128, 1, WEFT_KV_USED, 0, 0, 0, 1},
        {128, 64, 512 * 128 + 1, 1, WEFT_KV_USED, 0, 0, 0, 0},
    };
    const weft_device device = gpu();
    weft_message message = {""};
    weft_plan *plan;
    open_fake();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weft_attention p =
            plain_backward(1, rows[i].heads, rows[i].heads, 100, rows[i].kv_seq, rows[i].dim, WEFT_BF16, WEFT_MASK_NONE);
        weft_schedule s = WEFT_SCHEDULE_INIT;
        p.extras = rows[i].extras;
        s.split = rows[i].split;
        s.order = rows[i].order;
        s.sweep = rows[i].sweep;
        s.dispatch = rows[i].dispatch;
        if (plan_on(&plan, &p, &s, NULL, &device, &message) != WEFT_OK) {
            fail_msg("row %zu: %s", i, message.text);
        }
        const weft_cuda_plan *c = plan->placed;
        if ((strcmp(c->passes[0].choice.kernel, WEFT_HOPPER_BACKWARD_DEAL) == 0) != rows[i].expected) {
            fail_msg("row %zu: %s", i, c->passes[0].choice.kernel);
        }
        assert_int_equal(c->pass_count, 3 + rows[i].expected);
        assert_true(!rows[i].expected || (c->together && !c->tickets && !c->timetable));
        assert_int_equal(plan->schedule.order == WEFT_ORDER_LONGEST_FIRST && plan->schedule.sweep == WEFT_SWEEP_SHIFT,
                         rows[i].expected || rows[i].extras == 0);
        weft_plan_destroy(plan);
    }
    nothing_left();
}

/* The simulator goes through as many steps and adds, whatever the split; and eight tiles in four parts end earlier on
 * twelve SMs. */
static void simulated(void **state) {
    (void)state;
    const weft_device device = gpu();
    const weft_attention p = plain_backward(1, 2, 2, 512, 512, 128, WEFT_BF16, WEFT_MASK_CAUSAL);
    weft_simulation whole = WEFT_SIMULATION_INIT;
    weft_profile profile = WEFT_PROFILE_INIT;
    weft_simulate_options o = WEFT_SIMULATE_INIT;
    weft_message message = {""};
    open_fake();
    assert_int_equal(weft_profile_load(&profile, "hopper-backward", &message), WEFT_OK);
    o.profile = &profile;
    for (int64_t split = 1; split <= 8; split *= 2) {
        weft_schedule s = WEFT_SCHEDULE_INIT;
        weft_simulation now = WEFT_SIMULATION_INIT;
        weft_plan *plan;
        s.split = split;
        assert_int_equal(plan_on(&plan, &p, &s, NULL, &device, &message), WEFT_OK);
        assert_int_equal(weft_simulate_steps(plan), 2 * (8 + 6 + 4 + 2));
        if (weft_simulate(plan, &o, split == 1 ? &whole : &now, NULL, &message) != WEFT_OK) {
            fail_msg("%s", message.text);
        }
        assert_true(split == 1 || now.total.added == whole.total.added);
        assert_true(split != 4 || now.seconds < whole.seconds);
        weft_plan_destroy(plan);
    }
    nothing_left();
}

/* A form takes what the ones before it have not, and no other problem; tiles shift, whoever makes their timetable. */
static void forms(void **state) {
    (void)state;
    static const int32_t starts[] = {0, 40, 100};
    const struct {
        int32_t mask, chunk, prefix, packed, extras, form;
        double softcap, dropout;
    } rows[] = {
        {WEFT_MASK_NONE, 0, 0, 0, 0, 0, 0, 0},
        {WEFT_MASK_CAUSAL, 0, 0, 0, 0, 0, 0, 0},
        {WEFT_MASK_WINDOW, 0, 0, 0, 0, 1, 0, 0},
        {WEFT_MASK_CAUSAL, 64, 0, 0, 0, 1, 0, 0},
        {WEFT_MASK_CAUSAL, 0, 9, 0, 0, 1, 0, 0},
        {WEFT_MASK_CAUSAL, 0, 0, 1, 0, 1, 0, 0},
        {WEFT_MASK_NONE, 0, 0, 0, WEFT_KV_USED, 1, 0, 0},
        {WEFT_MASK_CAUSAL, 0, 0, 0, WEFT_KV_PAD, 1, 0, 0},
        {WEFT_MASK_CAUSAL, 0, 0, 0, WEFT_SINKS, 1, 0, 0},
        {WEFT_MASK_CAUSAL, 0, 0, 0, WEFT_ALIBI, 1, 0, 0},
        {WEFT_MASK_NONE, 0, 0, 0, 0, 1, 30, 0},
        {WEFT_MASK_NONE, 0, 0, 0, WEFT_BIAS, 2, 0, 0},
        {WEFT_MASK_CAUSAL, 0, 0, 1, 0, 2, 30, 0.5},
    };
    static const char *const forms_of_kernels[] = {"attention_backward_bf16_d64__hopper_ragged_main",
                                                   "attention_backward_bf16_d64__hopper_general_main",
                                                   "attention_backward_bf16_d64__hopper_full_main"};
    const weft_device device = gpu();
    weft_plan *plan;
    open_fake();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weft_attention p = plain_backward(1, 2, 1, 100, 300, 64, WEFT_BF16, (weft_mask)rows[i].mask);
        p.left = rows[i].mask == WEFT_MASK_WINDOW ? 20 : 0;
        p.chunk = rows[i].chunk;
        p.prefix = rows[i].prefix;
        p.sequences = rows[i].packed ? 2 : 0;
        p.lengths.q_starts = rows[i].packed ? starts : NULL;
        p.extras = rows[i].extras;
        p.softcap = rows[i].softcap;
        p.dropout = rows[i].dropout;
        assert_int_equal(plan_on(&plan, &p, NULL, NULL, &device, NULL), WEFT_OK);
        assert_string_equal(weft_plan_kernel(plan), forms_of_kernels[rows[i].form]);
        assert_int_equal(plan->schedule.sweep, WEFT_SWEEP_SHIFT);
        assert_int_equal(plan->schedule.dispatch, WEFT_DISPATCH_DYNAMIC);
        weft_plan_destroy(plan);
    }
    nothing_left();
}

static void is_refused(const weft_attention *p, const weft_schedule *s, const char *expected) {
    weft_device device = gpu();
    weft_message message = {""};
    weft_plan *plan;
    device.kernel = "hopper_backward";
    assert_int_equal(plan_on(&plan, p, s, NULL, &device, &message), WEFT_UNSUPPORTED);
    if (!strstr(message.text, expected)) {
        fail_msg("%s, not: %s", message.text, expected);
    }
}

/* Blocks of a mask that tiles cut are refused; a side of them may be as it likes where all is of one block. Lists
 * are for each head where masks are. */
static void blocks(void **state) {
    (void)state;
    const struct {
        int64_t seq, dim, rows, columns, head_stride;
        int lists; /* words in the workspace; 0: they are in dQ; below 0: it is refused */
    } list[] = {
        {250, 128, 64, 128, 0, 0},
        {250, 128, 192, 384, 4, 0},
        {250, 128, 1008, 1024, 0, 0},
        {100, 128, 64, 128, 0, 2 * 3 * 2 * 4}, /* two pairs of entries, and one whole block */
        {250, 128, 64, 64, 0, -1},
        {250, 128, 96, 128, 0, -1},
        {250, 256, 64, 64, 0, 2 * (5 * 3 * 4 + 2 * (1 + 5) * 3)},
        {250, 256, 64, 64, 4, 2 * 4 * (5 * 3 * 4 + 2 * (1 + 5) * 3)},
        {250, 256, 64, 96, 0, -1},
    };
    const weft_device device = gpu();
    weft_plan *plan;
    char cut[64];
    open_fake();
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        weft_attention p = plain_backward(2, 4, 2, list[i].seq, 300, list[i].dim, WEFT_BF16, WEFT_MASK_NONE);
        p.softcap = 30;
        assert_int_equal(plan_on(&plan, &p, NULL, NULL, &device, NULL), WEFT_OK);
        const size_t without = weft_plan_workspace(plan);
        weft_plan_destroy(plan);
        p.extras = WEFT_BLOCKS;
        p.block_rows = list[i].rows;
        p.block_columns = list[i].columns;
        p.block_head_stride = list[i].head_stride;
        if (list[i].lists < 0) {
            snprintf(cut, sizeof cut, "cut a mask's blocks of %d queries x %d keys", (int)p.block_rows,
                     (int)p.block_columns);
            is_refused(&p, NULL, cut);
            continue;
        }
        assert_int_equal(plan_on(&plan, &p, NULL, NULL, &device, NULL), WEFT_OK);
        assert_non_null(strstr(weft_plan_kernel(plan), "__hopper_general_main"));
        const int is_wide = list[i].dim > 128;
        const size_t timetable = is_wide ? 0 : 2 * 2 * 3 * (4 + 2) + 2 * 3 * 2; /* words */
        assert_int_equal(weft_plan_workspace(plan), without + 4 * ((size_t)list[i].lists + timetable));
        assert_int_equal(plan->schedule.sweep, is_wide ? WEFT_SWEEP_FORWARD : WEFT_SWEEP_SHIFT);
        const weft_cuda_plan *c = plan->placed;
        assert_int_equal(c->pass_count, is_wide ? 4 : 5);
        assert_string_equal(c->passes[0].choice.kernel, WEFT_HOPPER_BACKWARD_LIST);
        weft_plan_destroy(plan);
    }
    nothing_left();
}

/* The smallest variant that has room for both head dims; the wide ones have tiles of 64 keys, and two counters a block. */
static void depths(void **state) {
    (void)state;
    const struct {
        int64_t dim, dim_v;
        const char *variant;
    } rows[] = {
        {8, 8, "d64"},      {64, 64, "d64"},         {64, 72, "d128"},       {128, 64, "d128"},  {136, 136, "d192"},
        {192, 192, "d192"}, {192, 128, "d192_v128"}, {136, 64, "d192_v128"}, {128, 136, "d192"}, {200, 200, "d256"},
        {256, 256, "d256"}, {256, 128, "d256"},      {64, 256, "d256"},
    };
    const weft_device device = gpu();
    weft_plan *plan;
    char name[64];
    open_fake();
    for (size_t i = 0; i < 3 * (sizeof rows / sizeof *rows); i++) {
        static const char *const forms_of_kernels[] = {"_ragged", "_general", "_full"};
        const int64_t dim = rows[i / 3].dim, dim_v = rows[i / 3].dim_v;
        weft_attention p = plain_backward(1, 2, 1, 100, 300, dim, WEFT_FP16, WEFT_MASK_CAUSAL);
        p.head_dim_v = dim_v;
        p.softcap = i % 3 == 1 ? 30 : 0;
        p.dropout = i % 3 == 2 ? 0.1 : 0;
        assert_int_equal(plan_on(&plan, &p, NULL, NULL, &device, NULL), WEFT_OK);
        const int wide = dim > 128 || dim_v > 128;
        snprintf(name, sizeof name, "attention_backward_fp16_%s__hopper%s_main", rows[i / 3].variant,
                 wide && i % 3 == 0 ? "" : forms_of_kernels[i % 3]);
        assert_string_equal(weft_plan_kernel(plan), name);
        assert_int_equal(plan->schedule.tile_n, wide ? 64 : 128);
        assert_int_equal(plan->walk.cols, wide ? 5 : 3);
        /* Narrow, sums as wide as a head is, not as the variant; and a timetable, unless the form is plain. Wide, notes of
         * all blocks: two numbers for each query. */
        const size_t bytes = wide ? 2 * 2 * 2 * 64 * sizeof(float) : 2 * 100 * (size_t)dim * sizeof(float);
        if (wide || i % 3 == 0) {
            assert_int_equal(weft_plan_workspace(plan), bytes);
        }
        weft_plan_destroy(plan);
    }
    nothing_left();
}

/* There is nothing but dQ in fp32, however long sequences are; unless rows of dQ are too short for the turns of many tiles,
 * or a last block has too few rows for its notes. */
static void workspace_is_dq(void **state) {
    static const struct {
        int64_t seq, kv_seq, dim;
        weft_mask mask;
        int more;
    } rows[] = {
        {1024, 1024, 128, WEFT_MASK_NONE, 0}, {65536, 65536, 128, WEFT_MASK_CAUSAL, 0},
        {512, 512, 64, WEFT_MASK_NONE, 0},    {512, 77, 8, WEFT_MASK_NONE, 0},
        {128, 65536, 8, WEFT_MASK_NONE, 1},   {576, 1 << 19, 104, WEFT_MASK_CAUSAL, 0},
        {1000, 1000, 128, WEFT_MASK_NONE, 0}, {577, 5000, 128, WEFT_MASK_CAUSAL, 1},
        {67, 5000, 128, WEFT_MASK_CAUSAL, 0}, {3, 16, 128, WEFT_MASK_NONE, 0},
        {1033, 999, 64, WEFT_MASK_NONE, 0},   {1032, 999, 64, WEFT_MASK_NONE, 1},
    };
    const weft_device device = gpu();
    weft_plan *plan;
    open_fake();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const weft_attention p = plain_backward(2, 4, 2, rows[i].seq, rows[i].kv_seq, rows[i].dim, WEFT_BF16, rows[i].mask);
        const size_t dq = 4 * (size_t)(2 * 4 * rows[i].seq * rows[i].dim);
        assert_int_equal(plan_on(&plan, &p, NULL, NULL, &device, NULL), WEFT_OK);
        const int is_ragged = rows[i].seq % (rows[i].dim > 64 ? 64 : 128) != 0; /* the only one that tests for it */
        assert_int_equal(strstr(weft_plan_kernel(plan), "_ragged") != NULL, is_ragged);
        assert_int_equal(weft_plan_workspace(plan) > dq, rows[i].more);
        assert_true(weft_plan_workspace(plan) >= dq);
        weft_plan_destroy(plan);
    }
    weft_attention p = plain_backward(2, 4, 2, 65536, 65536, 128, WEFT_BF16, WEFT_MASK_NONE);
    p.extras = WEFT_BLOCKS; /* whose lists are in dQ, too: what is left is a timetable */
    p.block_rows = p.block_columns = 128;
    p.block_head_stride = 512;
    p.block_batch_stride = 4 * 512;
    assert_int_equal(plan_on(&plan, &p, NULL, NULL, &device, NULL), WEFT_OK);
    assert_in_range(weft_plan_workspace(plan) - 4 * (size_t)(2 * 4 * 65536 * 128), 0, 32 * 2 * 2 * 512);
    weft_plan_destroy(plan);
    nothing_left();
    (void)state;
}

/* Every order of heads has turns, with any number of workers. */
static void orders(void **state) {
    (void)state;
    uint64_t random = random_seed(244);
    static drawn_lengths none;
    open_fake();
    for (int32_t order = WEFT_ORDER_BLOCK_FIRST; order <= WEFT_ORDER_LONGEST_FIRST; order++) {
        for (int i = 0; i < 2; i++) {
            weft_attention p = plain_backward(2, 6, 3, 70, 260, 8, WEFT_BF16, i ? WEFT_MASK_CAUSAL : WEFT_MASK_NONE);
            weft_schedule s = WEFT_SCHEDULE_INIT;
            s.order = order;
            s.workers = 1 + order % 3;
            gradients x = gradients_new(&p, &none, 0, 1, &random);
            gradients_run(&x, &s, "hopper_backward", 0);
            gradients_free(&x);
            nothing_left();
        }
    }
}

/* Where an order has domains, workers take their numbers by the side of the L2 that they are on: every SM has a CTA, of
 * which some may have nothing to do. Not where tiles take turns as they are handed out, nor in a captured launch. */
static void sides(void **state) {
    (void)state;
    uint64_t random = random_seed(246);
    static drawn_lengths none;
    weft_device device = gpu();
    device.kernel = "hopper_backward";
    open_fake();
    for (int round = 0; round < 16; round++) {
        const int dynamic = round % 2, heads = round / 2 % 2, known = round / 4 % 2, few = round / 8 % 2;
        weft_attention p = plain_backward(1, 6, 6, 70, 500, 8, WEFT_BF16, WEFT_MASK_CAUSAL);
        weft_schedule s = WEFT_SCHEDULE_INIT;
        weft_plan *plan;
        p.extras = known ? 0 : WEFT_KV_USED;
        s.order = heads ? WEFT_ORDER_HEAD_FIRST_SWIZZLED : WEFT_ORDER_BLOCK_FIRST_SWIZZLED;
        s.domains = 2;
        s.dispatch = dynamic ? WEFT_DISPATCH_DYNAMIC : WEFT_DISPATCH_STATIC;
        s.workers = few ? 4 : 0;
        assert_int_equal(plan_on(&plan, &p, &s, NULL, &device, NULL), WEFT_OK);
        const weft_cuda_plan *c = plan->placed;
        const int by_side = !dynamic || known;
        void *room = malloc(weft_plan_workspace(plan));
        const weft_attention_gradients data = {.q = &p, .k = &p, .v = &p, .o = &p, .grad_o = &p, .workspace = room};
        uint64_t counter = 0;
        assert_non_null(room);
        const weft_counters own = {.own = &counter}, captured = {.is_captured = 1};
        weft_hopper_backward_params to;
        assert_int_equal(c->side_of_sm != 0, by_side);
        assert_int_equal(c->main->grid, few ? 4 : 12);
        assert_true(!by_side || (c->tickets && c->side_grid == 12));
        assert_int_equal(c->family->fill(plan, c->main, &data, &c->main->walk, &own, &to, NULL), WEFT_OK);
        assert_true(by_side ? to.side_of_sm[0] == 0 && to.side_of_sm[2] == 1 : !to.side_of_sm);
        assert_int_equal(c->family->fill(plan, c->main, &data, &c->main->walk, &captured, &to, NULL), WEFT_OK);
        assert_null(to.side_of_sm);
        free(room);
        weft_plan_destroy(plan);
        if (known) {
            const int together = counts()->cooperative;
            gradients x = gradients_new(&p, &none, 0, 1, &random);
            gradients_run(&x, &s, "hopper_backward", 0);
            gradients_free(&x);
            assert_true(counts()->cooperative > together);
        }
        nothing_left();
    }
}

/* What it has not is refused by name, and another kernel takes it where none is named. */
static void refusals(void **state) {
    (void)state;
    const weft_device device = gpu();
    weft_schedule s = WEFT_SCHEDULE_INIT;
    weft_attention p = problem();
    weft_plan *plan;
    open_fake();
    p.softcap = 1e4;
    is_refused(&p, NULL, "it takes softcaps from 1e-6 to 1000, not 10000");
    p = problem();
    p.extras = WEFT_TREE | WEFT_BIAS;
    p.seq = 60;
    is_refused(&p, NULL, "it has no bias and no dropout beside block masks or tree masks");
    assert_int_equal(plan_on(&plan, &p, NULL, NULL, &device, NULL), WEFT_OK);
    assert_non_null(strstr(weft_plan_kernel(plan), "__study"));
    weft_plan_destroy(plan);
    p = problem();
    p.head_dim = p.head_dim_v = 264;
    is_refused(&p, NULL, "it has no head dims above 256");
    p = problem();
    p.head_dim = p.head_dim_v = 196;
    is_refused(&p, NULL, "it has no head dims that are no multiple of 8");
    p = problem();
    p.head_dim_v = 256;
    p.head_dim = 128;
    s.tile_n = 128;
    is_refused(&p, &s, "it has no tiles of 0x128 for head_dim 128 and head_dim_v 256");
    s.tile_n = 0;
    p = problem();
    p.scale = -1;
    is_refused(&p, NULL, "it takes scales from 1e-30 to 1e30, not -1");
    p = problem();
    p.kv_seq = INT64_C(1) << 23;
    is_refused(&p, NULL, "it takes up to 65535 blocks of 128 keys");
    p = problem();
    s.tile_m = s.tile_n = 64;
    is_refused(&p, &s, "it has no tiles of 64x64");
    nothing_left();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters),      cmocka_unit_test(launches),        cmocka_unit_test(splits),
        cmocka_unit_test(forms),           cmocka_unit_test(blocks),          cmocka_unit_test(depths),
        cmocka_unit_test(workspace_is_dq), cmocka_unit_test(orders),          cmocka_unit_test(sides),
        cmocka_unit_test(refusals),        cmocka_unit_test(unknown_lengths), cmocka_unit_test(dealt),
        cmocka_unit_test(simulated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
