/* SPDX-License-Identifier: Apache-2.0 */
/* The problem and the data that the decode kernel's parameters are of. */
#ifndef WEFT_TESTS_CUDA_FAKE_DECODE_H
#define WEFT_TESTS_CUDA_FAKE_DECODE_H

#include "cuda/decode/params.h"
#include "fake_driver.h"
#include "fake_pages.h"
#include "problem/problem.h"
#include "ref/ref.h"

static inline weft_attention fake_decode_problem(const weft_decode_params *p, weft_dtype dtype) {
    const weft_sequences *all = &p->runs.sequences;
    const weft_band *band = &p->runs.band;
    const double log2e = 1.44269504088896340736;
    weft_attention problem = WEFT_ATTENTION_INIT;
    problem.dtype = dtype;
    problem.batch = all->packed ? 1 : all->count;
    problem.sequences = all->packed ? all->count : 0;
    problem.heads = p->heads;
    problem.kv_heads = p->kv_heads;
    problem.seq = p->seq;
    problem.kv_seq = all->keys;
    problem.head_dim = p->head_dim;
    problem.head_dim_v = p->head_dim_v;
    problem.q_strides = p->q_strides;
    problem.k_strides = p->k_strides;
    problem.v_strides = p->v_strides;
    problem.o_strides = p->o_strides;
    problem.lengths = all->lengths;
    problem.mask = band->from_end ? WEFT_MASK_WINDOW_BOTTOM_RIGHT : WEFT_MASK_WINDOW;
    problem.offset = band->offset;
    problem.left = band->left < WEFT_BAND_OPEN ? band->left : -1;
    problem.right = band->right < WEFT_BAND_OPEN ? band->right : -1;
    problem.chunk = band->chunk;
    problem.softcap = (double)p->cap / log2e;
    problem.scale = p->cap != 0 ? (double)p->scale * problem.softcap / (2 * log2e) : (double)p->scale / log2e;
    problem.extras = (p->sinks ? WEFT_SINKS : 0) | (p->alibi ? WEFT_ALIBI : 0);
    problem.alibi_stride = p->alibi_stride;
    problem.cache.page = p->pages.page;
    problem.cache.pages = p->pages.pages;
    problem.cache.table_stride = p->pages.stride;
    problem.cache.append = all->append;
    problem.cache.new_starts = all->new_starts;
    problem.cache.k_new_strides = p->k_new_strides;
    problem.cache.v_new_strides = p->v_new_strides;
    problem.cache.rotary_dim = p->rotary_dim;
    problem.cache.rotary_rows = p->rotary_rows;
    problem.cache.rotary_interleaved = p->rotary_interleaved;
    if (p->rotary_dim > 0 && !p->rotary_moves) { /* the only mask under which queries stand at one position */
        problem.mask = WEFT_MASK_NONE;
    }
    return problem;
}

static inline weft_attention_data fake_decode_data(const weft_decode_params *p) {
    weft_attention_data data = WEFT_ATTENTION_DATA_INIT;
    data.q = p->q;
    data.k = p->k;
    data.v = p->v;
    data.o = p->o;
    data.lse = p->lse;
    data.sinks = p->sinks;
    data.alibi = p->alibi;
    data.cache.table = p->pages.table;
    data.cache.k_new = p->k_new;
    data.cache.v_new = p->v_new;
    data.cache.cos = p->cos;
    data.cache.sin = p->sin;
    data.cache.positions = p->positions;
    return data;
}

#endif
