/* SPDX-License-Identifier: Apache-2.0 */
/* Grouped products on the CPU: held to the reference, over poison, under every order, sweep and dispatch. */
#include "../../cmocka_all.h"

#include <stdio.h>

#include <weft/check.h>

#include "../../groups.h"
#include "../../plans.h"

static weft_schedule draw_schedule(uint64_t *random, const weft_grouped_gemm *p) {
    weft_schedule s = WEFT_SCHEDULE_INIT;
    s.tile_m = random_between(random, 1, p->rows < 150 ? p->rows : 150);
    s.tile_n = random_between(random, 1, p->n);
    s.tile_k = random_between(random, 0, 1) * random_between(random, 1, p->k);
    s.order = (int32_t)random_between(random, WEFT_ORDER_RASTER_M, WEFT_ORDER_SERPENTINE_SWIZZLED);
    s.order = random_between(random, 0, 5) ? s.order : WEFT_ORDER_CUSTOM;
    s.dispatch = (int32_t)random_between(random, 0, WEFT_DISPATCHES);
    s.sweep = (int32_t)random_between(random, 0, WEFT_COMMON_SWEEPS);
    s.axis = (weft_axis)random_between(random, WEFT_AXIS_CHOOSE, WEFT_AXIS_M);
    s.group = random_between(random, 0, 4);
    s.workers = random_between(random, 1, 5);
    return s;
}

/* Whether the results are within their bound, with C as poison before. */
static void assert_right(const grouped_case *c, const void *problem) {
    weft_grouped_gemm_data before = c->data;
    weft_check check = WEFT_CHECK_INIT;
    weft_message message = {""};
    before.c = malloc(c->c_bytes);
    assert_non_null(before.c);
    memset(before.c, POISON, c->c_bytes);
    if (weft_check_result(problem, &c->data, &before, &check, &message) != WEFT_OK) {
        fail_msg("%s", message.text);
    }
    assert_true(check.passed);
    assert_int_equal(grouped_touched(c, c->data.c, 1), 0);
    free(before.c);
}

static void matches_the_reference(void **state) {
    (void)state;
    uint64_t random = random_seed(31);
    static const weft_dtype dtypes[] = {WEFT_FP32, WEFT_FP16, WEFT_BF16};
    for (int round = 0; random_round(&random, &round, 80); round++) {
        grouped_case c;
        draw_groups(&random, &c.p, 90, 120, 1, c.bounds);
        c.p.dtype = dtypes[random_between(&random, 0, 2)];
        c.p.c_dtype = random_between(&random, 0, 1) ? c.p.dtype : WEFT_FP32;
        assert_true(grouped_hold(&c, &random));
        const weft_schedule s = draw_schedule(&random, &c.p);
        weft_grouped_gemm known = c.p; /* by the plan */
        known.starts = c.data.starts;
        known.counts = c.data.counts;
        weft_plan *plan;
        weft_message message = {""};
        if (plan_for(&plan, round % 2 ? &c.p : &known, round % 3 ? &s : NULL, NULL, &message) != WEFT_OK) {
            fail_msg("%s", message.text);
        }
        weft_grouped_gemm_data data = c.data;
        if (round % 2 == 0) {
            data.starts = data.counts = NULL;
        }
        assert_int_equal(weft_plan_run(plan, &data, NULL), WEFT_OK);
        assert_right(&c, &c.p);
        weft_plan_destroy(plan);
        grouped_release(&c);
    }
}

/* The same tiles, other groups beside it: the same bits. */
static void groups_do_not_depend_on_each_other(void **state) {
    (void)state;
    uint64_t random = random_seed(37);
    for (int round = 0; random_round(&random, &round, 20); round++) {
        grouped_case c;
        draw_groups(&random, &c.p, 90, 100, 1, c.bounds);
        c.p.dtype = c.p.c_dtype = WEFT_BF16;
        assert_true(grouped_hold(&c, &random));
        weft_schedule s = WEFT_SCHEDULE_INIT;
        s.tile_m = random_between(&random, 1, c.p.rows < 64 ? c.p.rows : 64);
        s.tile_n = random_between(&random, 1, c.p.n);
        s.tile_k = random_between(&random, 1, c.p.k);
        weft_plan *plan;
        assert_int_equal(plan_for(&plan, &c.p, &s, NULL, NULL), WEFT_OK);
        assert_int_equal(weft_plan_run(plan, &c.data, NULL), WEFT_OK);
        weft_plan_destroy(plan);
        const int32_t group = (int32_t)random_between(&random, 0, c.p.groups - 1);
        const weft_groups groups = weft_grouped_gemm_groups(&c.p, c.bounds, 1, 1);
        const weft_group_rows rows = weft_group_at(&groups, group);
        const weft_gemm_data at = weft_grouped_gemm_at(&c.p, &c.data, &rows);
        if (rows.count > 0 && s.tile_m <= rows.count) { /* alone */
            weft_grouped_gemm one = c.p;
            const int32_t starts[] = {0, rows.count};
            char *alone = malloc(c.c_bytes);
            const weft_grouped_gemm_data data = {sizeof data, WEFT_GROUPED_GEMM, at.a, at.b, alone, starts, NULL};
            one.layout = WEFT_GROUPS_CONTIGUOUS;
            one.groups = 1;
            one.rows = rows.count;
            one.a_stride = one.c_stride = 0;
            assert_non_null(alone);
            assert_int_equal(plan_for(&plan, &one, &s, NULL, NULL), WEFT_OK);
            assert_int_equal(weft_plan_run(plan, &data, NULL), WEFT_OK);
            weft_plan_destroy(plan);
            for (int64_t i = 0; i < rows.count; i++) {
                assert_memory_equal(alone + 2 * i * c.p.ldc, (const char *)at.c + 2 * i * c.p.ldc, (size_t)(2 * c.p.n));
            }
            free(alone);
        }
        grouped_release(&c);
    }
}

/* weft run holds results to the reference by weft_check_result(): it sees a wrong element, and a row that is no group's. */
static void is_checked(void **state) {
    (void)state;
    uint64_t random = 5;
    grouped_case c = {.bounds = {2, 9, 9, 40}};
    const weft_grouped_gemm p = WEFT_GROUPED_GEMM_INIT;
    c.p = p;
    c.p.groups = 3;
    c.p.rows = 44;
    c.p.n = 7;
    c.p.k = 11;
    assert_true(grouped_hold(&c, &random));
    assert_int_equal(weft_grouped_gemm_multiply(&c.p, &c.data, NULL), WEFT_OK);
    assert_right(&c, &c.p);
    float *elements = c.data.c;
    weft_grouped_gemm_data before = c.data;
    before.c = malloc(c.c_bytes);
    assert_non_null(before.c);
    memset(before.c, POISON, c.c_bytes);
    weft_check check = WEFT_CHECK_INIT;
    for (int i = 0; i < 2; i++) {
        const size_t at = i ? 41 * 7 : 5 * 7 + 3; /* behind the last group; in the first */
        const float old = elements[at];
        elements[at] = i ? 0 : old + 0.01F;
        assert_int_equal(weft_check_result(&c.p, &c.data, &before, &check, NULL), WEFT_OK);
        assert_false(check.passed);
        elements[at] = old;
    }
    assert_int_equal(weft_check_result(&c.p, &c.data, &before, &check, NULL), WEFT_OK);
    assert_true(check.passed);
    assert_int_equal(check.checked, 38 * 7);
    free(before.c);
    grouped_release(&c);
}

static void refuses(const weft_grouped_gemm *p, const char *text) {
    weft_message message = {""};
    assert_int_equal(weft_problem_check(p, &message), WEFT_INVALID);
    assert_string_equal(message.text, text);
}

static void refuses_what_is_wrong(void **state) {
    (void)state;
    weft_grouped_gemm good = WEFT_GROUPED_GEMM_INIT, p;
    good.groups = 3;
    good.rows = 10;
    good.n = 4;
    good.k = 5;
    p = good;
    p.groups = 0;
    refuses(&p, "groups 0 is not between 1 and 2147483647");
    p = good;
    p.groups = WEFT_MOST_GROUPS + 1;
    refuses(&p, "groups 1048577 is not between 1 and 1048576");
    p = good;
    p.rows = 0;
    refuses(&p, "rows 0 is not between 1 and 2147483647");
    p = good;
    p.rows = (1 << 30) + 1;
    refuses(&p, "rows 1073741825 are more than 1073741824");
    p.layout = WEFT_GROUPS_MASKED;
    p.rows = 1 << 29;
    refuses(&p, "rows 536870912 of all groups are more than 1073741824");
    p = good;
    p.layout = (weft_group_layout)2;
    refuses(&p, "layout 2 is not WEFT_GROUPS_CONTIGUOUS or WEFT_GROUPS_MASKED");
    p = good;
    p.c_stride = 40;
    refuses(&p, "a_stride 0 and c_stride 40 are for masked groups only");
    p = good;
    p.ldb = 3;
    refuses(&p, "ldb 3 is less than 4, the length of a row of b");
    p = good;
    p.b_stride = 19;
    refuses(&p, "b_stride 19 is less than 20, the elements of b");
    const int32_t starts[] = {0, 4, 3, 10}, beyond[] = {0, 4, 5, 11}, counts[] = {4, -1, 3};
    p = good;
    p.counts = counts;
    refuses(&p, "counts are for masked groups");
    p = good;
    p.starts = starts;
    refuses(&p, "starts[2] 3 is not between 4 and 10");
    p.starts = beyond;
    refuses(&p, "starts[3] 11 is not between 5 and 10");
    p.layout = WEFT_GROUPS_MASKED;
    refuses(&p, "starts are for contiguous groups");
    p.starts = NULL;
    p.counts = counts;
    refuses(&p, "counts[1] -1 is not between 0 and 10");
}

/* Bounds of the data: nothing is written where one is wrong. */
static void refuses_wrong_data(void **state) {
    (void)state;
    uint64_t random = 9;
    for (int masked = 0; masked < 2; masked++) {
        grouped_case c = {.bounds = {0, 4, 6, 10}};
        const weft_grouped_gemm p = WEFT_GROUPED_GEMM_INIT;
        weft_message message = {""};
        c.p = p;
        c.p.groups = 3;
        c.p.rows = 10;
        c.p.n = 4;
        c.p.k = 5;
        c.p.layout = masked ? WEFT_GROUPS_MASKED : WEFT_GROUPS_CONTIGUOUS;
        assert_true(grouped_hold(&c, &random));
        c.bounds[1] = 11;
        assert_int_equal(weft_grouped_gemm_multiply(&c.p, &c.data, &message), WEFT_INVALID);
        assert_string_equal(message.text,
                            masked ? "counts[1] 11 is not between 0 and 10" : "starts[1] 11 is not between 0 and 10");
        for (size_t i = 0; i < c.c_bytes; i++) {
            assert_int_equal(((unsigned char *)c.data.c)[i], POISON);
        }
        c.data.starts = c.data.counts = NULL;
        assert_int_equal(weft_grouped_gemm_multiply(&c.p, &c.data, &message), WEFT_INVALID);
        assert_string_equal(message.text, masked ? "counts is null" : "starts is null");
        grouped_release(&c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matches_the_reference),
        cmocka_unit_test(groups_do_not_depend_on_each_other),
        cmocka_unit_test(is_checked),
        cmocka_unit_test(refuses_what_is_wrong),
        cmocka_unit_test(refuses_wrong_data),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
