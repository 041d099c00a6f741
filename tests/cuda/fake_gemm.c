/* SPDX-License-Identifier: Apache-2.0 */
/* The Hopper GEMM on the fake driver: the reference, from nothing but the parameters of the launch. */
#include <stdio.h>
#include <string.h>

#include "cuda/sm90/gemm/params.h"
#include "fake_driver.h"
#include "fake_epilogue.h"
#include "fake_operands.h"
#include "order/deal.h"
#include "ref/ref.h"

/* A matrix as a tensor map describes it: `mn` lines of k, or k lines of `mn`. */
typedef struct matrix {
    const char *data;
    weft_dtype dtype;
    int64_t mn, k, batch;
    int64_t mn_bytes, k_bytes, batch_bytes; /* from one to the next */
} matrix;

static int type_of(weft_dtype dtype) {
    return dtype == WEFT_BF16 ? 9 : dtype == WEFT_FP16 ? 6 : 7;
}

/* Boxes are 64 elements of k by `rows` of m or n. */
static int operand_of(const weft_tensor_map *map, weft_dtype dtype, int mn_major, int rows, matrix *m) {
    fake_tensor t;
    memcpy(&t, map, sizeof t);
    const int mn = mn_major ? 0 : 1, k = 1 - mn;
    *m = (matrix){
        (const char *)(uintptr_t)t.data, dtype,      t.length[mn], t.length[k], t.length[2], mn_major ? 2 : t.stride[1],
        mn_major ? t.stride[1] : 2,      t.stride[2]};
    return t.rank == 3 && t.type == type_of(dtype == WEFT_FP32 ? WEFT_BF16 : dtype) && t.box[mn] == rows &&
           t.box[k] == 64 && t.box[2] == 1 && (!mn_major || rows == 64);
}

static double load(const matrix *m, int64_t batch, int64_t mn, int64_t k) {
    const char *line = m->data + batch * m->batch_bytes + mn * m->mn_bytes;
    return m->dtype == WEFT_FP32 ? fake_tf32(line, k) : weft_ref_load(m->dtype, line + k * m->k_bytes, 0);
}

/* A, B and C of a launch. Phases of rows with one row less have maps of their own for A and C. */
typedef struct operands {
    matrix a, a_short, b;
    fake_tensor c, c_short;
    weft_gemm_phases phases;
    const weft_gemm_fused_params *fused; /* null: there is no epilogue */
    int transposed;                      /* columns of C, as the kernel sees it, lie one behind the other, not rows */
} operands;

static int64_t rows_of_c(const operands *o, const fake_tensor *c) {
    return c->length[!o->transposed];
}

static int64_t columns_of_c(const operands *o, const fake_tensor *c) {
    return c->length[o->transposed];
}

static char *element_of_c(const operands *o, const fake_tensor *c, int64_t z, int64_t row, int64_t col, int64_t bytes) {
    const int64_t line = o->transposed ? col : row, at = o->transposed ? row : col;
    return (char *)(uintptr_t)c->data + z * c->stride[2] + line * c->stride[1] + at * bytes;
}

/* An element of a product with an epilogue, of which `added` is part. */
static double finish(const operands *o, int64_t batch, int64_t row, int64_t col) {
    const weft_gemm_epilogue *e = &o->fused->epilogue;
    fake_tensor added;
    memcpy(&added, &o->fused->added, sizeof added);
    double sums[2] = {0, 0};
    for (int64_t k = 0; k < o->a.k; k++) {
        sums[0] += load(&o->a, batch, row, k) * load(&o->b, batch, col, k);
        sums[1] += e->gate ? load(&o->a, batch, row, k) * load(&o->b, batch, col + e->gate, k) : 0;
    }
    const double y = fake_epilogue(e, batch, row, col, sums[0], sums[1]), beta = (double)o->fused->product.beta;
    const char *at = (const char *)(uintptr_t)added.data + batch * added.stride[2] + row * added.stride[1];
    return beta == 0 ? y : y + beta * weft_ref_load((weft_dtype)o->fused->product.c_dtype, at, (size_t)col);
}

/* One tile, in the row `row_of_tiles` of a cluster that begins with `first_row_of`; what lies outside of C is left out, as
 * the copy engine does, and k ends with the last step. */
static void run_tile(const weft_gemm_params *p, const operands *o, int64_t batch, int64_t row_of_tiles,
                     int64_t first_row_of, int64_t first_col, int64_t tile_m, int64_t tile_n) {
    const matrix *a = &o->a, *b = &o->b;
    const fake_tensor *c = &o->c;
    const weft_gemm_phases *phases = &o->phases;
    int64_t z = batch, shift = 0;
    if (phases->count > 0) {
        const int64_t place = row_of_tiles / phases->tiles;
        row_of_tiles -= place * phases->tiles;
        shift = 8 * (int64_t)(phases->shifts >> (4 * (first_row_of / phases->tiles)) & 15);
        z = place < phases->count ? (int64_t)(phases->order >> (4 * place) & 15) : phases->count;
        a = z >= phases->longer ? &o->a_short : a;
        c = z >= phases->longer ? &o->c_short : c;
        if (z >= a->batch) {
            return;
        }
    }
    const int64_t first_row = weft_smaller(row_of_tiles * tile_m, p->last_row),
                  end = weft_ceil_divide(a->k, WEFT_GEMM_STEP) * WEFT_GEMM_STEP - shift;
    const weft_dtype dtype = (weft_dtype)p->c_dtype;
    const int64_t bytes = (int64_t)weft_dtype_bytes(dtype);
    if (o->fused) {
        for (int64_t col = first_col; col < first_col + tile_n && col < c->length[0]; col++) {
            for (int64_t row = first_row; row < first_row + tile_m && row < c->length[1]; row++) {
                char *at = (char *)(uintptr_t)c->data + z * c->stride[2] + row * c->stride[1] + col * bytes;
                const double value = finish(o, batch, row, col);
                weft_ref_store(dtype, at, 0, value);
                fake_add_share(&o->fused->epilogue, batch, row, col, value);
            }
        }
        return;
    }
    for (int64_t row = first_row; row < first_row + tile_m && row < rows_of_c(o, c); row++) {
        for (int64_t col = first_col; col < first_col + tile_n && col < columns_of_c(o, c); col++) {
            char *at = element_of_c(o, c, z, row, col, bytes);
            double sum = 0;
            for (int64_t k = 0; k < a->k && k < end; k++) {
                sum += load(a, z, row, k) * load(b, batch, col, k);
            }
            sum *= (double)p->alpha;
            weft_ref_store(dtype, at, 0, p->beta == 0 ? sum : sum + (double)p->beta * weft_ref_load(dtype, at, 0));
        }
    }
}

/* The tiles of a cluster, of which (row, col) is the first. */
static void run_cluster(const weft_gemm_params *p, const operands *o, int64_t batch, int64_t row, int64_t col,
                        int64_t tile_m, int64_t tile_n) {
    for (int64_t i = 0; i < p->cluster_m * p->cluster_n; i++) {
        const int64_t columns = o->fused && o->fused->epilogue.gate ? tile_n / 2 : tile_n;
        run_tile(p, o, batch, row + i / p->cluster_n, row, weft_smaller((col + i % p->cluster_n) * columns, p->last_col),
                 tile_m, columns);
    }
}

/* A worker as the kernel starts it, whose first tile may be known without the order. */
static weft_worker start(const weft_gemm_params *p, const operands *o, unsigned cluster, int64_t tile_m, int64_t tile_n) {
    int32_t row, col;
    if (p->side_of_sm) {
        return weft_worker_start_by_side(&p->walk, p->side_of_sm[cluster], p->counter);
    }
    if (cluster >= (unsigned)p->first.count) {
        return weft_worker_start(&p->walk, cluster, p->counter);
    }
    weft_first_position(&p->first, (int32_t)cluster, &row, &col);
    run_cluster(p, o, 0, row * p->cluster_m, col * p->cluster_n, tile_m, tile_n);
    return weft_first_worker(cluster);
}

int fake_run_gemm(const char *kernel, unsigned grid, const void *parameters) {
    const weft_gemm_phase_params *all = parameters;
    const weft_gemm_params *p = &all->product;
    const weft_walk *walk = &p->walk;
    char dtype_name[8], axes[3];
    int tile_m, tile_n;
    operands o;
    if (sscanf(kernel, "gemm_%7[a-z0-9]_%2[kmn]_%dx%d__sm90a", dtype_name, axes, &tile_m, &tile_n) != 4) {
        return 1;
    }
    const weft_dtype dtype = fake_multiplied(dtype_name);
    const matrix *a = &o.a, *b = &o.b;
    const fake_tensor *c = &o.c;
    memcpy(&o.c, &p->c, sizeof o.c);
    memcpy(&o.c_short, &all->c_short, sizeof o.c_short);
    memset(&o.phases, 0, sizeof o.phases);
    if (!strstr(kernel, "_fused")) { /* which has an epilogue in their place */
        o.phases = all->phases;
    }
    const weft_gemm_phases *phases = &o.phases;
    if ((phases->count > 0) != (strstr(kernel, "_by_phase") != NULL) ||
        (phases->count > 0 && (!operand_of(&all->a_short, dtype, 0, p->a_rows, &o.a_short) || axes[0] == 'm'))) {
        return 1;
    }
    o.fused = strstr(kernel, "_fused") ? parameters : NULL;
    o.transposed = strstr(kernel, "_transposed") != NULL;
    const weft_gemm_epilogue *e = o.fused ? &o.fused->epilogue : NULL;
    const int64_t gate = e ? e->gate : 0;
    if (e && p->alpha != 1) {
        return 1;
    }
    const unsigned ctas = (unsigned)(p->cluster_m * p->cluster_n * p->split);
    const int c_columns = o.transposed ? 16 : 128 / (int)weft_dtype_bytes((weft_dtype)p->c_dtype);
    const int c_rows = !o.transposed ? 16 : tile_n < 64 ? tile_n : 64;
    if (!operand_of(&p->a, dtype, axes[0] == 'm', p->a_rows, &o.a) ||
        !operand_of(&p->b, dtype, axes[1] == 'n', p->b_rows, &o.b) || a->k != b->k ||
        columns_of_c(&o, c) != (gate ? gate : b->mn) ||
        (gate && (b->mn != 2 * gate || tile_n % p->b_rows != 0 || p->b_rows > tile_n / 2)) || rows_of_c(&o, c) != a->mn ||
        c->type != type_of((weft_dtype)p->c_dtype) || c->box[0] != c_columns || c->box[1] != c_rows ||
        (o.transposed && (p->beta != 0 || p->c_dtype == WEFT_FP32)) || p->a_end % p->a_rows != 0 ||
        p->b_end % p->b_rows != 0 || p->a_end > tile_m || p->b_end > tile_n || (p->a_end < tile_m && p->a_end < a->mn) ||
        (p->b_end < tile_n && p->b_end < b->mn) || grid % ctas != 0 || ctas > 8 || walk->reach.columns != a->k ||
        (p->first.count > 0 && (p->counter || p->first.steps != weft_ceil_divide(a->k, WEFT_GEMM_STEP))) ||
        phases->count > 8 || (phases->count > 0 && phases->tiles != weft_ceil_divide(a->mn, tile_m)) ||
        (p->side_of_sm && (!p->counter || *p->counter != 0)) || (p->begun && (*p->begun != 0 || p->pace_steps < 1)) ||
        (p->split > 1 && (!WEFT_GEMM_SPLITS(tile_m) || walk->dispatch != WEFT_DISPATCH_GRID ||
                          p->split > weft_ceil_divide(a->k, WEFT_GEMM_STEP)))) {
        return 1;
    }
    fake_begin(p->counter);
    for (unsigned cluster = 0; cluster < grid / ctas; cluster++) {
        weft_worker worker = start(p, &o, cluster, tile_m, tile_n);
        weft_visit visit;
        const weft_deal deal = {0, p->side_of_sm ? p->side_of_sm[cluster] : -1, walk->reach.kind, 0, 0};
        while (weft_worker_next_dealt(walk, &worker, deal, &visit)) {
            const int64_t row = p->swapped ? visit.tile.n : visit.tile.m, col = p->swapped ? visit.tile.m : visit.tile.n;
            run_cluster(p, &o, visit.tile.batch, row, col, tile_m, tile_n);
        }
    }
    return 0;
}

int fake_run_gemm_sums(unsigned grid, const void *parameters) {
    const weft_gemm_sums_params *p = parameters;
    if (p->ctas != (p->columns + WEFT_GEMM_SUMS_COLUMNS - 1) / WEFT_GEMM_SUMS_COLUMNS || grid % (unsigned)p->ctas != 0) {
        return 1;
    }
    for (int64_t i = 0; i < (int64_t)grid / p->ctas * p->columns; i++) {
        const float *shares = p->shares + i / p->columns * p->count * p->columns + i % p->columns;
        double sum = 0;
        for (int64_t share = 0; share < p->count; share++) {
            sum += (double)shares[share * p->columns];
        }
        p->sums[i] = (float)sum;
    }
    return 0;
}
