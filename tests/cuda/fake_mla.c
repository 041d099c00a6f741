/* SPDX-License-Identifier: Apache-2.0 */
/* What the fake driver does when the kernel for multi-head latent attention is launched: the same, in plain C, from the
 * same parameters. */
#include <stdio.h>
#include <string.h>

#include "cuda/sm90/mla/params.h"
#include "fake_decode.h"

/* Whether a map is of a tensor: K or V, in boxes of so many rows. */
static int is_map(const weft_tensor_map *map, const weft_decode_params *p, const void *data, const weft_strides *strides,
                  int64_t dim, int64_t rows) {
    fake_tensor t;
    memcpy(&t, map, sizeof t);
    const int64_t keys = p->pages.page > 0 ? p->pages.page : p->runs.sequences.keys;
    const int64_t batches = p->runs.sequences.packed ? 1 : p->runs.sequences.count;
    const int64_t pages = p->pages.page > 0 ? p->pages.pages : batches;
    return t.data == (uint64_t)(uintptr_t)data && t.rank == 4 && t.length[0] == dim && t.length[1] == keys &&
           t.length[2] == p->kv_heads && t.length[3] == pages && t.box[0] == 64 && t.box[1] == rows &&
           (keys == 1 || t.stride[1] == 2 * strides->seq) && (p->kv_heads == 1 || t.stride[2] == 2 * strides->head) &&
           (pages == 1 || t.stride[3] == 2 * strides->batch);
}

static int are_maps(const weft_mla_params *p, const weft_mla_maps *maps, const void *data, const weft_strides *strides,
                    int64_t dim) {
    return is_map(&maps->many, &p->all, data, strides, dim, p->rows) &&
           is_map(&maps->eight, &p->all, data, strides, dim, p->rows < 8 ? p->rows : 8) &&
           is_map(&maps->one, &p->all, data, strides, dim, 1);
}

/* Whether an axis of a map is so long, so wide in a box, and steps by so many elements. */
static int is_axis(const weft_tensor_map *map, int axis, int64_t length, int64_t box, int64_t stride) {
    fake_tensor t;
    memcpy(&t, map, sizeof t);
    return t.length[axis] == length && t.box[axis] == box && (length == 1 || t.stride[axis] == 2 * stride);
}

static int is_of(const weft_tensor_map *map, const void *data, int rank) {
    fake_tensor t;
    memcpy(&t, map, sizeof t);
    return t.data == (uint64_t)(uintptr_t)data && t.rank == rank;
}

/* Maps of boxes side by side: there where they may be, and right. */
static int are_wide(const weft_mla_params *p) {
    const weft_decode_params *all = &p->all;
    const weft_mla_wide *w = &p->wide;
    const int64_t batches = all->runs.sequences.packed ? 1 : all->runs.sequences.count, across = all->head_dim_v / 64;
    const int64_t keys = all->pages.page > 0 ? all->pages.page : all->runs.sequences.keys;
    const int64_t pages = all->pages.page > 0 ? all->pages.pages : batches;
    const int64_t heads = all->group < 64 ? all->group : 64, queries = 64 / heads;
    const weft_strides *q = &all->q_strides, *qv = &p->qv_strides, *v = &all->v_strides;
    const int divides = all->head_dim_v % 64 == 0;
    if (w->has_v != (divides && p->rows == 64) || w->has_q != (divides && all->group % heads == 0 && 64 % heads == 0)) {
        return 0;
    }
    if (w->has_v && !(is_of(&w->v, all->v, 5) && is_axis(&w->v, 0, 64, 64, 1) && is_axis(&w->v, 1, keys, 64, v->seq) &&
                      is_axis(&w->v, 2, across, WEFT_MLA_WIDE, 64) && is_axis(&w->v, 3, all->kv_heads, 1, v->head) &&
                      is_axis(&w->v, 4, pages, 1, v->batch))) {
        return 0;
    }
    return !w->has_q ||
           (is_of(&w->qv, p->qv, 5) && is_axis(&w->qv, 0, 64, 64, 1) && is_axis(&w->qv, 1, all->heads, heads, qv->head) &&
            is_axis(&w->qv, 2, all->seq, queries, qv->seq) && is_axis(&w->qv, 3, across, WEFT_MLA_WIDE, 64) &&
            is_axis(&w->qv, 4, batches, 1, qv->batch) && is_of(&w->q, all->q, 4) &&
            is_axis(&w->q, 0, all->head_dim, 64, 1) && is_axis(&w->q, 1, all->heads, heads, q->head) &&
            is_axis(&w->q, 2, all->seq, queries, q->seq) && is_axis(&w->q, 3, batches, 1, q->batch));
}

int fake_run_mla(const char *kernel, unsigned grid, void *parameters) {
    const weft_mla_params *p = parameters;
    const weft_decode_params *all = &p->all;
    const char *launch = strrchr(kernel, '_');
    char dtype[8];
    int depth, rows, keys;
    if (sscanf(kernel, "mla_%7[a-z0-9]_d%d_%dx%d_", dtype, &depth, &rows, &keys) != 4 || all->head_dim_v > depth ||
        grid == 0 || all->group * all->kv_heads != all->heads || all->tiles * rows < all->most * all->group ||
        p->rows * p->copies != keys || (all->pages.page > 0 && all->pages.page % p->rows != 0) ||
        !are_maps(p, &p->k, all->k, &all->k_strides, all->head_dim) ||
        !are_maps(p, &p->v, all->v, &all->v_strides, all->head_dim_v) || !are_wide(p)) {
        return 1;
    }
    if (strcmp(launch, "_merge") == 0) {
        return (int64_t)grid == all->runs.sequences.count * all->runs.tiles * p->merged * 2 && p->places > 0 && all->dealt
                   ? 0
                   : 1;
    }
    weft_attention problem = fake_decode_problem(all, (weft_dtype)weft_dtype_find(dtype));
    weft_attention_data data = fake_decode_data(all);
    problem.extras |= WEFT_QV;
    problem.qv_strides = p->qv_strides;
    data.qv = p->qv;
    fake_tell(&all->pages, &all->runs.sequences, &all->runs.band);
    return weft_ref_attention(&problem, &data, NULL) == WEFT_OK ? 0 : 1;
}
