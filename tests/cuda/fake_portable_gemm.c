/* SPDX-License-Identifier: Apache-2.0 */
/* The portable GEMM on the fake driver: the reference, from nothing but the parameters of the launch. */
#include <stdio.h>
#include <string.h>

#include "cuda/gemm/params.h"
#include "fake_driver.h"
#include "fake_epilogue.h"
#include "fake_operands.h"
#include "ref/ref.h"

/* One of A and B: `i` is its row or column of C. */
static double load(const void *data, weft_dtype dtype, int mn, int64_t ld, int64_t stride, int64_t batch, int64_t i,
                   int64_t k) {
    if (dtype == WEFT_FP32) {
        return fake_tf32((const char *)data + 2 * (batch * stride + i * ld), k);
    }
    return weft_ref_load(dtype, data, (size_t)(batch * stride + (mn ? k * ld + i : i * ld + k)));
}

/* A sum over k. */
static double sum_of(const weft_portable_gemm_params *p, weft_dtype dtype, int a_mn, int b_mn, int64_t batch, int64_t row,
                     int64_t col) {
    double sum = 0;
    for (int64_t k = 0; k < p->k; k++) {
        sum += load(p->a, dtype, a_mn, p->lda, p->a_stride, batch, row, k) *
               load(p->b, dtype, b_mn, p->ldb, p->b_stride, batch, col, k);
    }
    return sum;
}

/* The element of C, but for the old one. */
static double finish(const weft_portable_gemm_fused_params *f, weft_dtype dtype, int a_mn, int b_mn, int64_t batch,
                     int64_t row, int64_t col) {
    const weft_portable_gemm_params *p = &f->product;
    const weft_gemm_epilogue *e = &f->epilogue;
    const double value = e->gate ? sum_of(p, dtype, a_mn, b_mn, batch, row, col + e->gate) : 0;
    const double y = fake_epilogue(e, batch, p->swapped ? col : row, p->swapped ? row : col,
                                   sum_of(p, dtype, a_mn, b_mn, batch, row, col), value);
    return f->residual ? y + weft_ref_load((weft_dtype)p->c_dtype, f->residual,
                                           (size_t)(batch * f->residual_stride + row * f->ld_residual + col))
                       : y;
}

static void run_tile(const weft_portable_gemm_params *p, const weft_portable_gemm_fused_params *fused, weft_dtype dtype,
                     int a_mn, int b_mn, int64_t batch, int64_t first_row, int64_t first_col, int64_t tile_m,
                     int64_t tile_n) {
    const weft_dtype c_dtype = (weft_dtype)p->c_dtype;
    for (int64_t row = first_row; row < first_row + tile_m && row < p->m; row++) {
        for (int64_t col = first_col; col < first_col + tile_n && col < p->n; col++) {
            const size_t at = (size_t)(batch * p->c_stride + row * p->ldc + col);
            double value = fused ? finish(fused, dtype, a_mn, b_mn, batch, row, col)
                                 : (double)p->alpha * sum_of(p, dtype, a_mn, b_mn, batch, row, col);
            value += p->beta == 0 ? 0 : (double)p->beta * weft_ref_load(c_dtype, p->c, at);
            weft_ref_store(c_dtype, p->c, at, value);
            if (fused) {
                fake_add_share(&fused->epilogue, batch, row, col, value);
            }
        }
    }
}

/* Whether lines that are `distance` elements apart can be copied in such units. */
static int fits_unit(int64_t distance, int32_t unit) {
    return (unit == 16 || unit == 4 || unit == 2) && 2 * distance % unit == 0;
}

int fake_run_portable_gemm(const char *kernel, unsigned grid, const void *parameters) {
    const weft_portable_gemm_params *p = parameters;
    const weft_walk *walk = &p->walk;
    char dtype_name[8], axes[3];
    int tile_m, tile_n;
    if (sscanf(kernel, "gemm_%7[a-z0-9]_%2[kmn]_%dx%d", dtype_name, axes, &tile_m, &tile_n) != 4) {
        return 1;
    }
    const int any = strstr(kernel, "_any_") != NULL;
    const weft_portable_gemm_fused_params *fused = strstr(kernel, "_fused__portable") ? parameters : NULL;
    const int32_t gate = fused ? fused->epilogue.gate : 0;
    const int whole = p->a_unit == 16 && p->b_unit == 16 && (axes[0] == 'm' ? p->m : p->k) % 8 == 0 &&
                      (axes[1] == 'n' ? p->n : p->k) % 8 == 0; /* lines of both */
    if (gate && (gate != p->n || p->swapped)) {
        return 1;
    }
    const int batched = walk->order.grid.batch > 1;
    const int64_t c_bytes = (int64_t)weft_dtype_bytes((weft_dtype)p->c_dtype);
    if (walk->reach.columns != p->k || walk->cluster_rows != 1 || walk->cluster_cols != 1 ||
        !fits_unit(p->lda | (batched ? p->a_stride : 0), p->a_unit) ||
        !fits_unit(p->ldb | (batched ? p->b_stride : 0), p->b_unit) || any == whole ||
        (p->c_wide && ((p->m > 1 ? p->ldc : 0) | (batched ? p->c_stride : 0)) * c_bytes % 16 != 0) ||
        (walk->dispatch == WEFT_DISPATCH_DYNAMIC) != (p->counter != NULL)) {
        return 1;
    }
    fake_begin(p->counter);
    for (unsigned cta = 0; cta < grid; cta++) {
        weft_worker worker = weft_worker_start(walk, cta, p->counter);
        weft_visit visit;
        while (weft_worker_next(walk, &worker, &visit)) {
            const int64_t row = p->swapped ? visit.tile.n : visit.tile.m, col = p->swapped ? visit.tile.m : visit.tile.n;
            run_tile(p, fused, fake_multiplied(dtype_name), axes[0] == 'm', axes[1] == 'n', visit.tile.batch, row * tile_m,
                     col * (gate ? tile_n / 2 : tile_n), tile_m, gate ? tile_n / 2 : tile_n);
        }
    }
    return 0;
}
