/* SPDX-License-Identifier: Apache-2.0 */
/* A product of a GPU, held to the reference in fp64. */
#ifndef WEFT_TESTS_CUDA_GEMM_RIGHT_H
#define WEFT_TESTS_CUDA_GEMM_RIGHT_H

#include <math.h>
#include <stdio.h>

#include "problem/problem.h"
#include "ref/ref.h"

enum { SAMPLES = 4000 };

/* A matrix on the host and on the GPU. */
typedef struct matrix {
    void *host;
    uint64_t there;
    size_t count, bytes;
    weft_dtype dtype;
} matrix;

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

static double activate(int32_t activation, double z) {
    return activation == WEFT_RELU        ? fmax(z, 0)
           : activation == WEFT_GELU      ? z * erfc(-z / sqrt(2)) / 2
           : activation == WEFT_GELU_TANH ? z / (1 + exp(-2 * sqrt(2 / acos(-1)) * (z + 0.044715 * z * z * z)))
           : activation == WEFT_SILU      ? z / (1 + exp(-z))
                                          : z;
}

/* z of a column of B as this chip adds. */
static double scaled_of_the_chip(const weft_gemm *p, const weft_gemm_data *data, int64_t row, int64_t col) {
    double z = p->alpha * sum_of_the_chip(p, data, row, col);
    z *= data->scale ? (double)data->scale[0] : 1;
    z *= data->row_scale ? (double)data->row_scale[row] : 1;
    z *= data->column_scale ? (double)data->column_scale[col] : 1;
    return z + (data->bias ? weft_ref_load(p->bias_dtype, data->bias, (size_t)col) : 0);
}

/* An element of C, likewise. */
static double element_of_the_chip(const weft_gemm *p, const weft_gemm_data *data, int64_t row, int64_t col) {
    double y = activate(p->activation, scaled_of_the_chip(p, data, row, col));
    y *= p->gated ? scaled_of_the_chip(p, data, row, col + p->n / 2) : 1;
    y += p->beta == 0 ? 0 : p->beta * weft_ref_load(p->c_dtype, data->c, weft_matrix_index(p->c_major, p->ldc, row, col));
    return data->residual
               ? y + weft_ref_load(p->c_dtype, data->residual, weft_matrix_index(p->c_major, p->ld_residual, row, col))
               : y;
}

/* Whether the result is as near to the reference as a plain sum in fp32 is, rounded or as the chip adds, twice over, and
 * one rounding. */
static int right(const weft_gemm *p, const weft_gemm_data *data, const void *got) {
    const int64_t columns = weft_gemm_columns(p), count = p->batch * p->m * columns,
                  samples = p->k > 4096 ? SAMPLES / 32 : SAMPLES,
                  stride = (count / samples + 1) | 1; /* odd, for all columns to have their turn */
    /* Activations are off by a few ulps. */
    const double fp32 = p->activation == WEFT_IDENTITY ? 0x1p-22 : 0x1p-20;
    const double unit = p->c_dtype == WEFT_BF16 ? 0x1p-8 : p->c_dtype == WEFT_FP16 ? 0x1p-11 : fp32;
    double error = 0, naive = 0, cut = 0, largest = 0;
    int finite = 1;
    for (int64_t i = 0; i < count; i += stride) {
        const int64_t batch = i / (p->m * columns), row = i / columns % p->m, col = i % columns;
        const weft_gemm_data one = weft_gemm_product(p, data, batch);
        const double exact = weft_ref_gemm_element(p, &one, row, col);
        const double value =
            weft_ref_load(p->c_dtype, got, (size_t)(batch * p->c_stride) + weft_matrix_index(p->c_major, p->ldc, row, col));
        if (p->c_dtype == WEFT_FP16 && fabs(exact) > 65000 && isinf(value)) {
            continue; /* the type has nothing larger */
        }
        finite &= isfinite(value) != 0;
        error = fmax(error, fabs(value - exact));
        naive = fmax(naive, fabs(weft_ref_gemm_element_naive(p, &one, row, col) - exact));
        cut = fmax(cut, fabs(element_of_the_chip(p, &one, row, col) - exact));
        largest = fmax(largest, fabs(exact));
    }
    const int ok = finite && error <= 2 * fmax(naive, cut) + unit * largest;
    if (!ok) {
        fprintf(stderr, "error %g, of a plain sum %g, as the chip adds %g, largest element %g%s\n", error, naive, cut,
                largest, finite ? "" : ", not finite");
    }
    return ok;
}

#endif
