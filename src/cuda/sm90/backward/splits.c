/* How many parts tiles are split into: heads that share keys first, and then, where lengths are known, the blocks of
 * queries of each head.
 *
 * More parts are more tiles, and shorter ones: all SMs have work, and end together. But each tile of a part stores dK and
 * dV in fp32, and the last launch reads them again. And tiles of a head add to the same sums, in turn: the more of them are
 * at work at a time, the longer they wait. So the rule compares times, in steps of a tile: those of the worker that ends
 * last, if the longest tiles come first and each goes to whoever is free first; those of the block of queries that most
 * tiles add to; and what the parts cost. */
#include "cuda/sm90/backward/splits.h"

#include <math.h>
#include <stdlib.h>

#include "problem/attention.h"
#include "problem/problem.h"

/* What a tile takes beside its steps, in steps, as in a timetable, and what the last launch takes beside its bytes; and
 * bytes that an SM stores or loads in a step's time: its share of what DRAM carries. */
enum { BESIDE = 2, LAUNCH = 1, STEP_BYTES = 1 << 16 };

/* Steps from an add to a block to the next one at least, in tenths; under a mask tiles come by at less even times
 * (simulated: 1.2 without a mask, 1.5 to 1.7 under a causal one). */
enum { ADD_TENTHS = 12, MASKED_ADD_TENTHS = 16 };

/* Blocks of queries that are looked at for that, at most. */
enum { LOOKED_AT = 1 << 12 };

/* Tiles for each worker that are plenty: then they are not split for their sake, nor into more parts. */
enum { PLENTY = 8 };

/* Under a mask tiles that take turns drift apart: more than so many heads a tile, or fewer blocks of queries for each SM,
 * and they wait for each other (measured: 8 heads 0.93 of 2 x 4 heads, two lines of 256 blocks 0.94 of four). */
enum { MASKED_HEADS = 4, MASKED_BLOCKS = 4 };

/* Parts, at most. */
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
    kind *kinds;   /* owned, the longest first */
    int64_t count; /* of them */
    double adds;   /* steps that the adds to a block take, one after the other */
    double part_steps;
    int64_t workers;
    double *free_at; /* owned: room for a time for each worker */
} work;

/* The tiles of a plan by their steps, and the adds to the block of queries that most of them reach: all batches are alike
 * where these matter. Returns 0 where there is no memory. */
static int lay_out(work *w, const weft_plan *plan, const weft_hopper_backward_variant *v) {
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
    w->free_at = malloc((size_t)w->workers * sizeof *w->free_at);
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
    w->adds = (double)most * (plan->attention.mask == WEFT_MASK_NONE ? ADD_TENTHS : MASKED_ADD_TENTHS) / 10;
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

/* Steps of `main` and of the last launch. */
static double time_of(const work *w, cut c) {
    const double beside = BESIDE + (c.parts > 1 ? w->part_steps : 0), workers = (double)w->workers;
    double last = w->adds, tiles = 0;
    for (int64_t i = 0; i < w->workers; i++) {
        w->free_at[i] = 0;
    }
    for (int64_t i = 0; i < w->count; i++) {
        const int64_t alike = w->kinds[i].tiles * (c.parts / c.lines);
        for (int64_t part = 0; part < alike * c.lines; part++) { /* the longest of each tile first: see weft_part_begin() */
            const int64_t steps = w->kinds[i].steps / c.lines + (part / alike < w->kinds[i].steps % c.lines);
            last = fmax(last, give(w->free_at, w->workers, (double)(steps * c.heads) + beside));
        }
        tiles += (double)(w->kinds[i].tiles * c.parts);
    }
    /* The last launch reads them: a CTA some of a tile, of all its parts. */
    const double some = (double)WEFT_HOPPER_BACKWARD_JOINED * sizeof(float) / STEP_BYTES;
    return last + (c.parts > 1 ? LAUNCH + fmax(tiles * w->part_steps / workers, (double)c.parts * some) : 0);
}

/* The fewest parts that keep tiles together, if there are tiles for all workers. */
static int64_t fewest(const weft_attention *p, double tiles, int64_t workers, const weft_hopper_backward_variant *v) {
    const int64_t group = p->heads / p->kv_heads;
    const double blocks = (double)p->batch * (double)p->kv_heads * (double)weft_ceil_divide(p->seq, v->queries);
    int64_t splits = 1;
    if (p->mask == WEFT_MASK_NONE || v->keys == WEFT_HOPPER_BACKWARD_WIDE_KEYS || tiles < (double)workers) {
        return 1;
    }
    for (int64_t i = 2; 2 * i <= group && i <= MOST && group / splits > MASKED_HEADS; i++) {
        splits = group % i == 0 ? i : splits;
    }
    for (int64_t i = splits + 1;
         i <= weft_smaller(group, MOST) && blocks * (double)splits < MASKED_BLOCKS * (double)workers; i++) {
        splits = group % i == 0 ? i : splits;
    }
    return tiles * (double)splits <= WEFT_HOPPER_BACKWARD_SPLIT_TILES ? splits : 1;
}

int64_t weft_hopper_backward_splits(const weft_plan *plan, const weft_cuda_device *device,
                                    const weft_hopper_backward_variant *v) {
    const weft_attention *p = &plan->attention;
    const int64_t group = p->heads / p->kv_heads;
    const int64_t workers =
        weft_between(plan->schedule.workers ? plan->schedule.workers : device->multiprocessors, 1, 1024);
    const double lines = (double)p->batch * (double)p->kv_heads;
    const double tiles = lines * (double)(p->kv_seq / v->keys + p->sequences + 1);
    /* Where lengths are not known, tiles add as they come: parts of a line would wait for each other. Under a block mask a
     * tile has a list of its steps, which is not cut. */
    const int64_t most = weft_attention_lacks(p, ~(WEFT_HAS_LENGTHS | WEFT_HAS_BLOCKS)) ? weft_smaller(group, MOST) : MOST;
    int64_t best = fewest(p, tiles, workers, v);
    if (best == most || tiles * (double)best >= PLENTY * (double)workers) {
        return best;
    }
    work w = {.workers = workers, .part_steps = (double)v->keys * (v->depth + v->depth_v) * sizeof(float) / STEP_BYTES};
    if (lay_out(&w, plan, v)) {
        double least = 0.97 * time_of(&w, cut_of(p, best)); /* a gain that can be seen */
        double tiles_before = tiles * (double)best;
        for (int64_t splits = best + 1; splits <= most && tiles_before < PLENTY * (double)workers; splits++) {
            if (group % splits == 0 || splits % group == 0) { /* heads first, then lines of each */
                const double time = time_of(&w, cut_of(p, splits));
                best = time < least ? splits : best;
                least = time < least ? time : least;
                tiles_before = tiles * (double)splits;
            }
        }
    }
    free(w.kinds);
    free(w.free_at);
    return best;
}
