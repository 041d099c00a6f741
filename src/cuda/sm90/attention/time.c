#include "cuda/sm90/attention/time.h"

#include <math.h>

/* Workers and waves of tiles that are followed one by one; what comes before takes its mean. */
enum { MOST_WORKERS = 256, WAVES = 4 };

/* Of an H200, fitted with the variants' own times: docs/kernels/attention-hopper.md. */
static const double launch_ns = 1870;     /* of any launch */
static const double start_ns = 1990;      /* of a worker's first tile, where it goes from tile to tile */
static const double diagonal_ns = 500;    /* that a tile's steps on the diagonal take longer */
static const double cta_ns = 280;         /* of each further CTA that a tile is split over */
static const double idle_share = 0.66;    /* of a tile's own time, what is there with no warpgroup at work */
static const double lone_step = 0.81;     /* of two warpgroups' step, what it takes one while the other has none */
static const double l2_rate = 10210;      /* bytes a ns that tiles read at most */
static const double resident_rate = 5500; /* bytes a ns of distinct K and V, where they stay in the L2 */
static const double resident_share = 0.6; /* of the L2, that stays from launch to launch */
static const double overlap_loss = 0.1;   /* of the shorter of computing and fetching, what the longer does not hide */

/* Bytes a ns of K and V from memory. Clusters of 7 or 8 get less: a group of SMs has its own way there, and clusters fill
 * one such group after the other. */
static double memory_rate(int64_t split) {
    return split <= 2 ? 4000 : split <= 6 ? 3900 : 3100;
}

/* A problem cut into tiles by a variant. */
typedef struct cut {
    const weft_hopper_attention_variant *v;
    const weft_attention *p;
    int64_t queries, blocks; /* of a tile, and of a head */
    int64_t heads, section;  /* in packs, over all batches */
    int64_t split;           /* CTAs that share a tile's steps */
    int64_t offset;          /* causal: query i sees keys 0 .. i + offset */
    int64_t lead;            /* queries that the first tile has fewer than others */
} cut;

static int64_t between(int64_t value, int64_t low, int64_t high) {
    return value < low ? low : value > high ? high : value;
}

/* Steps over so many keys. A last one of at most 64 keys saves two thirds of what it leaves out. */
static double steps_over(int64_t keys, int64_t tile_n) {
    const int64_t whole = keys / tile_n, rest = keys % tile_n;
    const int is_short = whole > 0 && rest > 0 && rest <= 64 && tile_n > 64;
    return (double)(whole + (rest > 0)) - (is_short ? 0.65 * (double)(tile_n - 64) / (double)tile_n : 0);
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
    const double last = rest > c->split ? 1 : rest > 0 ? lone_step : 0;
    return ((double)whole + last) * 2 * c->v->step_ns[0] + cta_ns * (double)(c->split - 1);
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
    const double at_work = idle_share + (1 - idle_share) * (double)groups / (double)most;
    return c->v->tile_ns * at_work + (c->p->mask == WEFT_MASK_NONE ? 0 : diagonal_ns) +
           (c->v->splits ? split_steps_time(c, end) : steps_time(c, first, groups));
}

/* The block of a position: head-first without a mask, else longest-first. */
static int64_t block_of(const cut *c, int64_t position) {
    if (c->p->mask == WEFT_MASK_NONE) {
        return position % c->blocks;
    }
    const int64_t begin = position / (c->section * c->blocks) * c->section;
    const int64_t heads = c->heads - begin < c->section ? c->heads - begin : c->section;
    return c->blocks - 1 - (position - begin * c->blocks) / heads;
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

/* Gives the tile to the worker that is free first, the top of a heap of the times when they are. */
static void take(double *free_at, int64_t workers, double time) {
    const double then = free_at[0] + time;
    int64_t at = 0;
    for (int64_t child = 1; child < workers; child = 2 * at + 1) {
        child += child + 1 < workers && free_at[child + 1] < free_at[child];
        if (then <= free_at[child]) {
            break;
        }
        free_at[at] = free_at[child];
        at = child;
    }
    free_at[at] = then;
}

/* (query, key) pairs that are computed of a head, about: by the keys that the first, the middle and the last query see. */
static double pairs_of(const cut *c) {
    const double keys =
        (double)keys_before(c, 1) + 4 * (double)keys_before(c, c->p->seq / 2 + 1) + (double)keys_before(c, c->p->seq);
    return (double)c->p->seq * keys / 6;
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
    const double rate = bytes <= resident_share * (double)l2_bytes ? resident_rate : memory_rate(c->split);
    return fmax(bytes / rate, read / l2_rate);
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

int64_t weft_hopper_attention_seen_keys(const weft_attention *p) {
    return p->mask == WEFT_MASK_CAUSAL ? between(p->seq + p->offset, 1, p->kv_seq) : p->kv_seq;
}

/* The end of the last tile, dealt out in order to the worker that is free first. */
static double dealt_time(const cut *c, int64_t workers) {
    const int64_t count = c->heads * c->blocks, at_work = between(workers, 1, MOST_WORKERS);
    const int64_t skipped = between(count / at_work - WAVES, 0, count) * at_work; /* whole waves */
    double free_at[MOST_WORKERS] = {0}, followed = 0, end = 0;
    for (int64_t i = skipped; i < count; i++) {
        const double time = tile_time(c, block_of(c, i));
        take(free_at, at_work, time);
        followed += time;
    }
    for (int64_t i = 0; i < at_work; i++) {
        end = free_at[i] > end ? free_at[i] : end;
    }
    const double all = skipped > 0 ? time_of_all(c) : followed;
    return end + (all > followed ? (all - followed) / (double)at_work : 0);
}

double weft_hopper_attention_time(const weft_hopper_attention_variant *v, const weft_attention *p,
                                  const weft_hopper_attention_layout *layout) {
    const int64_t queries = v->tile_m / layout->pack;
    const cut c = {v,
                   p,
                   queries,
                   weft_ceil_divide(p->seq, queries),
                   p->batch * (p->heads / layout->pack),
                   layout->section > 0 ? layout->section : 1,
                   layout->split,
                   p->mask == WEFT_MASK_CAUSAL_BOTTOM_RIGHT ? p->kv_seq - p->seq : p->offset,
                   weft_hopper_attention_lead(v, p, layout->pack)};
    const double compute = fmax(dealt_time(&c, layout->workers), time_by_power(&c));
    const double fetch = fetch_time(&c, layout->l2_bytes);
    return launch_ns + (v->splits ? 0 : start_ns) + fmax(compute, fetch) + overlap_loss * fmin(compute, fetch);
}
