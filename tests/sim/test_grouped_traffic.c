/* SPDX-License-Identifier: Apache-2.0 */
/* Grouped products, simulated: traffic counted by hand, and one group as the product that it is. */
#include "problems.h"

#include "../plans.h"

enum { SECTOR = 32, N = 256, K = 128, TILE = 64 };

static weft_simulation simulate_groups(const void *problem, const weft_schedule *s, const char *machine) {
    const weft_machine m = machine_named(machine);
    weft_plan *plan;
    weft_message message = {""};
    if (plan_for(&plan, problem, s, &m, &message) != WEFT_OK) {
        fail_msg("%s", message.text);
    }
    return simulate(plan, NULL, NULL); /* and destroys it */
}

static weft_schedule tiles(int32_t order) {
    weft_schedule s = WEFT_SCHEDULE_INIT;
    s.tile_m = s.tile_n = s.tile_k = TILE;
    s.order = order;
    return s;
}

static weft_grouped_gemm grouped(void) {
    weft_grouped_gemm p = WEFT_GROUPED_GEMM_INIT;
    p.n = N;
    p.k = K;
    p.dtype = p.c_dtype = WEFT_BF16;
    p.b_major = WEFT_COL_MAJOR;
    return p;
}

/* Groups without rows read nothing; every other reads its B once, and again for each of its rows of tiles. */
static void counted_by_hand(void **state) {
    (void)state;
    const int32_t starts[] = {0, 100, 100, 164, 165}, counts[] = {100, 0, 64, 1};
    const uint64_t rows = 165, tile_rows = 2 + 1 + 1, used = 3;
    const uint64_t a = rows * K * 2 / SECTOR, b = N * K * 2 / SECTOR, c = rows * N * 2 / SECTOR;
    for (int32_t order = WEFT_ORDER_RASTER_M; order <= WEFT_ORDER_SERPENTINE_SWIZZLED; order++) {
        for (int masked = 0; masked < 2; masked++) {
            const weft_schedule s = tiles(order);
            weft_grouped_gemm p = grouped();
            p.groups = 4;
            p.rows = masked ? 128 : 165;
            p.layout = masked ? WEFT_GROUPS_MASKED : WEFT_GROUPS_CONTIGUOUS;
            p.starts = masked ? NULL : starts;
            p.counts = masked ? counts : NULL;
            const weft_simulation r = simulate_groups(&p, &s, "gb10");
            assert_int_equal(r.compulsory_misses, a + used * b + c);
            assert_int_equal(r.total.sectors, a * (N / TILE) + tile_rows * b + c);
            assert_int_equal(r.total.misses, r.compulsory_misses); /* all of it fits */
            assert_true(weft_problem_flops(&p) == 2.0 * (double)rows * N * K);
        }
    }
}

static void one_group_is_a_product(void **state) {
    (void)state;
    const int32_t starts[] = {0, 500};
    weft_grouped_gemm p = grouped();
    weft_gemm one = WEFT_GEMM_INIT;
    p.groups = 1;
    p.rows = one.m = 500;
    p.starts = starts;
    one.n = N;
    one.k = K;
    one.dtype = one.c_dtype = WEFT_BF16;
    one.b_major = WEFT_COL_MAJOR;
    for (int cluster = 1; cluster <= 2; cluster++) {
        weft_schedule s = tiles(WEFT_ORDER_GROUP);
        s.cluster_m = cluster;
        s.group = 2;
        const weft_simulation x = simulate_groups(&p, &s, "h200"), y = simulate_groups(&one, &s, "h200");
        assert_int_equal(x.total.sectors, y.total.sectors);
        assert_int_equal(x.total.misses, y.total.misses);
        assert_int_equal(x.compulsory_misses, y.compulsory_misses);
        assert_true(x.seconds == y.seconds);
    }
}

/* Whoever does not know the rows cannot say what they read. */
static void rows_must_be_known(void **state) {
    (void)state;
    const weft_machine m = machine_named("h200");
    weft_grouped_gemm p = grouped();
    weft_simulation r = WEFT_SIMULATION_INIT;
    weft_message message = {""};
    weft_plan *plan;
    p.groups = 4;
    p.rows = 100;
    assert_int_equal(plan_for(&plan, &p, NULL, &m, NULL), WEFT_OK);
    assert_int_equal(weft_simulate(plan, NULL, &r, NULL, &message), WEFT_UNSUPPORTED);
    assert_string_equal(message.text, "the simulator must know the rows of each group, not all of them 0");
    weft_plan_destroy(plan);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(counted_by_hand), cmocka_unit_test(one_group_is_a_product),
                                       cmocka_unit_test(rows_must_be_known)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
