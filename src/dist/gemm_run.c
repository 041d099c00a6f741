/* SPDX-License-Identifier: Apache-2.0 */
/* A run of a rank of a shared matrix product. */
#include <stddef.h>

#include "base/status.h"
#include "dist/gemm_work.h"
#include "dist/pass.h"
#include "problem/problem.h"

/* ---- data ---- */

/* The buffers of this rank's data: as those of a product, with the sizes that they have here. Returns how many. */
static size_t buffers_of(const weft_dist_work *work, weft_buffer *list) {
    const weft_dist *dist = work->dist;
    const weft_dist_product *x = work->product;
    const weft_gemm *all = &dist->problem.gemm;
    const weft_gemm_extents ab = weft_gemm_sizes(&x->ab), c = weft_gemm_sizes(&x->c);
    const size_t a_is = x->a_rows > 0 && x->b_rows > 0, b_is = x->b_rows > 0 && x->columns > 0;
    const size_t c_is = x->c_rows > 0 && x->columns > 0, batch = (size_t)all->batch;
    const struct {
        size_t offset, elements;
    } sizes[] = {{offsetof(weft_gemm_data, a), a_is * ab.a},
                 {offsetof(weft_gemm_data, b), b_is * ab.b},
                 {offsetof(weft_gemm_data, c), c_is * c.c},
                 {offsetof(weft_gemm_data, residual), c_is * c.residual},
                 {offsetof(weft_gemm_data, bias), batch * (size_t)x->columns},
                 {offsetof(weft_gemm_data, row_scale), batch * (size_t)all->m},
                 {offsetof(weft_gemm_data, column_scale), batch * (size_t)x->columns}};
    size_t count = dist->operation->buffers(&work->local, list), kept = 0;
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < sizeof sizes / sizeof *sizes; j++) {
            list[i].elements = list[i].offset == sizes[j].offset ? sizes[j].elements : list[i].elements;
        }
        if (list[i].elements > 0) { /* who has nothing of a matrix need not point to it */
            list[kept++] = list[i];
        }
    }
    return kept;
}

weft_status weft_dist_gemm_check_data(const weft_dist_work *work, const void *data, weft_data *checked,
                                      weft_message *message) {
    weft_buffer list[WEFT_BUFFERS];
    const size_t count = buffers_of(work, list);
    return weft_data_check_buffers(checked, work->dist->operation, &work->local, list, count, data, message);
}

/* ---- a step ---- */

static const char *moved(const void *from, int64_t elements, weft_dtype dtype) {
    return from ? (const char *)from + elements * (int64_t)weft_dtype_bytes(dtype) : NULL;
}

static const float *moved_floats(const float *from, int64_t elements) {
    return from ? from + elements : NULL;
}

static int64_t element_at(weft_major major, int64_t ld, int64_t row) {
    return major == WEFT_ROW_MAJOR ? row * ld : row;
}

/* The first row of a slice among all rows of m: parts are whole runs of them. */
static int64_t row_of(const weft_dist *dist, const weft_dist_slice *s, int64_t part) {
    weft_chunk chunk = {0, 0, 1};
    weft_dist_chunk(dist, part, WEFT_PART_ROWS, 0, &chunk);
    return chunk.begin + s->keys.begin;
}

/* Rows of A that have come, times this rank's B, are rows of its C. */
static weft_gemm_data gathered(const weft_pass *p, const weft_gemm_data *mine, const char *rows, int64_t row,
                               int64_t product) {
    const weft_gemm *all = &p->work->dist->problem.gemm, *c = &p->work->product->c;
    const int64_t line = element_at(c->c_major, c->ldc, row) + product * c->c_stride;
    const int64_t columns = p->work->product->columns;
    weft_gemm_data one = *mine;
    one.a = moved(rows, product * all->k, all->dtype);
    one.c = (char *)(uintptr_t)moved(mine->c, line, all->c_dtype);
    one.bias = moved(mine->bias, product * columns, all->bias_dtype);
    one.residual =
        moved(mine->residual, element_at(c->c_major, c->ld_residual, row) + product * c->residual_stride, all->c_dtype);
    one.column_scale = moved_floats(mine->column_scale, product * columns);
    return one;
}

/* Rows of this rank's columns of A, times its rows of B, are a share of the sum of rows of C. */
static weft_gemm_data shared_sum(const weft_pass *p, const weft_gemm_data *mine, int64_t row, int64_t product,
                                 char *share) {
    const weft_gemm *all = &p->work->dist->problem.gemm, *ab = &p->work->product->ab;
    weft_gemm_data one = *mine;
    one.a = moved(mine->a, element_at(ab->a_major, ab->lda, row) + product * ab->a_stride, all->dtype);
    one.c = share + (size_t)(product * all->n) * sizeof(float);
    one.bias = one.residual = NULL;
    one.column_scale = moved_floats(mine->column_scale, product * all->n);
    return one;
}

weft_status weft_dist_gemm_slice(const weft_pass *p, const weft_dist_slice *s, const weft_dist_slice_plans *plans,
                                 const weft_hop *hop, const weft_dist_pair *rows) {
    weft_dist_work *work = p->work;
    const weft_gemm *all = &work->dist->problem.gemm, *ab = &work->product->ab;
    const weft_gemm_data *mine = p->in->fixed;
    const int64_t row = row_of(work->dist, s, hop->part);
    const char *here = rows->k + (size_t)(s->keys.begin - hop->keys.begin) * p->row.k;
    const int has_bias = hop->part == work->ring_rank && mine->bias; /* sums of own rows begin with it */
    weft_dist_pair computed = {work->part_k, NULL};
    const int begins = work->dist->adds && !has_bias && weft_pass_begins(p, s, hop, &computed);
    weft_status status = WEFT_OK;
    for (int64_t i = 0; i < all->batch && !status; i++) {
        weft_gemm_data one = work->dist->adds ? shared_sum(p, mine, row, i, computed.k) : gathered(p, mine, here, row, i);
        one.b = moved(mine->b, i * ab->b_stride, all->dtype);
        one.scale = moved_floats(mine->scale, i);
        one.row_scale = moved_floats(mine->row_scale, i * all->m + row);
        one.workspace = work->workspace;
        status = weft_dist_compute(work, plans->compute, &one, p->message);
    }
    return status || !work->dist->adds || begins ? status : weft_pass_add(p, s, plans, hop, &computed);
}

/* Blocks of columns, then the rest of them. */
static weft_status run_blocks(weft_dist_work *work, const weft_dist_sum *sum, int64_t columns, const char *from,
                              size_t from_element, char *to, size_t to_element, weft_message *message) {
    const size_t before = (size_t)(columns / WEFT_DIST_BLOCK * WEFT_DIST_BLOCK);
    weft_combine_data data = WEFT_COMBINE_DATA_INIT;
    data.parts[0] = from;
    data.o = to;
    weft_status status = sum->first ? weft_dist_compute(work, sum->first, &data, message) : WEFT_OK;
    data.parts[0] = from + before * from_element;
    data.o = to + before * to_element;
    return status || !sum->second ? status : weft_dist_compute(work, sum->second, &data, message);
}

weft_status weft_dist_gemm_add(weft_dist_work *work, const weft_dist_sum *sum, const weft_dist_pair *from,
                               const weft_dist_pair *to, weft_message *message) {
    const int64_t columns = work->dist->problem.gemm.batch * work->dist->problem.gemm.n;
    return run_blocks(work, sum, columns, from->k, sizeof(float), to->k, sizeof(float), message);
}

/* Sums of own rows begin with the bias: nobody else adds it. Rows that have it are copied to as many that do not. */
weft_status weft_dist_gemm_clear(const weft_pass *p) {
    weft_dist_work *work = p->work;
    const weft_gemm *all = &work->dist->problem.gemm;
    const weft_gemm_data *mine = p->in->fixed;
    const weft_dist_memory *m = &work->memory;
    const size_t row = p->row.k_sums;
    char *sums = work->home.k;
    if (!work->dist->adds || !mine->bias || work->keys == 0) {
        return WEFT_OK;
    }
    weft_status status = run_blocks(work, &work->product->widening, all->batch * all->n, mine->bias,
                                    weft_dtype_bytes(all->bias_dtype), sums, sizeof(float), p->message);
    for (size_t have = 1, rows = (size_t)work->keys; have < rows && !status; have *= 2) {
        const size_t more = have < rows - have ? have : rows - have;
        status = m->copy(m, sums + have * row, row, sums, row, row, more, p->message);
    }
    return status;
}

/* ---- before and after the steps ---- */

/* Copies a matrix of the caller's from or to rows that lie so many bytes apart. */
static weft_status copy_matrix(const weft_dist_work *work, char *rows, size_t pitch, const char *matrix, weft_major major,
                               int64_t ld, int64_t height, int64_t width, size_t element, int out, weft_message *message) {
    const weft_dist_memory *m = &work->memory;
    const int by_rows = major == WEFT_ROW_MAJOR;
    const size_t there_pitch = by_rows ? (size_t)ld * element : element;
    const size_t each = by_rows ? (size_t)width * element : element;
    weft_status status = WEFT_OK;
    for (int64_t i = 0; i < (by_rows ? 1 : width) && !status; i++) {
        char *here = rows + (size_t)i * element, *there = (char *)(uintptr_t)matrix + (size_t)(i * ld) * element;
        status = m->copy(m, out ? there : here, out ? there_pitch : pitch, out ? here : there, out ? pitch : there_pitch,
                         each, (size_t)height, message);
    }
    return status;
}

/* Own rows of A, (rows, batch, k): where they are, if they lie so; else a copy. */
static weft_status own_rows(weft_dist_work *work, const weft_gemm_data *mine, weft_dist_pair *own, weft_message *message) {
    const weft_gemm *all = &work->dist->problem.gemm, *ab = &work->product->ab;
    const size_t element = weft_dtype_bytes(all->dtype);
    *own = work->own;
    if (work->keys == 0) {
        return WEFT_OK; /* the caller's A may be null */
    }
    if (all->batch == 1 && ab->a_major == WEFT_ROW_MAJOR && ab->lda == all->k) {
        own->k = (char *)(uintptr_t)mine->a;
        return WEFT_OK;
    }
    weft_status status = WEFT_OK;
    for (int64_t i = 0; i < all->batch && !status; i++) {
        status = copy_matrix(work, own->k + (size_t)(i * all->k) * element, work->dist->row.k,
                             moved(mine->a, i * ab->a_stride, all->dtype), ab->a_major, ab->lda, work->keys, all->k,
                             element, 0, message);
    }
    return status;
}

/* Rounds the sums of own rows of C to where the caller wants them. */
static weft_status round_rows(weft_dist_work *work, const weft_gemm_data *mine, weft_message *message) {
    const weft_dist_product *x = work->product;
    const weft_gemm *all = &work->dist->problem.gemm;
    const size_t element = weft_dtype_bytes(all->c_dtype);
    weft_status status = WEFT_OK;
    for (int64_t i = 0; i < all->batch && work->keys > 0 && !status; i++) {
        char *c = (char *)mine->c + (size_t)(i * x->c.c_stride) * element;
        const char *sums = work->home.k + (size_t)(i * all->n) * sizeof(float);
        char *to = x->rounded ? x->rounded : c;
        status = run_blocks(work, &x->rounding, all->n, sums, sizeof(float), to, element, message);
        if (!status && x->rounded) {
            status = copy_matrix(work, to, (size_t)all->n * element, c, x->c.c_major, x->c.ldc, work->keys, all->n, element,
                                 1, message);
        }
    }
    return status;
}

weft_status weft_dist_gemm_run(weft_dist_work *work, const weft_data *data, void *kept, weft_message *message) {
    weft_dist_inputs in = {.own = work->own, .fixed = &data->gemm, .kept = kept};
    const int adds = work->dist->adds;
    weft_status status = adds ? WEFT_OK : own_rows(work, &data->gemm, &in.own, message);
    status = status ? status : weft_dist_pass(work, &in, message);
    return status || !adds ? status : round_rows(work, &data->gemm, message);
}
