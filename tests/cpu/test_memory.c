/* SPDX-License-Identifier: Apache-2.0 */
/* Scratch memory of the CPU: it is kept, used again and given back, by any number of threads at once. */
#include "../cmocka_all.h"

#include <pthread.h>
#include <string.h>

#include <weft/weft.h>

#include "cpu/memory.h"

static void kept_and_given_back(void **state) {
    enum { BYTES = 1 << 20 };
    (void)state;
    weft_release_memory();
    char *held = weft_cpu_alloc(BYTES), *other = weft_cpu_alloc(BYTES);
    assert_true(held && other);
    memset(held, 7, BYTES);
    weft_cpu_free(other);
    const size_t kept = weft_release_memory(); /* nothing under the address sanitizer */
    assert_true(kept == 0 || (kept >= BYTES && kept < 2 * BYTES));
    assert_int_equal(weft_release_memory(), 0);
    for (int i = 0; i < BYTES; i++) {
        assert_int_equal(held[i], 7); /* what is in use stays */
    }
    weft_cpu_free(held);
    assert_int_equal(weft_release_memory(), kept);
    assert_int_equal(weft_release_memory(), 0);
}

/* All that is kept can be kept again: releasing leaves the account right. */
static void releasing_keeps_count(void **state) {
    enum { BYTES = 100 << 20 };
    (void)state;
    size_t first = 0;
    for (int i = 0; i < 5; i++) {
        weft_cpu_free(weft_cpu_alloc(BYTES));
        const size_t kept = weft_release_memory();
        first = i == 0 ? kept : first;
        assert_int_equal(kept, first);
    }
}

static void *use(void *argument) {
    const size_t seed = (size_t)(uintptr_t)argument;
    for (size_t i = 0; i < 2000; i++) {
        const size_t bytes = 64 + (i * 2654435761u + seed * 40503u) % 100000;
        char *buffer = weft_cpu_alloc(bytes);
        assert_non_null(buffer);
        memset(buffer, (int)seed, bytes);
        if (i % 5 == seed) {
            weft_release_memory();
        }
        assert_int_equal(buffer[bytes - 1], (char)seed);
        weft_cpu_free(buffer);
    }
    return NULL;
}

static void threads(void **state) {
    enum { THREADS = 4 };
    (void)state;
    pthread_t handles[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&handles[i], NULL, use, (void *)(i + 1)), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(handles[i], NULL);
    }
    weft_release_memory();
    assert_int_equal(weft_release_memory(), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(kept_and_given_back), cmocka_unit_test(releasing_keeps_count),
                                       cmocka_unit_test(threads)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
