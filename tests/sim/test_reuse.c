/* SPDX-License-Identifier: Apache-2.0 */
/* Reuse distances: against a naive stack, against caches of every size, and against the closed forms. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../cmocka_all.h"
#include "../random.h"
#include "sim/cache.h"
#include "sim/reuse.h"
#include <weft/model.h>

enum { MOST_IDS = 80, BIN = WEFT_REUSE_BIN };

/* The stack itself: pieces by age, the youngest first, and the histogram that follows from it. */
typedef struct stack {
    uint32_t id[MOST_IDS + 1];
    int count;
    uint64_t histogram[4096], bins, cold, touched;
} stack;

static void stack_touch(stack *s, uint32_t id, const uint32_t *weight_of) {
    uint64_t distance = 0;
    int at = 0;
    while (at < s->count && s->id[at] != id) {
        distance += weight_of[s->id[at++]];
    }
    distance += weight_of[id]; /* a piece must fit together with what came after it */
    s->touched += weight_of[id];
    if (at == s->count) {
        s->cold += weight_of[id];
        s->count++;
    } else {
        s->histogram[distance / BIN] += weight_of[id];
    }
    memmove(&s->id[1], &s->id[0], (size_t)at * sizeof *s->id);
    s->id[0] = id;
}

static void check_histogram(const weft_reuse *reuse, const stack *s) {
    assert_int_equal(reuse->cold, s->cold);

    uint64_t warm = 0;
    for (uint64_t bin = 0; bin < reuse->bins; bin++) {
        assert_int_equal(reuse->histogram[bin], s->histogram[bin]);
        warm += reuse->histogram[bin];
    }
    assert_int_equal(warm + reuse->cold, s->touched);
}

/* A mix of habits: anywhere, close by, again at once, round and round. */
static uint32_t next_id(uint64_t *seed, uint32_t ids, uint32_t before, int i) {
    switch (i / 64 % 4) {
    case 0:
        return (uint32_t)random_between(seed, 0, ids - 1);
    case 1:
        return (uint32_t)random_between(seed, 0, (ids - 1) / 4);
    case 2:
        return random_between(seed, 0, 1) ? before : (uint32_t)random_between(seed, 0, ids - 1);
    default:
        return (before + 1) % ids;
    }
}

/* The tree has room for 2 ids + 64 moments: this many touches number them anew dozens of times. */
static void naive_stack(void **state) {
    (void)state;
    uint64_t seed = random_seed(1);
    for (int round = 0; random_round(&seed, &round, 40); round++) {
        const uint32_t ids = (uint32_t)random_between(&seed, 1, MOST_IDS);
        uint32_t weight_of[MOST_IDS], id = 0;
        uint64_t sectors = 0;
        for (uint32_t i = 0; i < ids; i++) {
            weight_of[i] = (uint32_t)random_between(&seed, 1, 300);
            sectors += weight_of[i];
        }
        weft_reuse reuse;
        stack *s = calloc(1, sizeof *s);
        assert_non_null(s);
        assert_true(weft_reuse_init(&reuse, ids, sectors));
        for (int i = 0; i < 6000; i++) {
            id = next_id(&seed, ids, id, i);
            weft_reuse_read(&reuse, id, weight_of[id]);
            stack_touch(s, id, weight_of);
        }
        check_histogram(&reuse, s);
        assert_int_equal(weft_reuse_misses(&reuse, sectors), reuse.cold); /* all of it fits */
        weft_reuse_release(&reuse);
        free(s);
    }
}

/* Touches the same pieces in a strict LRU cache, and counts the sectors that were not there. */
typedef struct counted_cache {
    weft_cache cache;
    uint64_t misses;
} counted_cache;

static void cache_touch(counted_cache *c, uint32_t id, uint32_t weight) {
    const uint32_t slot = weft_cache_find(&c->cache, id);
    if (slot != 0) {
        weft_cache_touch(&c->cache, slot);
        return;
    }
    uint32_t victim;
    c->misses += weight;
    assert_int_not_equal(weft_cache_insert(&c->cache, id, weight, 0.0), 0);
    while (weft_cache_evict(&c->cache, &victim)) {
    }
}

/* One pass over the distances says what each cache misses. Distances are kept in bins, so the weights are whole bins:
 * either all pieces alike, or each its own. */
static void caches_of_every_size(void **state) {
    (void)state;
    enum { SIZES = 12 };
    uint64_t seed = random_seed(2);
    for (int round = 0; random_round(&seed, &round, 30); round++) {
        const uint32_t ids = (uint32_t)random_between(&seed, 2, MOST_IDS);
        const uint32_t common = (uint32_t)random_between(&seed, 1, 6);
        uint32_t weight_of[MOST_IDS], id = 0;
        uint64_t sectors = 0;
        for (uint32_t i = 0; i < ids; i++) {
            weight_of[i] = BIN * (round % 2 ? (uint32_t)random_between(&seed, 1, 30) : common);
            sectors += weight_of[i];
        }
        weft_reuse reuse;
        counted_cache caches[SIZES];
        assert_true(weft_reuse_init(&reuse, ids, sectors));
        for (int c = 0; c < SIZES; c++) { /* from one bin to everything, and not only whole bins */
            const int64_t capacity = BIN + (int64_t)(sectors - BIN) * c / (SIZES - 1);
            assert_true(weft_cache_init(&caches[c].cache, ids, capacity, 0.0, 1));
            caches[c].misses = 0;
        }
        for (int i = 0; i < 4000; i++) {
            id = next_id(&seed, ids, id, i);
            weft_reuse_read(&reuse, id, weight_of[id]);
            for (int c = 0; c < SIZES; c++) {
                cache_touch(&caches[c], id, weight_of[id]);
            }
        }
        for (int c = 0; c < SIZES; c++) {
            assert_int_equal(weft_reuse_misses(&reuse, (uint64_t)caches[c].cache.capacity), caches[c].misses);
            weft_cache_release(&caches[c].cache);
        }
        weft_reuse_release(&reuse);
    }
}

/* Passes over n pieces, all upward or up and down in turn: misses over distinct sectors, for each capacity in pieces. */
static void closed_forms(void **state) {
    (void)state;
    enum { N = 50, PASSES = 9, WEIGHT = 3 * BIN };
    for (int sawtooth = 0; sawtooth < 2; sawtooth++) {
        weft_reuse reuse;
        assert_true(weft_reuse_init(&reuse, N, N * WEIGHT));
        for (int pass = 0; pass < PASSES; pass++) {
            for (uint32_t i = 0; i < N; i++) {
                weft_reuse_read(&reuse, sawtooth && pass % 2 ? N - 1 - i : i, WEIGHT);
            }
        }
        for (uint64_t capacity = WEIGHT; capacity <= (N + 2) * WEIGHT; capacity += BIN) {
            const uint64_t misses = weft_reuse_misses(&reuse, capacity);
            const double form = weft_model_passes(N * WEIGHT, (double)capacity, PASSES, sawtooth);
            const uint64_t pieces = capacity / WEIGHT;
            /* A piece that does not fit whole does not fit: at each turn, that much less is kept. */
            assert_true(fabs((double)misses / (N * WEIGHT) - form) <= (PASSES - 1) * 1.0 / N);
            if (capacity % WEIGHT == 0) {
                assert_true(fabs((double)misses / (N * WEIGHT) - form) < 1e-12);
            }
            if (pieces >= N) {
                assert_int_equal(misses, N * WEIGHT);
            } else if (sawtooth) {
                assert_int_equal(misses, (N + (PASSES - 1) * (N - pieces)) * WEIGHT);
            } else {
                assert_int_equal(misses, N * PASSES * WEIGHT);
            }
        }
        weft_reuse_release(&reuse);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(naive_stack),
        cmocka_unit_test(caches_of_every_size),
        cmocka_unit_test(closed_forms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
