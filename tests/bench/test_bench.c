/* SPDX-License-Identifier: Apache-2.0 */
/* The bench: buffers of any operation, runs on them, their times and whether they are right. */
#include "../cmocka_all.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#include "../plans.h"
#include "bench/bench.h"
#include "ref/ref.h"

static weft_attention small_attention(int32_t operation) {
    weft_attention p = WEFT_ATTENTION_INIT;
    p.operation = operation;
    p.heads = 4;
    p.kv_heads = 2;
    p.seq = 33;
    p.kv_seq = 47;
    p.head_dim = 16;
    p.dtype = WEFT_BF16;
    p.mask = WEFT_MASK_CAUSAL_BOTTOM_RIGHT;
    return p;
}

static weft_gemm small_gemm(double beta) {
    weft_gemm p = WEFT_GEMM_INIT;
    p.m = 40;
    p.n = 24;
    p.k = 56;
    p.dtype = WEFT_FP16;
    p.c_dtype = WEFT_FP32;
    p.beta = beta;
    p.batch = 2;
    return p;
}

static int stop(void *user) {
    ++*(int *)user;
    return 1;
}

/* The real clock goes forward, and a plan takes some time on it, whatever else the machine does. */
static void plans_take_time(void **state) {
    (void)state;
    const weft_attention p = small_attention(WEFT_ATTENTION);
    weft_bench_options options = WEFT_BENCH_INIT;
    weft_plan *plan;
    weft_bench *bench;
    int asked = 0;
    options.retries = 4;
    assert_int_equal(plan_for(&plan, &p, NULL, NULL, NULL), WEFT_OK);
    assert_int_equal(weft_bench_open(&bench, plan, &options, NULL), WEFT_OK);
    const double begin = weft_bench_now();
    for (int64_t repeats = 1; repeats <= 100; repeats *= 10) {
        double seconds = 0;
        bench->patience = repeats == 100 ? 1e9 : 0; /* with patience, who waits for a quiet moment may stop it */
        bench->waiting = stop;
        bench->waiting_user = &asked;
        assert_int_equal(weft_bench_time(bench, plan, repeats, &seconds, NULL), WEFT_OK);
        assert_true(seconds > 0 && isfinite(seconds));
    }
    assert_true(weft_bench_now() > begin);
    assert_true(asked <= 1 && bench->disturbed <= 15);
    const weft_plan *const plans[] = {plan, plan};
    double times[6] = {0};
    assert_int_equal(weft_bench_times(bench, plans, 2, 3, times, NULL), WEFT_OK);
    for (int i = 0; i < 6; i++) {
        assert_true(times[i] > 0);
    }
    weft_message message;
    assert_int_equal(weft_bench_time(bench, plan, 0, times, &message), WEFT_INVALID);
    assert_string_equal(message.text, "repeats 0 is not at least 1");
    weft_bench_close(bench);
    weft_plan_destroy(plan);
}

static size_t count_nan(weft_bench *b, size_t buffer) {
    const void *data;
    size_t count = 0;
    assert_int_equal(weft_bench_data(b, &data, NULL), WEFT_OK);
    const void *at = *weft_bench_pointer(&b->host, &b->buffers[buffer]);
    for (size_t i = 0; i < b->buffers[buffer].elements; i++) {
        count += isnan(weft_ref_load(b->buffers[buffer].dtype, at, i)) != 0;
    }
    return count;
}

/* Inputs are there, outputs are NaN until a run, and again after a reset; optional inputs are left out. */
static void check_buffers(weft_bench *b, const weft_plan *plan) {
    for (size_t i = 0; i < b->count; i++) {
        const weft_buffer *buffer = &b->buffers[i];
        const void *at = *weft_bench_pointer(&b->data, buffer);
        assert_true((at == NULL) == (buffer->optional && buffer->is_read));
        if (at) {
            assert_int_equal(count_nan(b, i), buffer->is_read ? 0 : buffer->elements);
        }
    }
    assert_int_equal(weft_bench_run(b, plan, NULL), WEFT_OK);
    for (size_t i = 0; i < b->count; i++) {
        assert_true(!b->buffers[i].is_written || count_nan(b, i) == 0);
    }
    assert_int_equal(weft_bench_reset(b, NULL), WEFT_OK);
    for (size_t i = 0; i < b->count; i++) {
        assert_true(!b->buffers[i].is_written || b->buffers[i].is_read || count_nan(b, i) == b->buffers[i].elements);
    }
}

/* A right result passes; one that is off in a single element, or not finite there, does not. */
static void check_results(weft_bench *b, const weft_plan *plan) {
    weft_check found = WEFT_CHECK_INIT;
    assert_int_equal(weft_bench_reset(b, NULL), WEFT_OK);
    assert_int_equal(weft_bench_run(b, plan, NULL), WEFT_OK);
    assert_int_equal(weft_bench_check(b, &found, NULL), WEFT_OK);
    assert_true(found.passed && found.checked > 0 && found.bound > 0 && found.max_error <= found.bound);
    for (size_t i = 0; i < b->count; i++) {
        const weft_buffer *buffer = &b->buffers[i];
        void *at = *weft_bench_pointer(&b->data, buffer);
        for (int wrong = 0; wrong < 2 && buffer->is_written; wrong++) {
            const double right = weft_ref_load(buffer->dtype, at, buffer->elements - 1);
            weft_ref_store(buffer->dtype, at, buffer->elements - 1, wrong ? NAN : right + 3);
            assert_int_equal(weft_bench_check(b, &found, NULL), WEFT_OK);
            assert_false(found.passed);
            weft_ref_store(buffer->dtype, at, buffer->elements - 1, right);
        }
    }
    assert_int_equal(weft_bench_check(b, &found, NULL), WEFT_OK);
    assert_true(found.passed);
}

static void any_operation(void **state) {
    (void)state;
    const weft_attention forward = small_attention(WEFT_ATTENTION), backward = small_attention(WEFT_ATTENTION_BACKWARD);
    const weft_gemm plain = small_gemm(0), added = small_gemm(0.5);
    const void *const problems[] = {&forward, &backward, &plain, &added};
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) {
        weft_plan *plan;
        weft_bench *bench;
        assert_int_equal(plan_for(&plan, problems[i], NULL, NULL, NULL), WEFT_OK);
        assert_int_equal(weft_bench_open(&bench, plan, NULL, NULL), WEFT_OK);
        check_buffers(bench, plan);
        check_results(bench, plan);
        weft_bench_close(bench);
        weft_plan_destroy(plan);
    }
}

/* What a run reads and writes has to be as it was: a second run adds to what the first one left. */
static void added_products_need_a_reset(void **state) {
    (void)state;
    const weft_gemm p = small_gemm(0.5);
    weft_check found = WEFT_CHECK_INIT;
    weft_plan *plan;
    weft_bench *bench;
    assert_int_equal(plan_for(&plan, &p, NULL, NULL, NULL), WEFT_OK);
    assert_int_equal(weft_bench_open(&bench, plan, NULL, NULL), WEFT_OK);
    for (int again = 0; again < 2; again++) {
        assert_int_equal(weft_bench_run(bench, plan, NULL), WEFT_OK);
        assert_int_equal(weft_bench_check(bench, &found, NULL), WEFT_OK);
        assert_int_equal(found.passed, !again);
    }
    weft_bench_close(bench);
    weft_plan_destroy(plan);
}

/* With check_once the second result is held to the first: the same bits pass, a wrong element does not. */
static void later_results_are_held_to_the_first(void **state) {
    (void)state;
    const weft_gemm p = small_gemm(0);
    weft_bench_options options = WEFT_BENCH_INIT;
    weft_check found = WEFT_CHECK_INIT;
    weft_plan *plan;
    weft_bench *bench;
    options.check_once = 1;
    assert_int_equal(plan_for(&plan, &p, NULL, NULL, NULL), WEFT_OK);
    assert_int_equal(weft_bench_open(&bench, plan, &options, NULL), WEFT_OK);
    assert_int_equal(weft_bench_run(bench, plan, NULL), WEFT_OK);
    for (int again = 0; again < 2; again++) {
        assert_int_equal(weft_bench_check(bench, &found, NULL), WEFT_OK);
        assert_true(found.passed);
        assert_int_equal(found.checked, 2 * 40 * 24);
        assert_true(again == 0 || found.max_error == 0);
    }
    float *c = bench->data.gemm.c;
    c[17] += 1;
    assert_int_equal(weft_bench_check(bench, &found, NULL), WEFT_OK);
    assert_false(found.passed);
    c[17] = NAN;
    assert_int_equal(weft_bench_check(bench, &found, NULL), WEFT_OK);
    assert_false(found.passed);
    weft_bench_close(bench);
    weft_plan_destroy(plan);
}

/* A copy of the first input of a problem that is drawn in many blocks. */
static float *draw(uint64_t seed, int threads, size_t *count) {
    weft_gemm p = WEFT_GEMM_INIT;
    weft_bench_options options = WEFT_BENCH_INIT;
    weft_plan *plan;
    weft_bench *bench;
    p.m = 700;
    p.k = 300;
    p.n = 8;
    options.seed = seed;
#ifdef _OPENMP
    const int before = omp_get_max_threads();
    omp_set_num_threads(threads);
#else
    (void)threads;
#endif
    assert_int_equal(plan_for(&plan, &p, NULL, NULL, NULL), WEFT_OK);
    assert_int_equal(weft_bench_open(&bench, plan, &options, NULL), WEFT_OK);
    *count = 700 * 300;
    float *copy = malloc(*count * sizeof *copy);
    assert_non_null(copy);
    memcpy(copy, bench->data.gemm.a, *count * sizeof *copy);
    weft_bench_close(bench);
    weft_plan_destroy(plan);
#ifdef _OPENMP
    omp_set_num_threads(before);
#endif
    return copy;
}

/* Inputs depend on the seed, not on the number of threads, and are normal. */
static void inputs_are_normal(void **state) {
    (void)state;
    size_t count;
    float *one = draw(7, 1, &count), *three = draw(7, 3, &count), *other = draw(8, 1, &count);
    double sum = 0, squares = 0;
    assert_memory_equal(one, three, count * sizeof *one);
    assert_memory_not_equal(one, other, count * sizeof *one);
    for (size_t i = 0; i < count; i++) {
        sum += (double)one[i];
        squares += (double)one[i] * (double)one[i];
    }
    assert_true(fabs(sum / (double)count) < 0.01 && fabs(squares / (double)count - 1) < 0.02);
    free(one);
    free(three);
    free(other);
}

/* Lengths that come with the data are right ones, slopes are small and positive, and what a plan's problem points to
 * outlives the plan. */
static void lengths_come_with_the_data(void **state) {
    (void)state;
    static const int32_t used[] = {7, 0, 40};
    for (int32_t operation = WEFT_ATTENTION; operation <= WEFT_ATTENTION_BACKWARD; operation++) {
        for (int packed = 0; packed < 2; packed++) {
            weft_attention p = small_attention(operation);
            weft_check found = WEFT_CHECK_INIT;
            weft_plan *plan;
            weft_bench *bench;
            p.head_dim_v = 24;
            p.batch = packed ? 1 : 3;
            p.sequences = packed ? 3 : 0;
            p.extras = WEFT_SINKS | WEFT_ALIBI | WEFT_Q_USED | WEFT_KV_PAD | (packed ? WEFT_STARTS | WEFT_KV_STARTS : 0);
            p.extras |= packed ? WEFT_KV_USED : 0;
            p.lengths.kv_used = packed ? NULL : used;
            assert_int_equal(plan_for(&plan, &p, NULL, NULL, NULL), WEFT_OK);
            assert_int_equal(weft_bench_open(&bench, plan, NULL, NULL), WEFT_OK);
            assert_int_equal(weft_bench_run(bench, plan, NULL), WEFT_OK);
            weft_plan_destroy(plan);
            assert_int_equal(weft_bench_check(bench, &found, NULL), WEFT_OK);
            assert_true(found.passed);
            const float *slopes = operation == WEFT_ATTENTION ? bench->data.attention.alibi : bench->data.gradients.alibi;
            const weft_lengths *lengths =
                operation == WEFT_ATTENTION ? &bench->data.attention.lengths : &bench->data.gradients.lengths;
            for (int i = 0; i < 4; i++) {
                assert_true(slopes[i] > 0 && slopes[i] <= 0.5F);
                assert_true(!packed || lengths->q_starts[i] == 11 * i);
                assert_true(!packed || lengths->kv_starts[i] == 47 * i / 3);
            }
            for (int i = 0; i < 3; i++) {
                assert_true(lengths->q_used[i] == (packed ? 11 : 33) && lengths->kv_pad[i] == 0);
            }
            weft_bench_close(bench);
        }
    }
}

/* Rows behind the last sequence are nobody's: what is there does not count, and what is before does. */
static void rows_behind_the_last_sequence(void **state) {
    (void)state;
    static const int32_t starts[] = {0, 9, 20};
    weft_attention p = small_attention(WEFT_ATTENTION);
    weft_check found = WEFT_CHECK_INIT;
    weft_plan *plan;
    weft_bench *bench;
    p.sequences = 2;
    p.lengths.q_starts = starts;
    p.head_dim_v = 24;
    assert_int_equal(plan_for(&plan, &p, NULL, NULL, NULL), WEFT_OK);
    assert_int_equal(weft_bench_open(&bench, plan, NULL, NULL), WEFT_OK);
    assert_int_equal(weft_bench_run(bench, plan, NULL), WEFT_OK);
    assert_int_equal(weft_bench_check(bench, &found, NULL), WEFT_OK);
    assert_true(found.passed);
    assert_int_equal(found.checked, 20 * 4);
    const size_t last = 20 * 4 * 24 - 1; /* element of the last row, in a column that K does not have */
    weft_ref_store(p.dtype, bench->data.attention.o, last, 77);
    assert_int_equal(weft_bench_check(bench, &found, NULL), WEFT_OK);
    assert_false(found.passed);
    weft_bench_close(bench);
    weft_plan_destroy(plan);
}

/* Optional outputs can be left out; the rest is checked all the same. */
static void only_what_is_required(void **state) {
    (void)state;
    const weft_attention p = small_attention(WEFT_ATTENTION);
    weft_bench_options options = WEFT_BENCH_INIT;
    weft_check found = WEFT_CHECK_INIT;
    weft_plan *plan;
    weft_bench *bench;
    assert_int_equal(plan_for(&plan, &p, NULL, NULL, NULL), WEFT_OK);
    for (options.required_only = 0; options.required_only < 2; options.required_only++) {
        for (options.check_once = 0; options.check_once < 2; options.check_once++) {
            assert_int_equal(weft_bench_open(&bench, plan, &options, NULL), WEFT_OK);
            assert_true((bench->data.attention.lse == NULL) == options.required_only);
            for (int again = 0; again < 2; again++) {
                assert_int_equal(weft_bench_reset(bench, NULL), WEFT_OK);
                assert_int_equal(weft_bench_run(bench, plan, NULL), WEFT_OK);
                assert_int_equal(weft_bench_check(bench, &found, NULL), WEFT_OK);
                assert_true(found.passed && found.checked > 0);
            }
            weft_bench_close(bench);
        }
    }
    weft_plan_destroy(plan);
}

static void wrong_questions_are_refused(void **state) {
    (void)state;
    const weft_gemm p = small_gemm(0);
    weft_bench_options options = WEFT_BENCH_INIT;
    weft_plan *plan;
    weft_bench *bench = NULL;
    assert_int_equal(plan_for(&plan, &p, NULL, NULL, NULL), WEFT_OK);
    assert_int_equal(weft_bench_open(&bench, NULL, NULL, NULL), WEFT_INVALID);
    assert_int_equal(weft_bench_open(NULL, plan, NULL, NULL), WEFT_INVALID);
    options.struct_size = 3;
    assert_int_equal(weft_bench_open(&bench, plan, &options, NULL), WEFT_INVALID);
    assert_null(bench);
    weft_bench_close(NULL);
    weft_plan_destroy(plan);
}

static void medians(void **state) {
    (void)state;
    double three[] = {3, 1, 2}, four[] = {4, 1, 3, 2};
    assert_true(weft_median(three, 3) == 2 && weft_median(four, 4) == 2.5 && weft_median(four, 0) == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(plans_take_time),
                                       cmocka_unit_test(any_operation),
                                       cmocka_unit_test(added_products_need_a_reset),
                                       cmocka_unit_test(later_results_are_held_to_the_first),
                                       cmocka_unit_test(inputs_are_normal),
                                       cmocka_unit_test(lengths_come_with_the_data),
                                       cmocka_unit_test(rows_behind_the_last_sequence),
                                       cmocka_unit_test(only_what_is_required),
                                       cmocka_unit_test(wrong_questions_are_refused),
                                       cmocka_unit_test(medians)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
