#include "verbs/check.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#include "cli.h"
#include "cpu/thread/team.h"
#include "problem/problem.h"
#include "base/random.h"
#include "ref/ref.h"

/* The check costs as much as the reference, so large problems are checked on a sample of about this many operations. */
static const double CHECK_OPERATIONS = 4e9;

static double next_normal(uint64_t *state) {
    const double u = weft_random_real(state), v = weft_random_real(state);
    return sqrt(-2.0 * log(1.0 - u)) * cos(6.283185307179586 * v);
}

/* A buffer that is filled over threads. */
typedef struct filling {
    weft_dtype dtype;
    void *data;
    size_t count;
    int is_random;
    uint64_t seed;
} filling;

enum { BLOCK = 1 << 16 }; /* elements with a generator of their own: the same for any number of threads */

static void fill_block(void *context, int64_t block) {
    const filling *f = context;
    const size_t begin = (size_t)block * BLOCK, end = begin + BLOCK < f->count ? begin + BLOCK : f->count;
    uint64_t start = f->seed + (uint64_t)block, state = weft_random(&start);
    for (size_t i = begin; i < end; i++) {
        weft_ref_store(f->dtype, f->data, i, f->is_random ? next_normal(&state) : NAN);
    }
}

void *make_buffer(weft_dtype dtype, size_t count, uint64_t *random) {
    filling f = {dtype, malloc(count * weft_dtype_bytes(dtype)), count, random != NULL, random ? weft_random(random) : 0};
    weft_cpu_for(f.data ? (int64_t)((count + BLOCK - 1) / BLOCK) : 0, fill_block, &f);
    return f.data;
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

/* Rows that are checked over threads. */
typedef struct checking {
    const weft_attention *problem;
    const weft_attention_data *data;
    int64_t rows, stride, next; /* next: the first row that nobody has taken */
    pthread_mutex_t lock;       /* of the rest: the sum of what threads found */
    check *total;
    double largest;
    int failed;
} checking;

static void check_rows(void *context, int64_t thread, int64_t threads) {
    (void)thread;
    (void)threads;
    checking *all = context;
    const weft_attention *p = all->problem;
    double *weights = malloc((size_t)p->kv_seq * sizeof *weights), largest = 0;
    float *plain = malloc((size_t)p->kv_seq * sizeof *plain);
    check mine = {0, 0, 0, 0};
    int64_t row;
    while (weights && plain && (row = __atomic_fetch_add(&all->next, all->stride, __ATOMIC_RELAXED)) < all->rows) {
        check_row(p, all->data, row, weights, plain, &mine, &largest);
    }
    pthread_mutex_lock(&all->lock);
    all->total->max_error = fmax(all->total->max_error, mine.max_error);
    all->total->bound = fmax(all->total->bound, mine.bound);
    all->total->checked += mine.checked;
    all->total->wrong |= mine.wrong;
    all->largest = fmax(all->largest, largest);
    all->failed |= !weights || !plain;
    pthread_mutex_unlock(&all->lock);
    free(weights);
    free(plain);
}

int check_attention(const weft_attention *p, const weft_attention_data *data, check *c) {
    const int64_t rows = p->batch * p->heads * p->seq;
    checking all = {.problem = p, .data = data, .rows = rows, .total = c, .lock = PTHREAD_MUTEX_INITIALIZER};
    all.stride = check_stride(rows, 8.0 * (double)p->kv_seq * (double)p->head_dim);
    weft_cpu_team(0, check_rows, &all);
    if (all.failed) {
        return complain(EXIT_FAILED, "out of memory");
    }
    allow_rounding(c, p->dtype, all.largest);
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
