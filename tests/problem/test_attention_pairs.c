/* SPDX-License-Identifier: Apache-2.0 */
/* Block masks and tree masks: what they show, the steps that follow, what is refused, and what the simulator loads. */
#include "../cmocka_all.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <weft/sim.h>

#include "../features.h"
#include "../plans.h"
#include "../ref/tensors.h"
#include "problem/attention.h"

static weft_attention draw(uint64_t *random, int round, drawn_lengths *lengths) {
    static const int32_t kinds[] = {WEFT_HAS_BLOCKS, WEFT_HAS_TREE, WEFT_HAS_BLOCKS | WEFT_HAS_TREE};
    weft_attention p = WEFT_ATTENTION_INIT;
    p.batch = random_between(random, 1, 2);
    p.kv_heads = random_between(random, 1, 2);
    p.heads = p.kv_heads * random_between(random, 1, 2);
    p.seq = random_between(random, 1, 90);
    p.kv_seq = random_between(random, 1, 200);
    p.head_dim = 4;
    draw_mask(random, &p);
    draw_features(random, &p, kinds[round % 3] | (round % 4 ? 0 : WEFT_HAS_LENGTHS), 16, lengths);
    return p;
}

/* The reference with the masks is the reference with a dense bias that hides what a plain reading of the arrays hides. */
static void reference_is_dense(void **state) {
    (void)state;
    uint64_t random = random_seed(250);
    for (int round = 0; random_round(&random, &round, 24); round++) {
        static drawn_lengths lengths;
        weft_attention p = draw(&random, round, &lengths);
        tensors t = tensors_new(&random, &p);
        t.p.lengths = lengths.all;
        t.p.pairs = lengths.pairs;
        weft_attention dense = t.p;
        weft_attention_data with_bias = t.data;
        const weft_pairs none = {0, 0, 0, 0, 0};
        unsigned char *bias = malloc((size_t)(p.batch * p.heads * p.seq * p.kv_seq));
        double *weights = malloc(2 * (size_t)p.kv_seq * sizeof *weights), out[2][4];
        assert_true(bias && weights);
        dense.extras |= WEFT_BIAS;
        dense.bias_type = WEFT_BIAS_BOOL;
        dense.bias_key_stride = 1;
        dense.bias_strides = (weft_strides){p.heads * p.seq * p.kv_seq, p.kv_seq, p.seq * p.kv_seq};
        dense.pairs = none;
        dense.block_rows = 0;
        with_bias.bias = bias;
        for (int64_t line = 0; line < p.batch * p.heads; line++) {
            const int64_t batch = line / p.heads, head = line % p.heads, rows = weft_attention_rows(&t.p);
            for (int64_t i = 0; i < rows * p.kv_seq; i++) {
                bias[line * p.seq * p.kv_seq + i] =
                    (unsigned char)pairs_show(&p, &lengths.pairs, &lengths.all, batch, head, i / p.kv_seq, i % p.kv_seq);
            }
            for (int64_t row = 0; row < rows && !t.p.sequences; row++) {
                const weft_ref_row a = weft_ref_attention_row(&t.p, &t.data, batch, head, row, weights, out[0]);
                const weft_ref_row b =
                    weft_ref_attention_row(&dense, &with_bias, batch, head, row, weights + p.kv_seq, out[1]);
                assert_true(a.lse == b.lse && a.max == b.max);
                assert_memory_equal(out[0], out[1], sizeof out[0]);
            }
        }
        free(weights);
        free(bias);
        tensors_free(&t);
    }
}

/* Whether a pair of a head is seen, by a plain reading of everything. */
static int sees(const weft_attention *p, const drawn_lengths *l, weft_tile tile, int64_t row, int64_t key) {
    return key < p->kv_seq && batch_shows(p, &l->all, tile.batch, row, key) &&
           pairs_show(p, &l->pairs, &l->all, tile.batch, tile.head, row, key);
}

/* Whether a list names a step's block for a tile. */
static int is_listed(const weft_attention *p, const weft_pairs *pairs, const weft_visit *v, int64_t key) {
    if (!pairs->block_starts) {
        return 1;
    }
    const int64_t list =
        v->tile.batch * p->block_batch_stride + v->tile.head * p->block_head_stride + v->cut.rows.begin / p->block_rows;
    int listed = 0;
    for (int32_t i = pairs->block_starts[list]; i < pairs->block_starts[list + 1]; i++) {
        listed |= pairs->block_list[i] == key / p->block_columns;
    }
    return listed;
}

/* Of a visit: every step that shows a pair is visited once, one without a mask shows all its pairs, and no other step is
 * visited that no list names. */
static void check_visit(const weft_attention *p, const drawn_lengths *lengths, const weft_reach *reach,
                        const weft_visit *v) {
    const int64_t columns = reach->tile_columns;
    char visited[256] = {0};
    for (int64_t i = 0, number = v->first; i < v->steps; i++, number += v->direction) {
        const int64_t step = weft_visit_step(reach, v, number), key = step * columns;
        const int full = step >= v->full_begin && step < v->full_end && weft_visit_bits(reach, v, number) < 0;
        assert_true(step >= 0 && key < p->kv_seq && !visited[step]);
        assert_true(is_listed(p, &lengths->pairs, v, key));
        visited[step] = 1;
        for (int64_t j = 0; full && j < (v->cut.rows.end - v->cut.rows.begin) * columns; j++) {
            assert_true(sees(p, lengths, v->tile, v->cut.rows.begin + j / columns, key + j % columns));
        }
    }
    for (int64_t j = 0; j < (v->cut.rows.end - v->cut.rows.begin) * p->kv_seq; j++) {
        const int64_t row = v->cut.rows.begin + j / p->kv_seq, key = j % p->kv_seq;
        assert_true(visited[key / columns] || !sees(p, lengths, v->tile, row, key));
    }
}

static void steps_are_listed(void **state) {
    (void)state;
    uint64_t random = random_seed(251);
    for (int round = 0; random_round(&random, &round, 40); round++) {
        static drawn_lengths lengths;
        weft_attention p = draw(&random, round, &lengths);
        weft_schedule s = WEFT_SCHEDULE_INIT;
        s.tile_m = weft_tile_dividing(p.block_rows ? p.block_rows : 64, random_between(&random, 1, 48));
        s.tile_n = weft_tile_dividing(p.block_rows ? p.block_columns : 64, random_between(&random, 1, 96));
        s.tile_m = s.tile_m > p.seq ? p.seq : s.tile_m;
        s.tile_n = s.tile_n > p.kv_seq ? p.kv_seq : s.tile_n;
        s.sweep = 1 + round % WEFT_COMMON_SWEEPS;
        s.order = WEFT_ORDER_BLOCK_FIRST;
        p.pairs = lengths.pairs;
        p.lengths = lengths.all;
        p.extras = 0;
        weft_plan *plan;
        weft_message message = {""};
        if (plan_for(&plan, &p, &s, NULL, &message)) {
            fail_msg("%s", message.text);
        }
        const weft_walk *walk = weft_plan_walk(plan, sizeof *walk);
        for (int64_t i = 0; i < walk->order.count * walk->visits; i++) {
            weft_visit v;
            if (weft_walk_visit(walk, i / walk->visits, i % 3, (int32_t)(i % walk->visits), &v)) {
                check_visit(&p, &lengths, &walk->reach, &v);
            }
        }
        weft_plan_destroy(plan);
    }
}

/* Arrays that are wrong, as a GPU may find them, name steps and words that are there. */
static void wrong_arrays_are_clamped(void **state) {
    (void)state;
    uint64_t random = random_seed(252);
    for (int round = 0; random_round(&random, &round, 200); round++) {
        int32_t starts[9], list[40], bits_at[40];
        uint32_t bits[2 * 16] = {0};
        for (int i = 0; i < 40; i++) {
            starts[i % 9] = (int32_t)random_between(&random, -50, 90);
            list[i] =
                (int32_t)(random_between(&random, 0, 1) ? random_between(&random, -3, 9) : (int64_t)random_bits(&random));
            bits_at[i] = (int32_t)(random_between(&random, 0, 1) ? random_between(&random, -2, 4) : INT32_MAX);
        }
        weft_reach reach = weft_reach_make(120, 200, 16, 16, weft_slice_full(120, 200));
        const weft_sequences all = {.count = 1, .queries = 120, .keys = 200};
        const weft_band open = {WEFT_BAND_OPEN, WEFT_BAND_OPEN, 0, 0, 0, 1};
        const weft_blocks blocks = {
            .pairs = {starts, list, bits_at, bits, NULL}, .rows = 16, .columns = 32, .entries = 40, .bitmaps = 2};
        weft_order order;
        weft_walk walk;
        weft_reach_set_band(&reach, open, all, 0);
        weft_reach_set_blocks(&reach, blocks);
        const weft_grid grid = {1, 1, weft_reach_tiles(&reach)};
        assert_true(weft_order_init(&order, WEFT_ORDER_HEAD_FIRST, grid, 0, WEFT_AXIS_N, 1));
        assert_true(weft_walk_init(&walk, &order, grid, WEFT_SWEEP_SAWTOOTH, WEFT_DISPATCH_STATIC, 1, 1, 3, reach));
        for (int64_t i = 0; i < order.count; i++) {
            weft_visit v = {.steps = 0};
            assert_true(weft_walk_visit(&walk, i, i, 0, &v));
            for (int64_t j = 0, number = v.first; j < v.steps; j++, number += v.direction) {
                const int64_t step = weft_visit_step(&reach, &v, number);
                assert_true(step >= 0 && step <= 13); /* the block of the last keys is not whole */
                assert_int_equal(weft_blocks_word(&reach.blocks, weft_visit_bits(&reach, &v, number), v.cut.rows.end - 1,
                                                  step * 16 / 32 * 32) |
                                     (weft_visit_bits(&reach, &v, number) < 0 ? 0 : 0xffffffffu),
                                 0xffffffffu);
            }
        }
    }
}

static void assert_refused(const weft_attention *p, const char *expected) {
    weft_message message = {""};
    assert_int_equal(weft_problem_check(p, &message), WEFT_INVALID);
    assert_string_equal(message.text, expected);
}

static void wrong_masks_are_named(void **state) {
    (void)state;
    static const int32_t starts[] = {0, 2, 3}, descends[] = {0, 2, 1}, list[] = {0, 2, 1}, unsorted[] = {2, 0, 1},
                         beyond[] = {0, 4, 1}, bits_at[] = {-1, 0, -1}, no_bits[] = {-1, 1, -1};
    static const uint32_t bits[16];
    static const uint64_t tree[65];
    weft_attention p = WEFT_ATTENTION_INIT;
    p.seq = 20;
    p.kv_seq = 100;
    p.head_dim = 8;
    p.block_rows = 16;
    assert_refused(&p, "a block mask needs block_starts");
    p.pairs = (weft_pairs){starts, list, bits_at, bits, NULL};
    p.block_columns = 48;
    assert_refused(&p, "block_rows 16 is no multiple of 16, or block_columns 48 none of 32");
    p.block_columns = 32;
    p.block_entries = 9;
    assert_refused(&p, "block_entries 9 is not between 0 and 8");
    p.block_entries = 2;
    p.block_bitmaps = 1;
    assert_refused(&p, "block_starts of list 1: 2 to 3, of 2 entries");
    p.block_entries = 3;
    assert_int_equal(weft_problem_check(&p, NULL), WEFT_OK);
    p.pairs.block_starts = descends;
    assert_refused(&p, "block_starts of list 1: 2 to 1, of 3 entries");
    p.pairs.block_starts = starts;
    p.pairs.block_list = unsorted;
    assert_refused(&p, "block_list of list 0 has 0 where 3 to 3 would be");
    p.pairs.block_list = beyond;
    assert_refused(&p, "block_list of list 0 has 4 where 1 to 3 would be");
    p.pairs.block_list = list;
    p.pairs.block_bits_at = no_bits;
    assert_refused(&p, "block_bits_at of list 0 has 1, and there are 1 bitmaps");
    p.pairs.block_bits_at = bits_at;
    p.pairs.block_bits = NULL;
    assert_refused(&p, "block_list, block_bits_at or block_bits is null");
    p.pairs.block_bits = bits;
    p.block_head_stride = INT64_MAX;
    p.heads = p.kv_heads = 3;
    assert_refused(&p, "block_batch_stride 0 and block_head_stride 9223372036854775807 are negative or too large");
    p.block_head_stride = 0;
    p.block_bitmaps = INT64_MAX;
    assert_refused(&p, "block_bitmaps 9223372036854775807 is negative or too large");
    p.block_bitmaps = 1;
    p.extras = WEFT_BLOCKS;
    assert_refused(&p, "block_starts is given, and extras says that the data has it");
    p.extras = 0;
    p.sequences = 1;
    p.lengths.q_starts = (const int32_t[]){0, 20};
    assert_refused(&p, "a packed batch takes no block mask");
    const weft_attention fresh = WEFT_ATTENTION_INIT;
    p = fresh;
    p.seq = p.kv_seq = 65;
    p.head_dim = 8;
    p.pairs.tree = tree;
    assert_refused(&p, "a tree mask is for at most 64 queries, and there are 65");
    p.seq = 64;
    assert_int_equal(weft_problem_check(&p, NULL), WEFT_OK);
}

/* What a run brings is checked on the CPU, and tiles that cross blocks are refused when the plan is made. */
static void wrong_runs_are_named(void **state) {
    (void)state;
    static const int32_t starts[] = {0, 1, 2}, list[] = {0, 7}, bits_at[] = {-1, -1};
    float q[32 * 8] = {0}, k[64 * 8] = {0}, o[32 * 8];
    weft_attention p = WEFT_ATTENTION_INIT;
    p.seq = 32;
    p.kv_seq = 64;
    p.head_dim = 8;
    p.block_rows = 16;
    p.block_columns = 32;
    p.block_entries = 2;
    p.extras = WEFT_BLOCKS;
    weft_attention_data data = WEFT_ATTENTION_DATA_INIT;
    data.q = q;
    data.k = data.v = k;
    data.o = o;
    weft_message message = {""};
    assert_int_equal(weft_attention_forward(&p, &data, &message), WEFT_INVALID);
    assert_string_equal(message.text, "pairs.block_starts is null");
    data.pairs = (weft_pairs){starts, list, bits_at, NULL, NULL};
    assert_int_equal(weft_attention_forward(&p, &data, &message), WEFT_INVALID);
    assert_string_equal(message.text, "block_list of list 1 has 7 where 0 to 1 would be");
    weft_schedule s = WEFT_SCHEDULE_INIT;
    weft_plan *plan;
    s.tile_m = 12;
    assert_int_equal(plan_for(&plan, &p, &s, NULL, &message), WEFT_INVALID);
    assert_string_equal(message.text, "tile_m 12 does not divide the 16 of a block of the mask");
    s.tile_m = 0;
    s.cluster_n = 2;
    assert_int_equal(plan_for(&plan, &p, &s, NULL, &message), WEFT_UNSUPPORTED);
    assert_string_equal(message.text, "clusters do not go with a block mask");
}

/* A block mask that shows what a causal mask shows makes the same steps, loads and operations; an empty one none. */
static void simulator_loads_what_is_listed(void **state) {
    (void)state;
    enum { BLOCKS = 8, SIDE = 128 };
    int32_t starts[BLOCKS + 1] = {0}, list[BLOCKS * BLOCKS], bits_at[BLOCKS * BLOCKS];
    static uint32_t bits[SIDE * SIDE / 32];
    for (int i = 0; i < BLOCKS; i++) {
        starts[i + 1] = starts[i] + i + 1;
        for (int j = 0; j <= i; j++) {
            list[starts[i] + j] = j;
            bits_at[starts[i] + j] = j == i ? 0 : -1;
        }
    }
    for (int i = 0; i < SIDE * SIDE; i++) {
        bits[i / 32] |= (uint32_t)(i % SIDE <= i / SIDE) << i % 32;
    }
    weft_attention causal = WEFT_ATTENTION_INIT;
    causal.batch = causal.heads = causal.kv_heads = 2;
    causal.seq = causal.kv_seq = BLOCKS * SIDE;
    causal.head_dim = 64;
    causal.dtype = WEFT_BF16;
    weft_attention blocks = causal;
    causal.mask = WEFT_MASK_CAUSAL;
    blocks.block_rows = blocks.block_columns = SIDE;
    blocks.block_entries = starts[BLOCKS];
    blocks.block_bitmaps = 1;
    blocks.pairs = (weft_pairs){starts, list, bits_at, bits, NULL};
    weft_machine machine = WEFT_MACHINE_INIT;
    weft_schedule s = WEFT_SCHEDULE_INIT;
    weft_simulation of[2] = {WEFT_SIMULATION_INIT, WEFT_SIMULATION_INIT};
    assert_int_equal(weft_machine_load(&machine, "h200", NULL), WEFT_OK);
    s.tile_m = s.tile_n = SIDE; /* a step that no bit shows is visited if its block is listed */
    s.order = WEFT_ORDER_HEAD_FIRST;
    s.sweep = WEFT_SWEEP_SAWTOOTH;
    s.dispatch = WEFT_DISPATCH_STATIC;
    for (int i = 0; i < 2; i++) {
        weft_plan *plan;
        weft_message message = {""};
        if (plan_for(&plan, i ? &blocks : &causal, &s, &machine, &message) ||
            weft_simulate(plan, NULL, &of[i], NULL, &message)) {
            fail_msg("%s", message.text);
        }
        weft_plan_destroy(plan);
    }
    assert_int_equal(of[0].total.sectors, of[1].total.sectors);
    assert_int_equal(of[0].compulsory_misses, of[1].compulsory_misses);
    assert_int_equal(of[0].piece_visits, of[1].piece_visits);
    const double pairs = 1024.0 * 1025 / 2;
    assert_true(weft_problem_flops(&blocks) == 2 * 2 * pairs * 4 * 64);
    for (int i = 0; i < BLOCKS; i++) { /* each block of queries sees one of keys, none the same */
        starts[i + 1] = i + 1;
        list[i] = BLOCKS - 1 - i;
    }
    weft_plan *plan;
    assert_int_equal(plan_for(&plan, &blocks, &s, &machine, NULL), WEFT_OK);
    assert_int_equal(weft_simulate(plan, NULL, &of[1], NULL, NULL), WEFT_OK);
    weft_plan_destroy(plan);
    assert_int_equal(of[1].compulsory_misses, of[0].compulsory_misses); /* all keys, once */
    assert_true(of[1].total.misses >= of[1].compulsory_misses);
    memset(starts, 0, sizeof starts);
    assert_true(weft_problem_flops(&blocks) == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reference_is_dense),       cmocka_unit_test(steps_are_listed),
        cmocka_unit_test(wrong_arrays_are_clamped), cmocka_unit_test(wrong_masks_are_named),
        cmocka_unit_test(wrong_runs_are_named),     cmocka_unit_test(simulator_loads_what_is_listed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
