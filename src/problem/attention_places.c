/* SPDX-License-Identifier: Apache-2.0 */
/* Where the blocks of keys in pages lie: the sectors of each, and which of them are the same memory. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/status.h"
#include "problem/attention.h"
#include "problem/problem.h"
#include "problem/sectors.h"

typedef struct placing {
    const weft_attention *p;
    weft_sequences all;
    const int32_t *table; /* or null */
    int64_t sector, tile, columns, steps;
} placing;

/* Keys of a block that lie in one page; -1: a page that is no other's. */
typedef struct segment {
    int64_t page, row, rows;
} segment;

/* The columns of a sequence's keys. */
static weft_rows keys_of(const placing *x, int64_t number) {
    weft_rows keys = weft_sequence_at(&x->all, number).columns;
    const int64_t first = x->all.lengths.q_starts ? 0 : number * x->all.keys_each; /* of starts that the data has */
    keys.begin += first;
    keys.end += first;
    return keys;
}

/* The next segment of a batch's columns from *column to `end`; returns 0 behind the last. */
static int next_segment(const placing *x, int64_t batch, int64_t *column, int64_t end, segment *to) {
    const weft_kv_cache *c = &x->p->cache;
    const int64_t each = x->all.keys_each;
    while (*column < end) {
        const int64_t number = each > 0 ? *column / each : batch, entry = *column / c->page;
        const weft_rows keys = keys_of(x, number);
        if (*column < keys.begin) {
            *column = keys.begin;
        } else if (*column >= keys.end) {
            *column = each > 0 ? (number + 1) * each : end;
        } else {
            to->page = x->table ? x->table[batch * c->table_stride + entry] : -1;
            to->row = *column - entry * c->page;
            to->rows = weft_smaller(weft_smaller(end, keys.end), (entry + 1) * c->page) - *column;
            *column += to->rows;
            return 1;
        }
    }
    return 0;
}

static int64_t block_begin(const placing *x, int64_t block) {
    return block % x->steps * x->tile;
}

static int64_t block_end(const placing *x, int64_t block) {
    return weft_smaller(block_begin(x, block) + x->tile, x->columns);
}

/* Sectors of a block's rows of K or V. Pages that adjoin are read as one. */
static int64_t sectors_of(const placing *x, int64_t block, const weft_strides *s, int64_t dim) {
    const int64_t bytes = (int64_t)weft_dtype_bytes(x->p->dtype), page = x->p->cache.page;
    int64_t column = block_begin(x, block), rows = 0, sectors = 0, end = -1; /* rows of the run in hand; its end */
    segment next;
    while (next_segment(x, block / x->steps, &column, block_end(x, block), &next)) {
        const int64_t begin = next.page * s->batch + next.row * s->seq;
        if (!x->table || begin != end) {
            sectors += weft_sectors(rows, dim * bytes, s->seq * bytes, x->sector);
            rows = 0;
        }
        rows += next.rows;
        end = next.row + next.rows == page ? begin + next.rows * s->seq : -1;
    }
    return sectors + weft_sectors(rows, dim * bytes, s->seq * bytes, x->sector);
}

static uint64_t hash_of(const placing *x, int64_t block) {
    int64_t column = block_begin(x, block);
    uint64_t hash = UINT64_C(0x9e3779b97f4a7c15);
    segment next;
    while (next_segment(x, block / x->steps, &column, block_end(x, block), &next)) {
        hash = (hash ^ (uint64_t)next.page) * UINT64_C(0xff51afd7ed558ccd);
        hash = (hash ^ (uint64_t)(next.row + next.rows)) * UINT64_C(0xc4ceb9fe1a85ec53);
        hash ^= hash >> 32;
    }
    return hash;
}

static int are_same(const placing *x, int64_t a, int64_t b) {
    int64_t at_a = block_begin(x, a), at_b = block_begin(x, b);
    segment of_a, of_b;
    for (;;) {
        const int more = next_segment(x, a / x->steps, &at_a, block_end(x, a), &of_a);
        if (more != next_segment(x, b / x->steps, &at_b, block_end(x, b), &of_b)) {
            return 0;
        }
        if (!more || of_a.page != of_b.page || of_a.row != of_b.row || of_a.rows != of_b.rows) {
            return !more;
        }
    }
}

/* Gives blocks of the same keys of the same pages the place of the first of them. */
static weft_status share(const placing *x, int64_t blocks, weft_place *places, weft_message *message) {
    size_t size = 2;
    while (size < 2 * (size_t)blocks) {
        size *= 2;
    }
    uint32_t *slots = calloc(size, sizeof *slots); /* blocks, plus 1 */
    if (!slots) {
        return weft_fail(message, WEFT_NO_MEMORY, "no memory for %" PRId64 " blocks of pages", blocks);
    }
    for (int64_t i = 0; i < blocks; i++) {
        size_t slot = (size_t)hash_of(x, i) & (size - 1);
        while (slots[slot] != 0 && !are_same(x, i, slots[slot] - 1)) {
            slot = (slot + 1) & (size - 1);
        }
        if (slots[slot] != 0) {
            places[i].piece = places[slots[slot] - 1].piece;
        } else if (places[i].sectors > 0) { /* blocks without keys are nobody's */
            slots[slot] = (uint32_t)i + 1;
        }
    }
    free(slots);
    return WEFT_OK;
}

static placing placing_of(const weft_attention *p, int64_t tile, const int32_t *table, int64_t sector) {
    const int64_t columns = weft_attention_columns(p);
    return (placing){p, weft_attention_sequences(p), table, sector, tile, columns, weft_ceil_divide(columns, tile)};
}

weft_status weft_attention_place(const weft_tiling *t, const int32_t *table, int64_t sector, weft_place **places,
                                 weft_message *message) {
    const weft_attention *p = &t->problem->attention;
    const placing x = placing_of(p, t->schedule->tile_n, table, sector);
    const int64_t blocks = p->batch * x.steps; /* the simulator can number the pieces of all kv heads */
    weft_status status = WEFT_OK;
    *places = NULL;
    if (p->cache.page == 0) {
        return table ? weft_fail(message, WEFT_INVALID, "page_table is only for an attention with cache.page above 0")
                     : WEFT_OK;
    }
    if (table && (status = weft_attention_check_table(p, table, message))) {
        return status;
    }
    *places = malloc((size_t)(blocks + 1) * sizeof **places);
    if (!*places) {
        return weft_fail(message, WEFT_NO_MEMORY, "no memory for %" PRId64 " blocks of pages", blocks);
    }
    weft_place *largest = *places + blocks;
    largest->piece = largest->sectors = 0;
    for (int64_t i = 0; i < blocks; i++) {
        weft_place *at = *places + i;
        at->piece = (uint32_t)(i / x.steps * p->kv_heads * x.steps + i % x.steps);
        at->sectors =
            (uint32_t)(sectors_of(&x, i, &p->k_strides, p->head_dim) + sectors_of(&x, i, &p->v_strides, p->head_dim_v));
        largest->sectors = at->sectors > largest->sectors ? at->sectors : largest->sectors;
    }
    return table ? share(&x, blocks, *places, message) : WEFT_OK;
}

/* Pages of `keys` keys that begin with a page. */
static int64_t apart(const weft_attention *p, const weft_strides *s, int64_t dim, int64_t keys, int64_t sector) {
    const int64_t bytes = (int64_t)weft_dtype_bytes(p->dtype), page = p->cache.page > 0 ? p->cache.page : keys;
    const int64_t whole = weft_sectors(page, dim * bytes, s->seq * bytes, sector);
    return keys / page * whole + weft_sectors(keys % page, dim * bytes, s->seq * bytes, sector);
}

int64_t weft_attention_kv_sectors(const weft_attention *p, int64_t keys, int64_t sector) {
    return keys > 0
               ? apart(p, &p->k_strides, p->head_dim, keys, sector) + apart(p, &p->v_strides, p->head_dim_v, keys, sector)
               : 0;
}
