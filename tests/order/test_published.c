/* SPDX-License-Identifier: Apache-2.0 */
/* The examples that publications work out by hand. */
#include "../cmocka_all.h"

#include <weft/order.h>

static weft_order make(weft_order_kind kind, weft_grid grid, int64_t group, int64_t domains) {
    weft_order order;
    assert_true(weft_order_init(&order, kind, grid, group, WEFT_AXIS_N, domains));
    return order;
}

static void assert_tile(const weft_order *order, int64_t position, int64_t head, int64_t block) {
    const weft_tile t = weft_order_tile(order, position);
    assert_int_equal(t.head, head);
    assert_int_equal(t.block, block);
}

/* NUMA-aware attention, figures 7 to 10: eight query heads, 128 row blocks, four dies; position p runs on die p mod 4. */
enum { DIES = 4 };
static const weft_grid EIGHT_HEADS = {1, 8, 128};

static void figure_7_naive_block_first(void **state) {
    (void)state;
    const weft_order order = make(WEFT_ORDER_BLOCK_FIRST, EIGHT_HEADS, 0, DIES);
    for (int64_t position = 0; position < order.count; position++) { /* die d gets heads d and d + 4 */
        assert_int_equal(weft_order_tile(&order, position).head % DIES, position % DIES);
    }
    assert_tile(&order, 0 * DIES, 0, 0);
    assert_tile(&order, 1 * DIES, 4, 0);
    assert_tile(&order, 2 * DIES, 0, 1);
    assert_tile(&order, 3 * DIES, 4, 1);
}

static void figure_8_swizzled_block_first(void **state) {
    (void)state;
    const weft_order order = make(WEFT_ORDER_BLOCK_FIRST_SWIZZLED, EIGHT_HEADS, 0, DIES);
    for (int64_t position = 0; position < order.count; position++) { /* die d gets heads 2d and 2d + 1 */
        assert_int_equal(weft_order_tile(&order, position).head / 2, position % DIES);
    }
    for (int64_t local = 0; local < 256; local++) { /* block by block, both heads each */
        assert_tile(&order, local * DIES, local % 2, local / 2);
    }
}

static void figure_9_naive_head_first(void **state) {
    (void)state;
    const weft_order order = make(WEFT_ORDER_HEAD_FIRST, EIGHT_HEADS, 0, DIES);
    for (int64_t position = 0; position < order.count; position++) { /* every head is striped over all dies */
        assert_tile(&order, position, position / 128, position % 128);
        assert_int_equal(weft_order_tile(&order, position).block % DIES, position % DIES);
    }
}

static void figure_10_swizzled_head_first(void **state) {
    (void)state;
    const weft_order order = make(WEFT_ORDER_HEAD_FIRST_SWIZZLED, EIGHT_HEADS, 0, DIES);
    for (int64_t position = 0; position < order.count; position++) {
        const int64_t die = position % DIES, local = position / DIES; /* one whole head, then the other */
        assert_tile(&order, position, die * 2 + local / 128, local % 128);
    }
}

/* The formula of figure 11, where it is defined: one batch, dies dividing heads. */
static void figure_11_formula(void **state) {
    (void)state;
    for (int64_t dies = 1; dies <= 8; dies *= 2) {
        for (int64_t heads = dies; heads <= 32; heads += dies) {
            for (int64_t blocks = 1; blocks <= 17; blocks++) {
                const weft_grid grid = {1, heads, blocks};
                const weft_order order = make(WEFT_ORDER_HEAD_FIRST_SWIZZLED, grid, 0, dies);
                for (int64_t wid = 0; wid < order.count; wid++) {
                    assert_tile(&order, wid, wid % dies * (heads / dies) + wid / (dies * blocks),
                                wid % (dies * blocks) / dies);
                }
            }
        }
    }
}

/* CUDA Tile attention: blocks of one head after the other, reversed under a causal mask. */
static void reversed_program_ids(void **state) {
    (void)state;
    const weft_grid grid = {4, 32, 64};
    const weft_order order = make(WEFT_ORDER_REVERSE, grid, 0, 1);
    for (int64_t position = 0; position < order.count; position++) {
        const weft_tile t = weft_order_tile(&order, position);
        assert_int_equal(t.batch * 32 + t.head, position / 64);
        assert_int_equal(t.block, 63 - position % 64);
    }
}

/* Tile scheduling: 8192^3 in 128x128 tiles is a grid of 64x64, walked in waves of 132 workers. */
enum { WAVE = 132 };
static const weft_grid SQUARE = {1, 64, 64};

typedef struct stripes {
    uint64_t a, b; /* bit i: the wave reads row i of A, column i of B */
} stripes;

static stripes wave_stripes(const weft_order *order, int64_t wave) {
    stripes s = {0, 0};
    for (int64_t p = wave * WAVE; p < (wave + 1) * WAVE && p < order->count; p++) {
        const weft_tile t = weft_order_tile(order, p);
        s.a |= UINT64_C(1) << t.m;
        s.b |= UINT64_C(1) << t.n;
    }
    return s;
}

static void waves_of_the_raster(void **state) {
    (void)state;
    const weft_order order = make(WEFT_ORDER_RASTER_N, SQUARE, 0, 1);
    assert_int_equal(weft_ceil_divide(order.count, WAVE), 32);
    assert_int_equal(order.count - 31 * WAVE, 4); /* the last wave has four tiles */
    const stripes first = wave_stripes(&order, 0);
    assert_int_equal(__builtin_popcountll(first.a), 3);  /* two rows and four tiles of the third */
    assert_int_equal(__builtin_popcountll(first.b), 64); /* all of B */
    assert_int_equal(weft_order_tile(&order, WAVE - 1).m, 2);
    assert_int_equal(weft_order_tile(&order, WAVE - 1).n, 3);
}

static void waves_of_groups_of_twelve(void **state) {
    (void)state;
    const weft_order order = make(WEFT_ORDER_GROUP, SQUARE, 12, 1);
    const stripes first = wave_stripes(&order, 0), second = wave_stripes(&order, 1);
    assert_int_equal(__builtin_popcountll(first.b), 12);
    assert_int_equal(__builtin_popcountll(first.a), 11);
    assert_true(second.b == first.b);        /* the twelve columns of B are still there */
    assert_true((second.a & first.a) == 0u); /* eleven new rows of A */
    assert_int_equal(__builtin_popcountll(second.a), 11);
    assert_int_equal(order.bands, 6); /* 64 = 5 x 12 + 4: the last group is smaller */
    assert_int_equal(weft_order_tile(&order, order.count - 1).n, 63);
}

static void serpentine_turns_at_the_edge(void **state) {
    (void)state;
    const weft_order order = make(WEFT_ORDER_SERPENTINE, SQUARE, 8, 1);
    for (int64_t band = 0; band + 1 < order.bands; band++) { /* the next group starts on the row where this one ended */
        const weft_tile last = weft_order_tile(&order, (band + 1) * 8 * 64 - 1);
        const weft_tile next = weft_order_tile(&order, (band + 1) * 8 * 64);
        assert_int_equal(last.m, next.m);
        assert_int_equal(last.n + 1, next.n);
    }
}

static void hilbert_waves_are_compact(void **state) {
    (void)state;
    const weft_order order = make(WEFT_ORDER_HILBERT, SQUARE, 0, 1);
    const weft_order raster = make(WEFT_ORDER_RASTER_N, SQUARE, 0, 1);
    for (int64_t wave = 0; wave < 31; wave++) {
        const stripes h = wave_stripes(&order, wave), r = wave_stripes(&raster, wave);
        const int sum = __builtin_popcountll(h.a) + __builtin_popcountll(h.b);
        assert_true(sum <= 36); /* 23 would be perfect; the raster needs 67 */
        assert_true(__builtin_popcountll(r.a) + __builtin_popcountll(r.b) >= 67);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(figure_7_naive_block_first),
                                       cmocka_unit_test(figure_8_swizzled_block_first),
                                       cmocka_unit_test(figure_9_naive_head_first),
                                       cmocka_unit_test(figure_10_swizzled_head_first),
                                       cmocka_unit_test(figure_11_formula),
                                       cmocka_unit_test(reversed_program_ids),
                                       cmocka_unit_test(waves_of_the_raster),
                                       cmocka_unit_test(waves_of_groups_of_twelve),
                                       cmocka_unit_test(serpentine_turns_at_the_edge),
                                       cmocka_unit_test(hilbert_waves_are_compact)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
