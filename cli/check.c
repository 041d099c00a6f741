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
    enum {
        BLOCK = 1 << 16
    }; /* elements of one thread, with a generator of their own: the same for any number of threads */
    const uint64_t seed = random ? weft_random(random) : 0;
    const int64_t blocks = (int64_t)((count + BLOCK - 1) / BLOCK);
    void *data = malloc(count * weft_dtype_bytes(dtype));
#pragma omp parallel for
    for (int64_t b = 0; b < (data ? blocks : 0); b++) {
        const size_t begin = (size_t)b * BLOCK, end = begin + BLOCK < count ? begin + BLOCK : count;
        uint64_t start = seed + (uint64_t)b, state = weft_random(&start);
        for (size_t i = begin; i < end; i++) {
            weft_ref_store(dtype, data, i, random ? next_normal(&state) : NAN);
        }
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

/* In fp32 the sums have no more digits than the result: two units of its last place. */
double check_rounding(weft_dtype dtype) {
    return dtype == WEFT_FP32 ? 0x1p-22 : dtype == WEFT_FP16 ? 0x1p-11 : 0x1p-8;
}

/* Rounding the exact result once cannot be avoided, so it is always allowed. */
static void allow_rounding(check *c, weft_dtype dtype, double largest) {
    c->bound = fmax(c->bound, check_rounding(dtype) * largest);
}

/* How many of `count` items, each of `cost` operations, are checked: every `stride`-th. */
static int64_t check_stride(int64_t count, double cost) {
    const double affordable = fmax(1.0, CHECK_OPERATIONS / cost);
    return affordable >= (double)count ? 1 : (int64_t)ceil((double)count / affordable);
}

/* Compares one row of O, and its LSE. `weights` and `plain` are room for kv_seq numbers each. */
static void check_row(const weft_attention *p, const weft_attention_data *data, int64_t number, double *weights,
                      float *plain, check *c, double *largest) {
    const int64_t row = number % p->seq, head = number / p->seq % p->heads, batch = number / p->seq / p->heads;
    double exact[256], naive[256], lse;
    weft_ref_attention_row(p, data, batch, head, row, weights, exact, &lse);
    weft_ref_attention_row_naive(p, data, batch, head, row, plain, naive);
    const double got = (double)data->lse[(batch * p->heads + head) * p->seq + row];
    c->wrong |= !(lse == -INFINITY ? got == lse : fabs(got - lse) <= 1e-4 * fmax(1.0, fabs(lse)));
    const size_t at = weft_row_index(&p->o_strides, batch, row, head);
    for (int64_t d = 0; d < p->head_dim; d++) {
        compare(c, exact[d], naive[d], weft_ref_load(p->dtype, data->o, at + (size_t)d), largest);
    }
    c->checked++;
}

int check_attention(const weft_attention *p, const weft_attention_data *data, check *c) {
    const int64_t rows = p->batch * p->heads * p->seq;
    const int64_t stride = check_stride(rows, 8.0 * (double)p->kv_seq * (double)p->head_dim);
    double largest = 0;
    int failed = 0;
#pragma omp parallel
    {
        double *weights = malloc((size_t)p->kv_seq * sizeof *weights), my_largest = 0;
        float *plain = malloc((size_t)p->kv_seq * sizeof *plain);
        check mine = {0, 0, 0, 0};
        const int ready = weights && plain;
#pragma omp for schedule(dynamic, 16)
        for (int64_t i = 0; i < rows; i += stride) {
            if (ready) {
                check_row(p, data, i, weights, plain, &mine, &my_largest);
            }
        }
#pragma omp critical
        {
            c->max_error = fmax(c->max_error, mine.max_error);
            c->bound = fmax(c->bound, mine.bound);
            c->checked += mine.checked;
            c->wrong |= mine.wrong;
            largest = fmax(largest, my_largest);
            failed |= !ready;
        }
        free(weights);
        free(plain);
    }
    if (failed) {
        return complain(EXIT_FAILED, "out of memory");
    }
    allow_rounding(c, p->dtype, largest);
    return EXIT_OK;
}

void check_gemm(const weft_gemm *p, const weft_gemm_data *data, void *old_c, check *c) {
    const int64_t count = p->batch * p->m * p->n; /* at most 2^59: all of them are in memory */
    const int64_t stride = check_stride(count, 4.0 * (double)p->k);
    const int64_t bytes = (int64_t)weft_dtype_bytes(p->dtype), c_bytes = (int64_t)weft_dtype_bytes(p->c_dtype);
    double largest = 0;
    for (int64_t i = 0; i < count; i += stride, c->checked++) {
        const int64_t batch = i / (p->m * p->n), row = i / p->n % p->m, col = i % p->n;
        const weft_gemm_data before = {(const char *)data->a + batch * p->a_stride * bytes,
                                       (const char *)data->b + batch * p->b_stride * bytes,
                                       (char *)old_c + batch * p->c_stride * c_bytes};
        const size_t at = (size_t)(batch * p->c_stride) + weft_matrix_index(p->c_major, p->ldc, row, col);
        const double result = weft_ref_load(p->c_dtype, data->c, at);
        compare(c, weft_ref_gemm_element(p, &before, row, col), weft_ref_gemm_element_naive(p, &before, row, col), result,
                &largest);
    }
    allow_rounding(c, p->c_dtype, largest);
}
