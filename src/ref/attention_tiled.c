/* SPDX-License-Identifier: Apache-2.0 */
/* Attention, tile by tile: the plan's order, sweep and dispatch, and an online softmax in base 2.
 *
 * A query keeps the largest score so far, the sum of 2^(score - largest) and the sum of those weights times V. A step that
 * brings a larger score first scales both sums down. */
#include "base/status.h"
#include "ref/cache.h"
#include "ref/ref.h"
#include "ref/rounds.h"
#include "ref/scores.h"

#include <math.h>
#include <stdlib.h>

static const double log2_e = 1.44269504088896340736;
static const double ln_2 = 0.69314718055994530942;

typedef struct attention_tile {
    const weft_attention *p;
    const weft_attention_data *data;
    const weft_reach *reach;
    int64_t tile_rows, tile_keys; /* queries in a tile, keys in a step */
    double *max, *sum;            /* (tile_rows); max is a score times log2(e) */
    double *out;                  /* (tile_rows, head_dim) */
    double *weights;              /* (tile_keys) */
} attention_tile;

/* Brings keys begin .. end - 1 to query `row` of the problem, which is number `slot` of its tile; where `masked`, but for
 * those that block masks and tree masks hide. */
static void add_keys(const attention_tile *t, weft_tile tile, int64_t row, int64_t slot, int64_t begin, int64_t end,
                     int masked) {
    const weft_attention *p = t->p;
    const int64_t kv_head = weft_ref_kv_head(p, tile.head);
    const weft_ref_keys all = weft_ref_keys_of(p, t->data, tile.batch, weft_attention_sequence_of(p, tile.batch, row));
    weft_ref_room q_room, room;
    const weft_ref_vector q = weft_ref_query(&all, tile.head, row, &q_room);
    double max = t->max[slot];
    for (int64_t key = begin; key < end; key++) {
        t->weights[key - begin] = -INFINITY;
        if (masked && !weft_attention_shows(p, &t->reach->blocks, tile.batch, tile.head, row, key)) {
            continue;
        }
        const double plain = p->scale * weft_ref_product(&all, tile.head, row, q, key);
        const double score = log2_e * (weft_ref_cap(p, plain) +
                                       weft_ref_bias(p, t->data->alibi, t->data->bias, tile.batch, tile.head, row, key));
        t->weights[key - begin] = score;
        max = score > max ? score : max;
    }
    const double shift = max == -INFINITY ? 0 : max; /* -inf minus -inf would be NaN */
    const double rescale = exp2(t->max[slot] - shift);
    double *out = t->out + slot * p->head_dim_v;
    for (int64_t d = 0; d < p->head_dim_v; d++) {
        out[d] *= rescale;
    }
    t->sum[slot] *= rescale;
    t->max[slot] = max;
    for (int64_t key = begin; key < end; key++) {
        const weft_ref_vector v = weft_ref_value(&all, kv_head, key, &room);
        const double weight = exp2(t->weights[key - begin] - shift);
        const double kept =
            weft_ref_kept(p, t->data->dropout_seed, tile.batch * p->heads + tile.head, row, key); /* 0: not even a NaN */
        const int counts =
            kept != 0 && !(masked && !weft_attention_shows(p, &t->reach->blocks, tile.batch, tile.head, row, key));
        t->sum[slot] += weight;
        for (int64_t d = 0; d < p->head_dim_v && counts; d++) {
            out[d] += kept * weight * weft_ref_load(p->dtype, v.data, v.at + (size_t)d);
        }
    }
}

static void clear_rows(const attention_tile *t, int64_t rows) {
    for (int64_t slot = 0; slot < rows; slot++) {
        t->max[slot] = -INFINITY;
        t->sum[slot] = 0;
    }
    for (int64_t i = 0; i < rows * t->p->head_dim_v; i++) {
        t->out[i] = 0;
    }
}

/* Divides by the sum and writes O and LSE. A sum of 0 means that the query saw nothing but scores of -inf, if any. */
static void store_row(const attention_tile *t, weft_tile tile, int64_t row, int64_t slot) {
    const weft_attention *p = t->p;
    const double sink = p->extras & WEFT_SINKS ? (double)t->data->sinks[tile.head] * log2_e : -INFINITY;
    const double shift = fmax(t->max[slot], sink), scale = shift == -INFINITY ? 1 : exp2(t->max[slot] - shift);
    const double sum = t->sum[slot] * scale + (sink == -INFINITY ? 0 : exp2(sink - shift));
    const int64_t at = (tile.batch * p->heads + tile.head) * p->seq + row;
    const size_t o = weft_row_index(&p->o_strides, tile.batch, row, tile.head);
    for (int64_t d = 0; d < p->head_dim_v; d++) {
        const double value = sum == 0 ? 0 : t->out[slot * p->head_dim_v + d] * scale / sum;
        weft_ref_store(weft_attention_out_dtype(p), t->data->o, o + (size_t)d, value);
    }
    if (t->data->lse) {
        t->data->lse[at] = (float)(sum == 0 ? -INFINITY : (shift + log2(sum)) * ln_2);
    }
    if (t->data->max) {
        t->data->max[at] = (float)(t->max[slot] * ln_2);
    }
}

static void attention_work(void *context, const weft_visit *visit, weft_tile tile) {
    const attention_tile *t = context;
    const weft_rows cut = visit->cut.rows;
    const int64_t first_row = weft_smaller(cut.begin + (tile.block - visit->tile.block) * t->tile_rows, cut.end);
    const int64_t rows = weft_smaller(cut.end - first_row, t->tile_rows); /* of one tile of a cluster */
    clear_rows(t, rows);
    for (int64_t i = 0, number = visit->first; i < visit->steps; i++, number += visit->direction) {
        const int64_t step = weft_visit_step(t->reach, visit, number);
        const int in_band = step >= visit->full_begin && step < visit->full_end;
        const int full = in_band && weft_visit_bits(t->reach, visit, number) < 0;
        for (int64_t slot = 0; slot < rows; slot++) {
            int64_t begin = step * t->tile_keys, end = begin + t->tile_keys;
            if (!in_band) { /* an edge of the mask, or the ragged end */
                const weft_rows seen = weft_seen_keys(t->p, tile.batch, first_row + slot);
                begin = weft_larger(begin, seen.begin);
                end = weft_smaller(end, seen.end);
            }
            if (begin < end) {
                add_keys(t, tile, first_row + slot, slot, begin, end, !full);
            }
        }
    }
    for (int64_t slot = 0; slot < rows; slot++) {
        store_row(t, tile, first_row + slot, slot);
    }
}

weft_status weft_ref_attention_tiled(const weft_plan *plan, const weft_attention_data *data, weft_message *message) {
    const weft_attention *p = &plan->attention;
    const int64_t tile_rows = plan->schedule.tile_m, tile_keys = plan->schedule.tile_n;
    const int64_t rows = tile_rows < p->seq ? tile_rows : p->seq;
    const int64_t keys = tile_keys < p->kv_seq ? tile_keys : p->kv_seq;
    double *room = calloc((size_t)(rows * (2 + p->head_dim_v) + keys), sizeof *room);
    if (!room) {
        return weft_fail(message, WEFT_NO_MEMORY, "no memory for a tile of %lld queries and %lld keys", (long long)rows,
                         (long long)keys);
    }
    double *sum = room + rows, *weights = sum + rows, *out = weights + keys;
    attention_tile t = {p, data, &plan->walk.reach, tile_rows, tile_keys, room, sum, out, weights};
    weft_ref_append(p, data);
    const weft_grid tiles = {p->batch, p->heads, weft_reach_tiles(&plan->walk.reach)};
    const weft_status status = weft_ref_rounds(plan, tiles, attention_work, &t, message);
    free(room);
    return status;
}
