/* SPDX-License-Identifier: Apache-2.0 */
/* K and V, packed once for all queries and all heads that share them. */
#include "cpu/attention/kv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "cpu/memory.h"
#include "problem/problem.h"

int weft_cpu_has_nonfinite(const weft_cpu_kernel *kernel, const void *packed, size_t bytes) {
    const uint32_t *words = packed; /* one fp32, or two halves: operands come in whole words */
    const uint32_t half = kernel->dtype == WEFT_FP16 ? 0x7c00u : 0x7f80u; /* an exponent of ones */
    const uint32_t upper = kernel->dtype == WEFT_FP32 ? 0x7f800000u : half << 16;
    uint32_t found = 0;
    for (size_t i = 0; i < bytes / sizeof *words; i++) {
        const uint32_t low = kernel->dtype == WEFT_FP32 ? 0 : words[i] & half;
        found |= (uint32_t)((words[i] & upper) == upper) | (uint32_t)(low == half);
    }
    return found != 0;
}

weft_cpu_run weft_cpu_kv_run(const weft_cpu_kv *kv, weft_dtype dtype, const void *data, const weft_strides *strides,
                             int64_t batch, int64_t kv_head, int64_t begin, int64_t end) {
    const weft_page_row at = weft_page_of(&kv->pages, batch, begin);
    const int64_t bytes = (int64_t)weft_dtype_bytes(dtype), page = kv->pages.page;
    const weft_cpu_run none = {NULL, 0, 0};
    if (at.page < 0) {
        return none;
    }
    return (weft_cpu_run){(const char *)data + weft_row_index(strides, at.page, at.row, kv_head) * (size_t)bytes,
                          strides->seq * bytes, page > 0 ? weft_cpu_min(page - at.row, end - begin) : end - begin};
}

/* One head of K or of V. */
typedef struct tensor {
    const void *data;
    const weft_strides *strides;
    int64_t batch, kv_head;
    weft_rows needed; /* columns; others are packed as zeros, and not read */
} tensor;

/* Rows from a column on that lie together; none where they are not needed. */
static weft_cpu_run run_of(const weft_cpu_kv *kv, const weft_attention *p, const tensor *t, int64_t begin, int64_t end) {
    const weft_cpu_run none = {NULL, 0, 0};
    end = weft_cpu_min(end, t->needed.end);
    return begin < t->needed.begin || begin >= end
               ? none
               : weft_cpu_kv_run(kv, p->dtype, t->data, t->strides, t->batch, t->kv_head, begin, end);
}

/* Copies elements d .. d + width - 1 of some rows one behind the other. */
static void gather(const weft_cpu_kv *kv, const weft_attention *p, const tensor *t, int64_t begin, int64_t rows, int64_t d,
                   int64_t width, char *to) {
    const size_t bytes = weft_dtype_bytes(p->dtype), row = (size_t)width * bytes;
    for (int64_t i = 0; i < rows;) {
        const weft_cpu_run run = run_of(kv, p, t, begin + i, begin + rows);
        for (int64_t k = 0; k < run.rows; k++, i++, to += row) {
            memcpy(to, run.at + k * run.step + d * (int64_t)bytes, row);
        }
        if (run.rows == 0) {
            memset(to, 0, row);
            to += row;
            i++;
        }
    }
}

/* Rows of `dim` elements as lines. A panel whose rows lie apart is gathered first. */
static void pack_rows(const weft_cpu_kv *kv, const weft_cpu_kernel *kernel, const weft_attention *p, const tensor *t,
                      int64_t dim, int64_t begin, int64_t keys, char *to) {
    const int64_t lines = kernel->a.lines, bytes = (int64_t)weft_dtype_bytes(p->dtype);
    float room[WEFT_CPU_MOST_LINES * WEFT_MAX_HEAD_DIM];
    for (int64_t key = 0; key < keys; key += lines, to += kv->k_panel) {
        const int64_t count = weft_cpu_min(lines, keys - key);
        const weft_cpu_run run = run_of(kv, p, t, begin + key, begin + key + count);
        weft_cpu_source source = {p->dtype, run.at, 0, run.step / bytes, 1, count, dim};
        if (run.rows < count) {
            gather(kv, p, t, begin + key, count, 0, dim, (char *)room);
            source.data = room;
            source.line_stride = dim;
        }
        kernel->pack_a(&source, to);
    }
}

/* What queries are multiplied with: keys and, for qv, values behind them in the same panels. */
static void pack_keys(const weft_cpu_kv *kv, const weft_cpu_kernel *kernel, const weft_attention *p, const tensor *k,
                      const tensor *v, int64_t begin, int64_t keys, char *to) {
    pack_rows(kv, kernel, p, k, p->head_dim, begin, keys, to);
    if (p->extras & WEFT_QV) {
        pack_rows(kv, kernel, p, v, p->head_dim_v, begin, keys, to + weft_cpu_panel_bytes(kernel, kernel->a, p->head_dim));
    }
}

/* Where values may be hidden, returns whether one is non-finite. Runs are packed as they lie, as far as they are whole
 * multiples of the kernel's depth; what is left of them is gathered. */
static int pack_values(const weft_cpu_kv *kv, const weft_cpu_kernel *kernel, const weft_attention *p, const tensor *t,
                       int64_t begin, int64_t keys, char *to) {
    const int64_t lines = kernel->a.lines, unit = kernel->depth, bytes = (int64_t)weft_dtype_bytes(p->dtype);
    float room[WEFT_CPU_MOST_LINES * WEFT_CPU_MOST_DEPTH];
    int has_nonfinite = 0;
    for (int64_t d = 0; d < p->head_dim_v; d += lines, to += kv->v_panel) {
        const int64_t width = weft_cpu_min(lines, p->head_dim_v - d);
        for (int64_t key = 0, count; key < keys; key += count) {
            const weft_cpu_run run = run_of(kv, p, t, begin + key, begin + keys);
            count = key + run.rows == keys ? run.rows : run.rows / unit * unit;
            weft_cpu_source source = {p->dtype, run.at, (size_t)d, 1, run.step / bytes, width, count};
            if (count == 0) {
                source.k = count = weft_cpu_min(unit, keys - key);
                gather(kv, p, t, begin + key, count, d, width, (char *)room);
                source.data = room;
                source.index = 0;
                source.k_stride = width;
            }
            kernel->pack_a(&source, to + (size_t)(key * lines) * weft_dtype_bytes(kernel->dtype));
        }
        if (kv->hides) {
            has_nonfinite |= weft_cpu_has_nonfinite(kernel, to, weft_cpu_panel_bytes(kernel, kernel->a, keys));
        }
    }
    return has_nonfinite;
}

weft_cpu_kv_block weft_cpu_kv_pack_block(const weft_cpu_kv *kv, const weft_cpu_kernel *kernel, const weft_attention *p,
                                         const void *k, const void *v, int64_t batch, int64_t kv_head, int64_t begin,
                                         int64_t keys, char *k_to, char *v_to) {
    const weft_rows all = {begin, begin + keys};
    const tensor of_k = {k, &p->k_strides, batch, kv_head, all}, of_v = {v, &p->v_strides, batch, kv_head, all};
    pack_keys(kv, kernel, p, &of_k, &of_v, begin, keys, k_to);
    return (weft_cpu_kv_block){k_to, v_to, pack_values(kv, kernel, p, &of_v, begin, keys, v_to)};
}

/* Whether a block mask, if there is one, shows a query of a kv head's one of `keys` keys from `begin`. */
static int is_named(const weft_attention *p, int64_t batch, int64_t kv_head, int64_t begin, int64_t keys) {
    const weft_blocks blocks = weft_attention_blocks(p);
    const weft_rows queries = {0, p->seq}, here = {begin, begin + keys};
    const int64_t group = p->heads / p->kv_heads, heads = blocks.head_stride > 0 ? group : 1; /* that differ */
    int named = !blocks.pairs.block_starts;
    for (int64_t head = kv_head * group; head < kv_head * group + heads && !named; head++) {
        named = weft_blocks_name(&blocks, batch, head, queries, here);
    }
    return named;
}

/* Whether such a query can see one of them: others need not be packed. */
static int counts(const weft_attention *p, int64_t batch, int64_t kv_head, int64_t begin, int64_t keys) {
    const weft_sequences all = weft_attention_sequences(p);
    if (!is_named(p, batch, kv_head, begin, keys)) {
        return 0;
    }
    if (p->lengths.q_starts) {
        return begin < weft_attention_keys(p);
    }
    const weft_sequence s = weft_sequence_at(&all, batch);
    return begin < s.columns.end && begin + keys > s.columns.begin;
}

enum { HELD_HEADER = 64 }; /* which head is held, counted from 1 */

size_t weft_cpu_kv_held_bytes(const weft_cpu_kv *kv) {
    return HELD_HEADER + ((size_t)kv->blocks * (kv->k_block + kv->v_block + 1) + 63) / 64 * 64;
}

weft_cpu_kv weft_cpu_kv_hold(const weft_cpu_kv_packing *packing, int64_t batch, int64_t kv_head, char *scratch) {
    weft_cpu_kv kv = *packing->kv;
    int64_t *held = (int64_t *)(void *)scratch;
    const int64_t head = batch * kv.kv_heads + kv_head + 1;
    kv.kv_heads = 1;
    kv.k = scratch + HELD_HEADER;
    kv.v = kv.k + (size_t)kv.blocks * kv.k_block;
    kv.nonfinite = (unsigned char *)kv.v + (size_t)kv.blocks * kv.v_block;
    for (int64_t i = 0; *held != head && i < kv.blocks; i++) {
        const int64_t begin = i * kv.tile_n, keys = weft_cpu_min(packing->problem->kv_seq - begin, kv.tile_n);
        if (!counts(packing->problem, batch, kv_head, begin, keys)) {
            continue;
        }
        kv.nonfinite[i] = (unsigned char)weft_cpu_kv_pack_block(
                              &kv, packing->kernel, packing->problem, packing->k, packing->v, batch, kv_head, begin, keys,
                              kv.k + (size_t)i * kv.k_block, kv.v + (size_t)i * kv.v_block)
                              .has_nonfinite;
    }
    *held = head;
    return kv;
}

weft_status weft_cpu_kv_find_lines(weft_cpu_kv *kv, const weft_attention *p, weft_message *message) {
    const weft_sequences all = weft_attention_sequences(p);
    const weft_band band = weft_attention_band(p);
    int64_t blocks = 0;
    kv->sequences = all.count;
    kv->lines = calloc((size_t)all.count, sizeof *kv->lines);
    for (int64_t i = 0; i < all.count && kv->lines; i++) {
        const weft_sequence s = weft_sequence_at(&all, i);
        weft_cpu_kv_line *line = &kv->lines[i];
        line->before = blocks;
        if (s.rows.begin < s.used_end) {
            line->keys.begin = weft_band_seen(&band, &s, s.rows.begin).begin;
            line->keys.end = weft_larger(weft_band_seen(&band, &s, s.used_end - 1).end, line->keys.begin);
            line->first = line->keys.begin / kv->tile_n;
            line->blocks = weft_ceil_divide(line->keys.end, kv->tile_n) - line->first;
        }
        blocks += line->blocks;
    }
    return kv->lines ? WEFT_OK : weft_fail(message, WEFT_NO_MEMORY, "no memory for the blocks of sequences");
}

/* A block by its number: which steps of which batch and kv head, and what is needed of it. */
typedef struct place {
    int64_t batch, head, begin, keys;
    weft_rows needed;
} place;

static place place_of(const weft_cpu_kv *kv, const weft_attention *p, int64_t block) {
    int64_t low = 0, high = kv->lines ? kv->sequences : 0;
    if (!kv->lines) {
        const int64_t line = block / kv->blocks, begin = block % kv->blocks * kv->tile_n;
        const int64_t keys = weft_cpu_min(p->kv_seq - begin, kv->tile_n);
        return (place){line / kv->kv_heads, line % kv->kv_heads, begin, keys, {begin, begin + keys}};
    }
    while (high - low > 1) { /* the last whose blocks begin at or before this one: those behind the same one are empty */
        const int64_t middle = low + (high - low) / 2;
        *(kv->lines[middle].before * kv->kv_heads <= block ? &low : &high) = middle;
    }
    const weft_cpu_kv_line *line = &kv->lines[low];
    const int64_t in_line = block - line->before * kv->kv_heads;
    const int64_t begin = (line->first + in_line % line->blocks) * kv->tile_n;
    const int64_t keys = weft_cpu_min(weft_attention_columns(p) - begin, kv->tile_n);
    return (place){p->sequences > 0 ? 0 : low, in_line / line->blocks, begin, keys, line->keys};
}

/* The keys of a block, or its values: more items balance better. */
static void pack_item(void *context, void *scratch, int64_t item) {
    const weft_cpu_kv_packing *pack = context;
    const weft_attention *p = pack->problem;
    weft_cpu_kv *kv = pack->kv;
    const int64_t block = item / 2;
    const place at = place_of(kv, p, block);
    (void)scratch;
    if (!(kv->lines ? is_named(p, at.batch, at.head, at.begin, at.keys)
                    : counts(p, at.batch, at.head, at.begin, at.keys))) {
        return;
    }
    const tensor k = {pack->k, &p->k_strides, at.batch, at.head, at.needed};
    const tensor v = {pack->v, &p->v_strides, at.batch, at.head, at.needed};
    if (item % 2 == 0) {
        pack_keys(kv, pack->kernel, p, &k, &v, at.begin, at.keys, kv->k + (size_t)block * kv->k_block);
    } else {
        kv->nonfinite[block] =
            (unsigned char)pack_values(kv, pack->kernel, p, &v, at.begin, at.keys, kv->v + (size_t)block * kv->v_block);
    }
}

void weft_cpu_kv_lay_out(weft_cpu_kv *kv, const weft_cpu_kernel *kernel, const weft_attention *problem, int64_t tile_n) {
    const int64_t lines = kernel->a.lines, dim_v = problem->extras & WEFT_QV ? problem->head_dim_v : 0;
    *kv = (weft_cpu_kv){.tile_n = tile_n, .kv_heads = problem->kv_heads};
    kv->keys = weft_cpu_pad(tile_n, lines);
    kv->hides = problem->mask != WEFT_MASK_NONE || weft_attention_has_band(problem) || problem->dropout > 0;
    kv->dims = weft_cpu_pad(problem->head_dim_v, lines);
    kv->depth = weft_cpu_pad(problem->head_dim, kernel->depth) + weft_cpu_pad(dim_v, kernel->depth);
    kv->blocks = (problem->kv_seq + tile_n - 1) / tile_n;
    kv->k_panel = weft_cpu_panel_bytes(kernel, kernel->a, kv->depth);
    kv->v_panel = weft_cpu_panel_bytes(kernel, kernel->a, tile_n);
    kv->k_block = kv->k_panel * (size_t)(kv->keys / lines);
    kv->v_block = kv->v_panel * (size_t)(kv->dims / lines);
}

static double all_blocks(const weft_cpu_kv *kv, const weft_attention *p) {
    const weft_cpu_kv_line *last = kv->lines ? &kv->lines[kv->sequences - 1] : NULL;
    const double of_head = last ? (double)(last->before + last->blocks) : (double)p->batch * (double)kv->blocks;
    return of_head * (double)kv->kv_heads;
}

weft_status weft_cpu_kv_alloc(weft_cpu_kv *kv, const weft_attention *problem, weft_message *message) {
    const double items = all_blocks(kv, problem);
    const double bytes = items * ((double)kv->k_block + (double)kv->v_block);
    const size_t count = bytes < 0x1p62 ? (size_t)fmax(items, 1) : 0;
    kv->k = count ? weft_cpu_alloc(count * kv->k_block) : NULL;
    kv->v = kv->k ? weft_cpu_alloc(count * kv->v_block) : NULL;
    kv->nonfinite = kv->v ? malloc(count) : NULL;
    if (!kv->nonfinite) {
        weft_cpu_kv_free(kv);
        return weft_fail(message, WEFT_NO_MEMORY, "no memory for %.0f bytes of packed keys and values", bytes);
    }
    return WEFT_OK;
}

weft_cpu_stage weft_cpu_kv_stage(weft_cpu_kv_packing *packing) {
    return (weft_cpu_stage){2 * (int64_t)all_blocks(packing->kv, packing->problem), pack_item, packing};
}

weft_cpu_kv_block weft_cpu_kv_at(const weft_cpu_kv *kv, int64_t batch, int64_t kv_head, int64_t block) {
    const weft_cpu_kv_line *line = kv->lines ? &kv->lines[batch] : NULL;
    const size_t item = (size_t)(line ? line->before * kv->kv_heads + kv_head * line->blocks + block - line->first
                                      : (batch * kv->kv_heads + kv_head) * kv->blocks + block);
    return (weft_cpu_kv_block){kv->k + item * kv->k_block, kv->v + item * kv->v_block, kv->nonfinite[item]};
}

void weft_cpu_kv_free(weft_cpu_kv *kv) {
    weft_cpu_free(kv->k);
    weft_cpu_free(kv->v);
    free(kv->nonfinite);
    free(kv->lines);
    kv->lines = NULL;
    kv->k = kv->v = NULL;
    kv->nonfinite = NULL;
}
