/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/gemm/epilogue.h"

#include <string.h>

#include "base/status.h"
#include "problem/problem.h"

_Static_assert(sizeof(weft_gemm_sums_params) <= WEFT_CUDA_MAX_PARAMETERS, "the parameters fit a launch");

weft_status weft_gemm_check_epilogue(const weft_gemm *p, weft_message *why) {
    const int swapped = p->c_major == WEFT_COL_MAJOR;
    if (p->extras & WEFT_GEMM_FUNCTION) {
        return weft_fail(why, WEFT_UNSUPPORTED, "a caller's function runs on the CPU only");
    }
    if (swapped && p->gated) {
        return weft_fail(why, WEFT_UNSUPPORTED, "it has no gates for a column-major C");
    }
    if (swapped && (p->extras & WEFT_GEMM_COLUMN_SUMS)) {
        return weft_fail(why, WEFT_UNSUPPORTED, "it has no column sums of a column-major C");
    }
    return WEFT_OK;
}

static int64_t shares_of(const weft_gemm *p) {
    return weft_ceil_divide(p->m, WEFT_GEMM_SHARE_ROWS);
}

weft_gemm_epilogue weft_gemm_epilogue_of(const weft_gemm *p, const weft_gemm_data *data) {
    const int32_t extras = p->extras;
    return (weft_gemm_epilogue){
        .scale = extras & WEFT_GEMM_SCALE ? data->scale : NULL,
        .row_scale = extras & WEFT_GEMM_ROW_SCALE ? data->row_scale : NULL,
        .column_scale = extras & WEFT_GEMM_COLUMN_SCALE ? data->column_scale : NULL,
        .bias = extras & WEFT_GEMM_BIAS ? data->bias : NULL,
        .shares = extras & WEFT_GEMM_COLUMN_SUMS ? data->workspace : NULL,
        .alpha = (float)p->alpha,
        .rows = (int32_t)p->m,
        .columns = (int32_t)weft_gemm_columns(p),
        .width = (int32_t)p->n,
        .gate = p->gated ? (int32_t)(p->n / 2) : 0,
        .activation = p->activation,
        .bias_dtype = (int32_t)p->bias_dtype,
    };
}

static const char sums_kernel[] = "gemm_column_sums";

static int64_t sums_ctas(const weft_gemm *p) {
    return weft_ceil_divide(weft_gemm_columns(p), WEFT_GEMM_SUMS_COLUMNS);
}

int weft_gemm_sums_pass(const weft_gemm *p, weft_cuda_choice *pass) {
    if (!(p->extras & WEFT_GEMM_COLUMN_SUMS)) {
        return 0;
    }
    *pass = (weft_cuda_choice){
        .image = sums_kernel, .kernel = sums_kernel, .threads = WEFT_GEMM_SUMS_THREADS, .grid = sums_ctas(p) * p->batch};
    return 1;
}

size_t weft_gemm_shares_bytes(const weft_gemm *p) {
    return p->extras & WEFT_GEMM_COLUMN_SUMS ? (size_t)(p->batch * shares_of(p) * weft_gemm_columns(p)) * sizeof(float) : 0;
}

int weft_gemm_fill_sums(const weft_gemm *p, const weft_cuda_pass *pass, const weft_gemm_data *data, void *parameters) {
    weft_gemm_sums_params *to = parameters;
    if (strcmp(pass->choice.kernel, sums_kernel) != 0) {
        return 0;
    }
    *to = (weft_gemm_sums_params){data->workspace, data->column_sums, shares_of(p), (int32_t)weft_gemm_columns(p),
                                  (int32_t)sums_ctas(p)};
    return 1;
}
