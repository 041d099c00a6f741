/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/runs.h"

#include <stdlib.h>

#include "base/status.h"
#include "problem/problem.h"

static const char *refused(const weft_plan *plan) {
    const weft_schedule *s = &plan->schedule;
    const weft_attention *p = &plan->attention;
    return !plan->operation->place                    ? "anything but a forward attention"
           : p->sequences > 0 && p->cache.page == 0   ? "packed keys"
           : p->sequences > 0 && !p->lengths.q_starts ? "packed queries without their lengths"
           : plan->joined                             ? "tiles of several sequences"
           : p->block_rows > 0                        ? "block masks"
           : s->tile_n != WEFT_LEAF                   ? "a tile_n other than 256"
           : s->cluster_m * s->cluster_n > 1          ? "clusters"
           : s->split > 1                             ? "a split"
           : s->dispatch != WEFT_DISPATCH_STATIC      ? "a dispatch other than static"
           : s->sweep != WEFT_SWEEP_FORWARD           ? "a sweep other than forward"
                                                      : NULL;
}

/* The level of runs of sequences of unlike lengths. */
static int32_t level_of(const weft_runs *runs) {
    int64_t leaves = 0, longest = 0, all[WEFT_RUN_LEVELS] = {0};
    int32_t counts[WEFT_RUN_LEVELS];
    for (int64_t i = 0; i < runs->sequences.count; i++) {
        const weft_rows of = weft_run_leaves(runs, i);
        leaves += of.end - of.begin;
        longest = weft_larger(longest, of.end - of.begin);
        for (int32_t level = 0; level < WEFT_RUN_LEVELS; level++) {
            all[level] += runs->tiles * weft_run_count(of, level);
        }
    }
    for (int32_t level = 0; level < WEFT_RUN_LEVELS; level++) {
        counts[level] = (int32_t)weft_smaller(all[level], INT32_MAX);
    }
    return weft_run_level(runs, leaves * runs->tiles, longest, counts);
}

weft_status weft_sim_runs_make(weft_sim_runs *runs, const weft_plan *plan, weft_message *message) {
    const weft_walk *walk = &plan->walk;
    const char *what = refused(plan);
    if (what) {
        return weft_fail(message, WEFT_UNSUPPORTED, "a profile with runs does not take %s", what);
    }
    runs->cols = plan->attention.sequences == 0
                     ? walk->cols
                     : weft_ceil_divide(weft_attention_most_queries(&plan->attention), walk->reach.tile_rows);
    runs->of = (weft_runs){.sequences = weft_attention_sequences(&plan->attention),
                           .band = weft_attention_band(&plan->attention),
                           .tiles = walk->order.grid.rows * runs->cols,
                           .by_workers = weft_divisor_make((uint64_t)walk->workers)};
    const int64_t sequences = runs->of.sequences.count;
    runs->before = calloc((size_t)sequences + 1, sizeof *runs->before);
    runs->first = calloc((size_t)sequences + 1, sizeof *runs->first);
    if (!runs->before || !runs->first) {
        return weft_fail(message, WEFT_NO_MEMORY, "no memory for %lld sequences", (long long)sequences);
    }
    runs->alike = !(weft_attention_asks(&plan->attention) & WEFT_HAS_LENGTHS);
    runs->level = runs->alike ? weft_run_level_alike(&runs->of, weft_run_leaves(&runs->of, 0)) : level_of(&runs->of);
    for (int64_t i = 0; i < sequences; i++) {
        const weft_rows of = weft_run_leaves(&runs->of, i);
        runs->before[i + 1] = runs->before[i] + runs->of.tiles * weft_run_count(of, runs->level);
        runs->first[i + 1] = runs->first[i] + (runs->alike ? runs->of.tiles * weft_run_sizes_of(of, runs->level).whole : 0);
    }
    runs->count = runs->before[sequences];
    return WEFT_OK;
}

void weft_sim_runs_release(weft_sim_runs *runs) {
    free(runs->before);
    free(runs->first);
}

/* Sums in fp32 with a maximum and a sum for each row. */
static int64_t share_sectors(const weft_plan *plan) {
    const int64_t bytes = plan->schedule.tile_m * (plan->attention.head_dim_v + 2) * (int64_t)sizeof(float);
    return weft_ceil_divide(bytes, plan->machine.l2_sector);
}

static int64_t runs_of_tile(const weft_sim_runs *runs, int64_t sequence) {
    return (runs->before[sequence + 1] - runs->before[sequence]) / runs->of.tiles;
}

uint64_t weft_sim_runs_sectors(const weft_sim_runs *runs, const weft_plan *plan) {
    int64_t shares = 0;
    for (int64_t i = 0; i < runs->of.sequences.count; i++) {
        shares += runs_of_tile(runs, i) > 1 ? runs_of_tile(runs, i) : 0;
    }
    return (uint64_t)(shares * runs->of.tiles * share_sectors(plan));
}

/* A tile of a sequence. In a packed batch all have as many as the longest takes. Who has no row of its own reads the same
 * keys as the sequence's last one that has. */
static weft_tile tile_of(const weft_sim_runs *runs, const weft_walk *walk, int64_t sequence, int64_t tile) {
    const int32_t *starts = weft_reach_starts(&walk->reach);
    const int64_t row = tile / runs->cols, col = tile % runs->cols;
    if (!starts) {
        return weft_tile_at(sequence, row, col);
    }
    const int64_t own = weft_ceil_divide(starts[sequence + 1] - starts[sequence], walk->reach.tile_rows);
    const int64_t first = weft_divide(starts[sequence], &walk->reach.by_tile_rows) + sequence;
    return weft_tile_at(0, row, first + weft_larger(weft_smaller(col, own - 1), 0));
}

/* Runs of the sequences before one: of those that come first, or of the others. */
static int64_t runs_before(const weft_sim_runs *runs, int is_first, int64_t sequence) {
    return is_first ? runs->first[sequence] : runs->before[sequence] - runs->first[sequence];
}

weft_sim_share weft_sim_runs_visit(const weft_sim_runs *runs, const weft_plan *plan, int64_t place, weft_visit *visit) {
    const weft_walk *walk = &plan->walk;
    int64_t low = 0, high = runs->of.sequences.count;
    const int is_first = place < runs->first[high];
    place -= is_first ? 0 : runs->first[high];
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        *(runs_before(runs, is_first, middle) <= place ? &low : &high) = middle;
    }
    const int64_t at = place - runs_before(runs, is_first, low), tile = at % runs->of.tiles, of = at / runs->of.tiles;
    const weft_rows leaves = weft_run_leaves(&runs->of, low);
    const int64_t whole = weft_run_sizes_of(leaves, runs->level).whole, each = runs_of_tile(runs, low);
    const int64_t node = runs->alike ? weft_run_number(leaves, runs->level, each, whole, is_first ? of : whole + of) : of;
    const int64_t number = runs->before[low] + node * runs->of.tiles + tile;
    /* Steps are counted from the tensor's first key, leaves from the sequence's. If that is no step's first, there may be a
     * step more than leaves: it is the last run's. */
    const int64_t origin = weft_divide(low * runs->of.sequences.keys_each, &walk->reach.by_tile_columns);
    const int64_t begin = origin + (((leaves.begin >> runs->level) + node) << runs->level);
    *visit = (weft_visit){.tile = tile_of(runs, walk, low, tile), .direction = 1};
    visit->ranges = weft_reach_ranges(&walk->reach, visit->tile.col);
    weft_visit_range(walk, visit, 0);
    const int64_t until = visit->first + visit->steps;
    const int64_t end = node == each - 1 ? until : weft_smaller(until, begin + (INT64_C(1) << runs->level));
    visit->first = weft_larger(visit->first, begin);
    visit->steps = weft_larger(end - visit->first, 0);
    visit->last = visit->first + visit->steps - 1;
    visit->position = (visit->tile.batch * walk->order.grid.rows + visit->tile.row) * walk->cols + visit->tile.col;
    return (weft_sim_share){number, each > 1 ? share_sectors(plan) : 0, node == each - 1};
}
