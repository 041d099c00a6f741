/* SPDX-License-Identifier: Apache-2.0 */
/* Elements beyond the 2^31st: rows so far apart that no 32-bit index reaches them give the bits that rows side by side
 * give. The memory between them is never touched, and so takes none. */
#include "../ref/tensors.h"

#include <sys/mman.h>

static const int64_t FAR = (INT64_C(1) << 32) + 8; /* elements: beyond unsigned indices too */

/* Room for `rows` rows of bf16, FAR apart; null where the system has no addresses for them. */
static uint16_t *far_new(int64_t rows) {
    void *data =
        mmap(NULL, (size_t)(rows * FAR) * 2, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return data == MAP_FAILED ? NULL : data;
}

static void far_free(uint16_t *data, int64_t rows) {
    if (data) {
        munmap(data, (size_t)(rows * FAR) * 2);
    }
}

/* `rows` rows of `length` elements: to far apart, or back. */
static void spread(uint16_t *far, uint16_t *near, int64_t rows, int64_t length, int back) {
    for (int64_t i = 0; i < rows; i++) {
        memcpy(back ? near + i * length : far + i * FAR, back ? far + i * FAR : near + i * length, (size_t)length * 2);
    }
}

enum { TENSORS = 8 }; /* q, k, v, o, the gradient of o, and those of q, k, v */

/* Runs forward and backward with rows of `length` elements side by side and far apart, and compares o and all gradients. */
static void check_attention(const weft_attention *near_problem, const weft_attention *far_problem, int64_t q_rows,
                            int64_t kv_rows, int64_t q_length, int64_t kv_length) {
    uint64_t random = random_seed(1);
    uint16_t *near[TENSORS], *far[TENSORS], *got;
    int64_t rows[TENSORS], length[TENSORS], has_all = 1;
    for (int i = 0; i < TENSORS; i++) {
        const int of_keys = i == 1 || i == 2 || i >= 6;
        rows[i] = of_keys ? kv_rows : q_rows;
        length[i] = of_keys ? kv_length : q_length;
        near[i] = random_buffer(&random, WEFT_BF16, (size_t)(rows[i] * length[i]));
        far[i] = far_new(rows[i]);
        has_all &= far[i] != NULL;
    }
    for (int i = 0; has_all && i < 5; i++) {
        spread(far[i], near[i], rows[i], length[i], 0);
    }
    for (int is_far = 0; has_all && is_far < 2; is_far++) {
        uint16_t **t = is_far ? far : near;
        const weft_attention *p = is_far ? far_problem : near_problem;
        const weft_attention_data data = {.struct_size = sizeof(weft_attention_data),
                                          .operation = WEFT_ATTENTION,
                                          .q = t[0],
                                          .k = t[1],
                                          .v = t[2],
                                          .o = t[3]};
        const weft_attention_gradients gradients = {.struct_size = sizeof(weft_attention_gradients),
                                                    .operation = WEFT_ATTENTION_BACKWARD,
                                                    .q = t[0],
                                                    .k = t[1],
                                                    .v = t[2],
                                                    .grad_o = t[4],
                                                    .grad_q = t[5],
                                                    .grad_k = t[6],
                                                    .grad_v = t[7]};
        weft_message message = {""};
        if (weft_attention_forward(p, &data, &message) || weft_attention_backward(p, &gradients, &message)) {
            fail_msg("%s", message.text);
        }
    }
    for (int i = 3; has_all && i < TENSORS; i++) {
        got = malloc((size_t)(rows[i] * length[i]) * 2);
        assert_non_null(got);
        spread(far[i], got, rows[i], length[i], 1);
        assert_memory_equal(got, near[i], (size_t)(rows[i] * length[i]) * 2);
        free(got);
    }
    for (int i = 0; i < TENSORS; i++) {
        guarded_free(near[i]);
        far_free(far[i], rows[i]);
    }
    if (!has_all) {
        skip();
    }
}

static void attention(void **state) {
    (void)state;
    weft_attention near = WEFT_ATTENTION_INIT;
    near.seq = 4;
    near.kv_seq = 3;
    near.head_dim = 16;
    near.dtype = WEFT_BF16;
    weft_attention far = near;
    far.q_strides = far.k_strides = far.v_strides = far.o_strides = (weft_strides){4 * FAR, FAR, FAR};
    check_attention(&near, &far, near.seq, near.kv_seq, near.head_dim, near.head_dim);
}

/* One query against keys enough for several parts, in two batches that are far apart. */
static void decode(void **state) {
    (void)state;
    weft_attention near = WEFT_ATTENTION_INIT;
    near.batch = 2;
    near.seq = 1;
    near.kv_seq = 2000;
    near.head_dim = 8;
    near.dtype = WEFT_BF16;
    weft_attention far = near;
    far.q_strides = far.o_strides = (weft_strides){FAR, 8, 8};
    far.k_strides = far.v_strides = (weft_strides){FAR, 8, 8 * near.kv_seq};
    check_attention(&near, &far, near.batch, near.batch, near.head_dim, near.kv_seq * near.head_dim);
}

static void gemm(void **state) {
    (void)state;
    weft_gemm p = WEFT_GEMM_INIT;
    p.m = 5;
    p.n = 7;
    p.k = 6;
    p.dtype = p.c_dtype = WEFT_BF16;
    uint64_t random = random_seed(2);
    uint16_t *a = random_buffer(&random, WEFT_BF16, 30), *b = random_buffer(&random, WEFT_BF16, 42), c[35], got[35];
    uint16_t *far_a = far_new(p.m), *far_b = far_new(p.k), *far_c = far_new(p.m);
    const int has_all = far_a && far_b && far_c;
    if (has_all) {
        const weft_gemm_data near = gemm_data(a, b, c), far = gemm_data(far_a, far_b, far_c);
        spread(far_a, a, p.m, p.k, 0);
        spread(far_b, b, p.k, p.n, 0);
        assert_int_equal(weft_gemm_multiply(&p, &near, NULL), WEFT_OK);
        p.lda = p.ldb = p.ldc = FAR;
        assert_int_equal(weft_gemm_multiply(&p, &far, NULL), WEFT_OK);
        spread(far_c, got, p.m, p.n, 1);
        assert_memory_equal(got, c, sizeof c);
    }
    far_free(far_a, p.m);
    far_free(far_b, p.k);
    far_free(far_c, p.m);
    guarded_free(a);
    guarded_free(b);
    if (!has_all) {
        skip();
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(attention), cmocka_unit_test(decode), cmocka_unit_test(gemm)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
