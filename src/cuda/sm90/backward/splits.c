/* SPDX-License-Identifier: Apache-2.0 */
/* How many parts tiles are split into: heads that share keys first, and then, where lengths are known, the blocks of
 * queries of each head.
 *
 * More parts are shorter tiles: all SMs have work, and end together. But the CTAs of a cluster send each other what they
 * have, and not every SM is in a cluster. And tiles of a head add to the same sums, in turn: the more of them are at work
 * at a time, the longer they wait. So the rule compares times, in steps of a tile: those of the cluster that ends last, if
 * the longest tiles come first and each goes to whoever is free first. */
#include "cuda/sm90/backward/splits.h"

#include <math.h>
#include <stdlib.h>

#include "problem/attention.h"
#include "problem/problem.h"

/* What a tile takes beside its steps, in steps, as in a timetable; and what its parts take to meet. */
enum { BESIDE = 2, MEETING = 2 };

/* Steps from an add to a block to the next one at least, in tenths; under a mask tiles come by at less even times
 * (simulated: 1.2 without a mask, 1.5 to 1.7 under a causal one). */
enum { ADD_TENTHS = 12, MASKED_ADD_TENTHS = 16 };

/* Blocks of queries that are looked at for that, at most. */
enum { LOOKED_AT = 1 << 12 };

/* Tiles for each worker that are plenty: then they are not split for their sake, nor into more parts. */
enum { PLENTY = 8 };

/* Under a mask tiles that take turns drift apart: more than so many heads a tile, or fewer blocks of queries for each SM,
 * and they wait for each other (measured: 8 heads 0.93 of 2 x 4 heads; 8 lines of 32 blocks, 2 x 4 heads 1.07 of 4 x 2). */
enum { MASKED_HEADS = 4, MASKED_BLOCKS = 2 };

/* Parts, at most; and slices of a tile. */
enum { MOST = WEFT_HOPPER_BACKWARD_SPLITS };

/* Tiles of a kind are equally long. */
typedef struct kind {
    int64_t steps; /* for each head */
    int64_t tiles; /* of them, before they are split */
} kind;

/* How tiles are split. */
typedef struct cut {
    int64_t heads; /* of a part, and of these */
    int64_t lines; /* parts that have each some of their blocks of queries */
    int64_t parts; /* in all */
} cut;

static cut cut_of(const weft_attention *p, int64_t splits) {
    const int64_t head_parts = weft_attention_head_parts(p, splits);
    return (cut){p->heads / p->kv_heads / head_parts, splits / head_parts, splits};
}

/* The longest first. */
static int by_steps(const void *a, const void *b) {
    const kind *x = a, *y = b;
    return (x->steps < y->steps) - (x->steps > y->steps);
}

/* What times depend on beside the split. */
typedef struct work {
    kind *kinds;    /* owned, the longest first */
    int64_t count;  /* of them */
    int64_t adders; /* tiles that add to a block, at most; and steps from one add to the next */
    double add_steps;
    double lines;    /* of heads of keys, of all batches */
    double *free_at; /* owned: room for a time for each cluster */
} work;

/* The tiles of a plan by their steps, and the adds to the block of queries that most of them reach: all batches are alike
 * where these matter. Returns 0 where there is no memory. */
static int lay_out(work *w, const weft_plan *plan, const weft_hopper_backward_variant *v, int64_t workers) {
    weft_schedule s = plan->schedule;
    weft_tiling tiling = {.problem = &plan->problem, .schedule = &s, .heads_in_tile = 1};
    weft_walk walk = {.cluster_rows = 1, .cluster_cols = 1};
    weft_grid tiles;
    s.tile_m = v->queries;
    s.tile_n = v->keys;
    s.split = 1;
    plan->operation->lay_out(&tiling, &tiles, &walk.reach);
    const int vary = weft_reach_has_band(&walk.reach) && weft_sequences_vary(&walk.reach.sequences);
    const int64_t batches = vary ? tiles.batch : 1;
    w->count = batches * tiles.cols;
    w->kinds = malloc((size_t)w->count * sizeof *w->kinds);
    w->free_at = malloc((size_t)workers * sizeof *w->free_at);
    if (!w->kinds || !w->free_at) {
        return 0;
    }
    for (int64_t i = 0; i < w->count; i++) {
        weft_visit visit = {.tile = weft_tile_at(i / tiles.cols, 0, i % tiles.cols), .direction = 1};
        weft_visit_range(&walk, &visit, 0);
        w->kinds[i] = (kind){weft_larger(visit.steps, 0), tiles.rows * (tiles.batch / batches)};
    }
    qsort(w->kinds, (size_t)w->count, sizeof *w->kinds, by_steps);
    const int in_turn = v->keys == WEFT_HOPPER_BACKWARD_NARROW_KEYS && !vary;
    const int64_t blocks = weft_ceil_divide(plan->attention.seq, v->queries), every = 1 + blocks / LOOKED_AT;
    int64_t most = 0;
    for (int64_t i = blocks - 1; in_turn && i >= 0; i -= every) { /* under a causal mask the last one */
        most = weft_larger(most, weft_turns_count(&walk, 0, i));
    }
    w->adders = most;
    w->add_steps = (plan->attention.mask == WEFT_MASK_NONE ? ADD_TENTHS : MASKED_ADD_TENTHS) / 10.0;
    w->lines = (double)(tiles.batch * tiles.rows);
    return 1;
}

/* Gives work to the worker that is free first, of a heap of when they are, and returns when it will be free again. */
static double give(double *free_at, int64_t workers, double work) {
    const double end = free_at[0] + work;
    int64_t at = 0;
    for (int64_t child; (child = 2 * at + 1) < workers; at = child) {
        child += child + 1 < workers && free_at[child + 1] < free_at[child];
        if (free_at[child] >= end) {
            break;
        }
        free_at[at] = free_at[child];
    }
    free_at[at] = end;
    return end;
}

/* Steps of a run on so many clusters. Tiles that are at work at a time for the same heads add to the same blocks of
 * queries: it takes as long as these adds at least. */
static double time_of(const work *w, cut c, int64_t clusters) {
    const double beside = BESIDE + (c.parts > 1 ? MEETING : 0);
    const double adds = w->add_steps * fmin((double)w->adders, (double)clusters / w->lines);
    double last = adds * (double)c.heads;
    for (int64_t i = 0; i < clusters; i++) {
        w->free_at[i] = 0;
    }
    for (int64_t i = 0; i < w->count; i++) {
        const double steps = (double)(weft_ceil_divide(w->kinds[i].steps, c.lines) * c.heads); /* of the longest part */
        for (int64_t tile = 0; tile < w->kinds[i].tiles; tile++) {
            last = fmax(last, give(w->free_at, clusters, steps + beside));
        }
    }
    return last;
}

/* Whether so many parts cut nothing but the heads that share keys. */
static int cuts_heads(const weft_attention *p, int64_t splits) {
    return p->heads / p->kv_heads % splits == 0;
}

/* The fewest parts that keep tiles together, if there are tiles for all workers. */
static int64_t fewest(const weft_attention *p, double tiles, int64_t workers, const weft_hopper_backward_variant *v) {
    const int64_t group = p->heads / p->kv_heads;
    const double blocks = (double)p->batch * (double)p->kv_heads * (double)weft_ceil_divide(p->seq, v->queries);
    int64_t splits = 1;
    if (p->mask == WEFT_MASK_NONE || v->keys == WEFT_HOPPER_BACKWARD_WIDE_KEYS || tiles < (double)workers) {
        return 1;
    }
    for (int64_t i = 2;
         i <= MOST && (group / splits > MASKED_HEADS || blocks * (double)splits < MASKED_BLOCKS * (double)workers); i++) {
        splits = cuts_heads(p, i) ? i : splits;
    }
    return splits;
}

/* Clusters of so many CTAs that run at a time. */
static int64_t clusters_of(const weft_plan *plan, const weft_cuda_device *device, int64_t ctas) {
    const weft_cuda_plan *c = plan->placed;
    const int64_t given = plan->schedule.workers;
    const int64_t clusters = given > 0                ? given / ctas
                             : c && c->main->function ? weft_cuda_clusters(c, ctas)
                                                      : device->multiprocessors / ctas;
    return weft_between(clusters, 1, 1024);
}

int64_t weft_hopper_backward_splits(const weft_plan *plan, const weft_cuda_device *device,
                                    const weft_hopper_backward_variant *v) {
    const weft_attention *p = &plan->attention;
    const int64_t workers = clusters_of(plan, device, 1);
    const double tiles = (double)p->batch * (double)p->kv_heads * (double)(p->kv_seq / v->keys + p->sequences + 1);
    /* Where lengths are not known, tiles may add as they come: parts of a line would wait for each other. Under a block
     * mask a tile has a list of its steps, which is not cut. */
    const int heads_alone = weft_attention_lacks(p, ~(WEFT_HAS_LENGTHS | WEFT_HAS_BLOCKS)) != NULL;
    int64_t best = fewest(p, tiles, workers, v);
    if (tiles * (double)best >= PLENTY * (double)workers) {
        return best;
    }
    work w = {0};
    if (lay_out(&w, plan, v, workers)) {
        double least = 0.97 * time_of(&w, cut_of(p, best), clusters_of(plan, device, best)); /* a gain that can be seen */
        for (int64_t splits = best + 1; splits <= weft_smaller(MOST, workers); splits++) {
            if (weft_hopper_backward_rounds(v, splits) && (!heads_alone || cuts_heads(p, splits))) {
                const double time = time_of(&w, cut_of(p, splits), clusters_of(plan, device, splits));
                best = time < least ? splits : best;
                least = time < least ? time : least;
            }
        }
    }
    free(w.kinds);
    free(w.free_at);
    return best;
}

/* Slices of a tile's rows that a CTA adds, at most. */
static int64_t slices_of(int64_t splits) {
    return weft_ceil_divide(MOST, splits);
}

int32_t weft_hopper_backward_rounds(const weft_hopper_backward_variant *v, int64_t splits) {
    /* A slice has 16 rows: narrow, of dV in half of the rounds and of dK in the others; wide, of one of them in all. */
    const int64_t room = v->keys * (v->depth + v->depth_v) * 2, columns = v->depth * (v->keys / 64);
    int32_t rounds = 2;
    while (rounds <= 4 && splits * slices_of(splits) * 16 * (columns / rounds) * (int64_t)sizeof(float) > room) {
        rounds *= 2;
    }
    return rounds <= 4 ? rounds : 0;
}

weft_hopper_backward_joining weft_hopper_backward_join(const weft_hopper_backward_variant *v, int64_t splits) {
    weft_hopper_backward_joining join = {0, 0, (int32_t)slices_of(splits), weft_hopper_backward_rounds(v, splits)};
    for (int64_t i = 0; i <= splits; i++) {
        join.firsts |= (uint64_t)weft_ceil_divide(i * MOST, splits) << 4 * i;
    }
    for (int64_t i = 0; i < MOST; i++) {
        join.owners |= (uint32_t)(i * splits / MOST) << 4 * i;
    }
    return join;
}
