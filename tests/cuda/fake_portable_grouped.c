/* SPDX-License-Identifier: Apache-2.0 */
/* The portable GEMM for groups on the fake driver: the reference, from nothing but the parameters of the launch. */
#include <stdio.h>
#include <string.h>

#include "cuda/gemm/grouped/params.h"
#include "fake_driver.h"
#include "ref/ref.h"

static void run_tile(const weft_portable_gemm_params *p, weft_dtype dtype, int b_mn, const weft_group_rows *rows,
                     int64_t first_col, int64_t tile_m, int64_t tile_n) {
    for (int64_t i = 0; i < tile_m && i < rows->count; i++) {
        const int64_t row = rows->first + i;
        for (int64_t col = first_col; col < first_col + tile_n && col < p->n; col++) {
            double sum = 0;
            for (int64_t k = 0; k < p->k; k++) {
                const int64_t at = rows->group * p->b_stride + (b_mn ? k * p->ldb + col : col * p->ldb + k);
                sum += weft_ref_load(dtype, p->a, (size_t)(rows->group * p->a_stride + row * p->lda + k)) *
                       weft_ref_load(dtype, p->b, (size_t)at);
            }
            weft_ref_store((weft_dtype)p->c_dtype, p->c, (size_t)(rows->group * p->c_stride + row * p->ldc + col),
                           (double)p->alpha * sum);
        }
    }
}

int fake_run_portable_grouped(const char *kernel, unsigned grid, const void *parameters) {
    const weft_portable_grouped_params *all = parameters;
    const weft_portable_gemm_params *p = &all->product;
    char dtype_name[8], axes[3];
    int tile_m, tile_n;
    if (sscanf(kernel, "grouped_%7[a-z0-9]_%2[kmn]_%dx%d", dtype_name, axes, &tile_m, &tile_n) != 4 ||
        p->walk.reach.columns != p->k || p->swapped || p->beta != 0 || all->groups.tile != tile_m ||
        all->groups.strip != 1 || (p->walk.dispatch == WEFT_DISPATCH_DYNAMIC) != (p->counter != NULL)) {
        return 1;
    }
    fake_begin(p->counter);
    for (unsigned cta = 0; cta < grid; cta++) {
        weft_worker worker = weft_worker_start(&p->walk, cta, p->counter);
        weft_visit visit;
        while (weft_worker_next(&p->walk, &worker, &visit)) { /* every tile, whether there are rows or not */
            weft_group_finger finger = {0, 0};
            weft_group_rows rows;
            if (weft_groups_find(&all->groups, &finger, (int32_t)visit.tile.m, &rows)) {
                run_tile(p, (weft_dtype)weft_dtype_find(dtype_name), axes[1] == 'n', &rows, visit.tile.n * tile_n, tile_m,
                         tile_n);
            }
        }
    }
    return 0;
}
