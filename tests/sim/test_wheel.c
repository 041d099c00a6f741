/* SPDX-License-Identifier: Apache-2.0 */
/* The timing wheel against a list of events that is searched for the next one. */
#include <string.h>

#include "../cmocka_all.h"
#include "../random.h"
#include "sim/wheel.h"

enum { WORKERS = 40 };

typedef struct naive {
    uint64_t tick[WORKERS], came[WORKERS]; /* came: 0 where the worker has no event */
    uint64_t count;
} naive;

static void put(weft_wheel *wheel, naive *n, uint32_t worker, double time) {
    weft_wheel_put(wheel, worker, time);
    n->tick[worker] = (uint64_t)(time * wheel->per_second);
    n->came[worker] = ++n->count;
}

/* The earliest tick, and of that whoever was put there first. */
static uint32_t next_of(const naive *n) {
    uint32_t next = WORKERS;
    for (uint32_t w = 0; w < WORKERS; w++) {
        if (n->came[w] != 0 && (next == WORKERS || n->tick[w] < n->tick[next] ||
                                (n->tick[w] == n->tick[next] && n->came[w] < n->came[next]))) {
            next = w;
        }
    }
    return next;
}

/* Steps of many lengths: within a tick, a bucket, a round, and many rounds ahead. */
static double random_wait(uint64_t *seed) {
    static const int64_t longest[] = {1, 8, 64, 1024, 65536, 1000000};
    return (double)random_between(seed, 0, 1000) / 1000.0 * (double)longest[random_between(seed, 0, 5)];
}

static void in_order(void **state) {
    (void)state;
    uint64_t seed = random_seed(1);
    for (int round = 0; random_round(&seed, &round, 60); round++) {
        const uint32_t workers = (uint32_t)random_between(&seed, 1, WORKERS);
        weft_wheel wheel;
        naive n;
        memset(&n, 0, sizeof n);
        assert_true(weft_wheel_init(&wheel, workers));
        for (uint32_t w = 0; w < workers; w++) {
            put(&wheel, &n, w, 0.0);
        }
        wheel.per_second = round % 3 ? 1.0 : 0.01; /* the second: nearly all within a bucket */
        for (int left = (int)workers, i = 0; left > 0; i++) {
            const uint32_t expected = next_of(&n), worker = weft_wheel_take(&wheel);
            assert_int_equal(worker, expected);
            n.came[worker] = 0;
            if (i < 3000) {
                put(&wheel, &n, worker, wheel.time[worker] + random_wait(&seed));
            } else {
                left--;
            }
        }
        weft_wheel_release(&wheel);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(in_order)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
