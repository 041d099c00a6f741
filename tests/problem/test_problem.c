/* SPDX-License-Identifier: Apache-2.0 */
/* Problems: every bad field is named, with its value and what is allowed; defaults are filled in. */
#include "../cmocka_all.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../masks.h"
#include "../plans.h"
#include "problem/attention.h"
#include "problem/problem.h"

static weft_attention good_attention(void) {
    weft_attention p = WEFT_ATTENTION_INIT;
    p.batch = 2;
    p.heads = 8;
    p.kv_heads = 2;
    p.seq = 100;
    p.kv_seq = 200;
    p.head_dim = 56;
    return p;
}

static weft_gemm good_gemm(void) {
    weft_gemm p = WEFT_GEMM_INIT;
    p.m = 10;
    p.n = 20;
    p.k = 30;
    return p;
}

/* Sets one field of a good problem and expects one message. */
#define REFUSED(kind, field, value, expected)                                                                              \
    do {                                                                                                                   \
        weft_##kind p_ = good_##kind();                                                                                    \
        weft_message m_;                                                                                                   \
        p_.field = value;                                                                                                  \
        assert_int_equal(weft_problem_check(&p_, &m_), WEFT_INVALID);                                                      \
        assert_string_equal(m_.text, expected);                                                                            \
        assert_int_equal(weft_problem_check(&p_, NULL), WEFT_INVALID);                                                     \
    } while (0)

static void bad_attentions(void **state) {
    (void)state;
    REFUSED(attention, kv_heads, 3, "kv_heads 3 does not divide heads 8");
    REFUSED(attention, seq, 0, "seq 0 is not between 1 and 2147483647");
    REFUSED(attention, batch, -1, "batch -1 is not between 1 and 2147483647");
    REFUSED(attention, kv_seq, INT64_C(1) << 40, "kv_seq 1099511627776 is not between 1 and 2147483647");
    REFUSED(attention, heads, INT64_MIN, "heads -9223372036854775808 is not between 1 and 2147483647");
    REFUSED(attention, head_dim, 577, "head dims of 577 and, for V, 577 are not between 1 and 576");
    REFUSED(attention, head_dim_v, -1, "head dims of 56 and, for V, -1 are not between 1 and 576");
    REFUSED(attention, softcap, -1, "softcap -1 is not at least 0");
    REFUSED(attention, dropout, 1, "dropout 1 is not at least 0 and below 1");
    REFUSED(attention, chunk, -1, "chunk -1 or prefix 0 is not between 0 and 2147483647");
    REFUSED(attention, extras, 1 << 20, "extras 1048576 has bits that are no weft_attention_extras");
    REFUSED(attention, extras, WEFT_STARTS, "q_starts is only for a packed batch: sequences is 0");
    REFUSED(attention, sequences, 2, "a packed batch needs q_starts");
    REFUSED(attention, dtype, (weft_dtype)9, "dtype 9 is not WEFT_FP32, WEFT_FP16, WEFT_BF16 or WEFT_FP8");
    REFUSED(attention, mask, (weft_mask)7, "mask 7 is not a weft_mask");
    REFUSED(attention, layout, (weft_layout)5, "layout 5 is not WEFT_BSHD or WEFT_BHSD");
    REFUSED(attention, offset, 4, "offset 4 is only for masks WEFT_MASK_CAUSAL and WEFT_MASK_WINDOW");
    REFUSED(attention, scale, (double)INFINITY, "scale inf is not finite");
    REFUSED(attention, scale, -1e-31, "scale -1e-31 is not between 1e-30 and 1e30 in size");
    REFUSED(attention, scale, 1e31, "scale 1e+31 is not between 1e-30 and 1e30 in size");
    REFUSED(attention, softcap, 1e-31, "softcap 1e-31 is not between 1e-30 and 1e30 in size");
    REFUSED(attention, q_strides.seq, -8, "q_strides are negative: batch 0, seq -8, head 0");
    REFUSED(attention, k_strides.batch, INT64_MAX, "k spans more than 2^59 elements");
    REFUSED(attention, o_strides.seq, 56, "o_strides make rows of o overlap: batch 0, seq 56, head 0");
    REFUSED(attention, o_dtype, 1 + WEFT_FP16, "o_dtype 2 (fp16) is neither dtype (fp32) nor fp32");
    REFUSED(attention, o_dtype, 9, "o_dtype 9 (not 1 + a weft_dtype) is neither dtype (fp32) nor fp32");
    REFUSED(attention, o_dtype, -1, "o_dtype -1 (not 1 + a weft_dtype) is neither dtype (fp32) nor fp32");
    REFUSED(attention, struct_size, 0,
            "struct_size 0 of the problem is not one that this library knows: initialise it with its _INIT");

    weft_attention large = good_attention();
    weft_message message;
    large.batch = large.heads = large.kv_heads = large.seq = WEFT_MAX_DIMENSION;
    assert_int_equal(weft_problem_check(&large, &message), WEFT_INVALID);
    assert_string_equal(message.text, "batch 2147483647 x heads 2147483647 x seq 2147483647 exceeds 2^62");
    assert_int_equal(attention_sizes(&large).q, 0);
    large.batch = 1;
    large.heads = large.kv_heads = 1 << 20;
    assert_int_equal(weft_problem_check(&large, NULL), WEFT_OK);
    large.batch = 1 << 10;
    assert_int_equal(weft_problem_check(&large, &message), WEFT_INVALID);
    assert_string_equal(message.text, "q spans more than 2^59 elements");
    assert_int_equal(weft_problem_check(NULL, &message), WEFT_INVALID);
    assert_string_equal(message.text, "the problem is null");
}

/* Queries for the values. */
static void bad_qv(void **state) {
    (void)state;
    weft_attention p = good_attention(), r;
    weft_message message;
    p.extras = WEFT_QV;
    p.head_dim = 64;
    p.head_dim_v = 512;
    assert_int_equal(resolve_attention(&r, &p, NULL), WEFT_OK);
    assert_true(r.scale == 1 / sqrt(576.0));
    assert_int_equal(r.qv_strides.head, 512);
    assert_int_equal(r.qv_strides.seq, 8 * 512);
    assert_int_equal(r.qv_strides.batch, 100 * 8 * 512);
    assert_int_equal(attention_sizes(&p).qv, 2 * 100 * 8 * 512);
    assert_string_equal(weft_attention_lacks(&r, ~WEFT_HAS_QV), "queries for the values (qv)");
    p.operation = WEFT_ATTENTION_BACKWARD;
    assert_int_equal(weft_problem_check(&p, &message), WEFT_UNSUPPORTED);
    assert_string_equal(message.text, "attention backward does not take queries for the values (qv)");
    p.operation = WEFT_ATTENTION;
    p.qv_strides.head = -1;
    assert_int_equal(weft_problem_check(&p, &message), WEFT_INVALID);
    assert_string_equal(message.text, "qv_strides are negative: batch 0, seq 0, head -1");
    p.qv_strides.head = INT64_MAX;
    assert_int_equal(weft_problem_check(&p, &message), WEFT_INVALID);
    assert_string_equal(message.text, "qv spans more than 2^59 elements");
    p.extras = 0; /* then its strides say nothing */
    assert_int_equal(resolve_attention(&r, &p, NULL), WEFT_OK);
    assert_int_equal(r.qv_strides.head, 0);
    p.extras = WEFT_QV;
    p.head_dim = 65;
    assert_int_equal(weft_problem_check(&p, &message), WEFT_INVALID);
    assert_string_equal(message.text, "head dims of 65 and, for V, 512 are more than 576 together, and there is qv");
}

/* It is an input that must be there, and no output may overlap it. */
static void qv_is_a_buffer(void **state) {
    (void)state;
    weft_attention p = WEFT_ATTENTION_INIT;
    weft_attention_data data = WEFT_ATTENTION_DATA_INIT;
    weft_message message;
    float q[8], kv[8], o[16];
    p.seq = p.kv_seq = 2;
    p.head_dim = 4;
    p.extras = WEFT_QV;
    data.q = q;
    data.k = data.v = kv;
    data.o = o;
    assert_int_equal(weft_attention_forward(&p, &data, &message), WEFT_INVALID);
    assert_string_equal(message.text, "qv is null");
    data.qv = o + 7;
    assert_int_equal(weft_attention_forward(&p, &data, &message), WEFT_INVALID);
    assert_string_equal(message.text, "qv overlaps o");
}

/* What is of the dtype of results: outputs, and O where it is an input. */
static void results_in_fp32(void **state) {
    (void)state;
    static const struct {
        int32_t operation;
        const char *results;
    } passes[] = {{WEFT_ATTENTION, " o "}, {WEFT_ATTENTION_BACKWARD, " grad_q grad_k grad_v o "}};
    for (size_t pass = 0; pass < sizeof passes / sizeof *passes; pass++) {
        weft_attention p = good_attention(), r;
        weft_buffer buffer = WEFT_BUFFER_INIT;
        p.operation = passes[pass].operation;
        p.dtype = WEFT_BF16;
        p.o_dtype = 1 + WEFT_FP32;
        for (size_t i = 0; weft_problem_buffer(&p, i, &buffer, NULL) == WEFT_OK; i++) {
            char name[24];
            snprintf(name, sizeof name, " %s ", buffer.name);
            const int is_fp32 = strstr(passes[pass].results, name) || strcmp(buffer.name, "lse") == 0;
            assert_int_equal(buffer.dtype, is_fp32 ? WEFT_FP32 : WEFT_BF16);
        }
        assert_int_equal(resolve_attention(&r, &p, NULL), WEFT_OK);
        assert_string_equal(weft_attention_lacks(&r, ~WEFT_HAS_FP32_OUT), "results in fp32");
        p.o_dtype = 1 + WEFT_BF16; /* as they are without it */
        assert_int_equal(resolve_attention(&r, &p, NULL), WEFT_OK);
        assert_int_equal(r.o_dtype, 0);
        assert_null(weft_attention_lacks(&r, 0));
    }
}

static void bad_gemms(void **state) {
    (void)state;
    REFUSED(gemm, m, 0, "m 0 is not between 1 and 2147483647");
    REFUSED(gemm, k, -4, "k -4 is not between 1 and 2147483647");
    REFUSED(gemm, n, INT64_C(1) << 40, "n 1099511627776 is not between 1 and 2147483647");
    REFUSED(gemm, lda, 29, "lda 29 is less than 30, the length of a row of a");
    REFUSED(gemm, ldb, -1, "ldb -1 is less than 20, the length of a row of b");
    REFUSED(gemm, ldc, INT64_MAX, "c spans more than 2^59 elements");
    REFUSED(gemm, a_major, (weft_major)2, "a_major 2 is not WEFT_ROW_MAJOR or WEFT_COL_MAJOR");
    REFUSED(gemm, c_dtype, (weft_dtype)-1, "c_dtype -1 is not WEFT_FP32, WEFT_FP16, WEFT_BF16 or WEFT_FP8");
    REFUSED(gemm, precision, 3, "precision 3 is not a weft_precision");
    REFUSED(gemm, precision, -1, "precision -1 is not a weft_precision");
    REFUSED(gemm, alpha, 1e39, "alpha 1e+39 and beta 0 must be finite in fp32");
    REFUSED(gemm, beta, (double)NAN, "alpha 1 and beta nan must be finite in fp32");
}

static void defaults_are_filled_in(void **state) {
    (void)state;
    weft_attention p = good_attention(), r;
    p.mask = WEFT_MASK_CAUSAL_BOTTOM_RIGHT;
    assert_int_equal(resolve_attention(&r, &p, NULL), WEFT_OK);
    assert_int_equal(r.mask, WEFT_MASK_CAUSAL);
    assert_int_equal(r.offset, 100);
    assert_true(r.scale == 1 / sqrt(56.0));
    assert_int_equal(r.q_strides.head, 56);
    assert_int_equal(r.q_strides.seq, 8 * 56);
    assert_int_equal(r.q_strides.batch, 100 * 8 * 56);
    assert_int_equal(r.v_strides.batch, 200 * 2 * 56);
    p.layout = WEFT_BHSD;
    assert_int_equal(resolve_attention(&r, &p, NULL), WEFT_OK);
    assert_int_equal(r.k_strides.seq, 56);
    assert_int_equal(r.k_strides.head, 200 * 56);
    const weft_attention_extents sizes = attention_sizes(&p);
    assert_int_equal(sizes.q, 2 * 8 * 100 * 56);
    assert_int_equal(sizes.k, 2 * 2 * 200 * 56);
    assert_int_equal(sizes.lse, 2 * 8 * 100);
    assert_true(weft_problem_flops(&p) == 4.0 * 2 * 8 * 100 * 200 * 56 / 2);

    weft_gemm g = good_gemm(), h;
    g.a_major = WEFT_COL_MAJOR;
    assert_int_equal(resolve_gemm(&h, &g, NULL), WEFT_OK);
    assert_int_equal(h.lda, 10);
    assert_int_equal(h.ldb, 20);
    assert_int_equal(gemm_sizes(&g).b, 600);
    assert_true(weft_problem_flops(&g) == 12000.0);
}

/* Nothing is a stride away where an axis has length 1: any stride is taken, and none is left that overflows in bytes. */
static void strides_of_single_rows(void **state) {
    (void)state;
    const int64_t most = INT64_MAX / (int64_t)sizeof(float);
    weft_attention p = WEFT_ATTENTION_INIT, r;
    p.batch = p.heads = p.kv_heads = p.seq = p.kv_seq = 1;
    p.head_dim = 8;
    p.q_strides = p.k_strides = p.v_strides = p.o_strides = (weft_strides){INT64_MAX, INT64_MAX, INT64_MAX};
    assert_int_equal(resolve_attention(&r, &p, NULL), WEFT_OK);
    const weft_strides all[] = {r.q_strides, r.k_strides, r.v_strides, r.o_strides};
    for (size_t i = 0; i < 4; i++) {
        assert_true(all[i].batch <= most && all[i].seq <= most && all[i].head <= most);
    }
    assert_int_equal(attention_sizes(&p).o, 8);

    weft_gemm g = WEFT_GEMM_INIT, h;
    g.m = g.n = g.k = 1;
    g.lda = g.ldb = g.ldc = g.a_stride = g.b_stride = INT64_MAX;
    g.c_stride = INT64_MIN;
    assert_int_equal(resolve_gemm(&h, &g, NULL), WEFT_OK);
    assert_true(h.lda <= most && h.ldb <= most && h.ldc <= most);
    assert_true(h.a_stride == 1 && h.b_stride == 1 && h.c_stride == 1);
    assert_int_equal(gemm_sizes(&g).c, 1);
}

static void visible_keys(void **state) {
    (void)state;
    weft_attention p = good_attention(), r;
    p.mask = WEFT_MASK_CAUSAL;
    p.offset = -3;
    assert_int_equal(resolve_attention(&r, &p, NULL), WEFT_OK);
    assert_int_equal(weft_seen_keys(&r, 0, 0).end, 0);
    assert_int_equal(weft_seen_keys(&r, 0, 2).end, 0);
    assert_int_equal(weft_seen_keys(&r, 0, 3).end, 1);
    assert_int_equal(weft_seen_keys(&r, 0, 99).end, 97);
    r.offset = 150;
    assert_int_equal(weft_seen_keys(&r, 0, 99).end, 200);
}

/* A resolved problem shows what the mask says in words, and its operations are those of the pairs seen. */
static void seen_keys_are_those_of_the_mask(void **state) {
    (void)state;
    uint64_t random = random_seed(17);
    for (int round = 0; random_round(&random, &round, 300); round++) {
        weft_attention p = WEFT_ATTENTION_INIT, r;
        p.head_dim = 8;
        p.seq = random_between(&random, 1, 40);
        p.kv_seq = random_between(&random, 1, 40);
        draw_mask(&random, &p);
        assert_int_equal(resolve_attention(&r, &p, NULL), WEFT_OK);
        int64_t pairs = 0, most = 0;
        for (int64_t i = 0; i < p.seq; i++) {
            const weft_rows seen = weft_seen_keys(&r, 0, i);
            assert_true(0 <= seen.begin && seen.begin <= seen.end && seen.end <= p.kv_seq);
            most = seen.end - seen.begin > most ? seen.end - seen.begin : most;
            for (int64_t j = 0; j < p.kv_seq; j++) {
                assert_int_equal(j >= seen.begin && j < seen.end, mask_shows(&p, i, j));
                pairs += j >= seen.begin && j < seen.end;
            }
        }
        assert_true(weft_most_seen(&r) >= most);
        if (r.mask == WEFT_MASK_WINDOW) {
            const weft_problem problem = {.attention = r};
            assert_true(weft_attention_forward_flops(&problem) == 32.0 * (double)pairs);
        }
        weft_attention again; /* what was resolved is a problem, too */
        assert_int_equal(resolve_attention(&again, &r, NULL), WEFT_OK);
        assert_memory_equal(&again, &r, sizeof r);
    }
}

static void windows_that_are_refused(void **state) {
    (void)state;
    weft_attention p = good_attention(), r;
    weft_message message;
    p.left = 3;
    assert_int_equal(resolve_attention(&r, &p, &message), WEFT_INVALID);
    assert_non_null(strstr(message.text, "only for mask WEFT_MASK_WINDOW"));
    p.mask = WEFT_MASK_WINDOW_BOTTOM_RIGHT;
    p.offset = 1;
    assert_int_equal(resolve_attention(&r, &p, &message), WEFT_INVALID);
    p.mask = WEFT_MASK_WINDOW;
    p.left = p.right = INT64_MAX;
    assert_int_equal(resolve_attention(&r, &p, &message), WEFT_OK);
    assert_int_equal(r.mask, WEFT_MASK_NONE);
    p.mask = (weft_mask)5;
    assert_int_equal(resolve_attention(&r, &p, &message), WEFT_INVALID);
}

/* A stride that repeats an input is fine; an output that would be written twice is not. */
static void repeated_inputs(void **state) {
    (void)state;
    weft_attention p = good_attention();
    p.k_strides = (weft_strides){0, 112, 56}; /* the same keys for both batches */
    assert_int_equal(weft_problem_check(&p, NULL), WEFT_OK);
    assert_int_equal(attention_sizes(&p).k, 199 * 112 + 56 + 56);
    p.o_strides = (weft_strides){0, 448, 56};
    assert_int_equal(weft_problem_check(&p, NULL), WEFT_INVALID);
    p.o_strides = (weft_strides){100000, 448, 56};
    assert_int_equal(weft_problem_check(&p, NULL), WEFT_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(bad_attentions),
                                       cmocka_unit_test(results_in_fp32),
                                       cmocka_unit_test(bad_qv),
                                       cmocka_unit_test(qv_is_a_buffer),
                                       cmocka_unit_test(bad_gemms),
                                       cmocka_unit_test(defaults_are_filled_in),
                                       cmocka_unit_test(strides_of_single_rows),
                                       cmocka_unit_test(visible_keys),
                                       cmocka_unit_test(seen_keys_are_those_of_the_mask),
                                       cmocka_unit_test(windows_that_are_refused),
                                       cmocka_unit_test(repeated_inputs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
