/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/decode/fill.h"

#include <string.h>

#include "problem/problem.h"

int64_t weft_decode_rows(const weft_attention *p) {
    const int64_t most = weft_attention_most_queries(p);
    return (most > 0 ? most : p->seq) * (p->heads / p->kv_heads);
}

int weft_decode_varies(const weft_attention *p) {
    return (weft_attention_asks(p) & WEFT_HAS_LENGTHS) != 0;
}

weft_runs weft_decode_runs(const weft_plan *plan, int64_t rows) {
    const weft_attention *p = &plan->attention;
    return (weft_runs){.sequences = weft_attention_sequences(p),
                       .band = weft_attention_band(p),
                       .tiles = p->kv_heads * ((weft_decode_rows(p) + rows - 1) / rows),
                       .by_workers = weft_divisor_make((uint64_t)weft_larger(plan->schedule.workers, 1))};
}

int32_t weft_decode_merged_rows(const weft_attention *p, const weft_runs *runs, int64_t rows) {
    enum { MANY_TILES = 32, MANY_CTAS = 512 };
    const int64_t tiles = runs->sequences.count * runs->tiles;
    int32_t merged = !weft_decode_varies(p) && tiles >= MANY_TILES ? WEFT_DECODE_MERGE_WARPS : 1;
    while (merged < WEFT_DECODE_MERGE_WARPS && tiles * rows / merged > MANY_CTAS) {
        merged *= 2;
    }
    return merged;
}

int64_t weft_decode_heads_in_tile(const weft_attention *p, int64_t rows) {
    const int64_t group = p->heads / p->kv_heads;
    while (group % rows != 0) {
        rows /= 2;
    }
    return rows;
}

void weft_decode_complete(const weft_plan *plan, const weft_cuda_device *device, const weft_cuda_choice *choice,
                          weft_schedule *schedule) {
    (void)plan;
    (void)device;
    (void)choice;
    schedule->order = schedule->order == WEFT_ORDER_CHOOSE ? WEFT_ORDER_HEAD_FIRST : schedule->order;
    schedule->sweep = WEFT_SWEEP_FORWARD;
    schedule->dispatch = WEFT_DISPATCH_STATIC;
}

static void fill_cache(weft_decode_params *to, const weft_plan *plan, const weft_attention_data *data) {
    const weft_attention *p = &plan->attention;
    to->pages = weft_cuda_pages(plan, data);
    if (p->cache.append > 0) {
        to->k_new = data->cache.k_new;
        to->v_new = data->cache.v_new;
        to->k_new_strides = p->cache.k_new_strides;
        to->v_new_strides = p->cache.v_new_strides;
    }
    if (p->cache.rotary_dim > 0) {
        to->rotary_dim = (int32_t)p->cache.rotary_dim;
        to->rotary_rows = (int32_t)p->cache.rotary_rows;
        to->rotary_interleaved = p->cache.rotary_interleaved;
        to->rotary_moves = p->mask != WEFT_MASK_NONE;
        to->cos = data->cache.cos;
        to->sin = data->cache.sin;
        to->positions = data->cache.positions;
    }
}

void weft_decode_fill(weft_decode_params *to, const weft_plan *plan, const weft_attention_data *data, const weft_walk *walk,
                      int64_t rows, int alone) {
    const weft_attention *p = &plan->attention;
    const double log2_e = 1.4426950408889634;
    memset(to, 0, sizeof *to);
    to->q = data->q;
    to->k = (void *)(uintptr_t)data->k;
    to->v = (void *)(uintptr_t)data->v;
    to->o = data->o;
    to->lse = data->lse;
    to->q_strides = p->q_strides;
    to->k_strides = p->k_strides;
    to->v_strides = p->v_strides;
    to->o_strides = p->o_strides;
    to->seq = (int32_t)p->seq;
    to->most = (int32_t)weft_attention_most_queries(p);
    to->heads = (int32_t)p->heads;
    to->kv_heads = (int32_t)p->kv_heads;
    to->group = (int32_t)(p->heads / p->kv_heads);
    to->by_group = weft_divisor_make((uint64_t)to->group);
    to->head_dim = (int32_t)p->head_dim;
    to->head_dim_v = (int32_t)p->head_dim_v;
    /* tanh(x) is 1 - 2 / (2^(2 x log2 e) + 1) */
    to->scale = (float)(p->softcap > 0 ? 2 * p->scale / p->softcap * log2_e : p->scale * log2_e);
    to->cap = (float)(p->softcap * log2_e);
    to->sinks = p->extras & WEFT_SINKS ? data->sinks : NULL;
    to->alibi = p->extras & WEFT_ALIBI ? data->alibi : NULL;
    to->alibi_stride = p->alibi_stride;
    fill_cache(to, plan, data);
    to->runs = weft_decode_runs(plan, rows);
    if (weft_reach_has_band(&walk->reach)) { /* with the lengths where the kernel reads them */
        to->runs.sequences = walk->reach.sequences;
        to->runs.band = walk->reach.band;
    }
    to->tiles = (int32_t)(to->runs.tiles / p->kv_heads);
    to->merged_rows = weft_decode_merged_rows(p, &to->runs, rows);
    to->by_tiles = weft_divisor_make((uint64_t)to->runs.tiles);
    if (!weft_decode_varies(p)) {
        const weft_rows leaves = weft_run_leaves(&to->runs, 0);
        to->alike = 1;
        to->sequence = weft_sequence_at(&to->runs.sequences, 0);
        to->seen = weft_band_seen(&to->runs.band, &to->sequence, 0);
        to->first = (int32_t)leaves.begin;
        to->leaves = (int32_t)(leaves.end - leaves.begin);
        to->level = alone ? weft_run_level_alone(to->leaves) : weft_run_level_alike(&to->runs, leaves);
        to->runs_each = (int32_t)weft_run_count(leaves, to->level);
        to->whole = (int32_t)weft_run_sizes_of(leaves, to->level).whole;
        to->by_whole = weft_divisor_make((uint64_t)weft_larger(to->whole * to->runs.tiles, 1));
        to->by_others = weft_divisor_make((uint64_t)weft_larger((to->runs_each - to->whole) * to->runs.tiles, 1));
    }
}
