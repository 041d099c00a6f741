/* SPDX-License-Identifier: Apache-2.0 */
/* The tiles of a forward attention: blocks of queries, whose steps are blocks of keys. */
#include <math.h>
#include <stdlib.h>

#include "problem/attention.h"
#include "problem/problem.h"
#include "problem/sectors.h"

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Queries in a tile: its rows are (query, head). */
static int64_t queries_in_tile(const weft_tiling *t) {
    return t->schedule->tile_m / t->heads_in_tile;
}

size_t weft_attention_sides(const weft_tiling *t, weft_schedule *s, weft_tile_side *list) {
    const weft_attention *p = &t->problem->attention;
    const int64_t rows = p->seq > p->block_rows ? p->block_rows : 0; /* with fewer, all are of one block */
    const int64_t columns = p->kv_seq > p->block_columns ? p->block_columns : 0;
    list[0] = (weft_tile_side){&s->tile_m, "tile_m", "seq", p->seq * t->heads_in_tile, 64, rows};
    list[1] = (weft_tile_side){&s->tile_n, "tile_n", "kv_seq", p->kv_seq, 64, columns};
    return 2;
}

/* K and V of one kv head that are in use at a time, in bytes. */
static double kv_bytes(const weft_attention *p) {
    const int64_t keys = weft_attention_has_band(p) ? smaller(weft_most_seen(p), weft_attention_longest(p)) : p->kv_seq;
    return (double)keys * (double)(p->head_dim + p->head_dim_v) * (double)weft_dtype_bytes(p->dtype);
}

/* Heads whose K and V fit one domain's L2 together, in whole groups of query heads that share K and V. */
static int64_t heads_in_l2(const weft_attention *p, const weft_machine *machine) {
    const double fit = floor((double)machine->l2_bytes / kv_bytes(p));
    const int64_t kv_heads = p->batch * p->kv_heads;
    const int64_t section = fit < 1 ? 1 : fit > (double)kv_heads ? kv_heads : (int64_t)fit;
    return section * (p->heads / p->kv_heads);
}

void weft_attention_choose(const weft_problem *problem, const weft_machine *machine, weft_schedule *s) {
    const weft_attention *p = &problem->attention;
    const int uneven = p->mask == WEFT_MASK_CAUSAL || p->mask == WEFT_MASK_CAUSAL_BOTTOM_RIGHT ||
                       p->block_rows > 0; /* windows: tiles are alike */
    if (s->order == WEFT_ORDER_CHOOSE) {
        s->order = uneven                 ? WEFT_ORDER_LONGEST_FIRST
                   : machine->domains > 1 ? WEFT_ORDER_HEAD_FIRST_SWIZZLED
                                          : WEFT_ORDER_HEAD_FIRST;
    }
    if (s->sweep == WEFT_SWEEP_CHOOSE) {
        s->sweep = kv_bytes(p) > (double)machine->l2_bytes ? WEFT_SWEEP_SAWTOOTH : WEFT_SWEEP_FORWARD;
    }
    if (s->dispatch == WEFT_DISPATCH_CHOOSE) {
        s->dispatch = uneven ? WEFT_DISPATCH_DYNAMIC : WEFT_DISPATCH_STATIC;
    }
    if (s->group == 0 && s->order == WEFT_ORDER_LONGEST_FIRST) {
        s->group = heads_in_l2(p, machine);
    }
}

weft_slice weft_attention_slice(const weft_attention *p) {
    return p->mask == WEFT_MASK_NONE     ? weft_slice_full(p->seq, p->kv_seq)
           : p->mask == WEFT_MASK_CAUSAL ? weft_slice_causal(p->seq, p->kv_seq, p->offset)
                                         : weft_slice_band(p->seq, p->kv_seq, p->offset - p->left, p->offset + p->right);
}

void weft_attention_lay_out(const weft_tiling *t, weft_grid *tiles, weft_reach *reach) {
    const weft_attention *p = &t->problem->attention;
    const int64_t queries = queries_in_tile(t);
    *reach = weft_reach_make(p->seq, weft_attention_columns(p), queries, t->schedule->tile_n, weft_attention_slice(p));
    if (weft_attention_has_band(p)) {
        weft_reach_set_band(reach, weft_attention_band(p), weft_attention_sequences(p), 0);
        weft_reach_set_blocks(reach, weft_attention_blocks(p));
        reach->joined = t->joined;
    } else {
        reach->lead = t->lead;
    }
    *tiles = (weft_grid){p->batch, p->heads / t->heads_in_tile, weft_reach_tiles(reach)};
}

/* Bytes that an L2 has one tag for, that DRAM moves at a time, and that lie in an L2 together, on the GPUs whose kernels
 * are measured here. */
enum { LINE = 128, ATOM = 64, NEAR = 15 << 20 };

/* The sequences of a batch. */
static weft_rows sequences_of(const weft_reach *reach, int64_t batch) {
    const int packed = weft_reach_has_band(reach) && reach->sequences.lengths.q_starts;
    const weft_rows numbers = {packed ? 0 : batch, packed ? reach->sequences.count : batch + 1};
    return numbers;
}

/* The steps that the queries of a sequence visit: what they see has no gaps. */
static weft_steps steps_of(const weft_reach *reach, int64_t number) {
    if (!weft_reach_has_band(reach)) {
        return weft_slice_steps(&reach->slice, 0, reach->rows, &reach->by_tile_columns);
    }
    const weft_sequence s = weft_sequence_at(&reach->sequences, number);
    const weft_cut cut = {weft_reach_sequence_rows(reach, &s), number};
    return weft_reach_band_steps(reach, &cut);
}

/* Sequences lie one behind the other. */
int64_t weft_attention_seen(const weft_reach *reach, int64_t batch) {
    const weft_rows numbers = sequences_of(reach, batch);
    int64_t seen = 0, end = 0; /* the end of the steps that have been counted */
    for (int64_t i = numbers.begin; i < numbers.end; i++) {
        const weft_steps steps = steps_of(reach, i);
        const int64_t begin = weft_larger(steps.begin, end);
        end = weft_larger(steps.end, end);
        seen += smaller(reach->columns, end * reach->tile_columns) - smaller(end, begin) * reach->tile_columns;
    }
    return seen;
}

/* Columns of the steps that the tiles of a kv head visit under a block mask: of the blocks that one of its lists names, as
 * far as the band shows them. Without memory, all that the band shows. */
static int64_t listed_columns(const weft_tiling *t, const weft_reach *reach, int64_t batch, int64_t kv_head) {
    const weft_attention *p = &t->problem->attention;
    const weft_blocks *b = &reach->blocks;
    const int64_t group = p->heads / p->kv_heads;
    unsigned char *named = calloc((size_t)b->last + 1, 1);
    const weft_sequence s = weft_sequence_at(&reach->sequences, batch);
    const weft_cut cut = {s.rows, batch};
    const weft_steps steps = weft_reach_band_steps(reach, &cut);
    const weft_rows shown = {steps.begin * reach->tile_columns, smaller(reach->columns, steps.end * reach->tile_columns)};
    int64_t seen = 0;
    for (int64_t head = kv_head * group; named && head < (kv_head + 1) * group; head++) {
        for (int64_t row = 0; row < p->seq && (head == kv_head * group || b->head_stride > 0); row += b->rows) {
            const weft_rows entries = weft_blocks_entries(b, batch, head, row);
            for (int64_t i = entries.begin; i < entries.end; i++) {
                named[weft_blocks_number(b, i)] = 1;
            }
        }
    }
    for (int64_t block = 0; block <= b->last; block++) {
        const int64_t begin = weft_larger(block * b->columns, shown.begin);
        const int64_t end = smaller((block + 1) * b->columns, shown.end);
        seen += (!named || named[block]) && begin < end ? end - begin : 0;
    }
    free(named);
    return seen;
}

/* The same where keys lie in pages: blocks that several sequences share count once. Without memory, each time. */
static int64_t placed_sectors(const weft_tiling *t, const weft_reach *reach) {
    const weft_attention *p = &t->problem->attention;
    const int64_t steps = weft_ceil_divide(reach->columns, reach->tile_columns), line = p->kv_heads * steps;
    unsigned char *counted = calloc((size_t)(p->batch * steps), 1);
    int64_t sectors = 0;
    for (int64_t batch = 0; batch < p->batch; batch++) {
        const weft_rows numbers = sequences_of(reach, batch);
        for (int64_t i = numbers.begin; i < numbers.end; i++) {
            const weft_steps seen = steps_of(reach, i);
            for (int64_t step = seen.begin; step < seen.end; step++) {
                const weft_place *at = &t->places[batch * steps + step];
                const int64_t block = at->piece / line * steps + at->piece % line;
                sectors += counted && counted[block] ? 0 : at->sectors;
                if (counted) {
                    counted[block] = 1;
                }
            }
        }
    }
    free(counted);
    return sectors * p->kv_heads;
}

/* K and V that tiles visit, of all kv heads and batches, in sectors. */
static int64_t seen_sectors(const weft_tiling *t, const weft_reach *reach, int64_t sector) {
    const weft_attention *p = &t->problem->attention;
    const weft_blocks *b = &reach->blocks;
    const int listed = b->pairs.block_starts != NULL; /* otherwise heads are alike, and batches where lengths are */
    const int64_t heads = listed && b->head_stride > 0 ? p->kv_heads : 1;
    const int64_t batches = weft_sequences_vary(&reach->sequences) || (listed && b->batch_stride > 0) ? p->batch : 1;
    int64_t sectors = 0;
    if (t->places) {
        return placed_sectors(t, reach);
    }
    for (int64_t i = 0; i < batches * heads; i++) {
        const int64_t batch = i / heads, head = i % heads;
        const int64_t seen = listed ? listed_columns(t, reach, batch, head) : weft_attention_seen(reach, batch);
        sectors += weft_attention_kv_sectors(p, seen, sector);
    }
    return sectors * (p->kv_heads / heads) * (p->batch / batches);
}

/* Sectors of the new keys and values of a kv head that a run appends to some sequences: of k_new and v_new, and of the
 * cache that they are written to. Of sequences, those whose first row is one of `rows`. */
typedef struct appended {
    int64_t read, written;
} appended;

static appended appended_by(const weft_tiling *t, int64_t first, weft_rows rows, int64_t sector) {
    const weft_attention *p = &t->problem->attention;
    const weft_kv_cache *c = &p->cache;
    const weft_sequences all = weft_attention_sequences(p);
    const int64_t bytes = (int64_t)weft_dtype_bytes(p->dtype);
    appended sum = {0, 0};
    for (int64_t i = first; c->append > 0 && i < (all.lengths.q_starts ? all.count : first + 1); i++) {
        const weft_sequence s = weft_sequence_at(&all, i);
        if (s.rows.begin >= rows.end) {
            break;
        }
        if (s.rows.begin >= rows.begin && s.rows.begin < s.rows.end) {
            const int64_t count = weft_attention_new_keys(p, &all, i).count;
            sum.read += weft_sectors(count, p->head_dim * bytes, c->k_new_strides.seq * bytes, sector) +
                        weft_sectors(count, p->head_dim_v * bytes, c->v_new_strides.seq * bytes, sector);
            sum.written += weft_attention_kv_sectors(p, count, sector);
        }
    }
    return sum;
}

/* Rows of Q, and of the queries for the values, of one head. */
static int64_t query_sectors(const weft_attention *p, int64_t queries, int64_t sector) {
    const int64_t bytes = (int64_t)weft_dtype_bytes(p->dtype);
    const int64_t q = weft_sectors(queries, p->head_dim * bytes, p->q_strides.seq * bytes, sector);
    return p->extras & WEFT_QV ? q + weft_sectors(queries, p->head_dim_v * bytes, p->qv_strides.seq * bytes, sector) : q;
}

/* Rows of O of one head. */
static int64_t out_sectors(const weft_attention *p, int64_t queries, int64_t sector) {
    const int64_t bytes = (int64_t)weft_dtype_bytes(weft_attention_out_dtype(p));
    return weft_sectors(queries, p->head_dim_v * bytes, p->o_strides.seq * bytes, sector);
}

void weft_attention_pieces(const weft_tiling *t, const weft_reach *reach, int64_t sector, weft_pieces *pieces) {
    const weft_attention *p = &t->problem->attention;
    const weft_schedule *s = t->schedule;
    const int64_t bytes = (int64_t)weft_dtype_bytes(p->dtype), row = p->head_dim * bytes, row_v = p->head_dim_v * bytes;
    const int64_t queries = weft_attention_rows(p);
    const int64_t q = query_sectors(p, queries, sector), per_query = p->extras & WEFT_QV ? 2 : 1;
    const int64_t o = out_sectors(p, queries, sector);
    *pieces = (weft_pieces){.sections = 1,
                            .section = {{"K and V", "kv head", p->batch * p->kv_heads}},
                            .steps = weft_ceil_divide(weft_attention_columns(p), s->tile_n),
                            .step = "key block",
                            .read = "blocks of K and V",
                            .row = "head",
                            .column = "query block",
                            .per_piece = 2};
    const double added = 2.0 * (double)s->cluster_m * (double)p->cache.append;
    pieces->largest =
        (fmax((double)row, (double)row_v) / (double)sector + 1) *
        fmax(2.0 * (double)s->tile_n, (double)(per_query * s->cluster_m * s->cluster_n) * (double)s->tile_m + added);
    pieces->refused =
        p->cache.page > 0 && p->block_rows > 0 ? "the simulator takes no block mask over keys in pages" : NULL;
    pieces->distinct = (uint64_t)(seen_sectors(t, reach, sector) + p->batch * p->heads * q);
    pieces->written = (uint64_t)(p->batch * p->heads * o);
    for (int64_t batch = 0; batch < p->batch && p->cache.append > 0; batch++) {
        const weft_rows rows = {0, p->seq};
        const appended sum = appended_by(t, batch, rows, sector);
        pieces->distinct += (uint64_t)(p->kv_heads * sum.read);
        pieces->written += (uint64_t)(p->kv_heads * sum.written);
    }
    if (p->k_strides.seq * bytes != row) {
        /* Rows of neighbouring heads share lines, as far as both are in the cache. */
        const double head = 2.0 * (double)(p->kv_seq * row), fit = fmin((double)p->kv_heads, NEAR / head);
        const int64_t heads = fit > 1 ? (int64_t)fit : 1;
        pieces->room = weft_granules(heads * row, heads * p->k_strides.head * bytes, LINE);
        pieces->fetched = weft_granules(heads * row, heads * p->k_strides.head * bytes, ATOM);
    }
}

/* Heads of K and V whose first query head is in the visit's tile or cluster. */
static int64_t kv_heads_begun(const weft_tiling *t, const weft_visit *visit) {
    const int64_t group = t->problem->attention.heads / t->problem->attention.kv_heads;
    const int64_t begin = visit->tile.head * t->heads_in_tile;
    const int64_t end = begin + t->schedule->cluster_m * t->heads_in_tile;
    return weft_ceil_divide(end, group) - weft_ceil_divide(begin, group);
}

/* A cluster of query blocks asks for K and V once. What a run appends is read and written with the first tile of its
 * sequence and kv head. */
void weft_attention_reads(const weft_tiling *t, const weft_reach *reach, const weft_visit *visit, int64_t sector,
                          weft_visit_reads *reads) {
    const weft_attention *p = &t->problem->attention;
    const weft_schedule *s = t->schedule;
    const int64_t columns = weft_attention_columns(p), steps = weft_ceil_divide(columns, s->tile_n);
    const int64_t last_keys = columns - (steps - 1) * s->tile_n;
    const int64_t group = p->heads / p->kv_heads / t->heads_in_tile;
    reads->streams = 0;
    for (int64_t i = 0; i < s->cluster_m; i++) {
        const int64_t kv_head = (visit->tile.head + i) / group;
        if (i > 0 && kv_head == (visit->tile.head + i - 1) / group) { /* the same K and V as the head before */
            reads->stream[reads->streams - 1].shared += s->cluster_n;
            continue;
        }
        reads->stream[reads->streams].line = (t->places ? 0 : visit->tile.batch * p->kv_heads) + kv_head;
        reads->stream[reads->streams].places = t->places ? t->places + visit->tile.batch * steps : NULL;
        reads->stream[reads->streams].sectors =
            t->places ? t->places[p->batch * steps].sectors : weft_attention_kv_sectors(p, s->tile_n, sector);
        reads->stream[reads->streams].at_end = weft_attention_kv_sectors(p, last_keys, sector);
        reads->stream[reads->streams++].shared = s->cluster_n;
    }
    const weft_rows rows =
        weft_reach_has_band(reach) ? visit->cut.rows : weft_reach_rows(reach, visit->tile.block, s->cluster_n);
    const int64_t queries = rows.end - rows.begin;
    const int64_t heads = s->cluster_m * t->heads_in_tile;
    reads->first_sectors = heads * query_sectors(p, queries, sector);
    reads->out_sectors = heads * out_sectors(p, queries, sector);
    if (p->cache.append > 0) {
        const int64_t first = p->lengths.q_starts ? visit->cut.sequence : visit->tile.batch;
        const appended sum = appended_by(t, first, rows, sector);
        reads->first_sectors += kv_heads_begun(t, visit) * sum.read;
        reads->out_sectors += kv_heads_begun(t, visit) * sum.written;
    }
    reads->reads_out = 0;
    reads->dtype = p->dtype;
    reads->exponentials = (double)s->tile_m * (double)s->tile_n;
    reads->flops = 2.0 * reads->exponentials * (double)(weft_attention_score_dim(p) + p->head_dim_v);
}

/* One block each of Q, with the queries for the values, K and V. */
double weft_attention_step_bytes(const weft_tiling *t) {
    const weft_attention *p = &t->problem->attention;
    const double elements = (double)t->schedule->tile_m * (double)weft_attention_score_dim(p) +
                            (double)t->schedule->tile_n * (double)(p->head_dim + p->head_dim_v);
    return elements * (double)weft_dtype_bytes(p->dtype);
}
