/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/sm90/attention/band_time.h"

#include <math.h>

#include "cuda/sm90/attention/costs.h"
#include "problem/problem.h"

#define COST(name) weft_hopper_attention_cost.name

/* Waves of tiles that are followed one by one. */
enum { WAVES = 4 };

void weft_hopper_attention_take(double *free_at, int64_t workers, double time) {
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

/* Tiles under a band are looked at one by one, but of many only so many. */
enum { LOOKS = 256 };

/* The next step behind `at` with which one of so many warpgroups begins or ends; INT64_MAX: there is none. at_work: how
 * many see the steps up to it. */
static int64_t next_of(const weft_steps *steps, int64_t groups, int64_t at, int64_t *at_work) {
    int64_t next = INT64_MAX;
    *at_work = 0;
    for (int64_t i = 0; i < groups; i++) {
        const int64_t edge = steps[i].begin > at ? steps[i].begin : steps[i].end;
        *at_work += steps[i].begin <= at && at < steps[i].end;
        next = edge > at && edge < next ? edge : next;
    }
    return next;
}

/* What it adds to a tile that rows begin to see keys one after the other. */
static double begin_time(const weft_hopper_attention_variant *v) {
    return v->tile_n > 64 ? COST(begin_ns) : 0;
}

/* A tile under a band. Each warpgroup goes through the steps that its own queries see, and those that see the same step at
 * the same time take less than in proportion. */
static double band_tile_time(const weft_hopper_attention_variant *v, const weft_reach *reach, const weft_cut *tile) {
    const int64_t groups = v->tile_m / 64, each = reach->tile_rows / groups;
    weft_steps steps[4];
    int64_t used = 0, at = INT64_MAX, at_work;
    int begins = 0; /* whether rows begin to see keys one after the other */
    weft_cut part = *tile;
    for (; used < groups && tile->rows.begin + used * each < tile->rows.end; used++) {
        part.rows.begin = tile->rows.begin + used * each;
        part.rows.end = part.rows.begin + each < tile->rows.end ? part.rows.begin + each : tile->rows.end;
        part.sequence = reach->joined && weft_reach_starts(reach)
                            ? weft_sequence_from(&reach->sequences, part.sequence, part.rows.begin)
                            : part.sequence;
        steps[used] = weft_reach_band_steps(reach, &part);
        begins |= steps[used].full_begin > steps[used].begin;
        at = steps[used].begin < at ? steps[used].begin : at;
    }
    double time = v->tile_ns * (COST(idle_share) + (1 - COST(idle_share)) * (double)used / (double)groups);
    for (int64_t next = next_of(steps, used, at, &at_work); next < INT64_MAX; next = next_of(steps, used, at, &at_work)) {
        time += at_work > 0 ? (double)(next - at) * v->step_ns[at_work - 1] : 0;
        at = next;
    }
    return time + COST(diagonal_ns) + (begins ? begin_time(v) : 0);
}

/* A problem with a band, as its tiles see it. */
typedef struct banded {
    weft_reach reach;
    int64_t tiles, columns; /* of a batch, and of all */
    int64_t heads;          /* in packs */
    int32_t known;          /* whether batches are */
} banded;

static double band_column_time(const weft_hopper_attention_variant *v, const banded *b, int64_t column) {
    const weft_cut cut = weft_reach_cut(&b->reach, b->known ? column / b->tiles : 0, column % b->tiles, 1);
    return band_tile_time(v, &b->reach, &cut);
}

/* The end of the last tile: a tile goes to the worker that is free first, those of the last rows before others. Many tiles
 * are dealt out as if evenly. */
static double band_dealt(const weft_hopper_attention_variant *v, const banded *b, int64_t workers, double begins) {
    const double count = (double)b->columns * (double)b->heads;
    const int64_t looks = b->columns < LOOKS ? b->columns : LOOKS;
    double free_at[WEFT_HOPPER_MOST_WORKERS] = {0}, end = 0, mean = 0;
    if (workers <= WEFT_HOPPER_MOST_WORKERS && count <= (double)(WAVES * workers)) {
        for (int64_t column = b->columns - 1; column >= 0; column--) {
            const double time = band_column_time(v, b, column) + begins;
            for (int64_t head = 0; head < b->heads; head++) {
                weft_hopper_attention_take(free_at, workers, time);
            }
        }
        for (int64_t i = 0; i < workers; i++) {
            end = fmax(end, free_at[i]);
        }
        return end;
    }
    for (int64_t i = 0; i < looks; i++) {
        const double column = (double)i * (double)b->columns / (double)looks;
        mean += (band_column_time(v, b, (int64_t)column) + begins) / (double)looks;
    }
    return fmax(count / (double)workers, 1) * mean;
}

double weft_hopper_attention_band_time(const weft_hopper_attention_variant *v, const weft_attention *p,
                                       const weft_hopper_attention_layout *layout) {
    const int64_t parts = p->sequences > 0 ? p->sequences : 1, queries = v->tile_m / layout->pack;
    const int known = p->lengths.q_starts || p->lengths.q_used || p->lengths.kv_used || p->lengths.kv_pad;
    const int64_t seq = known ? p->seq : weft_ceil_divide(p->seq, parts);
    const int64_t kv_seq = known || p->cache.page > 0 ? p->kv_seq : weft_ceil_divide(p->kv_seq, parts);
    banded b = {.reach = weft_reach_make(seq, kv_seq, queries, v->tile_n, weft_slice_full(seq, kv_seq)),
                .heads = p->heads / layout->pack,
                .known = known};
    weft_sequences all = weft_attention_sequences(p);
    all.queries = seq;
    all.keys = kv_seq;
    weft_reach_set_band(&b.reach, weft_attention_band(p), all, 0);
    b.reach.joined = !p->lengths.kv_starts && !(known && p->cache.page > 0);
    b.tiles = weft_reach_tiles(&b.reach);
    b.columns = b.tiles * (p->sequences > 0 ? (known ? 1 : parts) : p->batch);
    /* Tiles in which a sequence begins, of those that are not known. */
    const double begins = p->sequences > 0 && !known ? begin_time(v) * fmin((double)queries / (double)seq, 1) : 0;
    return COST(launch_ns) + COST(start_ns) + band_dealt(v, &b, layout->workers, begins);
}
