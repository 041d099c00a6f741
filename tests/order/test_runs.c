/* SPDX-License-Identifier: Apache-2.0 */
/* Runs of keys: they are all of a sequence's leaves, once; the level is the one that takes least; and no more runs are made
 * than there is room for. */
#include <stdlib.h>
#include <weft/order/runs.h>

#include "../cmocka_all.h"
#include "../random.h"

enum { MOST = 40 };

typedef struct drawn {
    int32_t used[MOST], pad[MOST], q_used[MOST];
    weft_runs runs;
} drawn;

static void draw(uint64_t *random, drawn *to) {
    const int64_t keys = random_between(random, 1, 1 << random_between(random, 1, 26));
    to->runs = (weft_runs){.sequences = {.count = random_between(random, 1, MOST),
                                         .queries = random_between(random, 1, 8),
                                         .keys = keys,
                                         .lengths = {.kv_used = to->used}},
                           .band = {.left = WEFT_BAND_OPEN, .right = WEFT_BAND_OPEN, .from_end = 1},
                           .tiles = random_between(random, 1, 16),
                           .by_workers = weft_divisor_make((uint64_t)random_between(random, 1, 300))};
    for (int i = 0; i < MOST; i++) {
        to->used[i] = (int32_t)random_between(random, 0, keys);
        to->pad[i] = (int32_t)random_between(random, 0, keys);
        to->q_used[i] = (int32_t)random_between(random, 0, to->runs.sequences.queries);
    }
    if (random_between(random, 0, 1)) {
        to->runs.sequences.append = random_between(random, 1, keys);
        to->runs.sequences.lengths.q_used = to->q_used;
    }
    if (random_between(random, 0, 1)) {
        to->runs.sequences.lengths.kv_pad = to->pad;
    }
    if (random_between(random, 0, 1)) {
        to->runs.band.left = random_between(random, 0, keys);
        to->runs.band.right = 0;
    }
}

/* What a query of the sequence sees, to the key, and what is appended. */
static int is_needed(const drawn *d, int64_t number, int64_t key) {
    const weft_sequence s = weft_sequence_at(&d->runs.sequences, number);
    const weft_rows added = weft_sequence_added(&d->runs.sequences, number);
    if (key >= added.begin && key < added.end) {
        return 1;
    }
    for (int64_t row = s.rows.begin; row < s.used_end; row++) {
        const weft_rows seen = weft_band_seen(&d->runs.band, &s, row);
        if (key >= seen.begin && key < seen.end) {
            return 1;
        }
    }
    return 0;
}

static void leaves_have_what_is_needed(void **state) {
    (void)state;
    uint64_t random = random_seed(61);
    for (int round = 0; random_round(&random, &round, 300); round++) {
        drawn d;
        draw(&random, &d);
        for (int64_t number = 0; number < d.runs.sequences.count; number++) {
            const weft_rows leaves = weft_run_leaves(&d.runs, number);
            for (int i = 0; i < 20; i++) {
                const int64_t key = random_between(&random, 0, d.runs.sequences.keys - 1);
                if (is_needed(&d, number, key)) {
                    assert_true(key / WEFT_LEAF >= leaves.begin && key / WEFT_LEAF < leaves.end);
                }
            }
            if (leaves.begin < leaves.end) { /* no leaf at either end is in vain */
                int first = 0, last = 0;
                for (int64_t key = 0; key < WEFT_LEAF; key++) {
                    first |= is_needed(&d, number, leaves.begin * WEFT_LEAF + key);
                    last |= is_needed(&d, number, (leaves.end - 1) * WEFT_LEAF + key);
                }
                assert_true(first && last);
            }
        }
    }
}

/* Whole runs come first, and every run once. */
static void order_of_runs(void **state) {
    (void)state;
    uint64_t random = random_seed(68);
    for (int round = 0; random_round(&random, &round, 3000); round++) {
        const int64_t begin = random_between(&random, 0, 300), end = random_between(&random, begin, 400);
        const weft_rows leaves = {begin, end};
        const int32_t level = (int32_t)random_between(&random, 0, 8);
        const int64_t count = weft_run_count(leaves, level), whole = weft_run_sizes_of(leaves, level).whole,
                      size = INT64_C(1) << level;
        int64_t seen = 0, met[402] = {0};
        for (int64_t i = 0; i < count; i++) {
            const int64_t number = weft_run_number(leaves, level, count, whole, i),
                          node = ((begin >> level) + number) * size;
            assert_true(number >= 0 && number < count && !met[number]++);
            const int64_t mine = weft_smaller(end, node + size) - weft_larger(begin, node);
            assert_true(begin == end ? mine <= 0 : (mine == size) == (i < whole));
            seen += weft_larger(mine, 0);
        }
        assert_int_equal(seen, end - begin);
    }
}

static void levels(void **state) {
    (void)state;
    uint64_t random = random_seed(62);
    for (int round = 0; random_round(&random, &round, 2000); round++) {
        drawn d;
        int64_t leaves = 0, longest = 0;
        int32_t counts[WEFT_RUN_LEVELS] = {0};
        draw(&random, &d);
        for (int64_t number = 0; number < d.runs.sequences.count; number++) {
            const weft_rows mine = weft_run_leaves(&d.runs, number);
            leaves += (mine.end - mine.begin) * d.runs.tiles;
            longest = weft_larger(longest, mine.end - mine.begin);
            for (int32_t i = 0; i < WEFT_RUN_LEVELS; i++) {
                const int64_t runs = weft_run_count(mine, i);
                assert_true(runs >= 1 && runs <= weft_larger(mine.end - mine.begin, 1));
                counts[i] += (int32_t)(runs * d.runs.tiles);
            }
        }
        const int32_t level = weft_run_level(&d.runs, leaves, longest, counts);
        const int64_t most = weft_run_most(&d.runs);
        const int64_t least = weft_run_time(&d.runs, leaves, counts[level], longest, level);
        assert_true(counts[level] <= most);
        for (int32_t i = 0; i < WEFT_RUN_LEVELS; i++) {
            assert_true(counts[i] > most || weft_run_time(&d.runs, leaves, counts[i], longest, i) >= least);
        }
    }
}

/* As long as runs of a level take if they are dealt out whole ones first, in eighths of a leaf. */
static int64_t dealt(const weft_runs *runs, weft_rows leaves, int32_t level) {
    const int64_t workers = (int64_t)runs->by_workers.value, lines = runs->sequences.count * runs->tiles;
    const int64_t count = weft_run_count(leaves, level), whole = weft_run_sizes_of(leaves, level).whole;
    int64_t *ends = calloc((size_t)workers, sizeof *ends), at = 0, last = 0;
    assert_non_null(ends);
    for (int others = 0; others < 2; others++) {
        for (int64_t i = 0; i < lines * (others ? count - whole : whole); i++, at++) {
            const int64_t place = others ? whole + i % (count - whole) : 0;
            const int64_t node = (leaves.begin >> level) + weft_run_number(leaves, level, count, whole, place);
            const int64_t run = weft_smaller(leaves.end, (node + 1) << level) - weft_larger(leaves.begin, node << level);
            ends[at % workers] += 8 * run + WEFT_RUN_START;
            last = weft_larger(last, ends[at % workers]);
        }
    }
    free(ends);
    return last;
}

/* Where all sequences are alike: no level is better by more than the shorter runs may differ. */
static void levels_alike(void **state) {
    (void)state;
    uint64_t random = random_seed(69);
    for (int round = 0; random_round(&random, &round, 300); round++) {
        const weft_runs runs = {.sequences = {.count = random_between(&random, 1, MOST), .keys = 400 * WEFT_LEAF},
                                .tiles = random_between(&random, 1, 8),
                                .by_workers = weft_divisor_make((uint64_t)random_between(&random, 1, 300))};
        const weft_rows leaves = {0, random_between(&random, 1, 400)}; /* then the others are alike, too */
        const int32_t level = weft_run_level_alike(&runs, leaves);
        const int64_t mine = dealt(&runs, leaves, level), lines = runs.sequences.count * runs.tiles;
        assert_true(weft_run_count(leaves, level) * lines <= weft_run_most(&runs));
        for (int32_t i = 0; i < WEFT_RUN_LEVELS; i++) {
            assert_true(weft_run_count(leaves, i) * lines > weft_run_most(&runs) || dealt(&runs, leaves, i) >= mine);
        }
    }
}

/* The level that a sequence's own leaves decide on: no more runs than there is room for, whatever key they begin with, and
 * never shorter ones of a longer sequence. */
static void levels_alone(void **state) {
    (void)state;
    uint64_t random = random_seed(67);
    int32_t last = 0;
    for (int64_t leaves = 0; leaves < 5000; leaves++) {
        const int32_t level = weft_run_level_alone(leaves);
        assert_true(level == last || level == last + 1);
        assert_true(INT64_C(4) << 2 * level >= leaves && (level == 0 || INT64_C(1) << 2 * level < leaves));
        last = level;
    }
    for (int round = 0; random_round(&random, &round, 3000); round++) {
        const int64_t most = random_between(&random, 1, 1 << random_between(&random, 1, 23));
        const int64_t begin = random_between(&random, 0, most - 1), end = random_between(&random, begin, most);
        const weft_rows leaves = {begin, end};
        assert_true(weft_run_count(leaves, weft_run_level_alone(end - begin)) <= weft_run_most_alone(most));
    }
}

/* The runs of a list by their leaves: whole ones are those of the level, and all together are all leaves. */
static void sizes(void **state) {
    (void)state;
    uint64_t random = random_seed(68);
    for (int round = 0; random_round(&random, &round, 20000); round++) {
        const int32_t level = (int32_t)random_between(&random, 0, WEFT_RUN_LEVELS - 1);
        const int64_t begin = random_between(&random, 0, 3 << level), end = begin + random_between(&random, 0, 5 << level);
        const weft_rows leaves = {begin, end};
        const weft_run_sizes s = weft_run_sizes_of(leaves, level);
        const int64_t size = INT64_C(1) << level, runs = (s.first > 0) + (s.last > 0) + s.whole;
        assert_true(s.first >= 0 && s.first < size && s.last >= 0 && s.last < size && s.whole >= 0);
        assert_int_equal(s.first + s.last + s.whole * size, end - begin);
        assert_int_equal(begin < end ? runs : 1, begin < end ? weft_run_count(leaves, level) : 1);
    }
}

enum { WORKERS = 264, TILES = 8, SEQUENCES = 32 };

/* How long the last of the workers takes, in eighths of a leaf, by runs in this order: worker w takes runs w, w + workers,
 * ..., or the first that is free takes the next. */
static int64_t last_of(const int64_t *runs, int64_t count, int by_turns) {
    int64_t times[WORKERS] = {0}, last = 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t who = i % WORKERS;
        for (int64_t j = 0; j < WORKERS && !by_turns; j++) {
            who = times[j] < times[who] ? j : who;
        }
        times[who] += 8 * runs[i] + WEFT_RUN_START;
        last = weft_larger(last, times[who]);
    }
    return last;
}

static int compare_down(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x < y) - (x > y);
}

/* The runs of a level sequence by sequence, a tile at a time. */
static int64_t list_runs(const int64_t *leaves, int32_t level, int64_t *runs) {
    int64_t count = 0;
    for (int i = 0; i < SEQUENCES; i++) {
        for (int64_t begin = 0; begin < leaves[i]; begin += INT64_C(1) << level) {
            for (int tile = 0; tile < TILES; tile++) {
                runs[count++] = weft_smaller(leaves[i] - begin, INT64_C(1) << level);
            }
        }
    }
    return count;
}

/* The time of a list by weft_run_bound() and weft_run_mean(); `runs` is sorted. */
static int64_t time_of(const weft_runs *of, const int64_t *runs, int64_t count) {
    int64_t leaves = 0, time = 0;
    for (int64_t i = 0; i < count; i++) {
        leaves += runs[i];
        time = weft_larger(time, weft_run_bound(of, i + 1, runs[i]));
    }
    return weft_larger(time, weft_run_mean(of, leaves, count));
}

/* A list takes no less than its bounds, and for lengths from 1 to 64K, in the mean, a twentieth less than runs in the order
 * of sequences at the level that suits these. */
static void lists(void **state) {
    (void)state;
    enum { ROUNDS = 60, MOST_RUNS = SEQUENCES * TILES * 256 };
    static int64_t runs[MOST_RUNS];
    const weft_runs of = {.sequences = {.count = SEQUENCES, .queries = 1, .keys = 1 << 16},
                          .tiles = TILES,
                          .by_workers = weft_divisor_make(WORKERS)};
    uint64_t random = random_seed(69);
    double share = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int64_t leaves[SEQUENCES], all = 0, longest = 0, least = INT64_MAX;
        int32_t counts[WEFT_RUN_LEVELS], best = 0;
        for (int i = 0; i < SEQUENCES; i++) {
            const int64_t below = INT64_C(1) << random_between(&random, 0, 8);
            leaves[i] = random_between(&random, (below + 1) / 2, below);
            all += leaves[i] * TILES;
            longest = weft_larger(longest, leaves[i]);
        }
        for (int32_t level = WEFT_RUN_LEVELS - 1; level >= 0; level--) {
            counts[level] = (int32_t)list_runs(leaves, level, runs);
            qsort(runs, (size_t)counts[level], sizeof *runs, compare_down);
            const int64_t time = time_of(&of, runs, counts[level]);
            assert_true(last_of(runs, counts[level], 0) >= time);
            if (counts[level] <= weft_run_most(&of) && time < least) {
                least = time;
                best = level;
            }
        }
        int64_t count = list_runs(leaves, best, runs);
        qsort(runs, (size_t)count, sizeof *runs, compare_down);
        const int64_t listed = last_of(runs, count, 0);
        count = list_runs(leaves, weft_run_level(&of, all, longest, counts), runs);
        share += (double)listed / (double)last_of(runs, count, 1) / ROUNDS;
    }
    assert_true(share < 0.95);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes),         cmocka_unit_test(lists),  cmocka_unit_test(leaves_have_what_is_needed),
        cmocka_unit_test(order_of_runs), cmocka_unit_test(levels), cmocka_unit_test(levels_alike),
        cmocka_unit_test(levels_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
