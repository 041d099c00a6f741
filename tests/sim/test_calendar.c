/* SPDX-License-Identifier: Apache-2.0 */
/* The calendar of a cache's old pieces against a search of all of them. */
#include <stdlib.h>
#include <string.h>

#include "../cmocka_all.h"
#include "../random.h"
#include "sim/cache.h"

/* Adds, removes and takes, with few pieces and many: days become shorter and longer again. */
static void earliest_first(void **state) {
    (void)state;
    uint64_t seed = random_seed(1);
    for (int round = 0; random_round(&seed, &round, 20); round++) {
        const uint32_t room = 1 + (uint32_t)random_between(&seed, 1, round % 2 ? 20 : 800);
        weft_cache_slot *slots = calloc(room, sizeof *slots);
        int *there = calloc(room, sizeof *there);
        weft_calendar calendar;
        assert_true(slots && there && weft_calendar_init(&calendar));
        uint32_t count = 0;
        for (int i = 0; i < 4000; i++) {
            const uint32_t slot = (uint32_t)random_between(&seed, 1, room - 1);
            const int filling = i / 1000 % 2 == 0;
            if (!there[slot] && (filling || i % 4 == 0)) {
                const int power = (int)random_between(&seed, 0, 32);
                weft_calendar_add(&calendar, slots, slot, random_bits(&seed) >> (64 - 5 - power));
                there[slot] = 1;
                count++;
            } else if (there[slot] && i % 8 == 0) {
                weft_calendar_remove(&calendar, slots, slot);
                there[slot] = 0;
                count--;
            } else if (count > 0 && (!filling || i % 3 == 0)) {
                uint64_t least = UINT64_MAX;
                for (uint32_t s = 1; s < room; s++) {
                    least = there[s] && slots[s].leaves < least ? slots[s].leaves : least;
                }
                const uint32_t taken = weft_calendar_take(&calendar, slots);
                assert_true(there[taken]);
                assert_true(slots[taken].leaves == least && calendar.now == least);
                there[taken] = 0;
                count--;
            }
            assert_int_equal(calendar.count, count);
        }
        weft_calendar_release(&calendar);
        free(slots);
        free(there);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(earliest_first)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
