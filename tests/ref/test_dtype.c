/* SPDX-License-Identifier: Apache-2.0 */
/* Storage formats: every pattern survives, every rounding goes to the nearest, ties to even. */
#include "tensors.h"

typedef struct format {
    weft_dtype dtype;
    uint16_t infinity; /* the pattern; one less is the largest finite value */
} format;

static const format formats[] = {{WEFT_FP16, 0x7c00}, {WEFT_BF16, 0x7f80}};

static double value_of(weft_dtype dtype, uint16_t pattern) {
    return weft_ref_load(dtype, &pattern, 0);
}

static uint16_t pattern_of(weft_dtype dtype, double value) {
    uint16_t pattern;
    weft_ref_store(dtype, &pattern, 0, value);
    return pattern;
}

/* The value that follows the largest finite one if exponents went on: where overflow begins is half-way to it. */
static double magnitude(format f, uint16_t pattern) {
    const double last = value_of(f.dtype, (uint16_t)(f.infinity - 1));
    return pattern == f.infinity ? last + (last - value_of(f.dtype, (uint16_t)(f.infinity - 2)))
                                 : value_of(f.dtype, pattern);
}

static void known_values(void **state) {
    (void)state;
    assert_true(value_of(WEFT_FP16, 0x3c00) == 1.0);
    assert_true(value_of(WEFT_FP16, 0xc000) == -2.0);
    assert_true(value_of(WEFT_FP16, 0x7bff) == 65504.0);
    assert_true(value_of(WEFT_FP16, 0x0400) == 0x1p-14);
    assert_true(value_of(WEFT_FP16, 0x0001) == 0x1p-24);
    assert_true(value_of(WEFT_FP16, 0x3555) == 0x1.554p-2);
    assert_true(value_of(WEFT_BF16, 0x3f80) == 1.0);
    assert_true(value_of(WEFT_BF16, 0x4049) == 3.140625);
    assert_true(value_of(WEFT_BF16, 0x0080) == 0x1p-126);
    assert_true(value_of(WEFT_BF16, 0x0001) == 0x1p-133);
    assert_int_equal(pattern_of(WEFT_FP16, 65519.999), 0x7bff);
    assert_int_equal(pattern_of(WEFT_FP16, 65520.0), 0x7c00);
    assert_int_equal(pattern_of(WEFT_FP16, -1e300), 0xfc00);
    assert_int_equal(pattern_of(WEFT_FP16, -1e-300), 0x8000);
    assert_int_equal(pattern_of(WEFT_FP16, 5e-324), 0x0000);
}

static void every_pattern_survives(void **state) {
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        const format f = formats[i];
        for (uint32_t bits = 0; bits <= UINT16_MAX; bits++) {
            const uint16_t pattern = (uint16_t)bits;
            const uint16_t back = pattern_of(f.dtype, value_of(f.dtype, pattern));
            if ((pattern & 0x7fff) <= f.infinity) {
                assert_int_equal(back, pattern);
            } else { /* a NaN keeps its sign and may only turn quiet */
                assert_true(isnan(value_of(f.dtype, pattern)));
                assert_true(isnan(value_of(f.dtype, back)));
                assert_int_equal(back & pattern, pattern);
                assert_int_equal(back >> 15, pattern >> 15);
            }
        }
    }
}

static void every_halfway_goes_to_even(void **state) {
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        const format f = formats[i];
        for (uint16_t low = 0; low < f.infinity; low++) {
            const uint16_t high = (uint16_t)(low + 1);
            const double middle = (magnitude(f, low) + magnitude(f, high)) / 2; /* exact: one more bit than the format's */
            assert_int_equal(pattern_of(f.dtype, middle), low % 2 == 0 ? low : high);
            assert_int_equal(pattern_of(f.dtype, -middle), (low % 2 == 0 ? low : high) | 0x8000);
            /* A double right beside the middle: through float it would become the middle itself. */
            assert_int_equal(pattern_of(f.dtype, nextafter(middle, 0)), low);
            assert_int_equal(pattern_of(f.dtype, nextafter(middle, INFINITY)), high);
            assert_int_equal(pattern_of(f.dtype, -nextafter(middle, INFINITY)), high | 0x8000);
        }
    }
}

/* The nearest pattern for x >= 0 by looking for its neighbours. Near the middle the differences are exact. */
static uint16_t nearest(format f, double x) {
    uint16_t low = 0, high = f.infinity;
    if (x >= magnitude(f, high)) {
        return high;
    }
    while (high - low > 1) {
        const uint16_t middle = (uint16_t)((low + high) / 2);
        *(magnitude(f, middle) <= x ? &low : &high) = middle;
    }
    const double below = x - magnitude(f, low), above = magnitude(f, high) - x;
    return below < above || (below == above && low % 2 == 0) ? low : high;
}

static void random_doubles_go_to_the_nearest(void **state) {
    (void)state;
    uint64_t seed = random_seed(1);
    for (size_t i = 0; i < 2; i++) {
        const format f = formats[i];
        const int low = f.dtype == WEFT_FP16 ? -28 : -137, high = f.dtype == WEFT_FP16 ? 18 : 130;
        for (int n = 0; random_round(&seed, &n, 200000); n++) {
            const double x = ldexp(1 + fabs(random_even(&seed)), (int)random_between(&seed, low, high));
            assert_int_equal(pattern_of(f.dtype, x), nearest(f, x));
            assert_int_equal(pattern_of(f.dtype, -x), nearest(f, x) | 0x8000);
        }
    }
}

static void fp32_is_float(void **state) {
    (void)state;
    uint64_t seed = random_seed(2);
    for (int n = 0; random_round(&seed, &n, 10000); n++) {
        const double x = ldexp(random_even(&seed), (int)random_between(&seed, -160, 130));
        assert_true(weft_ref_round(WEFT_FP32, x) == (double)(float)x);
    }
    assert_true(isnan(weft_ref_round(WEFT_FP32, NAN)));
    assert_true(weft_ref_round(WEFT_FP32, 1e300) == INFINITY);
}

static void special_values_round(void **state) {
    (void)state;
    const weft_dtype all[] = {WEFT_FP32, WEFT_FP16, WEFT_BF16};
    for (size_t i = 0; i < 3; i++) {
        assert_true(isnan(weft_ref_round(all[i], NAN)));
        assert_true(weft_ref_round(all[i], INFINITY) == INFINITY);
        assert_true(weft_ref_round(all[i], -INFINITY) == -INFINITY);
        assert_true(signbit(weft_ref_round(all[i], -0.0)));
        assert_true(weft_ref_round(all[i], 1.0) == 1.0);
    }
    /* A NaN whose payload lies only in bits that the narrow format drops. */
    const uint64_t bits = UINT64_C(0x7ff0000000000001);
    double low_payload;
    memcpy(&low_payload, &bits, sizeof bits);
    assert_true(isnan(weft_ref_round(WEFT_FP16, low_payload)));
    assert_true(isnan(weft_ref_round(WEFT_BF16, low_payload)));
}

static void odd_addresses_work(void **state) {
    (void)state;
    const weft_dtype all[] = {WEFT_FP32, WEFT_FP16, WEFT_BF16};
    for (size_t i = 0; i < 3; i++) {
        char buffer[64];
        weft_ref_store(all[i], buffer + 1, 3, 1.5);
        weft_ref_store(all[i], buffer + 1, 4, -2.5);
        assert_true(weft_ref_load(all[i], buffer + 1, 3) == 1.5);
        assert_true(weft_ref_load(all[i], buffer + 1, 4) == -2.5);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_values),
        cmocka_unit_test(every_pattern_survives),
        cmocka_unit_test(every_halfway_goes_to_even),
        cmocka_unit_test(random_doubles_go_to_the_nearest),
        cmocka_unit_test(fp32_is_float),
        cmocka_unit_test(special_values_round),
        cmocka_unit_test(odd_addresses_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
