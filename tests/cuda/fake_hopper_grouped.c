/* SPDX-License-Identifier: Apache-2.0 */
/* The Hopper GEMM for groups on the fake driver: the reference, from nothing but the parameters of the launch. */
#include <stdio.h>
#include <string.h>

#include "cuda/sm90/gemm/grouped/params.h"
#include "fake_driver.h"
#include "ref/ref.h"

/* A, B and C as their tensor maps describe them. */
typedef struct tensors {
    fake_tensor a, b, c;
    weft_dtype dtype;
    int b_mn;
} tensors;

static const char *at(const fake_tensor *t, int64_t x, int64_t y, int64_t z, int64_t bytes) {
    return (const char *)(uintptr_t)t->data + x * bytes + y * t->stride[1] + z * t->stride[2];
}

static void run_tile(const weft_hopper_grouped_params *all, const tensors *t, const weft_group_rows *rows,
                     int64_t first_col, int64_t tile_m, int64_t tile_n) {
    const weft_dtype c_dtype = (weft_dtype)all->product.c_dtype;
    const int64_t z = all->groups.masked ? rows->group : 0, group = rows->group;
    for (int64_t i = 0; i < tile_m && i < rows->count; i++) {
        const int64_t row = rows->first + i;
        for (int64_t col = first_col; col < first_col + tile_n && col < t->c.length[0]; col++) {
            double sum = 0;
            for (int64_t k = 0; k < t->a.length[0]; k++) {
                const char *b = t->b_mn ? at(&t->b, col, k, group, 2) : at(&t->b, k, col, group, 2);
                sum += weft_ref_load(t->dtype, at(&t->a, k, row, z, 2), 0) * weft_ref_load(t->dtype, b, 0);
            }
            const int64_t bytes = (int64_t)weft_dtype_bytes(c_dtype);
            weft_ref_store(c_dtype, (void *)(uintptr_t)at(&t->c, col, row, z, bytes), 0, (double)all->product.alpha * sum);
        }
    }
}

/* Whether the maps are of the groups: A and C one matrix for all of them, or one for each. */
static int fits(const weft_hopper_grouped_params *all, const tensors *t) {
    const int64_t matrices = all->groups.masked ? all->groups.count : 1;
    const int64_t bytes = (int64_t)weft_dtype_bytes((weft_dtype)all->product.c_dtype);
    return t->a.length[1] == all->groups.rows && t->c.length[1] == all->groups.rows && t->a.length[2] == matrices &&
           t->c.length[2] == matrices && t->b.length[2] == all->groups.count && t->c.length[0] == all->n &&
           t->c.data == (uint64_t)(uintptr_t)all->c && (all->groups.rows == 1 || t->c.stride[1] == all->ldc * bytes) &&
           (matrices == 1 || t->c.stride[2] == all->c_stride * bytes);
}

int fake_run_hopper_grouped(const char *kernel, unsigned grid, const void *parameters) {
    const weft_hopper_grouped_params *all = parameters;
    const weft_gemm_params *p = &all->product;
    const unsigned ctas = (unsigned)(p->cluster_m * p->cluster_n);
    char dtype_name[8], axes[3];
    int tile_m, tile_n;
    tensors t;
    memcpy(&t.a, &p->a, sizeof t.a);
    memcpy(&t.b, &p->b, sizeof t.b);
    memcpy(&t.c, &p->c, sizeof t.c);
    if (sscanf(kernel, "grouped_%7[a-z0-9]_%2[kmn]_%dx%d", dtype_name, axes, &tile_m, &tile_n) != 4 || !fits(all, &t) ||
        p->swapped || p->beta != 0 || p->split != 1 || p->first.count != 0 || p->begun || all->groups.tile != tile_m ||
        all->groups.strip != p->cluster_m || p->walk.cluster_rows != p->cluster_m || p->walk.cluster_cols != p->cluster_n ||
        (p->walk.dispatch == WEFT_DISPATCH_DYNAMIC) != (p->counter != NULL)) {
        return 1;
    }
    t.dtype = (weft_dtype)weft_dtype_find(dtype_name);
    t.b_mn = axes[1] == 'n';
    fake_begin(p->counter);
    for (unsigned cluster = 0; cluster < grid / ctas; cluster++) {
        weft_worker worker = weft_worker_start(&p->walk, cluster, p->counter);
        weft_visit visit;
        while (weft_worker_next(&p->walk, &worker, &visit)) { /* every tile, whether there are rows or not */
            for (unsigned i = 0; i < ctas; i++) {
                const int64_t col = visit.tile.n + i % (unsigned)p->cluster_n;
                weft_group_finger finger = {0, 0};
                weft_group_rows rows;
                if (weft_groups_find(&all->groups, &finger, (int32_t)(visit.tile.m + i / (unsigned)p->cluster_n), &rows)) {
                    run_tile(all, &t, &rows, weft_smaller(col * tile_n, p->last_col), tile_m, tile_n);
                }
            }
        }
    }
    return 0;
}
