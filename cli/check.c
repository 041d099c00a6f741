#include "check.h"

#include <math.h>
#include <stdlib.h>

#include "cli.h"
#include "plan/problem.h"
#include "plan/random.h"
#include "ref/ref.h"

/* The check costs as much as the reference, so large problems are checked on a sample of about this many operations. */
static const double CHECK_OPERATIONS = 4e9;

static double next_normal(uint64_t *state) {
    const double u = weft_random_real(state), v = weft_random_real(state);
    return sqrt(-2.0 * log(1.0 - u)) * cos(6.283185307179586 * v);
}

void *make_buffer(weft_dtype dtype, size_t count, uint64_t *random) {
    void *data = malloc(count * weft_dtype_bytes(dtype));
    for (size_t i = 0; data && i < count; i++) {
        weft_ref_store(dtype, data, i, random ? next_normal(random) : NAN);
    }
    return data;
}

static void compare(check *c, double exact, double naive, double result, double *largest) {
    if (isfinite(exact) && !isfinite(result)) {
        c->wrong = 1;
    }
    c->max_error = fmax(c->max_error, fabs(result - exact));
    c->bound = fmax(c->bound, 2 * fabs(naive - exact));
    *largest = fmax(*largest, fabs(exact));
}

/* Rounding the exact result once cannot be avoided, so it is always allowed; where the sums have no more digits than the
 * result, two units of its last place. */
static void allow_rounding(check *c, weft_dtype dtype, double largest) {
    const double rounding = dtype == WEFT_FP32 ? 0x1p-22 : dtype == WEFT_FP16 ? 0x1p-11 : 0x1p-8;
    c->bound = fmax(c->bound, rounding * largest);
}

/* How many of `count` items, each of `cost` operations, are checked: every `stride`-th. */
static int64_t check_stride(int64_t count, double cost) {
    const double affordable = fmax(1.0, CHECK_OPERATIONS / cost);
    return affordable >= (double)count ? 1 : (int64_t)ceil((double)count / affordable);
}

int check_attention(const weft_attention *p, const weft_attention_data *data, check *c) {
    double *weights = malloc((size_t)p->kv_seq * sizeof *weights);
    float *plain = malloc((size_t)p->kv_seq * sizeof *plain);
    double exact[256], naive[256], lse, largest = 0;
    const int64_t rows = p->batch * p->heads * p->seq;
    const int64_t stride = check_stride(rows, 8.0 * (double)p->kv_seq * (double)p->head_dim);
    int code = EXIT_OK;
    if (!weights || !plain) {
        code = complain(EXIT_FAILED, "out of memory");
    } else {
        for (int64_t i = 0; i < rows; i += stride, c->checked++) {
            const int64_t row = i % p->seq, head = i / p->seq % p->heads, batch = i / p->seq / p->heads;
            weft_ref_attention_row(p, data, batch, head, row, weights, exact, &lse);
            weft_ref_attention_row_naive(p, data, batch, head, row, plain, naive);
            const double got = (double)data->lse[(batch * p->heads + head) * p->seq + row];
            c->wrong |= !(lse == -INFINITY ? got == lse : fabs(got - lse) <= 1e-4 * fmax(1.0, fabs(lse)));
            const size_t at = weft_row_index(&p->o_strides, batch, row, head);
            for (int64_t d = 0; d < p->head_dim; d++) {
                compare(c, exact[d], naive[d], weft_ref_load(p->dtype, data->o, at + (size_t)d), &largest);
            }
        }
        allow_rounding(c, p->dtype, largest);
    }
    free(weights);
    free(plain);
    return code;
}

void check_gemm(const weft_gemm *p, const weft_gemm_data *data, void *old_c, check *c) {
    const weft_gemm_data before = {data->a, data->b, old_c};
    const int64_t count = p->m * p->n;
    const int64_t stride = check_stride(count, 4.0 * (double)p->k);
    double largest = 0;
    for (int64_t i = 0; i < count; i += stride, c->checked++) {
        const int64_t row = i / p->n, col = i % p->n;
        const double result = weft_ref_load(p->c_dtype, data->c, weft_matrix_index(p->c_major, p->ldc, row, col));
        compare(c, weft_ref_gemm_element(p, &before, row, col), weft_ref_gemm_element_naive(p, &before, row, col), result,
                &largest);
    }
    allow_rounding(c, p->c_dtype, largest);
}
