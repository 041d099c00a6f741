/* How many parts tiles are split into: heads that share keys, and where lengths are known blocks of queries of each head.
 *
 * More parts are more tiles, and shorter ones: all SMs have work, and end together. But each tile of a part stores dK and
 * dV in fp32, and the last launch reads them again. So the rule compares times, in steps of a tile: those of the worker
 * that ends last, if the longest tiles come first and each goes to whoever is free first; and what the parts cost. */
#include "cuda/sm90/backward/splits.h"

#include <math.h>
#include <stdlib.h>

#include "problem/attention.h"
#include "problem/problem.h"

/* What a tile takes beside its steps, in steps, as in a timetable; and bytes that an SM stores or loads in a step's time:
 * its share of what DRAM carries. */
enum { BESIDE = 2, STEP_BYTES = 1 << 16 };

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

/* The tiles of a plan by their steps. Returns how many kinds there are; 0: no memory. */
static int64_t kinds_of(const weft_plan *plan, const weft_hopper_backward_variant *v, kind **list) {
    weft_schedule s = plan->schedule;
    weft_tiling tiling = {.problem = &plan->problem, .schedule = &s, .heads_in_tile = 1};
    weft_walk walk = {.cluster_rows = 1, .cluster_cols = 1};
    weft_grid tiles;
    s.tile_m = v->queries;
    s.tile_n = v->keys;
    s.split = 1;
    plan->operation->lay_out(&tiling, &tiles, &walk.reach);
    const int64_t batches =
        weft_reach_has_band(&walk.reach) && weft_sequences_vary(&walk.reach.sequences) ? tiles.batch : 1;
    *list = malloc((size_t)(batches * tiles.cols) * sizeof **list);
    if (!*list) {
        return 0;
    }
    for (int64_t i = 0; i < batches * tiles.cols; i++) {
        weft_visit visit = {.tile = weft_tile_at(i / tiles.cols, 0, i % tiles.cols), .direction = 1};
        weft_visit_range(&walk, &visit, 0);
        (*list)[i] = (kind){weft_larger(visit.steps, 0), tiles.rows * (tiles.batch / batches)};
    }
    qsort(*list, (size_t)(batches * tiles.cols), sizeof **list, by_steps);
    return batches * tiles.cols;
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

/* When the last worker ends, in steps. free_at: room for a time for each worker. */
static double time_of(const kind *kinds, int64_t count, cut c, double part_steps, int64_t workers, double *free_at) {
    const double beside = BESIDE + (c.parts > 1 ? part_steps : 0);
    double last = 0, tiles = 0;
    for (int64_t i = 0; i < workers; i++) {
        free_at[i] = 0;
    }
    for (int64_t i = 0; i < count; i++) {
        const int64_t alike = kinds[i].tiles * (c.parts / c.lines);
        for (int64_t part = 0; part < alike * c.lines; part++) { /* the longest of each tile first: see weft_part_begin() */
            const int64_t steps = kinds[i].steps / c.lines + (part / alike < kinds[i].steps % c.lines);
            last = fmax(last, give(free_at, workers, (double)(steps * c.heads) + beside));
        }
        tiles += (double)(kinds[i].tiles * c.parts);
    }
    /* The last launch reads them: a CTA a piece of a tile, of all its parts. */
    const double piece_steps = (double)WEFT_HOPPER_BACKWARD_JOINED * sizeof(float) / STEP_BYTES;
    return last + (c.parts > 1 ? fmax(tiles * part_steps / (double)workers, (double)c.parts * piece_steps) : 0);
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
    const double part_steps = (double)v->keys * (v->depth + v->depth_v) * sizeof(float) / STEP_BYTES;
    kind *kinds = NULL;
    int64_t best = fewest(p, tiles, workers, v);
    /* Where lengths are not known, tiles add as they come: parts of a line would wait for each other. */
    const int whole_lines = weft_attention_lacks(p, ~WEFT_HAS_LENGTHS) != NULL;
    if ((whole_lines && group == best) || tiles * (double)best >= PLENTY * (double)workers) {
        return best;
    }
    const int64_t count = kinds_of(plan, v, &kinds), most = whole_lines ? weft_smaller(group, MOST) : MOST;
    double *free_at = malloc((size_t)workers * sizeof *free_at);
    if (count > 0 && free_at) {
        const double now = time_of(kinds, count, cut_of(p, best), part_steps, workers, free_at);
        double least = 0.97 * now; /* a gain that can be seen */
        double tiles_before = tiles * (double)best;
        for (int64_t splits = best + 1; splits <= most && tiles_before < PLENTY * (double)workers; splits++) {
            if (group % splits == 0 || splits % group == 0) { /* heads first, then lines of each */
                const double time = time_of(kinds, count, cut_of(p, splits), part_steps, workers, free_at);
                best = time < least ? splits : best;
                least = time < least ? time : least;
                tiles_before = tiles * (double)splits;
            }
        }
    }
    free(kinds);
    free(free_at);
    return best;
}
