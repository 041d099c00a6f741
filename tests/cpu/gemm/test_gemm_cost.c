/* SPDX-License-Identifier: Apache-2.0 */
/* What the plan thinks a GEMM's tiles take on this host. */
#include "../../cmocka_all.h"
#include "../../random.h"

#include "cpu/gemm/cost.h"
#include "cpu/thread/team.h"

enum { WORKERS = 3 };

/* Of a product, cut into tiles of 16 to 200. */
typedef struct trial {
    weft_gemm p;
    int64_t products;
    weft_cpu_axis m, n;
} trial;

static const weft_cpu_kernel *kernel;

static trial draw(uint64_t *random) {
    trial t = {.p = WEFT_GEMM_INIT};
    t.p.m = random_between(random, 1, 700);
    t.p.n = random_between(random, 1, 700);
    t.p.k = random_between(random, 1, 700);
    t.p.a_major = (weft_major)random_between(random, 0, 1);
    t.p.b_major = (weft_major)random_between(random, 0, 1);
    t.products = random_between(random, 1, 4);
    t.m = weft_cpu_cut_axis(t.p.m, random_between(random, 16, 200), kernel->a.lines);
    t.n = weft_cpu_cut_axis(t.p.n, random_between(random, 16, 200), kernel->b.lines);
    return t;
}

static double cost(const trial *t, int64_t workers, weft_cpu_way how) {
    return weft_cpu_gemm_cost(kernel, &t->p, t->products, t->m, t->n, workers, how);
}

/* Lines are padded to whole blocks, those of the last tile on their own. */
static void sides_are_padded(void **state) {
    (void)state;
    const weft_cpu_axis s = weft_cpu_cut_axis(100, 30, 8), one = weft_cpu_cut_axis(5, 1000, 8);
    assert_true(s.tiles == 4 && s.one == 32 && s.all == 3 * 32 + 16);
    assert_true(one.tiles == 1 && one.one == 8 && one.all == 8);
}

/* What the chooser leaves tiles out by: no order beats tiles that could be cut anywhere. */
static void fluid_is_least(void **state) {
    (void)state;
    uint64_t random = random_seed(5);
    for (int i = 0; random_round(&random, &i, 2000); i++) {
        const trial t = draw(&random);
        for (int64_t workers = 1; workers <= 20; workers += WORKERS) {
            const double least = cost(&t, workers, WEFT_CPU_FLUID) * (1 - 1e-12);
            assert_true(least > 0);
            assert_true(cost(&t, workers, WEFT_CPU_DOWN) >= least && cost(&t, workers, WEFT_CPU_ALONG) >= least);
        }
    }
}

/* One worker has all tiles, in whatever order. */
static void one_worker_waits_for_nobody(void **state) {
    (void)state;
    uint64_t random = random_seed(6);
    for (int i = 0; random_round(&random, &i, 500); i++) {
        const trial t = draw(&random);
        const double down = cost(&t, 1, WEFT_CPU_DOWN), along = cost(&t, 1, WEFT_CPU_ALONG);
        assert_true(down <= along * (1 + 1e-12) && along <= down * (1 + 1e-12));
    }
}

/* Three tiles of 96 x 96 and three of 96 x 12, for two workers. Down the columns one of them has two large tiles and the
 * other one and all small ones; along the rows the last large one begins after a small one. */
static void what_is_small_had_better_come_last(void **state) {
    (void)state;
    if (weft_cpu_shares_cores()) {
        skip();
    }
    trial t = {.p = WEFT_GEMM_INIT, .products = 1, .m = {3, 96, 288}, .n = {2, 96, 108}};
    t.p.m = 288;
    t.p.n = 108;
    t.p.k = 64;
    assert_true(weft_cpu_is_dealt(1, t.m, t.n, 2));
    assert_true(cost(&t, 2, WEFT_CPU_DOWN) < 0.97 * cost(&t, 2, WEFT_CPU_ALONG));
    assert_false(weft_cpu_is_dealt(1, (weft_cpu_axis){40, 1, 40}, t.n, 2));
    assert_false(weft_cpu_is_dealt(1, t.m, t.n, 9));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(sides_are_padded), cmocka_unit_test(fluid_is_least),
                                       cmocka_unit_test(one_worker_waits_for_nobody),
                                       cmocka_unit_test(what_is_small_had_better_come_last)};
    kernel = weft_cpu_choose(WEFT_CPU_PRODUCTS, WEFT_FP32);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
