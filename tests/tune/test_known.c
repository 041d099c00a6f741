/* SPDX-License-Identifier: Apache-2.0 */
/* The table of tunings in memory: it forgets the oldest, and stays small. */
#include <stdlib.h>

#include "stores.h"
#include "tune/store/known.h"

/* A class of its own for each number. */
static weft_plan draft(int64_t number) {
    weft_attention p = WEFT_ATTENTION_INIT;
    weft_schedule s = WEFT_SCHEDULE_INIT;
    weft_plan plan;
    p.batch = p.heads = p.kv_heads = 1;
    p.seq = p.kv_seq = p.head_dim = 64;
    s.workers = number;
    assert_int_equal(weft_plan_draft(&plan, &p, &s, NULL, NULL), WEFT_OK);
    return plan;
}

static void put(int64_t number) {
    const weft_plan d = draft(number);
    const weft_tuned tuned = {.seconds = (double)number};
    weft_known_put(&d, &tuned);
}

static int knows(int64_t number) {
    const weft_plan d = draft(number);
    weft_tuned tuned = {.seconds = 0};
    return weft_known_find(&d, &tuned, NULL) == WEFT_OK && tuned.seconds == (double)number;
}

static void stays_small(void **state) {
    enum { CLASSES = 100000, RECENT = 4000 };
    (void)state;
    store_begin(); /* which is empty */
    weft_known_clear();
    for (int64_t i = 1; i <= CLASSES; i++) {
        put(i);
        const int64_t recent = i > RECENT ? i - RECENT : 1;
        if (!knows(recent) || !knows(i)) {
            fail_msg("after %d classes, %d or the last one is forgotten", (int)i, (int)recent);
        }
    }
    assert_false(knows(1));
    put(1); /* which is the latest now */
    put(1);
    assert_true(knows(1) && knows(CLASSES));
    const size_t bytes = weft_known_clear();
    assert_true(bytes > 0 && bytes <= (size_t)16 << 20);
    assert_false(knows(CLASSES));
    assert_true(weft_known_clear() > 0); /* that there is nothing is remembered, too */
    assert_int_equal(weft_known_clear(), 0);
    store_end();
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(stays_small)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
