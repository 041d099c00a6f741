/* SPDX-License-Identifier: Apache-2.0 */
/* Grouped products, drawn at random, and what is right. What nobody may read is NaN: gaps between rows, rows of no group,
 * and B of groups without rows. C is poison. */
#ifndef WEFT_TESTS_GROUPS_H
#define WEFT_TESTS_GROUPS_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan/plan.h"
#include "problem/grouped_gemm.h"
#include "problem/problem.h"
#include "random.h"
#include "ref/ref.h"

enum { MOST_DRAWN_GROUPS = 40, POISON = 0xff };

/* A problem with its data in the host's memory. */
typedef struct grouped_case {
    weft_grouped_gemm p; /* resolved, its bounds in the data */
    int32_t bounds[MOST_DRAWN_GROUPS + 1];
    weft_gemm_extents size;
    weft_grouped_gemm_data data;
    size_t c_bytes;
} grouped_case;

/* Rows of a group: often none, one, or as many as a tile has. */
static inline int64_t draw_group_rows(uint64_t *random, int64_t most) {
    const int64_t kind = random_between(random, 0, 9);
    const int64_t rows = kind < 2 ? 0 : kind == 2 ? 1 : kind == 3 ? 64 : kind == 4 ? 128 : random_between(random, 1, most);
    return rows < most ? rows : most;
}

/* Bounds of a problem whose groups and rows are known; rows of a contiguous one are set to as many as it needs, and some.
 */
static inline void draw_bounds(uint64_t *random, weft_grouped_gemm *p, int64_t most, int32_t *bounds) {
    const int masked = p->layout == WEFT_GROUPS_MASKED;
    int64_t at = random_between(random, 0, 3) == 0 ? random_between(random, 0, 5) : 0;
    for (int64_t i = 0; i < p->groups; i++) {
        const int64_t rows = draw_group_rows(random, most);
        bounds[i] = (int32_t)(masked ? rows : at);
        at += rows;
    }
    if (masked) {
        p->rows = most;
    } else {
        bounds[p->groups] = (int32_t)at;
        p->rows = at + random_between(random, 0, 1) * random_between(random, 0, 20);
        p->rows = p->rows > 0 ? p->rows : 1;
    }
}

/* `unit`: what leading dimensions and strides are multiples of; the lines of A and B are as long. */
static inline void draw_groups(uint64_t *random, weft_grouped_gemm *p, int64_t most_rows, int64_t most, int64_t unit,
                               int32_t *bounds) {
    const weft_grouped_gemm fresh = WEFT_GROUPED_GEMM_INIT;
    *p = fresh;
    p->layout = random_between(random, 0, 1) ? WEFT_GROUPS_MASKED : WEFT_GROUPS_CONTIGUOUS;
    p->groups = random_between(random, 0, 3) ? random_between(random, 1, 6) : random_between(random, 1, MOST_DRAWN_GROUPS);
    draw_bounds(random, p, random_between(random, 1, most_rows), bounds);
    p->n = weft_ceil_divide(random_between(random, 1, most), unit) * unit;
    p->k = weft_ceil_divide(random_between(random, 1, most), unit) * unit;
    p->b_major = random_between(random, 0, 1) ? WEFT_COL_MAJOR : WEFT_ROW_MAJOR;
    p->alpha = random_between(random, 0, 2) ? 1 : -0.5;
    if (random_between(random, 0, 1)) {
        const int is_col = p->b_major == WEFT_COL_MAJOR;
        p->lda = p->k + unit * random_between(random, 0, 3);
        p->ldb = (is_col ? p->k : p->n) + unit * random_between(random, 0, 3);
        p->ldc = p->n + unit * random_between(random, 0, 3);
        p->b_stride = p->ldb * (is_col ? p->n : p->k) + unit * random_between(random, 0, 3);
        if (p->layout == WEFT_GROUPS_MASKED) {
            p->a_stride = p->lda * p->rows + unit * random_between(random, 0, 3);
            p->c_stride = p->ldc * p->rows + unit * random_between(random, 0, 3);
        }
    }
}

static inline void fill_numbers(uint64_t *random, weft_dtype dtype, void *to, size_t at, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        weft_ref_store(dtype, to, at + (size_t)i, (double)random_between(random, -2000, 2000) / 1000);
    }
}

/* Memory for a problem, filled. Returns 0 when there is none, or the problem is not right. */
static inline int grouped_hold(grouped_case *c, uint64_t *random) {
    const weft_operation_row *row;
    const weft_grouped_gemm_data fresh = WEFT_GROUPED_GEMM_DATA_INIT;
    weft_problem resolved;
    if (weft_problem_resolve(&resolved, &row, &c->p, NULL)) {
        return 0;
    }
    c->p = resolved.grouped;
    const weft_gemm product = weft_grouped_gemm_product(&c->p);
    const size_t bytes = weft_dtype_bytes(c->p.dtype);
    c->size = weft_gemm_sizes(&product);
    c->c_bytes = c->size.c * weft_dtype_bytes(c->p.c_dtype);
    c->data = fresh;
    char *a = (char *)malloc(c->size.a * bytes), *b = (char *)malloc(c->size.b * bytes);
    c->data.c = malloc(c->c_bytes);
    c->data.a = a;
    c->data.b = b;
    c->data.starts = c->p.layout == WEFT_GROUPS_MASKED ? NULL : c->bounds;
    c->data.counts = c->p.layout == WEFT_GROUPS_MASKED ? c->bounds : NULL;
    if (!a || !b || !c->data.c) {
        return 0;
    }
    memset(a, POISON, c->size.a * bytes);
    memset(b, POISON, c->size.b * bytes);
    memset(c->data.c, POISON, c->c_bytes);
    const weft_groups groups = weft_grouped_gemm_groups(&c->p, c->bounds, 1, 1);
    for (int32_t g = 0; g < groups.count; g++) {
        const weft_group_rows rows = weft_group_at(&groups, g);
        const int64_t lines = c->p.b_major == WEFT_COL_MAJOR ? c->p.n : c->p.k;
        for (int64_t i = 0; i < rows.count; i++) {
            fill_numbers(random, c->p.dtype, a, (size_t)(g * c->p.a_stride + (rows.first + i) * c->p.lda), c->p.k);
        }
        for (int64_t i = 0; i < lines && rows.count > 0; i++) {
            fill_numbers(random, c->p.dtype, b, (size_t)(g * c->p.b_stride + i * c->p.ldb),
                         c->p.b_major == WEFT_COL_MAJOR ? c->p.k : c->p.n);
        }
    }
    return 1;
}

static inline void grouped_release(grouped_case *c) {
    free((void *)(uintptr_t)c->data.a);
    free((void *)(uintptr_t)c->data.b);
    free(c->data.c);
}

/* How many bytes of C are not poison that no row of a group has. `stored`: the padding of a line up to a multiple of so
 * many bytes may be written, see weft_gemm.ldc; 1: none. */
static inline size_t grouped_touched(const grouped_case *c, const void *got, size_t stored) {
    const weft_groups groups = weft_grouped_gemm_groups(&c->p, c->bounds, 1, 1);
    const size_t bytes = weft_dtype_bytes(c->p.c_dtype);
    unsigned char *owned = (unsigned char *)calloc(c->c_bytes + stored, 1);
    size_t touched = owned ? 0 : 1;
    for (int32_t g = 0; g < groups.count && owned; g++) {
        const weft_group_rows rows = weft_group_at(&groups, g);
        for (int64_t i = 0; i < rows.count; i++) {
            const size_t at = (size_t)(g * c->p.c_stride + (rows.first + i) * c->p.ldc) * bytes;
            const size_t end = at + (size_t)c->p.n * bytes;
            memset(owned + at, 1, (end + stored - 1) / stored * stored - at);
        }
    }
    for (size_t i = 0; i < c->c_bytes && owned; i++) {
        touched += !owned[i] && ((const unsigned char *)got)[i] != POISON;
    }
    free(owned);
    return touched;
}

#endif
