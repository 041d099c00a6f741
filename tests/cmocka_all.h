/* SPDX-License-Identifier: Apache-2.0 */
/* cmocka, with the headers that it wants before it. A test that fails says which random case it was at. */
#ifndef WEFT_TESTS_CMOCKA_ALL_H
#define WEFT_TESTS_CMOCKA_ALL_H

/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include "random.h"

typedef struct random_test {
    void (*function)(void **state);
} random_test;

/* Failing jumps out of the test, past the end of the case, and then cmocka tears the test down. */
static inline void random_test_run(void **state) {
    ((random_test *)*state)->function(state);
    random_at()->drawn = 0;
}

static inline int random_test_end(void **state) {
    (void)state;
    random_report();
    return 0;
}

#undef cmocka_unit_test
#define cmocka_unit_test(f)                                                                                                \
    {                                                                                                                      \
#f, random_test_run, NULL, random_test_end, &(random_test) {                                                       \
            f                                                                                                              \
        }                                                                                                                  \
    }

#endif
