/* SPDX-License-Identifier: Apache-2.0 */
/* Combining parts of attentions on the CPU: held to the reference, and to the attention over all keys. */
#include "../cmocka_all.h"

#include <stdio.h>

#include <weft/check.h>

#include "../combines.h"
#include "../plans.h"

static void matches_the_reference(void **state) {
    (void)state;
    uint64_t random = random_seed(11);
    for (int round = 0; random_round(&random, &round, 120); round++) {
        const weft_combine p = draw_combine(&random, 120);
        held h, before;
        hold(&h, &p);
        fill_terms(&random, &h);
        hold_copy(&before, &h);
        weft_schedule s = WEFT_SCHEDULE_INIT;
        s.dispatch = (int32_t)random_between(&random, 0, WEFT_DISPATCHES);
        s.sweep = (int32_t)random_between(&random, 0, WEFT_COMMON_SWEEPS);
        s.workers = random_between(&random, 1, 5);
        weft_plan *plan;
        assert_int_equal(plan_for(&plan, &p, round % 3 ? &s : NULL, NULL, NULL), WEFT_OK);
        assert_int_equal(weft_plan_run(plan, &h.data, NULL), WEFT_OK);
        assert_int_equal(count_wrong(&h.problem.combine, &before.data, h.data.o, h.data.lse), 0);

        assert_int_equal(weft_combine_parts(&p, &before.data, NULL), WEFT_OK); /* other workers, the same bits */
        for (size_t i = 0; i < h.count; i++) {
            assert_memory_equal(*held_at(&h, i), *held_at(&before, i), h.bytes[i]);
        }
        assert_true(is_untouched_between(&h));
        weft_plan_destroy(plan);
        let_go(&before);
        let_go(&h);
    }
}

/* weft run holds results to the reference by the same function. */
static void is_checked(void **state) {
    (void)state;
    uint64_t random = 5;
    weft_combine p = WEFT_COMBINE_INIT;
    p.seq = 33;
    p.heads = 2;
    p.head_dim = 24;
    p.dtype = p.o_dtype = WEFT_BF16;
    held h;
    weft_check check = WEFT_CHECK_INIT;
    hold(&h, &p);
    fill_terms(&random, &h);
    for (int64_t row = 0; row < weft_combine_rows(&h.problem.combine); row++) { /* no NaN, which no check lets pass */
        ((float *)(uintptr_t)h.data.lses[1])[row] = 1;
        ((float *)(uintptr_t)h.data.lses[0])[row] = row == 7 ? -INFINITY : (float)row / 10;
        for (int64_t i = 0; i < 2 * p.head_dim; i++) {
            weft_ref_store(p.dtype, *held_at(&h, (size_t)i % 2), (size_t)(row * p.head_dim + i / 2), draw_number(&random));
        }
    }
    assert_int_equal(weft_combine_parts(&p, &h.data, NULL), WEFT_OK);
    assert_int_equal(weft_check_result(&p, &h.data, NULL, &check, NULL), WEFT_OK);
    assert_true(check.passed);
    assert_int_equal(check.checked, 66);
    h.data.lse[5] += 0.01F;
    assert_int_equal(weft_check_result(&p, &h.data, NULL, &check, NULL), WEFT_OK);
    assert_false(check.passed);
    h.data.lse[5] -= 0.01F;
    weft_ref_store(p.dtype, h.data.o, 99, 3 + weft_ref_load(p.dtype, h.data.o, 99));
    assert_int_equal(weft_check_result(&p, &h.data, NULL, &check, NULL), WEFT_OK);
    assert_false(check.passed);
    let_go(&h);
}

/* Who reads what it writes is checked against what that was before. */
static void running_results_are_checked(void **state) {
    (void)state;
    uint64_t random = 9;
    for (int32_t sum = 0; sum < 2; sum++) {
        weft_combine p = WEFT_COMBINE_INIT;
        p.parts = p.into = 1;
        p.seq = 21;
        p.head_dim = 8;
        p.sum = sum;
        held h, before;
        weft_check check = WEFT_CHECK_INIT;
        hold(&h, &p);
        for (size_t i = 0; i < h.count; i++) {
            for (size_t k = 0; k < h.list[i].elements; k++) {
                weft_ref_store(h.list[i].dtype, *held_at(&h, i), k, draw_number(&random));
            }
        }
        hold_copy(&before, &h);
        assert_int_equal(weft_combine_parts(&p, &h.data, NULL), WEFT_OK);
        assert_int_equal(weft_check_result(&p, &h.data, &before.data, &check, NULL), WEFT_OK);
        assert_true(check.passed);
        assert_int_equal(weft_check_result(&p, &h.data, NULL, &check, NULL), WEFT_OK);
        assert_false(check.passed);
        let_go(&before);
        let_go(&h);
    }
}

/* Parts that are added one after the other to some rows of a longer result are what they are together. */
static void parts_come_one_by_one(void **state) {
    (void)state;
    uint64_t random = random_seed(37);
    for (int round = 0; random_round(&random, &round, 30); round++) {
        weft_combine p = draw_combine(&random, 40), one;
        p.into = p.sum = 0;
        p.o_dtype = WEFT_FP32;
        p.lse_stride = p.seq + random_between(&random, 0, 5);
        held h, running;
        hold(&h, &p);
        fill_terms(&random, &h);
        assert_int_equal(weft_combine_parts(&p, &h.data, NULL), WEFT_OK);
        one = p;
        one.parts = one.into = 1;
        hold(&running, &one);
        for (int64_t row = 0; row < weft_combine_rows(&p); row++) { /* nothing yet: O holds NaN, which does not count */
            running.data.lse[weft_combine_lse_index(&p, row)] = -INFINITY;
        }
        for (int64_t i = 0; i < p.parts; i++) {
            weft_combine_data data = running.data;
            data.parts[0] = h.data.parts[i];
            data.lses[0] = h.data.lses[i];
            assert_int_equal(weft_combine_parts(&one, &data, NULL), WEFT_OK);
        }
        assert_int_equal(count_wrong(&h.problem.combine, &h.data, running.data.o, running.data.lse), 0);
        let_go(&running);
        let_go(&h);
    }
}

/* An attention over some of the keys, with its LSE. */
static void attend(const weft_attention *p, const weft_attention_data *all, int64_t first, int64_t keys, void *o,
                   float *lse) {
    weft_attention part = *p;
    weft_attention_data data = *all;
    part.kv_seq = keys;
    part.k_strides = part.v_strides =
        (weft_strides){p->kv_seq * p->kv_heads * p->head_dim, p->kv_heads * p->head_dim, p->head_dim};
    data.k = (const float *)all->k + first * part.k_strides.seq;
    data.v = (const float *)all->v + first * part.v_strides.seq;
    data.o = o;
    data.lse = lse;
    assert_int_equal(weft_attention_forward(&part, &data, NULL), WEFT_OK);
}

/* Keys cut anywhere, combined in any order, are the attention over all of them. */
static void parts_are_the_whole(void **state) {
    (void)state;
    uint64_t random = random_seed(23);
    for (int round = 0; random_round(&random, &round, 25); round++) {
        weft_attention p = WEFT_ATTENTION_INIT;
        p.batch = random_between(&random, 1, 3);
        p.kv_heads = random_between(&random, 1, 2);
        p.heads = p.kv_heads * random_between(&random, 1, 3);
        p.seq = random_between(&random, 1, 20);
        p.kv_seq = random_between(&random, 1, 90);
        p.head_dim = random_between(&random, 1, 40);
        weft_combine c = WEFT_COMBINE_INIT;
        c.parts = random_between(&random, 1, WEFT_MOST_PARTS);
        c.parts = weft_smaller(c.parts, p.kv_seq);
        c.batch = p.batch;
        c.heads = p.heads;
        c.seq = p.seq;
        c.head_dim = p.head_dim;
        held h;
        hold(&h, &c);
        const size_t elements = (size_t)(p.batch * p.seq * p.heads * p.head_dim);
        const size_t keys = (size_t)(p.batch * p.kv_seq * p.kv_heads * p.head_dim), rows = elements / (size_t)p.head_dim;
        float *q = malloc(elements * sizeof *q), *k = malloc(keys * sizeof *k), *v = malloc(keys * sizeof *v);
        float *o = malloc(elements * sizeof *o), *lse = malloc(rows * sizeof *lse);
        assert_true(q && k && v && o && lse);
        for (size_t i = 0; i < elements; i++) {
            q[i] = (float)draw_number(&random);
        }
        for (size_t i = 0; i < keys; i++) {
            k[i] = (float)draw_number(&random);
            v[i] = (float)draw_number(&random);
        }
        weft_attention_data data = WEFT_ATTENTION_DATA_INIT;
        data.q = q;
        data.k = k;
        data.v = v;
        attend(&p, &data, 0, p.kv_seq, o, lse);
        const int64_t turn = random_between(&random, 0, c.parts - 1); /* the order of the parts */
        for (int64_t i = 0; i < c.parts; i++) {
            const int64_t begin = i * p.kv_seq / c.parts, end = (i + 1) * p.kv_seq / c.parts, at = (i + turn) % c.parts;
            attend(&p, &data, begin, end - begin, *held_at(&h, (size_t)at), *held_at(&h, (size_t)(c.parts + at)));
        }
        assert_int_equal(weft_combine_parts(&c, &h.data, NULL), WEFT_OK);
        for (size_t i = 0; i < elements; i++) {
            assert_true(fabs((double)((float *)h.data.o)[i] - (double)o[i]) <= 2e-5);
        }
        for (size_t i = 0; i < rows; i++) {
            assert_true(fabs((double)h.data.lse[i] - (double)lse[i]) <= 1e-5 * fmax(1, fabs((double)lse[i])));
        }
        free(q);
        free(k);
        free(v);
        free(o);
        free(lse);
        let_go(&h);
    }
}

static void refuses(const weft_combine *p, const char *text) {
    weft_message message = {""};
    assert_int_equal(weft_problem_check(p, &message), WEFT_INVALID);
    assert_string_equal(message.text, text);
}

static void refuses_what_is_wrong(void **state) {
    (void)state;
    weft_combine good = WEFT_COMBINE_INIT, p;
    good.seq = 3;
    good.head_dim = 8;
    p = good;
    p.parts = 17;
    refuses(&p, "parts 17 are more than 16: combine some of them first");
    p = good;
    p.parts = 0;
    refuses(&p, "parts 0 is not between 1 and 2147483647");
    p = good;
    p.head_dim = 577;
    refuses(&p, "head_dim 577 is not between 1 and 576");
    p = good;
    p.layout = (weft_layout)2;
    refuses(&p, "layout 2 is not WEFT_BSHD or WEFT_BHSD");
    p = good;
    p.o_strides = (weft_strides){24, 4, 24};
    refuses(&p, "o_strides make rows of o overlap: batch 24, seq 4, head 24");
    p = good;
    p.batch = p.heads = p.seq = WEFT_MAX_DIMENSION;
    refuses(&p, "lse spans more than 2^59 elements");
    p = good;
    p.o_dtype = (weft_dtype)9;
    refuses(&p, "o_dtype 9 is not WEFT_FP32, WEFT_FP16, WEFT_BF16 or WEFT_FP8");
    p = good;
    p.into = 2;
    refuses(&p, "into 2 and sum 0 are not each 0 or 1");
    p = good;
    p.sum = -1;
    refuses(&p, "into 0 and sum -1 are not each 0 or 1");
    p = good;
    p.lse_stride = 2;
    refuses(&p, "lse_stride 2 is not 0 or at least seq");
    p.lse_stride = -3;
    refuses(&p, "lse_stride -3 is not 0 or at least seq");
    p.sum = 1;
    p.lse_stride = 3;
    refuses(&p, "lse_stride 3 is not 0 but a sum has no LSE");
    p = good;
    p.heads = 2;
    p.lse_stride = INT64_MAX / 2;
    refuses(&p, "lse spans more than 2^59 elements");

    held h;
    weft_message message = {""};
    hold(&h, &good);
    const void *part = h.data.parts[1];
    h.data.parts[1] = NULL;
    assert_int_equal(weft_combine_parts(&good, &h.data, &message), WEFT_INVALID);
    assert_string_equal(message.text, "parts[1] is null");
    h.data.parts[1] = h.data.o;
    assert_int_equal(weft_combine_parts(&good, &h.data, &message), WEFT_INVALID);
    assert_string_equal(message.text, "o overlaps parts[1]");
    h.data.parts[1] = part;
    h.data.lses[0] = NULL;
    assert_int_equal(weft_combine_parts(&good, &h.data, &message), WEFT_INVALID);
    assert_string_equal(message.text, "lses[0] is null");
    let_go(&h);
    good.into = 1;
    hold(&h, &good);
    float *lse = h.data.lse;
    h.data.lse = NULL;
    assert_int_equal(weft_combine_parts(&good, &h.data, &message), WEFT_INVALID);
    assert_string_equal(message.text, "lse is null");
    h.data.lse = (float *)(uintptr_t)h.data.lses[1];
    assert_int_equal(weft_combine_parts(&good, &h.data, &message), WEFT_INVALID);
    assert_string_equal(message.text, "lse overlaps lses[1]");
    h.data.lse = lse;
    let_go(&h);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matches_the_reference),       cmocka_unit_test(is_checked),
        cmocka_unit_test(running_results_are_checked), cmocka_unit_test(parts_come_one_by_one),
        cmocka_unit_test(parts_are_the_whole),         cmocka_unit_test(refuses_what_is_wrong)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
