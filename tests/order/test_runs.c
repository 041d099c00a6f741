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
        cmocka_unit_test(levels),
        cmocka_unit_test(levels_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
