/* SPDX-License-Identifier: Apache-2.0 */
/* C = alpha A B + beta C and epilogues: element by element, and tile by tile through a plan. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "problem/epilogue.h"
#include "problem/problem.h"
#include "ref/ref.h"
#include "ref/rounds.h"

static double load_a(const weft_gemm *p, const weft_gemm_data *data, int64_t row, int64_t k) {
    return weft_ref_load(p->dtype, data->a, weft_matrix_index(p->a_major, p->lda, row, k));
}

static double load_b(const weft_gemm *p, const weft_gemm_data *data, int64_t k, int64_t col) {
    return weft_ref_load(p->dtype, data->b, weft_matrix_index(p->b_major, p->ldb, k, col));
}

static double load_c(const weft_gemm *p, const weft_gemm_data *data, int64_t row, int64_t col) {
    return weft_ref_load(p->c_dtype, data->c, weft_matrix_index(p->c_major, p->ldc, row, col));
}

static void store_c(const weft_gemm *p, const weft_gemm_data *data, int64_t row, int64_t col, double value) {
    weft_ref_store(p->c_dtype, data->c, weft_matrix_index(p->c_major, p->ldc, row, col), value);
}

static double activate(int32_t activation, double z) {
    const double pi = 3.14159265358979323846;
    switch (activation) {
    case WEFT_RELU:
        return z < 0 ? 0 : z;
    case WEFT_GELU:
        return 0.5 * z * erfc(-z / sqrt(2.0));
    case WEFT_GELU_TANH:
        return 0.5 * z * (1 + tanh(sqrt(2 / pi) * (z + 0.044715 * z * z * z)));
    case WEFT_SILU:
        return z / (1 + exp(-z));
    default:
        return z;
    }
}

/* The sum over k of column `col` of B, scaled and biased. */
static double finish_sum(const weft_gemm *p, const weft_gemm_data *data, int64_t row, int64_t col, double sum) {
    double z = p->alpha * sum;
    z *= p->extras & WEFT_GEMM_SCALE ? (double)data->scale[0] : 1;
    z *= p->extras & WEFT_GEMM_ROW_SCALE ? (double)data->row_scale[row] : 1;
    z *= p->extras & WEFT_GEMM_COLUMN_SCALE ? (double)data->column_scale[col] : 1;
    return z + (p->extras & WEFT_GEMM_BIAS ? weft_ref_load(p->bias_dtype, data->bias, (size_t)col) : 0);
}

/* The element of C that sums over k make: of the gate and the value, or, not gated, of the first alone. With beta 0 the old
 * C is not read: it may hold anything, NaN too. */
static double finish(const weft_gemm *p, const weft_gemm_data *data, int64_t row, int64_t col, double sum, double value) {
    double y = activate(p->activation, finish_sum(p, data, row, col, sum));
    y *= p->gated ? finish_sum(p, data, row, col + p->n / 2, value) : 1;
    y += p->beta == 0 ? 0 : p->beta * load_c(p, data, row, col);
    if (p->extras & WEFT_GEMM_RESIDUAL) {
        y += weft_ref_load(p->c_dtype, data->residual, weft_matrix_index(p->c_major, p->ld_residual, row, col));
    }
    return y;
}

static double sum_over_k(const weft_gemm *p, const weft_gemm_data *data, int64_t row, int64_t col) {
    double sum = 0;
    for (int64_t k = 0; k < p->k; k++) {
        sum += load_a(p, data, row, k) * load_b(p, data, k, col);
    }
    return sum;
}

double weft_ref_gemm_element(const weft_gemm *p, const weft_gemm_data *data, int64_t row, int64_t col) {
    const double value = p->gated ? sum_over_k(p, data, row, col + p->n / 2) : 0;
    return finish(p, data, row, col, sum_over_k(p, data, row, col), value);
}

/* The nearest number of bf16, and the largest where that is infinite. */
static float nearest_bf16(float x) {
    const float largest = 0x1.fep127f;
    return fabsf(x) > largest ? copysignf(largest, x) : (float)weft_ref_round(WEFT_BF16, (double)x);
}

static float cut_to_tf32(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits &= 0xffffe000;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* A product of elements as precisely as the problem asks for. */
static float multiply_naive(const weft_gemm *p, float a, float b) {
    if (p->precision == WEFT_PRECISION_TF32) {
        return cut_to_tf32(a) * cut_to_tf32(b);
    }
    if (p->precision == WEFT_PRECISION_BF16X3 && isfinite(a) && isfinite(b)) {
        const float a1 = nearest_bf16(a), a2 = nearest_bf16(a - a1), b1 = nearest_bf16(b), b2 = nearest_bf16(b - b1);
        return a2 * b1 + a1 * b2 + a1 * b1;
    }
    return a * b;
}

/* The same as finish_sum() of a sum in fp32. */
static float finish_sum_naive(const weft_gemm *p, const weft_gemm_data *data, int64_t row, int64_t col) {
    float z = 0;
    for (int64_t k = 0; k < p->k; k++) {
        z += multiply_naive(p, (float)load_a(p, data, row, k), (float)load_b(p, data, k, col));
    }
    z *= (float)p->alpha;
    z *= p->extras & WEFT_GEMM_SCALE ? data->scale[0] : 1;
    z *= p->extras & WEFT_GEMM_ROW_SCALE ? data->row_scale[row] : 1;
    z *= p->extras & WEFT_GEMM_COLUMN_SCALE ? data->column_scale[col] : 1;
    return z + (p->extras & WEFT_GEMM_BIAS ? (float)weft_ref_load(p->bias_dtype, data->bias, (size_t)col) : 0);
}

double weft_ref_gemm_element_naive(const weft_gemm *p, const weft_gemm_data *data, int64_t row, int64_t col) {
    float y = finish_sum_naive(p, data, row, col);
    weft_epilogue_activate(p->activation, 1, &y);
    if (p->gated) {
        y *= finish_sum_naive(p, data, row, col + p->n / 2);
    }
    if (p->beta != 0) {
        y += (float)p->beta * (float)load_c(p, data, row, col);
    }
    if (p->extras & WEFT_GEMM_RESIDUAL) {
        y += (float)weft_ref_load(p->c_dtype, data->residual, weft_matrix_index(p->c_major, p->ld_residual, row, col));
    }
    return weft_ref_round(p->c_dtype, y);
}

weft_status weft_ref_gemm(const weft_gemm *p, const weft_gemm_data *data, weft_message *message) {
    (void)message; /* nothing is allocated, so nothing can fail */
    for (int64_t col = 0; col < weft_gemm_columns(p); col++) {
        double sum = 0;
        for (int64_t row = 0; row < p->m; row++) {
            const double value = weft_ref_gemm_element(p, data, row, col);
            store_c(p, data, row, col, value);
            sum += value;
        }
        if (p->extras & WEFT_GEMM_COLUMN_SUMS) {
            data->column_sums[col] = (float)sum;
        }
    }
    return WEFT_OK;
}

typedef struct gemm_tile {
    const weft_gemm *p;
    const weft_gemm_data *data;
    int64_t tile_m, tile_n, tile_k;
    double *sums; /* (rows, cols) of the tile at hand */
} gemm_tile;

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static void gemm_work(void *context, const weft_visit *visit, weft_tile tile) {
    const gemm_tile *t = context;
    const weft_gemm *p = t->p;
    const int64_t first_row = tile.m * t->tile_m, first_col = tile.n * t->tile_n;
    const int64_t rows = smaller(t->tile_m, p->m - first_row), cols = smaller(t->tile_n, p->n - first_col);
    for (int64_t i = 0; i < rows * cols; i++) {
        t->sums[i] = 0;
    }
    for (int64_t s = 0, step = visit->first; s < visit->steps; s++, step += visit->direction) {
        const int64_t begin = step * t->tile_k, end = smaller(begin + t->tile_k, p->k);
        for (int64_t i = 0; i < rows * cols; i++) {
            for (int64_t k = begin; k < end; k++) {
                t->sums[i] += load_a(p, t->data, first_row + i / cols, k) * load_b(p, t->data, k, first_col + i % cols);
            }
        }
    }
    for (int64_t i = 0; i < rows * cols; i++) {
        const int64_t row = first_row + i / cols, col = first_col + i % cols;
        store_c(p, t->data, row, col, finish(p, t->data, row, col, t->sums[i], 0));
    }
}

weft_status weft_ref_gemm_tiled(const weft_plan *plan, const weft_gemm_data *data, weft_message *message) {
    const weft_gemm *p = &plan->gemm;
    const weft_schedule *s = &plan->schedule;
    if (p->gated || (p->extras & (WEFT_GEMM_COLUMN_SUMS | WEFT_GEMM_FUNCTION))) { /* what no tile has alone */
        return weft_fail(message, WEFT_UNSUPPORTED, "the tiled reference has no gates, column sums or functions");
    }
    const int64_t rows = smaller(s->tile_m, p->m), cols = smaller(s->tile_n, p->n); /* at most 2^31 each */
    double *sums = calloc((size_t)(rows * cols), sizeof *sums);
    if (!sums) {
        return weft_fail(message, WEFT_NO_MEMORY, "no memory for a tile of %lld x %lld", (long long)rows, (long long)cols);
    }
    gemm_tile t = {p, data, s->tile_m, s->tile_n, s->tile_k, sums};
    const weft_grid tiles = {1, weft_ceil_divide(p->m, s->tile_m), weft_ceil_divide(p->n, s->tile_n)};
    const weft_status status = weft_ref_rounds(plan, tiles, gemm_work, &t, message);
    free(sums);
    return status;
}
