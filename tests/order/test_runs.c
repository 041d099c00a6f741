/* Runs of keys: they are all of a sequence's leaves, once; the level is the one that takes least; and no more runs are made
 * than there is room for. */
#include <weft/order/runs.h>

#include "../cmocka_all.h"
#include "../random.h"

enum { MOST = 40 };

typedef struct drawn {
    int32_t used[MOST], pad[MOST];
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
    }
    if (random_between(random, 0, 1)) {
        to->runs.sequences.lengths.kv_pad = to->pad;
    }
    if (random_between(random, 0, 1)) {
        to->runs.band.left = random_between(random, 0, keys);
        to->runs.band.right = 0;
    }
}

/* What a query of the sequence sees, to the key. */
static int is_seen(const drawn *d, int64_t number, int64_t key) {
    const weft_sequence s = weft_sequence_at(&d->runs.sequences, number);
    for (int64_t row = s.rows.begin; row < s.used_end; row++) {
        const weft_rows seen = weft_band_seen(&d->runs.band, &s, row);
        if (key >= seen.begin && key < seen.end) {
            return 1;
        }
    }
    return 0;
}

static void leaves_have_what_is_seen(void **state) {
    (void)state;
    uint64_t random = random_seed(61);
    for (int round = 0; random_round(&random, &round, 300); round++) {
        drawn d;
        draw(&random, &d);
        for (int64_t number = 0; number < d.runs.sequences.count; number++) {
            const weft_rows leaves = weft_run_leaves(&d.runs, number);
            for (int i = 0; i < 20; i++) {
                const int64_t key = random_between(&random, 0, d.runs.sequences.keys - 1);
                if (is_seen(&d, number, key)) {
                    assert_true(key / WEFT_LEAF >= leaves.begin && key / WEFT_LEAF < leaves.end);
                }
            }
            if (leaves.begin < leaves.end) { /* no leaf at either end is in vain */
                int first = 0, last = 0;
                for (int64_t key = 0; key < WEFT_LEAF; key++) {
                    first |= is_seen(&d, number, leaves.begin * WEFT_LEAF + key);
                    last |= is_seen(&d, number, (leaves.end - 1) * WEFT_LEAF + key);
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
        const int64_t count = weft_run_count(leaves, level), whole = weft_run_whole(leaves, level),
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
    const int64_t count = weft_run_count(leaves, level), whole = weft_run_whole(leaves, level);
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(leaves_have_what_is_seen),
        cmocka_unit_test(order_of_runs),
        cmocka_unit_test(levels),
        cmocka_unit_test(levels_alike),
        cmocka_unit_test(levels_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
