/* SPDX-License-Identifier: Apache-2.0 */
/* The cache of pieces: strict LRU against a naive one, what a draw from the oldest must still keep, and that it is a draw.
 */
#include <string.h>

#include "../cmocka_all.h"
#include "../random.h"
#include "sim/cache.h"

enum { IDS = 60, HEAVIEST = 20 };

/* The plainest LRU: pieces in an array, the youngest first. */
typedef struct naive {
    uint32_t id[IDS + 1];
    uint32_t weight_of[IDS];
    int count;
    int64_t weight;
} naive;

static int naive_find(const naive *n, uint32_t id) {
    for (int i = 0; i < n->count; i++) {
        if (n->id[i] == id) {
            return i;
        }
    }
    return -1;
}

static void naive_remove(naive *n, uint32_t id) {
    const int at = naive_find(n, id);
    if (at >= 0) {
        memmove(&n->id[at], &n->id[at + 1], (size_t)(n->count - at - 1) * sizeof *n->id);
        n->weight -= n->weight_of[id];
        n->count--;
    }
}

static void naive_insert(naive *n, uint32_t id, uint32_t weight) {
    memmove(&n->id[1], &n->id[0], (size_t)n->count * sizeof *n->id);
    n->id[0] = id;
    n->weight_of[id] = weight;
    n->weight += weight;
    n->count++;
}

/* Brings a piece in, or makes it the youngest. */
static void naive_access(naive *n, uint32_t id, uint32_t weight) {
    const uint32_t keeps = naive_find(n, id) >= 0 ? n->weight_of[id] : weight;
    naive_remove(n, id);
    naive_insert(n, id, keeps);
}

/* Sectors of the pieces that are younger than this one. */
static int64_t younger_than(const naive *n, uint32_t id) {
    int64_t sum = 0;
    for (int i = 0; n->id[i] != id; i++) {
        sum += n->weight_of[n->id[i]];
    }
    return sum;
}

static int cache_access(weft_cache *cache, uint32_t id, uint32_t weight) {
    const uint32_t slot = weft_cache_find(cache, id);
    if (slot != 0) {
        weft_cache_touch(cache, slot);
        return 1;
    }
    assert_int_not_equal(weft_cache_insert(cache, id, weight, 0.0), 0);
    return 0;
}

/* The cache's own books, against themselves and against the mirror. */
static void check_books(const weft_cache *cache, const naive *mirror) {
    int64_t young = 0, old = 0;
    int pieces = 0;
    uint32_t newer = 0, aged = 0;
    for (uint32_t slot = cache->slots[0].next; slot != 0; slot = cache->slots[slot].next) {
        assert_true(cache->slots[slot].listed != 0 && cache->slots[slot].listed <= cache->slots[slot].touched);
        assert_true(newer == 0 || cache->slots[slot].listed < cache->slots[newer].listed);
        assert_int_equal(cache->slots[slot].prev, newer);
        newer = slot;
        young += cache->slots[slot].weight;
        pieces++;
    }
    assert_int_equal(cache->slots[0].prev, newer);
    for (uint32_t page = 0; page < cache->old.pages; page++) {
        for (uint32_t slot = cache->old.first[page]; slot != 0; slot = cache->slots[slot].next) {
            assert_int_equal(cache->slots[slot].listed, 0);
            assert_true(cache->slots[slot].leaves >= cache->old.now);
            assert_int_equal(cache->slots[slot].leaves >> cache->old.day & (cache->old.pages - 1), page);
            old += cache->slots[slot].weight;
            aged++;
        }
    }
    assert_int_equal(aged, cache->old.count);
    pieces += (int)aged;
    assert_int_equal(young, cache->young_weight);
    assert_int_equal(young + old, cache->weight);
    assert_true(young <= cache->young_capacity);
    assert_int_equal(pieces, mirror->count);
    assert_int_equal(cache->weight, mirror->weight);
    for (uint32_t id = 0; id < IDS; id++) {
        const uint32_t slot = weft_cache_find(cache, id);
        assert_int_equal(slot != 0, naive_find(mirror, id) >= 0);
        if (slot != 0) {
            assert_int_equal(cache->slots[slot].id, id);
            assert_int_equal(cache->slots[slot].weight, mirror->weight_of[id]);
        }
    }
}

/* Slack 0: the same hits, and the same pieces thrown out, the oldest first. Weights differ, so that one large piece pushes
 * out several small ones and a small one leaves room to spare. */
static void strict_lru(void **state) {
    (void)state;
    uint64_t seed = random_seed(1);
    for (int round = 0; random_round(&seed, &round, 60); round++) {
        const int64_t capacity = random_between(&seed, 0, IDS * HEAVIEST / 2);
        const uint32_t heaviest = (uint32_t)random_between(&seed, 1, HEAVIEST);
        weft_cache cache;
        naive n;
        memset(&n, 0, sizeof n);
        assert_true(weft_cache_init(&cache, IDS, capacity, 0.0, random_bits(&seed)));
        for (int i = 0; i < 1500; i++) {
            const uint32_t id = (uint32_t)random_between(&seed, 0, i % 100 < 50 ? IDS - 1 : IDS / 4);
            const uint32_t weight = (uint32_t)random_between(&seed, 1, heaviest);
            const int hit = naive_find(&n, id) >= 0;
            naive_access(&n, id, weight);
            assert_int_equal(cache_access(&cache, id, weight), hit);
            uint32_t victim;
            while (weft_cache_evict(&cache, &victim)) {
                assert_true(n.weight > capacity);
                assert_int_equal(victim, n.id[n.count - 1]);
                naive_remove(&n, victim);
            }
            assert_true(n.weight <= capacity);
            check_books(&cache, &n);
        }
        weft_cache_release(&cache);
    }
}

/* With slack, whatever is done to the cache: it never keeps more than it can, its books balance, and unless pieces were
 * taken out by name no victim is younger than the young share. The list of the young falls short of that share by less
 * than one piece, the one that no longer went in. */
static void victims_are_old(void **state) {
    (void)state;
    uint64_t seed = random_seed(2);
    for (int round = 0; random_round(&seed, &round, 60); round++) {
        const int64_t capacity = random_between(&seed, 0, IDS * HEAVIEST / 2);
        const double slack = (double)random_between(&seed, 1, 20) / 20.0;
        const int removes = round % 2;
        weft_cache cache;
        naive n;
        memset(&n, 0, sizeof n);
        assert_true(weft_cache_init(&cache, IDS, capacity, slack, random_bits(&seed)));
        const double young_share = (1.0 - slack) * (double)capacity;
        for (int i = 0; i < 1500; i++) {
            const uint32_t id = (uint32_t)random_between(&seed, 0, IDS - 1);
            if (removes && random_between(&seed, 0, 3) == 0) {
                weft_cache_remove(&cache, id); /* there or not */
                naive_remove(&n, id);
            } else {
                const uint32_t weight = (uint32_t)random_between(&seed, 1, HEAVIEST);
                assert_int_equal(cache_access(&cache, id, weight), naive_find(&n, id) >= 0);
                naive_access(&n, id, weight);
            }
            uint32_t victim = IDS;
            while (weft_cache_evict(&cache, &victim)) {
                assert_true(n.weight > capacity);
                assert_true(naive_find(&n, victim) >= 0);
                assert_true(removes || (double)(younger_than(&n, victim) + HEAVIEST) > young_share - 1.0);
                naive_remove(&n, victim);
            }
            assert_true(cache.weight <= capacity);
            check_books(&cache, &n);
        }
        /* Slots are used again: no more than all pieces at once. */
        assert_true(cache.slots_used <= IDS + 1);
        weft_cache_release(&cache);
    }
}

/* Pieces of one size, one at a time: a victim is never one of the young. */
static void uniform_victims(void **state) {
    (void)state;
    enum { WEIGHT = 8, FIT = 40, OLD = 10 };
    uint64_t seed = random_seed(3);
    weft_cache cache;
    naive n;
    memset(&n, 0, sizeof n);
    int oldest = 0, others = 0;
    assert_true(weft_cache_init(&cache, IDS, FIT * WEIGHT, (double)OLD / FIT, 7));
    for (int i = 0; i < 20000; i++) {
        const uint32_t id = (uint32_t)random_between(&seed, 0, IDS - 1);
        cache_access(&cache, id, WEIGHT);
        naive_access(&n, id, WEIGHT);
        uint32_t victim;
        while (weft_cache_evict(&cache, &victim)) {
            const int64_t younger = younger_than(&n, victim) / WEIGHT;
            assert_true(younger >= FIT - OLD);
            *(younger == FIT ? &oldest : &others) += 1;
            naive_remove(&n, victim);
        }
    }
    assert_true(oldest > 0 && others > 0); /* a draw, not always the same end */
    weft_cache_release(&cache);
}

/* Every new piece pushes one out, and nothing is touched again: whoever is old leaves with the same chance each time, so
 * the time spent among the OLD old ones is geometric, of mean OLD and variance OLD (OLD - 1). */
static void memoryless_draws(void **state) {
    (void)state;
    enum { FIT = 200, OLD = 50, PIECES = 40000, SETTLED = 1000 };
    weft_cache cache;
    assert_true(weft_cache_init(&cache, PIECES, FIT, (double)OLD / FIT, 3));
    double count = 0, sum = 0, squares = 0;
    for (uint32_t id = 0; id < PIECES; id++) {
        uint32_t victim;
        assert_int_not_equal(weft_cache_insert(&cache, id, 1, 0.0), 0);
        if (weft_cache_evict(&cache, &victim) && id >= SETTLED) {
            const double stayed = (double)id - victim - (FIT - OLD);
            count++;
            sum += stayed;
            squares += stayed * stayed;
        }
    }
    const double mean = sum / count, variance = squares / count - mean * mean;
    assert_true(mean > 0.97 * OLD && mean < 1.03 * OLD);
    assert_true(variance > 0.9 * OLD * (OLD - 1) && variance < 1.1 * OLD * (OLD - 1));
    weft_cache_release(&cache);
}

/* A full cache of stale pieces: they take room, leave as others do, and are never told of. */
static void count_piece(void *context, uint32_t id, uint32_t weight) {
    int64_t *sum = context;
    assert_true(id < IDS);
    *sum += weight;
}

static void starts_full(void **state) {
    (void)state;
    for (int64_t capacity = 0; capacity < 5000; capacity += 1 + capacity / 7) {
        for (int i = 0; i < 3; i++) {
            weft_cache cache;
            assert_true(weft_cache_init(&cache, IDS, capacity, i / 2.0, 1));
            assert_true(weft_cache_fill(&cache));
            const int64_t stale = cache.weight;
            assert_true(i == 0 ? stale == 0 : stale <= capacity && stale > capacity - 1 - capacity / 2048 - 1);
            int64_t sum = 0, gone = 0, told = 0;
            for (uint32_t id = 0; id < IDS; id++) {
                cache_access(&cache, id, 1);
                uint32_t victim;
                while (weft_cache_evict(&cache, &victim)) {
                    assert_true(victim == WEFT_CACHE_STALE || weft_cache_find(&cache, victim) == 0);
                    gone += victim != WEFT_CACHE_STALE;
                }
            }
            assert_true(cache.weight <= capacity);
            weft_cache_list(&cache, count_piece, &told);
            for (uint32_t id = 0; id < IDS; id++) {
                sum += weft_cache_find(&cache, id) != 0;
            }
            assert_int_equal(sum, told);
            assert_int_equal(sum, IDS - gone);
            weft_cache_release(&cache);
        }
    }
}

/* Two caches that are asked the same, one after the other: pieces with the same draws leave together. */
static void same_draws_same_victims(void **state) {
    (void)state;
    weft_cache a, b;
    uint64_t seed = random_seed(9);
    assert_true(weft_cache_init(&a, IDS, 30, 0.5, 1));
    assert_true(weft_cache_init(&b, IDS, 30, 0.5, 1));
    for (int i = 0; i < 5000; i++) {
        const uint32_t id = (uint32_t)random_between(&seed, 0, IDS - 1);
        uint32_t victim_a, victim_b;
        assert_int_equal(cache_access(&a, id, 1), cache_access(&b, id, 1));
        b.slots[weft_cache_find(&b, id)].draw = a.slots[weft_cache_find(&a, id)].draw;
        while (weft_cache_evict(&a, &victim_a)) {
            assert_true(weft_cache_evict(&b, &victim_b));
            assert_int_equal(victim_a, victim_b);
        }
    }
    weft_cache_release(&a);
    weft_cache_release(&b);
}

static uint64_t victims_of(uint64_t cache_seed) {
    uint64_t seed = random_seed(4), digest = 0;
    weft_cache cache;
    assert_true(weft_cache_init(&cache, IDS, 300, 0.4, cache_seed));
    for (int i = 0; i < 5000; i++) {
        cache_access(&cache, (uint32_t)random_between(&seed, 0, IDS - 1), (uint32_t)random_between(&seed, 1, HEAVIEST));
        uint32_t victim;
        while (weft_cache_evict(&cache, &victim)) {
            digest = digest * UINT64_C(6364136223846793005) + victim + 1;
        }
    }
    weft_cache_release(&cache);
    return digest;
}

static void seeds_decide(void **state) {
    (void)state;
    assert_true(victims_of(1) == victims_of(1));
    assert_true(victims_of(1) != victims_of(2));
    assert_true(victims_of(1) != victims_of(UINT64_C(1) << 32 | 2)); /* the upper half counts too */
}

/* More pieces than the first allocation holds. */
static void grows(void **state) {
    (void)state;
    enum { MANY = 3000 };
    weft_cache cache;
    assert_true(weft_cache_init(&cache, MANY, MANY, 0.5, 1));
    for (uint32_t id = 0; id < MANY; id++) {
        assert_int_not_equal(weft_cache_insert(&cache, id, 1, (double)id), 0);
    }
    uint32_t victim;
    assert_false(weft_cache_evict(&cache, &victim));
    for (uint32_t id = 0; id < MANY; id++) {
        const uint32_t slot = weft_cache_find(&cache, id);
        assert_int_equal(cache.slots[slot].id, id);
        assert_true(cache.slots[slot].ready == (double)id);
    }
    assert_int_equal(cache.old.count, MANY / 2);
    weft_cache_release(&cache);
}

/* A slack of 1 with victims drawn at random. In a cyclic pass over n times the capacity a piece then survives
 * with probability exp(-m n), m being the share that misses: 1 - m = exp(-m n), which is m = 0.314 at n = 1.2. */
static void random_replacement(void **state) {
    (void)state;
    enum { CAPACITY = 500, PIECES = 600, PASSES = 200 };
    weft_cache cache;
    assert_true(weft_cache_init(&cache, PIECES, CAPACITY, 1.0, 7));
    int64_t misses = 0;
    for (uint32_t i = 0; i < PASSES * PIECES; i++) {
        const uint32_t slot = weft_cache_find(&cache, i % PIECES);
        uint32_t victim;
        if (slot != 0) {
            weft_cache_touch(&cache, slot);
        } else {
            misses += i >= PIECES * PASSES / 2; /* once it has settled */
            assert_true(weft_cache_insert(&cache, i % PIECES, 1, 0) != 0);
            while (weft_cache_evict(&cache, &victim)) {
            }
        }
    }
    const double share = (double)misses / (PIECES * PASSES / 2);
    assert_true(share > 0.29 && share < 0.34);
    weft_cache_release(&cache);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strict_lru),       cmocka_unit_test(victims_are_old), cmocka_unit_test(uniform_victims),
        cmocka_unit_test(memoryless_draws), cmocka_unit_test(starts_full),     cmocka_unit_test(same_draws_same_victims),
        cmocka_unit_test(seeds_decide),     cmocka_unit_test(grows),           cmocka_unit_test(random_replacement),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
