/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/sm90/attention/time.h"

#include <math.h>

#include "cuda/sm90/attention/band_time.h"
#include "cuda/sm90/attention/costs.h"
#include "problem/attention.h"
#include "problem/problem.h"

/* Workers and waves of tiles that are followed one by one; what comes before takes its mean. Workers with tiles of their
 * own never make up for longer ones, so that more waves tell. */
enum { WAVES = 4, STATIC_WAVES = 64 };

#define COST(name) weft_hopper_attention_cost.name

/* Bytes a ns of K and V from memory. */
static double memory_rate(int64_t split) {
    return split <= 2 ? COST(memory_rate_2) : split <= 6 ? COST(memory_rate_6) : COST(memory_rate_8);
}

/* A problem cut into tiles by a variant. */
typedef struct cut {
    const weft_hopper_attention_variant *v;
    const weft_attention *p;
    int64_t queries, blocks; /* of a tile, and of a head */
    int64_t heads;           /* in packs, over all batches */
    int64_t split;           /* CTAs that share a tile's steps */
    int64_t offset;          /* causal: query i sees keys 0 .. i + offset */
    int64_t lead;            /* queries that the first tile has fewer than others */
    weft_order order;        /* under a mask; empty where there is none, or more tiles than an order can have */
} cut;

static int64_t between(int64_t value, int64_t low, int64_t high) {
    return value < low ? low : value > high ? high : value;
}

/* Steps over so many keys. A last one of at most 64 keys saves two thirds of what it leaves out. */
static double steps_over(int64_t keys, int64_t tile_n) {
    const int64_t whole = keys / tile_n, rest = keys % tile_n;
    const int is_short = whole > 0 && rest > 0 && rest <= 64 && tile_n > 64;
    return (double)(whole + (rest > 0)) - (is_short ? COST(short_step) * (double)(tile_n - 64) / (double)tile_n : 0);
}

/* Keys that the queries before `end` see. */
static int64_t keys_before(const cut *c, int64_t end) {
    const int64_t last = end < c->p->seq ? end : c->p->seq;
    return c->p->mask == WEFT_MASK_NONE ? c->p->kv_seq : between(last + c->offset, 0, c->p->kv_seq);
}

/* Nanoseconds of the steps of a tile whose queries end before `end`, shared by two warpgroups of each of `split` CTAs,
 * which take a step each at the same time. */
static double split_steps_time(const cut *c, int64_t end) {
    const int64_t steps = weft_ceil_divide(keys_before(c, end), c->v->tile_n);
    const int64_t whole = steps / (2 * c->split), rest = steps % (2 * c->split);
    const double last = rest > c->split ? 1 : rest > 0 ? COST(lone_step) : 0;
    return ((double)whole + last) * 2 * c->v->step_ns[0] + COST(cta_ns) * (double)(c->split - 1);
}

/* The same of warpgroups that have queries of their own: a step takes the longer the more warpgroups have a part in it, and
 * less than in proportion. Those with the first queries are done first. */
static double steps_time(const cut *c, int64_t first, int64_t groups) {
    const int64_t each = c->queries * 64 / c->v->tile_m; /* queries of a warpgroup */
    double time = 0, before = 0;
    for (int64_t i = 0; i < groups; i++) {
        const double steps = steps_over(keys_before(c, first + (i + 1) * each), c->v->tile_n);
        time += (steps - before) * c->v->step_ns[groups - i - 1];
        before = steps;
    }
    return time;
}

static double tile_time(const cut *c, int64_t block) {
    const int64_t first = block > 0 ? block * c->queries - c->lead : 0, end = (block + 1) * c->queries - c->lead;
    const int64_t rows = ((end < c->p->seq ? end : c->p->seq) - first) * (c->v->tile_m / c->queries);
    const int64_t groups = weft_ceil_divide(rows, 64), most = c->v->tile_m / 64;
    const double at_work = COST(idle_share) + (1 - COST(idle_share)) * (double)groups / (double)most;
    return c->v->tile_ns * at_work + (c->p->mask == WEFT_MASK_NONE ? 0 : COST(diagonal_ns)) +
           (c->v->splits ? split_steps_time(c, end) : steps_time(c, first, groups));
}

/* The block of a position. Without a mask tiles are alike but for a head's first and last, so that any order is as good as
 * head-first. */
static int64_t block_of(const cut *c, int64_t position) {
    return c->order.count ? weft_order_tile(&c->order, position).block : position % c->blocks;
}

/* All tiles, one after the other. Without a mask all but the first and the last of a head are alike. Under a mask a tile's
 * time rises, from the second on, by steps that are alike, so that of many blocks some tell the sum. */
static double time_of_all(const cut *c) {
    const int64_t others = c->blocks - 1, parts = others < 64 ? others : 64;
    if (c->p->mask == WEFT_MASK_NONE && others > 0) {
        return (double)c->heads * (tile_time(c, 0) + (double)(others - 1) * tile_time(c, 1) + tile_time(c, others));
    }
    double some = 0;
    for (int64_t i = 0; i < parts; i++) {
        some += tile_time(c, 1 + (2 * i + 1) * others / (2 * parts));
    }
    return (double)c->heads * (tile_time(c, 0) + (parts > 0 ? some / (double)parts * (double)others : 0));
}

/* (query, key) pairs of a head: those of the queries that see some keys, and of those that see all. */
static double pairs_of(const cut *c) {
    const int64_t seq = c->p->seq, keys = c->p->kv_seq;
    if (c->p->mask == WEFT_MASK_NONE) {
        return (double)seq * (double)keys;
    }
    const int64_t first = between(-c->offset, 0, seq), all = between(keys - c->offset, first, seq);
    const double mean = ((double)keys_before(c, first + 1) + (double)keys_before(c, all)) / 2;
    return (double)(all - first) * mean + (double)(seq - all) * (double)keys;
}

/* What the card's power allows: its clock falls when all workers are busy. */
static double time_by_power(const cut *c) {
    return 4 * (double)c->p->batch * (double)c->p->heads * pairs_of(c) * (double)c->v->depth / (1e3 * c->v->rate);
}

/* What K and V take to come: all of them once, and to every tile what its queries see. */
static double fetch_time(const cut *c, int64_t l2_bytes) {
    const weft_attention *p = c->p;
    const double row_bytes = 4.0 * (double)p->head_dim;
    const double bytes = row_bytes * (double)p->batch * (double)p->kv_heads * (double)weft_hopper_attention_seen_keys(p);
    const double read = row_bytes * (double)c->heads * pairs_of(c) / (double)(c->queries < p->seq ? c->queries : p->seq);
    const double rate = bytes <= COST(resident_share) * (double)l2_bytes ? COST(resident_rate) : memory_rate(c->split);
    return fmax(bytes / rate, read / COST(l2_rate));
}

/* A step of the first tile and one of the last, so many of their warpgroups having no queries, `first` of the first. */
static double ends_ns(const weft_hopper_attention_variant *v, int64_t idle, int64_t first) {
    const int64_t groups = v->tile_m / 64;
    return v->step_ns[groups - first - 1] + v->step_ns[groups - (idle - first) - 1];
}

int64_t weft_hopper_attention_lead(const weft_hopper_attention_variant *v, const weft_attention *p, int64_t pack) {
    const int64_t queries = v->tile_m / pack, each = 64 / pack;
    const int64_t idle = (weft_ceil_divide(p->seq, queries) * queries - p->seq) / each; /* warpgroups */
    int64_t first = p->mask == WEFT_MASK_NONE ? 0 : idle;
    for (int64_t i = 1; i <= idle && p->mask == WEFT_MASK_NONE; i++) {
        first = ends_ns(v, idle, i) < ends_ns(v, idle, first) ? i : first;
    }
    return p->seq <= queries ? 0 : first * each;
}

int weft_hopper_attention_grows(const weft_attention *p) {
    const weft_band band = weft_attention_band(p);
    return band.right < WEFT_BAND_OPEN && band.left == WEFT_BAND_OPEN && p->chunk == 0 && p->sequences == 0;
}

int64_t weft_hopper_attention_seen_keys(const weft_attention *p) {
    return p->mask == WEFT_MASK_CAUSAL && !weft_attention_has_band(p) ? between(p->seq + p->offset, 1, p->kv_seq)
                                                                      : p->kv_seq;
}

/* The end of the last tile. Under static dispatch a worker has every so manieth tile; else a tile goes to the worker that
 * is free first. */
static double dealt_time(const cut *c, int64_t workers, int is_static) {
    const int64_t count = c->heads * c->blocks, at_work = between(workers, 1, WEFT_HOPPER_MOST_WORKERS);
    const int64_t waves = is_static ? STATIC_WAVES : WAVES;
    const int64_t skipped = between(count / at_work - waves, 0, count) * at_work; /* whole waves */
    double free_at[WEFT_HOPPER_MOST_WORKERS] = {0}, followed = 0, end = 0;
    for (int64_t i = skipped; i < count; i++) {
        const double time = tile_time(c, block_of(c, i));
        if (is_static) {
            free_at[i % at_work] += time;
        } else {
            weft_hopper_attention_take(free_at, at_work, time);
        }
        followed += time;
    }
    for (int64_t i = 0; i < at_work; i++) {
        end = free_at[i] > end ? free_at[i] : end;
    }
    const double all = skipped > 0 ? time_of_all(c) : followed;
    const double before = all > followed ? all - followed : 0;
    return is_static && followed > 0 ? end * (1 + before / followed) : end + before / (double)at_work;
}

double weft_hopper_attention_head_bytes(const weft_attention *p) {
    return 4.0 * (double)p->kv_seq * (double)p->head_dim;
}

double weft_hopper_attention_wave_fill(int64_t tiles, int64_t workers) {
    return (double)tiles / (double)(weft_ceil_divide(tiles, workers) * workers);
}

/* Whether K and V of a head exceed one side of the L2, half of a Hopper's, by so little that most of them stay there from
 * wave to wave, under a sweep that alternates or with tiles that are split: then it matters which waves read two heads. */
static int nearly_stays(const cut *c, const weft_hopper_attention_layout *layout) {
    const double share = weft_hopper_attention_head_bytes(c->p) / ((double)layout->l2_bytes / 2);
    return c->p->mask == WEFT_MASK_NONE && share > 1 && share < COST(nearly_stays) &&
           (layout->sweep == WEFT_SWEEP_SAWTOOTH || c->v->splits);
}

/* The position of the first query among the keys. */
static int64_t offset_of(const weft_attention *p) {
    return p->mask == WEFT_MASK_CAUSAL_BOTTOM_RIGHT ? p->kv_seq - p->seq : p->offset;
}

double weft_hopper_attention_power_time(const weft_hopper_attention_variant *v, const weft_attention *p) {
    const cut c = {.v = v, .p = p, .offset = offset_of(p)};
    return weft_attention_has_band(p) ? 4 * (double)p->heads * weft_attention_pairs(p) * (double)v->depth / (1e3 * v->rate)
                                      : time_by_power(&c);
}

/* What a bias takes to come: of the pairs that see each other, once. */
static double bias_time(const weft_attention *p) {
    const weft_strides *s = &p->bias_strides;
    const double bytes = (double)weft_dtype_bytes(weft_attention_bias_dtype(p)) * weft_attention_pairs(p) *
                         (s->head ? (double)p->heads : 1) / (s->batch ? 1 : (double)p->batch) /
                         (s->seq ? 1 : (double)p->seq);
    return COST(launch_ns) + bytes / memory_rate(1);
}

static double time_without_bias(const weft_hopper_attention_variant *v, const weft_attention *p,
                                const weft_hopper_attention_layout *layout) {
    const int64_t queries = v->tile_m / layout->pack;
    if (weft_attention_has_band(p)) {
        return weft_hopper_attention_band_time(v, p, layout);
    }
    cut c = {.v = v,
             .p = p,
             .queries = queries,
             .blocks = weft_ceil_divide(p->seq, queries),
             .heads = p->batch * (p->heads / layout->pack),
             .split = layout->split,
             .offset = offset_of(p),
             .lead = weft_hopper_attention_lead(v, p, layout->pack)};
    if (p->mask != WEFT_MASK_NONE) {
        const weft_grid tiles = {p->batch, p->heads / layout->pack, c.blocks};
        weft_order_init(&c.order, (weft_order_kind)layout->order, tiles, layout->group, WEFT_AXIS_N, layout->domains);
        c.order.table = layout->table;
    }
    /* Workers in whole waves, so that none reads two heads, may be fewer than the SMs: those that are idle leave their
     * power to the others, so that all count. */
    const int64_t tiles_of_kv = c.blocks * (p->heads / p->kv_heads / layout->pack), sms = layout->sms / layout->split;
    const int is_near = nearly_stays(&c, layout);
    const int is_whole = weft_hopper_attention_wave_fill(tiles_of_kv, layout->workers * layout->split) > COST(whole_waves);
    const int all_count = is_near && is_whole && layout->workers < sms &&
                          weft_ceil_divide(tiles_of_kv, layout->workers) == weft_ceil_divide(tiles_of_kv, sms);
    const int is_static = layout->dispatch == WEFT_DISPATCH_STATIC;
    const double dealt = dealt_time(&c, all_count ? sms : layout->workers, is_static);
    const double compute = fmax(dealt, time_by_power(&c));
    const double fetch = fetch_time(&c, layout->l2_bytes);
    const double time = COST(launch_ns) + (v->splits ? 0 : COST(start_ns)) + fmax(compute, fetch) +
                        COST(overlap_loss) * fmin(compute, fetch);
    return is_near && !is_whole ? time / COST(straddle) : time;
}

double weft_hopper_attention_time(const weft_hopper_attention_variant *v, const weft_attention *p,
                                  const weft_hopper_attention_layout *layout) {
    const double time = time_without_bias(v, p, layout);
    return p->extras & WEFT_BIAS ? fmax(time, bias_time(p)) : time;
}
