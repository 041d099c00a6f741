/* SPDX-License-Identifier: Apache-2.0 */
/** Decode: who reads which keys of a batch of sequences, and in which order results are added up.
 *
 * The keys of a sequence are cut into leaves of WEFT_LEAF keys, counted from its first key. Results of leaves are merged as
 * the nodes of a binary tree: node i of level l + 1 merges nodes 2 i and 2 i + 1 of level l, and is the one that there is
 * where the other has no keys that are seen. The tree of a sequence depends on nothing but its own keys, so the bits of its
 * output are the same whatever else is in the batch, however many workers there are and whoever computes which node.
 *
 * Workers take runs: nodes of one level, the same for all sequences, that which lets them end first. Another launch merges
 * what is above. Runs are numbered sequence by sequence, in each by their keys, and for the same keys kv head
 * by kv head and tile of rows by tile: whoever reads the same keys does so at about the same time. They are taken in that
 * order; where all sequences are alike, whole ones before all others, so that workers who have one whole run less have
 * shorter ones instead.
 */
#ifndef WEFT_ORDER_RUNS_H
#define WEFT_ORDER_RUNS_H

#include "sequence.h"

enum { WEFT_LEAF = 256 };

/** Levels that runs may have; and what a run takes beside its leaves, in eighths of a leaf. */
enum { WEFT_RUN_LEVELS = 12, WEFT_RUN_START = 4 };

/** What runs are made of. */
typedef struct weft_runs {
    weft_sequences sequences;
    weft_band band;
    int64_t tiles;           /**< of a run: kv heads times tiles of rows */
    weft_divisor by_workers; /**< of which worker w takes runs w, w + workers, ... */
} weft_runs;

/** The leaves of a sequence that a query sees: begin .. end - 1; none: both 0. */
WEFT_INLINE weft_rows weft_run_leaves_seen(const weft_runs *runs, int64_t number) {
    const weft_sequence s = weft_sequence_at(&runs->sequences, number);
    weft_rows leaves;
    leaves.begin = leaves.end = 0;
    if (s.rows.begin < s.used_end) {
        const int64_t origin = weft_sequence_origin(&runs->sequences, number);
        const weft_rows first = weft_band_seen(&runs->band, &s, s.rows.begin);
        const weft_rows last = weft_band_seen(&runs->band, &s, s.used_end - 1);
        if (first.begin < last.end) {
            leaves.begin = (int64_t)((uint64_t)(first.begin - origin) / WEFT_LEAF);
            leaves.end = (int64_t)((uint64_t)(last.end - origin + WEFT_LEAF - 1) / WEFT_LEAF);
        }
    }
    return leaves;
}

/** The leaves of a sequence: those that a query sees or that keys are appended to, and all between. Whoever reads a new key
 * also stores it, so those that no query sees are in a run, too. */
WEFT_INLINE weft_rows weft_run_leaves(const weft_runs *runs, int64_t number) {
    weft_rows leaves = weft_run_leaves_seen(runs, number);
    if (runs->sequences.append > 0) {
        const int64_t origin = weft_sequence_origin(&runs->sequences, number);
        const weft_rows added = weft_sequence_added(&runs->sequences, number);
        if (added.begin < added.end) {
            const int64_t begin = (int64_t)((uint64_t)(added.begin - origin) / WEFT_LEAF);
            const int64_t end = (int64_t)((uint64_t)(added.end - origin + WEFT_LEAF - 1) / WEFT_LEAF);
            const int sees = leaves.begin < leaves.end;
            leaves.begin = sees ? weft_smaller(leaves.begin, begin) : begin;
            leaves.end = sees ? weft_larger(leaves.end, end) : end;
        }
    }
    return leaves;
}

/** How many runs of a level those leaves are; a sequence that sees nothing has one, for its zeros. */
WEFT_INLINE int64_t weft_run_count(weft_rows leaves, int32_t level) {
    return leaves.begin < leaves.end ? ((leaves.end - 1) >> level) - (leaves.begin >> level) + 1 : 1;
}

/** The sizes of the runs of a level: the first and the last may have fewer leaves than the others, which are whole. */
typedef struct weft_run_sizes {
    int64_t first, last; /**< leaves; 0: it is one of the whole ones, or there is none */
    int64_t whole;       /**< how many have all leaves of a node of the level */
} weft_run_sizes;

WEFT_INLINE weft_run_sizes weft_run_sizes_of(weft_rows leaves, int32_t level) {
    const int64_t size = (int64_t)1 << level;
    const int64_t begin = (leaves.begin + size - 1) >> level, end = leaves.end >> level; /* whole ones */
    weft_run_sizes sizes;
    if (begin > end) { /* within one node */
        sizes.first = leaves.end - leaves.begin;
        sizes.last = sizes.whole = 0;
        return sizes;
    }
    sizes.first = (begin << level) - leaves.begin;
    sizes.last = leaves.end - (end << level);
    sizes.whole = end - begin;
    return sizes;
}

/** Which of a sequence's `count` runs comes at a place of their order, whole ones first. */
WEFT_INLINE int64_t weft_run_number(weft_rows leaves, int32_t level, int64_t count, int64_t whole, int64_t place) {
    const int64_t has_first = (leaves.begin & (((int64_t)1 << level) - 1)) != 0; /* a shorter one */
    return place < whole ? place + has_first : place == whole && has_first ? 0 : count - 1;
}

/** The level of a sequence's runs where its own leaves decide: about as many runs as a run has leaves, so that a longer
 * sequence has more runs, and longer ones. */
WEFT_INLINE int32_t weft_run_level_alone(int64_t leaves) {
    int32_t level = 0;
    while ((INT64_C(4) << 2 * level) < leaves) {
        level++;
    }
    return level;
}

/** As many runs as a sequence of at most so many leaves can have then. */
WEFT_INLINE int64_t weft_run_most_alone(int64_t leaves) {
    const int32_t level = weft_run_level_alone(leaves);
    return weft_larger(leaves >> level, INT64_C(2) << level) + 2;
}

/** As many runs of all sequences as there can be: those of the highest level, or eight for each worker. */
WEFT_INLINE int64_t weft_run_most(const weft_runs *runs) {
    const int64_t highest = (runs->sequences.keys / WEFT_LEAF >> (WEFT_RUN_LEVELS - 1)) + 2;
    return 8 * (int64_t)runs->by_workers.value + highest * runs->sequences.count * runs->tiles;
}

/** How long runs of a level take, in eighths of a leaf. Runs of one size are dealt in rounds; where the last of a sequence
 * are shorter, workers end within half a run of each other.
 * @param runs     what they are made of
 * @param leaves   of all sequences, counted once for each tile
 * @param count    runs likewise
 * @param longest  leaves of a sequence, at most
 * @param level    of the runs */
WEFT_INLINE int64_t weft_run_time(const weft_runs *runs, int64_t leaves, int64_t count, int64_t longest, int32_t level) {
    const int64_t run = 8 * weft_smaller((int64_t)1 << level, longest);
    const int64_t rounds = weft_divide(count + (int64_t)runs->by_workers.value - 1, &runs->by_workers);
    const int64_t mean = weft_divide(8 * leaves, &runs->by_workers) + rounds * WEFT_RUN_START + run / 2;
    return rounds > 1 ? weft_smaller(rounds * (run + WEFT_RUN_START), mean) : run + WEFT_RUN_START;
}

/** The level to take, where counts[level] are the runs of each. */
WEFT_INLINE int32_t weft_run_level(const weft_runs *runs, int64_t leaves, int64_t longest,
                                   const int32_t counts[WEFT_RUN_LEVELS]) {
    const int64_t most = weft_run_most(runs);
    int64_t least = -1;
    int32_t best = WEFT_RUN_LEVELS - 1;
    for (int32_t level = WEFT_RUN_LEVELS - 1; level >= 0; level--) { /* of equals the higher one: there is less to merge */
        const int64_t time = weft_run_time(runs, leaves, counts[level], longest, level);
        if (counts[level] <= most && (least < 0 || time < least)) {
            least = time;
            best = level;
        }
    }
    return best;
}

/** The level to take where all sequences have the same leaves. Whole runs are dealt in rounds. The others fill up the last
 * of these, and if they are more, they take rounds of their own. */
WEFT_INLINE int32_t weft_run_level_alike(const weft_runs *runs, weft_rows leaves) {
    const int64_t lines = runs->sequences.count * runs->tiles, workers = (int64_t)runs->by_workers.value;
    int64_t least = -1;
    int32_t best = WEFT_RUN_LEVELS - 1;
    for (int32_t level = WEFT_RUN_LEVELS - 1; level >= 0; level--) {
        const int64_t count = weft_run_count(leaves, level), whole = weft_run_sizes_of(leaves, level).whole,
                      others = count - whole;
        const int64_t rest = leaves.end - leaves.begin - (whole << level); /* leaves of the others */
        const int64_t rounds = (lines * whole + workers - 1) / workers;
        const int64_t more = weft_larger(lines * others - (rounds * workers - lines * whole) + workers - 1, 0) / workers;
        const int64_t part = others > 0 ? 8 * rest / others + WEFT_RUN_START : 0;
        const int64_t time = weft_larger(rounds * ((INT64_C(8) << level) + WEFT_RUN_START) + more * part, part);
        if (lines * count <= weft_run_most(runs) && (least < 0 || time < least)) {
            least = time;
            best = level;
        }
    }
    return best;
}

/* Runs in a list, longest first, of which workers take the next as they come to an end (weft_plan_prepare()). */

/** The least time in which workers can take `count` runs of `size` leaves or more, in eighths of a leaf: some worker has as
 * many of them as the mean, or more. The largest of these over all sizes, and the mean of all, is what a list takes, or
 * little less. */
WEFT_INLINE int64_t weft_run_bound(const weft_runs *runs, int64_t count, int64_t size) {
    return (weft_divide(count - 1, &runs->by_workers) + 1) * (8 * size + WEFT_RUN_START);
}

WEFT_INLINE int64_t weft_run_mean(const weft_runs *runs, int64_t leaves, int64_t count) {
    return weft_divide(8 * leaves + WEFT_RUN_START * count, &runs->by_workers);
}

#endif
