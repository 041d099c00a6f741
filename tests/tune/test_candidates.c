/* SPDX-License-Identifier: Apache-2.0 */
/* What the model says of candidates, and what becomes of those that it says nothing about. */
#include "../cmocka_all.h"

#include <string.h>

#include "cpu/backend.h"
#include "tune/search/candidates.h"

/* The CPU's backend, without its model: the simulator is asked. */
static const weft_backend *without_model(void) {
    static weft_backend backend;
    backend = weft_backend_cpu;
    backend.cost = NULL;
    return &backend;
}

static weft_candidates candidates_of(int64_t batch) {
    weft_gemm p = WEFT_GEMM_INIT;
    p.m = p.n = p.k = 300;
    p.batch = batch;
    weft_plan draft;
    weft_candidates c;
    assert_int_equal(weft_plan_draft(&draft, &p, NULL, NULL, NULL), WEFT_OK);
    draft.backend = without_model();
    assert_int_equal(weft_candidates_make(&c, &draft, NULL, 0, NULL), WEFT_OK);
    assert_true(c.count > 20);
    return c;
}

/* The simulator takes one product: where it is asked about several, nothing has a price, and nothing is dropped. */
static void batch(void **state) {
    (void)state;
    weft_candidates c = candidates_of(3);
    const size_t before = c.count;
    assert_int_equal(weft_candidates_drop(&c, 1, NULL), WEFT_OK);
    assert_int_equal(c.count, before);
    assert_int_equal(c.dropped, 0);
    for (size_t i = 0; i < c.count; i++) {
        assert_true(c.list[i].model == 0);
    }
    weft_candidates_free(&c);
}

/* Makes every third candidate, which splits the steps of its tiles, one of a batch, which the simulator does not take. */
static size_t split_some(weft_candidates *c) {
    size_t count = 0;
    for (size_t i = 1; i < c->count; i += 3) {
        c->list[i].schedule.split = 2;
        c->list[i].plan->problem.gemm.batch = 2;
        count++;
    }
    return count;
}

static size_t count_splits(const weft_candidates *c) {
    size_t count = 0;
    for (size_t i = 0; i < c->count; i++) {
        const int splits = c->list[i].schedule.split == 2;
        assert_true((c->list[i].model > 0) != splits);
        count += (size_t)splits;
    }
    return count;
}

/* Those without a price are kept, and come after those with one in each round of one of each tile. */
static void split(void **state) {
    (void)state;
    weft_candidates c = candidates_of(1);
    const size_t splits = split_some(&c), before = c.count;
    assert_int_equal(weft_candidates_drop(&c, 1e9, NULL), WEFT_OK);
    assert_int_equal(c.count, before);
    assert_int_equal(count_splits(&c), splits);
    for (size_t i = 2; i < c.count; i++) {
        const weft_candidate *one = &c.list[i], *last = &c.list[i - 1];
        assert_true(one->rank >= last->rank);
        assert_false(one->rank == last->rank && one->model > 0 && last->model == 0);
        assert_false(one->rank == last->rank && one->model > 0 && one->model < last->model);
    }
    weft_candidates_free(&c);
}

/* The best of those with a price says what is behind; what has none is neither behind nor the best. */
static void dropped(void **state) {
    (void)state;
    weft_candidates c = candidates_of(1);
    const size_t splits = split_some(&c), before = c.count;
    assert_int_equal(weft_candidates_drop(&c, 1, NULL), WEFT_OK);
    assert_int_equal(count_splits(&c), splits);
    assert_true(c.dropped > 0 && c.count + c.dropped == before);
    assert_true(c.dropped_from > 1);
    double best = 0;
    for (size_t i = 1; i < c.count; i++) {
        best = c.list[i].model > 0 && (best == 0 || c.list[i].model < best) ? c.list[i].model : best;
    }
    for (size_t i = 1; i < c.count; i++) {
        assert_true(c.list[i].model == 0 || c.list[i].model == best);
    }
    weft_candidates_free(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(batch), cmocka_unit_test(split), cmocka_unit_test(dropped)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
