/* SPDX-License-Identifier: Apache-2.0 */
/* Division by a prepared divisor is exact wherever weft uses it. */
#include "../cmocka_all.h"
#include "../random.h"

#include <weft/order.h>

static void check(int64_t n, uint64_t d) {
    const weft_divisor divisor = weft_divisor_make(d);
    int64_t rest = n;
    const int64_t quotient = weft_divide_off(&rest, &divisor);
    assert_int_equal(quotient, n / (int64_t)d);
    assert_int_equal(rest, n % (int64_t)d);
    const uint32_t low = (uint32_t)n;
    assert_int_equal(weft_divide_short(low, &divisor), low / d);
}

static void every_small_pair(void **state) {
    (void)state;
    for (uint64_t d = 1; d <= 300; d++) {
        for (int64_t n = 0; n <= 1200; n++) {
            check(n, d);
        }
    }
}

static void edges_of_every_size(void **state) {
    (void)state;
    uint64_t random = random_seed(1);
    for (int bits = 0; bits <= 62; bits++) {
        for (int i = 0; random_round(&random, &i, 400); i++) {
            uint64_t d = (random_bits(&random) >> 1) >> (62 - bits);
            d = d == 0 ? 1 : d > UINT64_C(1) << 62 ? UINT64_C(1) << 62 : d;
            const int64_t most = INT64_MAX / (int64_t)d;
            const int64_t multiple = random_between(&random, 0, most) * (int64_t)d;
            check(multiple, d); /* where a quotient that is one too small or too large would show */
            check(multiple > 0 ? multiple - 1 : 0, d);
            check(most * (int64_t)d, d);
            check(INT64_MAX, d);
            check((int64_t)(random_bits(&random) >> 1), d);
        }
    }
}

static void powers_of_two(void **state) {
    (void)state;
    for (int bits = 0; bits <= 62; bits++) {
        for (int other = 0; other <= 62; other++) {
            check(INT64_C(1) << other, UINT64_C(1) << bits);
            check((INT64_C(1) << other) - 1, UINT64_C(1) << bits);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_small_pair), cmocka_unit_test(edges_of_every_size),
                                       cmocka_unit_test(powers_of_two)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
