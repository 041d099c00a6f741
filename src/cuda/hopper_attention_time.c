#include "cuda/hopper_attention_time.h"

#include <math.h>

/* Workers and waves of tiles that are followed one by one; what comes before takes its mean. */
enum { MOST_WORKERS = 256, WAVES = 4 };

/* What a tile's steps on the diagonal take longer. */
static const double diagonal_ns = 500;

/* A problem cut into tiles by a variant. */
typedef struct cut {
    const weft_hopper_attention_variant *v;
    const weft_attention *p;
    int64_t queries, blocks; /* of a tile, and of a head */
    int64_t heads, section;  /* in packs, over all batches */
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

/* Steps of a warpgroup whose last query is before `end`. */
static double steps_of(const cut *c, int64_t end) {
    const int64_t last = end < c->p->seq ? end : c->p->seq;
    const int64_t keys = c->p->mask == WEFT_MASK_NONE ? c->p->kv_seq : between(last + c->offset, 0, c->p->kv_seq);
    return steps_over(keys, c->v->tile_n);
}

/* Nanoseconds of a tile: a step takes the longer the more warpgroups have a part in it, and less than in proportion. Those
 * with the first queries are done first. */
static double tile_time(const cut *c, int64_t block) {
    const int64_t first = block > 0 ? block * c->queries - c->lead : 0, end = (block + 1) * c->queries - c->lead;
    const int64_t each = c->queries * 64 / c->v->tile_m; /* queries of a warpgroup */
    const int64_t groups = weft_ceil_divide((end < c->p->seq ? end : c->p->seq) - first, each);
    double time = c->v->tile_ns * (double)(1 + groups) / (double)(1 + c->v->tile_m / 64) +
                  (c->p->mask == WEFT_MASK_NONE ? 0 : diagonal_ns);
    double before = 0;
    for (int64_t i = 0; i < groups; i++) {
        const double steps = steps_of(c, first + (i + 1) * each);
        time += (steps - before) * c->v->step_ns[groups - i - 1];
        before = steps;
    }
    return time;
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

/* What the card's power allows: its clock falls when all workers are busy. */
static double time_by_power(const cut *c) {
    const int64_t ends[3] = {1, c->p->seq / 2 + 1, c->p->seq};
    double keys[3]; /* that the first, the middle and the last query see */
    for (int i = 0; i < 3; i++) {
        keys[i] = (double)(c->p->mask == WEFT_MASK_NONE ? c->p->kv_seq : between(ends[i] + c->offset, 0, c->p->kv_seq));
    }
    const double pairs = (double)c->p->seq * (keys[0] + 4 * keys[1] + keys[2]) / 6;
    return 4 * (double)c->p->batch * (double)c->p->heads * pairs * (double)c->v->depth / (1e3 * c->v->rate);
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

double weft_hopper_attention_time(const weft_hopper_attention_variant *v, const weft_attention *p, int64_t pack,
                                  int64_t workers, int64_t section) {
    const int64_t queries = v->tile_m / pack;
    const cut c = {v,
                   p,
                   queries,
                   weft_ceil_divide(p->seq, queries),
                   p->batch * (p->heads / pack),
                   section > 0 ? section : 1,
                   p->mask == WEFT_MASK_CAUSAL_BOTTOM_RIGHT ? p->kv_seq - p->seq : p->offset,
                   weft_hopper_attention_lead(v, p, pack)};
    const int64_t count = c.heads * c.blocks, at_work = between(workers, 1, MOST_WORKERS);
    const int64_t skipped = between(count / at_work - WAVES, 0, count) * at_work; /* whole waves */
    double free_at[MOST_WORKERS] = {0}, followed = 0, end = 0;
    for (int64_t i = skipped; i < count; i++) {
        const double time = tile_time(&c, block_of(&c, i));
        take(free_at, at_work, time);
        followed += time;
    }
    for (int64_t i = 0; i < at_work; i++) {
        end = free_at[i] > end ? free_at[i] : end;
    }
    const double all = skipped > 0 ? time_of_all(&c) : followed;
    const double before = all > followed ? (all - followed) / (double)at_work : 0;
    return fmax(before + end, time_by_power(&c));
}
