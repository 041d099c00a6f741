/* Random products on a GPU, held to the reference in fp64 over poison: what the device tests of GEMM kernels share. */
#ifndef WEFT_TESTS_CUDA_GEMM_TRIAL_H
#define WEFT_TESTS_CUDA_GEMM_TRIAL_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "cuda/driver/driver.h"
#include "plan/plan.h"
#include "problem/problem.h"
#include "ref/ref.h"

enum { SAMPLES = 4000 };
enum { PATTERN = 8 << 20 }; /* random numbers that are repeated in large matrices */

static uint64_t seed;

static int64_t between(int64_t low, int64_t high) {
    return low + (int64_t)(weft_random_real(&seed) * (double)(high - low + 1));
}

static int64_t to_8(int64_t value) {
    return (value + 7) / 8 * 8;
}

/* A matrix on the host and on the GPU. */
typedef struct matrix {
    void *host;
    uint64_t there;
    size_t count, bytes;
    weft_dtype dtype;
} matrix;

static int make(const weft_cuda_driver *d, matrix *m, weft_dtype dtype, size_t count) {
    *m = (matrix){malloc(count * weft_dtype_bytes(dtype) + 4), 0, count, count * weft_dtype_bytes(dtype), dtype};
    const size_t bytes = weft_dtype_bytes(dtype);
    for (size_t i = 0; m->host && i < count && i < PATTERN; i++) {
        const double u = weft_random_real(&seed), v = weft_random_real(&seed);
        weft_ref_store(dtype, m->host, i, sqrt(-2 * log(1 - u)) * cos(6.283185307179586 * v));
    }
    for (size_t i = PATTERN; m->host && i < count; i += PATTERN) {
        memcpy((char *)m->host + i * bytes, m->host, (count - i < PATTERN ? count - i : PATTERN) * bytes);
    }
    return m->host && d->memory_new(&m->there, m->bytes + 4) == 0 && d->copy_in(m->there, m->host, m->bytes) == 0;
}

static void release(const weft_cuda_driver *d, matrix *m) {
    free(m->host);
    if (m->there) {
        d->memory_free(m->there);
    }
}

static double towards_zero(double value) {
    const float rounded = (float)value;
    return fabs((double)rounded) > fabs(value) ? (double)nextafterf(rounded, 0) : (double)rounded;
}

/* An element of A B as this chip adds: sixteen products at once, all cut off two bits below the last one of the largest,
 * and their sum cut off to fp32, not rounded. */
static double sum_of_the_chip(const weft_gemm *p, const weft_gemm_data *data, int64_t row, int64_t col) {
    double sum = 0;
    for (int64_t k = 0; k < p->k; k += 16) {
        double terms[17] = {sum}, largest = fabs(sum);
        int exponent;
        for (int64_t i = 0; i < 16 && k + i < p->k; i++) {
            terms[1 + i] = weft_ref_load(p->dtype, data->a, weft_matrix_index(p->a_major, p->lda, row, k + i)) *
                           weft_ref_load(p->dtype, data->b, weft_matrix_index(p->b_major, p->ldb, k + i, col));
            largest = fmax(largest, fabs(terms[1 + i]));
        }
        (void)frexp(largest, &exponent);
        const double last = ldexp(1, exponent - 25);
        sum = 0;
        for (int i = 0; i < 17; i++) {
            sum += trunc(terms[i] / last) * last;
        }
        sum = towards_zero(sum);
    }
    return sum;
}

/* Whether the result is as near to the reference as a plain sum in fp32 is, rounded or as the chip adds, twice over, and
 * one rounding. */
static int right(const weft_gemm *p, const matrix *a, const matrix *b, const matrix *c, const void *got) {
    const int64_t count = p->batch * p->m * p->n, samples = p->k > 4096 ? SAMPLES / 32 : SAMPLES,
                  stride = (count / samples + 1) | 1; /* odd, for all columns to have their turn */
    const int64_t bytes = (int64_t)weft_dtype_bytes(p->dtype), c_bytes = (int64_t)weft_dtype_bytes(p->c_dtype);
    const double unit = p->c_dtype == WEFT_BF16 ? 0x1p-8 : p->c_dtype == WEFT_FP16 ? 0x1p-11 : 0x1p-22;
    double error = 0, naive = 0, cut = 0, largest = 0;
    int finite = 1;
    for (int64_t i = 0; i < count; i += stride) {
        const int64_t batch = i / (p->m * p->n), row = i / p->n % p->m, col = i % p->n;
        const weft_gemm_data one = {sizeof(weft_gemm_data), WEFT_GEMM, (const char *)a->host + batch * p->a_stride * bytes,
                                    (const char *)b->host + batch * p->b_stride * bytes,
                                    (char *)c->host + batch * p->c_stride * c_bytes};
        const double exact = weft_ref_gemm_element(p, &one, row, col);
        const double value =
            weft_ref_load(p->c_dtype, got, (size_t)(batch * p->c_stride) + weft_matrix_index(p->c_major, p->ldc, row, col));
        finite &= isfinite(value) != 0;
        error = fmax(error, fabs(value - exact));
        const double old =
            p->beta == 0 ? 0 : weft_ref_load(p->c_dtype, one.c, weft_matrix_index(p->c_major, p->ldc, row, col));
        naive = fmax(naive, fabs(weft_ref_gemm_element_naive(p, &one, row, col) - exact));
        cut = fmax(cut, fabs(p->alpha * sum_of_the_chip(p, &one, row, col) + p->beta * old - exact));
        largest = fmax(largest, fabs(exact));
    }
    const int ok = finite && error <= 2 * fmax(naive, cut) + unit * largest;
    if (!ok) {
        fprintf(stderr, "error %g, of a plain sum %g, as the chip adds %g, largest element %g%s\n", error, naive, cut,
                largest, finite ? "" : ", not finite");
    }
    return ok;
}

/* Whether all of C was written, and nothing beside it. `stored`: bytes that the kernel stores at a time at the end of a
 * line, which begins at a multiple of that, or 1: a line's padding up to there may be written, see weft_gemm.ldc. */
static int is_whole(const weft_gemm *p, const matrix *c, const void *got, size_t stored) {
    const size_t bytes = weft_dtype_bytes(p->c_dtype), unit = stored > bytes ? stored / bytes : 1;
    unsigned char *owned = calloc(c->count, 1);
    size_t unwritten = 0, beside = 0;
    for (int64_t i = 0; owned && i < p->batch * p->m * p->n; i++) {
        const int64_t batch = i / (p->m * p->n), row = i / p->n % p->m, col = i % p->n;
        const size_t at = (size_t)(batch * p->c_stride) + weft_matrix_index(p->c_major, p->ldc, row, col);
        const size_t last = at / unit * unit + unit;
        for (size_t j = at; j < last && j < c->count; j++) {
            owned[j] = 1;
        }
        unwritten += isfinite(weft_ref_load(p->c_dtype, got, at)) == 0;
    }
    for (size_t i = 0; owned && i < c->count; i++) {
        static const unsigned char poison[4] = {0xff, 0xff, 0xff, 0xff};
        const void *before = p->beta != 0 ? (const char *)c->host + i * bytes : (const char *)poison;
        beside += !owned[i] && memcmp((const char *)got + i * bytes, before, bytes) != 0;
    }
    if (!owned || unwritten || beside) {
        fprintf(stderr, "%zu elements were not written, and %zu beside C were\n", unwritten, beside);
    }
    free(owned);
    return owned && !unwritten && !beside;
}

/* Runs it over poison, or over the old C where that is read; the result comes to `got`. */
static int run(const weft_cuda_driver *d, const weft_plan *plan, const matrix *a, const matrix *b, const matrix *c,
               void *got, weft_message *message) {
    const weft_gemm_data data = {sizeof(weft_gemm_data), WEFT_GEMM, (void *)(uintptr_t)a->there,
                                 (void *)(uintptr_t)b->there, (void *)(uintptr_t)c->there};
    const int prepared = plan->gemm.beta != 0 ? d->copy_in(c->there, c->host, c->bytes)
                                              : d->set_words(c->there, UINT32_MAX, (c->bytes + 3) / 4, NULL);
    return prepared == 0 && weft_plan_run(plan, &data, message) == WEFT_OK && d->copy_out(got, c->there, c->bytes) == 0;
}

/* Runs the product of a plan and so many times more, and destroys the plan. Whether it is for the kernel `symbol`, unless
 * that is null, and all is right and the same bits each time; there may be no plan, and the message says why. stored: see
 * is_whole(); prepare: changes A and B beforehand, or null. */
static int try_product(const weft_cuda_driver *d, weft_plan *plan, weft_message *message, const char *symbol, size_t stored,
                       void (*prepare)(const weft_cuda_driver *, const weft_gemm *, matrix *, matrix *), int repeats,
                       const char *name) {
    matrix a = {0}, b = {0}, c = {0};
    char text[1024] = "";
    void *got = NULL, *again = NULL;
    int ok = plan && (!symbol || strcmp(((const weft_cuda_plan *)plan->placed)->main->choice.kernel, symbol) == 0);
    if (ok) {
        const weft_gemm *p = &plan->gemm;
        const weft_gemm_extents sizes = gemm_sizes(p);
        ok = make(d, &a, p->dtype, sizes.a) && make(d, &b, p->dtype, sizes.b) && make(d, &c, p->c_dtype, sizes.c) &&
             (got = malloc(c.bytes)) && (again = malloc(c.bytes));
        if (ok && prepare) {
            prepare(d, p, &a, &b);
        }
        ok = ok && run(d, plan, &a, &b, &c, got, message) && is_whole(p, &c, got, stored) && right(p, &a, &b, &c, got);
        for (int i = 0; i < repeats && ok; i++) {
            ok = run(d, plan, &a, &b, &c, again, message) && memcmp(got, again, c.bytes) == 0;
        }
    }
    if (!ok) {
        if (plan) {
            weft_plan_text(plan, text, sizeof text);
        }
        fprintf(stderr, "%s is wrong: %s\n%s", name, message->text, text);
    }
    weft_plan_destroy(plan);
    release(d, &a);
    release(d, &b);
    release(d, &c);
    free(got);
    free(again);
    return ok;
}

#endif
