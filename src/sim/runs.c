#include "sim/runs.h"

#include <stdlib.h>

#include "base/status.h"
#include "problem/problem.h"

static const char *refused(const weft_plan *plan) {
    const weft_schedule *s = &plan->schedule;
    return !plan->operation->place               ? "anything but a forward attention"
           : plan->attention.sequences > 0       ? "packed queries"
           : plan->attention.block_rows > 0      ? "block masks"
           : s->tile_n != WEFT_LEAF              ? "a tile_n other than 256"
           : s->cluster_m * s->cluster_n > 1     ? "clusters"
           : s->split > 1                        ? "a split"
           : s->dispatch != WEFT_DISPATCH_STATIC ? "a dispatch other than static"
           : s->sweep != WEFT_SWEEP_FORWARD      ? "a sweep other than forward"
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
    const int64_t sequences = plan->attention.batch;
    runs->of = (weft_runs){.sequences = weft_attention_sequences(&plan->attention),
                           .band = weft_attention_band(&plan->attention),
                           .tiles = walk->order.grid.rows * walk->cols,
                           .by_workers = weft_divisor_make((uint64_t)walk->workers)};
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
    for (int64_t i = 0; i < plan->attention.batch; i++) {
        shares += runs_of_tile(runs, i) > 1 ? runs_of_tile(runs, i) : 0;
    }
    return (uint64_t)(shares * runs->of.tiles * share_sectors(plan));
}

/* Runs of the sequences before one: of those that come first, or of the others. */
static int64_t runs_before(const weft_sim_runs *runs, int is_first, int64_t sequence) {
    return is_first ? runs->first[sequence] : runs->before[sequence] - runs->first[sequence];
}

weft_sim_share weft_sim_runs_visit(const weft_sim_runs *runs, const weft_plan *plan, int64_t place, weft_visit *visit) {
    const weft_walk *walk = &plan->walk;
    int64_t low = 0, high = plan->attention.batch;
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
    const int64_t begin = ((leaves.begin >> runs->level) + node) << runs->level, end = begin + (INT64_C(1) << runs->level);
    *visit = (weft_visit){.tile = weft_tile_at(low, tile / walk->cols, tile % walk->cols), .direction = 1};
    visit->ranges = weft_reach_ranges(&walk->reach, visit->tile.col);
    weft_visit_range(walk, visit, 0);
    const int64_t last = weft_smaller(visit->first + visit->steps, end);
    visit->first = weft_larger(visit->first, begin);
    visit->steps = weft_larger(last - visit->first, 0);
    visit->last = visit->first + visit->steps - 1;
    visit->position = low * runs->of.tiles + tile;
    return (weft_sim_share){number, each > 1 ? share_sectors(plan) : 0, node == each - 1};
}
