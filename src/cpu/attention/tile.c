/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles of attention for this host. */
#include "cpu/attention/tile.h"
#include "cpu/costs.h"

#include "cpu/attention/attention.h"
#include "cpu/attention/decode.h"
#include "cpu/kernel/kernel.h"
#include "cpu/tile.h"
#include "problem/problem.h"

/* Keys of a block of attention. */
static const int64_t blocks[] = {96, 192, 288, 384, 480};
enum { BLOCKS = sizeof blocks / sizeof *blocks };

/* Block-first with a whole number of workers per head: worker w has tiles of head w mod heads only. */
static int shares_by_head(const weft_schedule *s, const weft_attention *p) {
    return s->dispatch == WEFT_DISPATCH_STATIC && s->order == WEFT_ORDER_BLOCK_FIRST && s->cluster_m <= 1 &&
           s->cluster_n <= 1 && s->sweep != WEFT_SWEEP_PAIR && s->workers > 0 && s->workers % (p->batch * p->heads) == 0;
}

int weft_cpu_shares_by_head(const weft_plan *plan) {
    return shares_by_head(&plan->schedule, &plan->attention);
}

/* Queries are the columns here. A worker that has tiles of one head only finds its keys in its own cache. */
static double cost_of(const weft_cpu_kernel *kernel, const weft_attention *p, int64_t tile_m, int64_t tile_n,
                      int64_t workers, int by_head) {
    const int64_t keys = weft_cpu_min(tile_n, p->kv_seq);
    const double fetch = (by_head ? weft_cpu_costs.packed_fetch : 1) * kernel->fetch;
    const weft_cpu_spent s =
        weft_cpu_spend((weft_cpu_fetching){fetch, fetch}, (double)(p->batch * p->heads),
                       weft_cpu_cut_axis(keys, keys, kernel->a.lines), weft_cpu_cut_axis(p->seq, tile_m, kernel->b.lines));
    const double share = s.all / (double)workers;
    return (share < s.one && s.tiles <= (double)workers ? s.one : share) + weft_cpu_costs.end_attention * s.one;
}

/* Whether tiles have the same work, but for the last of a head. */
static int are_alike(const weft_attention *p) {
    return p->mask == WEFT_MASK_NONE && !weft_attention_has_band(p);
}

/* Where tiles are alike, a whole number of workers per head keep to it, and idle ones steal. */
static void choose_handing(weft_schedule *s, const weft_attention *p) {
    weft_schedule by_head = *s;
    by_head.order = s->order == WEFT_ORDER_CHOOSE ? WEFT_ORDER_BLOCK_FIRST : s->order;
    by_head.dispatch = s->dispatch == WEFT_DISPATCH_CHOOSE ? WEFT_DISPATCH_STATIC : s->dispatch;
    if (are_alike(p) && s->workers > 1 && shares_by_head(&by_head, p)) {
        *s = by_head;
    }
}

/* Tiles and steps that do not cross the blocks of a mask. */
static void fit_blocks(weft_schedule *s, const weft_attention *p) {
    enum { QUERIES = 192, KEYS = 256 };
    if (p->block_rows > 0) {
        s->tile_m = s->tile_m ? s->tile_m : weft_cpu_min(weft_tile_dividing(p->block_rows, QUERIES), p->seq);
        s->tile_n = s->tile_n ? s->tile_n : weft_cpu_min(weft_tile_dividing(p->block_columns, KEYS), p->kv_seq);
    }
}

static void choose_tile(weft_schedule *s, const weft_attention *p) {
    const weft_cpu_kernel *kernel = weft_cpu_choose(WEFT_CPU_ATTENTION, p->dtype);
    const int64_t seen = weft_cpu_pad(weft_most_seen(p), 96);
    enum { HALF_L1 = 24 << 10 }; /* bytes: a panel of scores stays in the L1 */
    int64_t keys = weft_cpu_fitting_lines(kernel->b.lines * (int64_t)sizeof(float), HALF_L1);
    int64_t m[WEFT_CPU_LENGTHS + 1];
    const size_t ms = weft_cpu_list_lengths(s->tile_m, p->seq, weft_cpu_lengths, WEFT_CPU_LENGTHS, m);
    double best = -1;
    keys = seen > 0 && seen < keys ? seen : keys;
    s->tile_n = s->tile_n ? s->tile_n : p->kv_seq < keys ? p->kv_seq : keys;
    for (size_t i = 0; i < ms; i++) {
        if (i > 0 && !are_alike(p) && m[i] > 192) {
            break; /* balance needs many tiles */
        }
        const double cost = cost_of(kernel, p, m[i], s->tile_n, s->workers, shares_by_head(s, p));
        if (best < 0 || cost <= best) {
            best = cost;
            s->tile_m = m[i];
        }
    }
}

void weft_cpu_attention_choose(weft_plan *plan) {
    weft_schedule *s = &plan->schedule;
    if (!weft_cpu_open_decode(&plan->attention, s, &plan->heads_in_tile)) {
        fit_blocks(s, &plan->attention);
        choose_handing(s, &plan->attention);
        choose_tile(s, &plan->attention);
    }
    s->dispatch =
        s->dispatch == WEFT_DISPATCH_CHOOSE ? WEFT_DISPATCH_DYNAMIC : s->dispatch; /* threads are not equally fast */
}

size_t weft_cpu_attention_candidates(const weft_plan *draft, weft_schedule *list, size_t capacity) {
    const weft_schedule *s = &draft->schedule;
    const weft_attention *p = &draft->attention;
    weft_schedule decode = *s;
    int64_t m[WEFT_CPU_LENGTHS + 1], n[BLOCKS + 1], heads_in_tile;
    if (weft_cpu_open_decode(p, &decode, &heads_in_tile)) {
        return 0; /* a decode has one tile, which the plan chooses */
    }
    fit_blocks(&decode, p);
    s = &decode;
    const size_t ms = weft_cpu_list_lengths(s->tile_m, p->seq, weft_cpu_lengths, WEFT_CPU_LENGTHS, m),
                 ns = weft_cpu_list_lengths(s->tile_n, p->kv_seq, blocks, BLOCKS, n);
    return weft_cpu_list_tiles(s, m, ms, n, ns, list, capacity);
}

/* Blocks of different lengths are compared here, so each block also costs a fixed number of keys. */
double weft_cpu_attention_cost(const weft_plan *plan) {
    const weft_schedule *s = &plan->schedule;
    const double all = (double)plan->attention.kv_seq / (double)s->tile_n;
    return cost_of(weft_cpu_choose(WEFT_CPU_ATTENTION, plan->attention.dtype), &plan->attention, s->tile_m, s->tile_n,
                   s->workers, weft_cpu_shares_by_head(plan)) *
           all * (1 + weft_cpu_costs.block / (double)s->tile_n);
}

int64_t weft_cpu_backward_tile(const weft_attention *p) {
    enum { THREADS = 16 }; /* a fixed number: the result depends on where keys are cut */
    const int64_t blocks = weft_ceil_divide(p->kv_seq, WEFT_CPU_BACKWARD_BLOCK),
                  wanted = weft_ceil_divide(THREADS, p->batch * p->kv_heads);
    const int64_t in_tile = weft_ceil_divide(blocks, weft_cpu_min(wanted, blocks));
    return weft_cpu_min(in_tile * WEFT_CPU_BACKWARD_BLOCK, p->kv_seq);
}

/* Head by head, tiles to threads as they come free. */
void weft_cpu_backward_choose(weft_plan *plan) {
    weft_schedule *s = &plan->schedule;
    s->tile_m = s->tile_m ? s->tile_m : weft_cpu_min(WEFT_CPU_BACKWARD_BLOCK, plan->attention.seq);
    s->tile_n = s->tile_n ? s->tile_n : weft_cpu_backward_tile(&plan->attention);
    s->order = s->order == WEFT_ORDER_CHOOSE ? WEFT_ORDER_HEAD_FIRST : s->order;
    s->sweep = s->sweep == WEFT_SWEEP_CHOOSE ? WEFT_SWEEP_FORWARD : s->sweep;
    s->dispatch = s->dispatch == WEFT_DISPATCH_CHOOSE ? WEFT_DISPATCH_DYNAMIC : s->dispatch;
}
