/* SPDX-License-Identifier: Apache-2.0 */
/* What an attention may ask for, every feature alone and in pairs, on every kernel: against the reference. */
#include "../attentions.h"

#include "../../features.h"
#include "cpu/kernel/kernel.h"

/* Calls `check` with the name of each kernel that this processor can run in WEFT_CPU. */
static void each_kernel(void (*check)(void)) {
    int usable;
    const weft_cpu_kernel *kernel;
    for (size_t i = 0; (kernel = weft_cpu_kernel_at(i, &usable)); i++) {
        assert_int_equal(setenv("WEFT_CPU", kernel->name, 1), 0);
        if (usable) {
            check();
        }
    }
    unsetenv("WEFT_CPU");
}

/* A small problem with these features, and its tensors. The reference takes lengths from the problem, the plan those that
 * the problem leaves open from the data. */
static weft_attention draw(uint64_t *random, int round, int32_t bits, int with_qv, drawn_lengths *lengths, tensors *t) {
    weft_attention p = random_attention(random, round);
    const weft_strides packed = {0, 0, 0};
    p.q_strides = p.k_strides = p.v_strides = p.o_strides = packed;
    if (round % 9 == 8 && !(bits & WEFT_HAS_LARGE_DIM)) { /* several blocks of a backward pass */
        p.heads = p.kv_heads = 1;
        p.seq += 150;
        p.kv_seq += 200;
        draw_mask(random, &p);
    }
    if (bits & WEFT_HAS_LARGE_DIM) {
        p.seq = p.seq / 4 + 1;
        p.kv_seq = p.kv_seq / 4 + 1;
        draw_mask(random, &p);
    }
    draw_features(random, &p, bits, 16, lengths);
    p.scale = round % 7 == 6 ? -0.3 : 0;
    if (with_qv) { /* both head dims are at most the largest one */
        p.extras |= WEFT_QV;
        p.head_dim = weft_smaller(p.head_dim, WEFT_MAX_HEAD_DIM - 64);
        p.head_dim_v = weft_smaller(p.head_dim_v ? p.head_dim_v : p.head_dim, WEFT_MAX_HEAD_DIM - p.head_dim);
    }
    if (round % 4 == 0) {
        pad_problem(&p, 3);
    }
    *t = tensors_new(random, &p);
    t->p.lengths = t->data.lengths = lengths->all;
    t->p.pairs = t->data.pairs = lengths->pairs;
    return p;
}

static void check_forward(void) {
    uint64_t random = random_seed(110);
    for (int round = 0; random_round(&random, &round, 2 * FEATURES); round++) {
        const int32_t bits = draw_pair(&random, round);
        drawn_lengths lengths;
        tensors t;
        const weft_attention p = draw(&random, round, bits, round % 3 == 1, &lengths, &t);
        const weft_schedule s = random_schedule(&random, &p);
        run(&t, &p, round % 3 ? &s : NULL);
        compare(&t);
        tensors_check_borders(&t);
        tensors_free(&t);
    }
}

static void forward(void **state) {
    (void)state;
    each_kernel(check_forward);
}

/* A value that a query does not see or drops adds nothing, whatever it is. One whose score is -inf, by a bias or beside a
 * sink, may give 0 or NaN. */
static void hidden_values_add_nothing(void **state) {
    (void)state;
    static const int32_t hiding[] = {WEFT_HAS_LENGTHS, WEFT_HAS_CHUNK,  WEFT_HAS_PREFIX,
                                     WEFT_HAS_DROPOUT, WEFT_HAS_BLOCKS, WEFT_HAS_TREE};
    uint64_t random = random_seed(130);
    for (int round = 0; random_round(&random, &round, 100); round++) {
        drawn_lengths lengths;
        tensors t;
        const int32_t bits = (hiding[round % 6] | draw_pair(&random, round)) & ~(WEFT_HAS_SINKS | WEFT_HAS_BIAS);
        const int with_qv = round % 4 == 3 && !(bits & WEFT_HAS_DROPOUT); /* else scores of dropped keys are NaN: spoil() */
        const weft_attention p = draw(&random, 3 * round, bits, with_qv, &lengths, &t); /* fp32 */
        const weft_schedule s = random_schedule(&random, &p);
        spoil(&random, &t);
        run(&t, &p, &s);
        compare_spoilt(&t);
        tensors_free(&t);
    }
}

/* Backward tiles are cut every 96 keys, so some problems are longer. */
static void check_gradients(void) {
    uint64_t random = random_seed(120);
    for (int round = 0; random_round(&random, &round, FEATURES); round++) {
        const int32_t bits = draw_pair(&random, round);
        drawn_lengths lengths;
        tensors t;
        const weft_attention p = draw(&random, round, bits, 0, &lengths, &t);
        check_backward(&random, &t, &p, round);
        tensors_free(&t);
    }
}

static void backward(void **state) {
    (void)state;
    each_kernel(check_gradients);
}

/* Block masks and tree masks, forward and backward, each with another feature; scales of either sign, and blocks that do
 * not fit a backward pass's. */
static void masks_of_pairs(void **state) {
    (void)state;
    uint64_t random = random_seed(140);
    for (int round = 0; random_round(&random, &round, 3 * FEATURES); round++) {
        const int32_t bits = draw_pair(&random, round) | (round % 3 ? WEFT_HAS_BLOCKS : WEFT_HAS_TREE);
        static drawn_lengths lengths;
        tensors t;
        weft_attention p = draw(&random, round % 2 ? 8 : round, bits & ~WEFT_HAS_LARGE_DIM, 0, &lengths, &t);
        p.scale = t.p.scale = round % 4 < 2 ? -0.3 : 0.2;
        const weft_schedule s = random_schedule(&random, &p);
        run(&t, &p, &s);
        compare(&t);
        check_backward(&random, &t, &p, round);
        tensors_free(&t);
    }
}

/* The largest errors of O, dQ, dK and dV. V and dO are positive, so that the roundings of weights cancel in sums of them,
 * and those of the results are what is left. */
static void errors_of(int64_t seq, int64_t kv_seq, weft_dtype dtype, int32_t o_dtype, double errors[4]) {
    uint64_t random = random_seed(150);
    weft_attention p = WEFT_ATTENTION_INIT;
    p.heads = 4;
    p.kv_heads = 2;
    p.seq = seq;
    p.kv_seq = kv_seq;
    p.head_dim = 32;
    p.dtype = dtype;
    tensors t = tensors_new(&random, &p); /* the same inputs for each dtype of results */
    void *grad_o = random_buffer(&random, dtype, t.size.o);
    for (size_t i = 0; i < t.size.v; i++) {
        weft_ref_store(dtype, t.v, i, 0.75 + 0.25 * weft_ref_load(dtype, t.v, i));
    }
    for (size_t i = 0; i < t.size.o; i++) {
        weft_ref_store(dtype, grad_o, i, 0.75 + 0.25 * weft_ref_load(dtype, grad_o, i));
    }
    weft_attention exact = t.p;
    weft_attention_data want = t.data, got = t.data;
    const size_t counts[] = {t.size.o, t.size.q, t.size.k, t.size.v};
    void *results[2][4]; /* ours, and the reference's */
    p.o_dtype = o_dtype;
    exact.o_dtype = dtype == WEFT_FP32 ? 0 : 1 + WEFT_FP32;
    for (int i = 0; i < 4; i++) {
        results[0][i] = guarded_new(counts[i] * sizeof(float));
        results[1][i] = guarded_new(counts[i] * sizeof(float));
    }
    void *const ours[5] = {results[0][1], results[0][2], results[0][3]};
    void *const theirs[5] = {results[1][1], results[1][2], results[1][3]};
    got.o = results[0][0];
    want.o = results[1][0];
    assert_int_equal(weft_ref_attention(&exact, &want, NULL), WEFT_OK);
    assert_int_equal(weft_attention_forward(&p, &got, NULL), WEFT_OK);
    weft_attention_gradients data = gradients_of(&t, grad_o, theirs);
    assert_int_equal(weft_ref_attention_backward(&exact, &data, NULL), WEFT_OK);
    data = gradients_of(&t, grad_o, ours);
    assert_int_equal(weft_attention_backward(&p, &data, NULL), WEFT_OK);
    for (int i = 0; i < 4; i++) {
        errors[i] = 0;
        for (size_t k = 0; k < counts[i]; k++) {
            const double x = weft_ref_load(o_dtype ? WEFT_FP32 : dtype, results[0][i], k);
            errors[i] = fmax(errors[i], fabs(x - weft_ref_load(WEFT_FP32, results[1][i], k)));
        }
        guarded_free(results[0][i]);
        guarded_free(results[1][i]);
    }
    guarded_free(grad_o);
    tensors_free(&t);
}

/* Results in fp32 are several times as exact: all of them by a kernel whose products are of fp32. Others round weights and
 * the gradients of scores, which cancels in sums of many weights: O, and dV of many queries. */
static void check_results_in_fp32(void) {
    static const int64_t sizes[][2] = {{1, 1500}, {100, 300}}; /* a decode, and many queries */
    for (int i = 0; i < 4; i++) {
        const weft_dtype dtype = i % 2 ? WEFT_FP16 : WEFT_BF16;
        const int64_t seq = sizes[i / 2][0], kv_seq = sizes[i / 2][1];
        const int all = weft_cpu_choose(WEFT_CPU_ATTENTION, dtype)->dtype == WEFT_FP32, of_sums[] = {1, 0, 0, seq > 1};
        double rounded[4], exact[4];
        errors_of(seq, kv_seq, dtype, 0, rounded);
        errors_of(seq, kv_seq, dtype, 1 + WEFT_FP32, exact);
        for (int k = 0; k < 4; k++) {
            assert_true(exact[k] < rounded[k] / 4 || !(all || of_sums[k]));
        }
    }
}

static void results_in_fp32(void **state) {
    (void)state;
    each_kernel(check_results_in_fp32);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(forward), cmocka_unit_test(hidden_values_add_nothing),
                                       cmocka_unit_test(backward), cmocka_unit_test(masks_of_pairs),
                                       cmocka_unit_test(results_in_fp32)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
