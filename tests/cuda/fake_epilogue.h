/* SPDX-License-Identifier: Apache-2.0 */
/* Epilogues of products on the fake driver: the reference, from nothing but the parameters of a launch. */
#ifndef WEFT_TESTS_CUDA_FAKE_EPILOGUE_H
#define WEFT_TESTS_CUDA_FAKE_EPILOGUE_H

#include "cuda/gemm/epilogue_params.h"
#include "problem/epilogue.h"
#include "ref/ref.h"

static inline double fake_scaled(const weft_gemm_epilogue *e, int64_t batch, int64_t row, int64_t col, double sum) {
    double z = (double)e->alpha * sum;
    z *= e->scale ? (double)e->scale[batch] : 1;
    z *= e->row_scale ? (double)e->row_scale[batch * e->rows + row] : 1;
    z *= e->column_scale ? (double)e->column_scale[batch * e->width + col] : 1;
    return z + (e->bias ? weft_ref_load((weft_dtype)e->bias_dtype, e->bias, (size_t)(batch * e->width + col)) : 0);
}

/* What the sums of a column of B and of its value make, before anything is added. */
static inline double fake_epilogue(const weft_gemm_epilogue *e, int64_t batch, int64_t row, int64_t col, double sum,
                                   double value) {
    float y = (float)fake_scaled(e, batch, row, col, sum);
    weft_epilogue_activate(e->activation, 1, &y);
    return e->gate ? (double)y * fake_scaled(e, batch, row, col + e->gate, value) : (double)y;
}

/* The rows of a share come in their order. */
static inline void fake_add_share(const weft_gemm_epilogue *e, int64_t batch, int64_t row, int64_t col, double value) {
    const int64_t shares = (e->rows + WEFT_GEMM_SHARE_ROWS - 1) / WEFT_GEMM_SHARE_ROWS;
    if (e->shares) {
        float *to = &e->shares[(batch * shares + row / WEFT_GEMM_SHARE_ROWS) * e->columns + col];
        *to = (row % WEFT_GEMM_SHARE_ROWS ? *to : 0) + (float)value;
    }
}

#endif
