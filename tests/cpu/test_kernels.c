/* Every row of kernels.def that this processor can run, against fp64. */
#include "../cmocka_all.h"
#include "../random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/cpu.h"
#include "ref/ref.h"

static float random_float(uint64_t *random) {
    return (float)(weft_random_real(random) * 2 - 1);
}

/* Calls `check` with each usable row. */
static void each(void (*check)(const weft_cpu_kernels *kernels)) {
    int usable, checked = 0;
    const weft_cpu_kernels *kernels;
    for (size_t i = 0; (kernels = weft_cpu_kernels_at(i, &usable)); i++) {
        if (usable) {
            check(kernels);
            checked++;
        }
    }
    assert_true(checked >= 1);
}

enum { ROWS = 40, DEPTH = 70, COLS = 96 };

static void check_multiply(const weft_cpu_kernels *kernels) {
    static float a[ROWS * DEPTH], b[DEPTH * COLS], c[ROWS * COLS], before[ROWS * COLS];
    uint64_t random = 1;
    for (int round = 0; round < 300; round++) {
        const int64_t rows = random_between(&random, 1, ROWS), depth = random_between(&random, 0, DEPTH);
        const int64_t cols = random_between(&random, 1, COLS / kernels->width) * kernels->width;
        const int add = round % 2;
        for (size_t i = 0; i < sizeof a / sizeof *a; i++) {
            a[i] = random_float(&random);
        }
        for (size_t i = 0; i < sizeof b / sizeof *b; i++) {
            b[i] = random_float(&random);
        }
        for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
            c[i] = before[i] = random_float(&random);
        }
        kernels->multiply(rows, cols, depth, a, DEPTH, b, COLS, c, COLS, add);
        for (int64_t i = 0; i < ROWS; i++) {
            for (int64_t j = 0; j < COLS; j++) {
                double sum = add ? before[i * COLS + j] : 0;
                for (int64_t k = 0; k < depth; k++) {
                    sum += (double)a[i * DEPTH + k] * (double)b[k * COLS + j];
                }
                if (i < rows && j < cols) {
                    assert_true(fabs(sum - (double)c[i * COLS + j]) < 1e-5);
                } else {
                    assert_true(c[i * COLS + j] == before[i * COLS + j]); /* nothing outside is written */
                }
            }
        }
    }
}

static void check_exponentials(const weft_cpu_kernels *kernels) {
    float row[64], was[64];
    uint64_t random = 2;
    double worst = 0;
    for (int round = 0; round < 20000; round++) {
        const int64_t cols = random_between(&random, 1, 64 / kernels->width) * kernels->width;
        const float max = random_float(&random) * 100;
        double sum = 0;
        for (int64_t i = 0; i < cols; i++) {
            was[i] = row[i] = max - (float)(weft_random_real(&random) * (round % 2 ? 3 : 126));
        }
        const float total = kernels->exponentials(row, cols, 1.0f, max);
        for (int64_t i = 0; i < cols; i++) {
            const double exact = exp2((double)(was[i] - max));
            worst = fmax(worst, fabs((double)row[i] / exact - 1));
            sum += (double)row[i];
        }
        assert_true(fabs((double)total / sum - 1) < 1e-6);
    }
    assert_true(worst < 0x1p-22); /* what cpu.h says */

    float special[16] = {0.0f, -INFINITY, -126.5f, -1e30f, NAN, INFINITY, -126.0f, -0.5f};
    kernels->exponentials(special, 16, 1.0f, 0.0f);
    assert_true(special[0] == 1.0f && special[1] == 0.0f && special[2] == 0.0f && special[3] == 0.0f);
    assert_true(isnan(special[4]) && special[6] == 0x1p-126f && fabsf(special[7] - 0.70710678f) < 1e-6f);
}

static void check_rows(const weft_cpu_kernels *kernels) {
    float row[64];
    uint64_t random = 3;
    for (int round = 0; round < 1000; round++) {
        const int64_t cols = random_between(&random, 1, 64 / kernels->width) * kernels->width;
        float largest = -INFINITY;
        for (int64_t i = 0; i < cols; i++) {
            row[i] = random_between(&random, 0, 5) == 0 ? -INFINITY : random_float(&random);
            largest = row[i] > largest ? row[i] : largest;
        }
        assert_true(kernels->largest(row, cols) == largest);
        const float first = row[0];
        kernels->scale(row, cols, 0.25f);
        assert_true(row[0] == first * 0.25f);
    }
}

static void multiplies(void **state) {
    (void)state;
    each(check_multiply);
}

static void raises_to_powers(void **state) {
    (void)state;
    each(check_exponentials);
}

static void finds_the_largest(void **state) {
    (void)state;
    each(check_rows);
}

/* Conversions agree with the reference's: every 16-bit pattern, and floats beside every boundary. */
static void converts(void **state) {
    (void)state;
    static const weft_dtype dtypes[] = {WEFT_FP16, WEFT_BF16};
    uint64_t random = 4;
    for (int t = 0; t < 2; t++) {
        for (uint32_t pattern = 0; pattern < 65536; pattern++) {
            const uint16_t half = (uint16_t)pattern;
            float wide;
            weft_cpu_load(dtypes[t], &half, 0, 1, &wide);
            const double exact = weft_ref_load(dtypes[t], &half, 0);
            assert_true(isnan(exact) ? isnan(wide) : (double)wide == exact);
        }
        for (int i = 0; i < 500000; i++) {
            uint32_t bits = (uint32_t)random_bits(&random);
            bits = i % 3 ? bits
                         : (bits & 0xffffe000u) + (uint32_t)random_between(&random, -2, 2) + (i % 2 ? 0x1000u : 0x8000u);
            float x;
            uint16_t fast, slow;
            memcpy(&x, &bits, sizeof x);
            weft_cpu_store(dtypes[t], &fast, 0, 1, &x);
            weft_ref_store(dtypes[t], &slow, 0, (double)x);
            if (isnan(x)) {
                assert_true(isnan(weft_ref_load(dtypes[t], &fast, 0)));
            } else {
                assert_int_equal(fast, slow);
            }
        }
    }
}

static void environment_chooses(void **state) {
    (void)state;
    assert_int_equal(setenv("WEFT_CPU", "generic", 1), 0);
    assert_string_equal(weft_cpu_choose()->name, "generic");
    assert_int_equal(setenv("WEFT_CPU", "no-such-thing", 1), 0);
    int usable;
    size_t i = 0;
    while (weft_cpu_kernels_at(i, &usable) && !usable) {
        i++;
    }
    assert_string_equal(weft_cpu_choose()->name, weft_cpu_kernels_at(i, &usable)->name); /* the best */
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(multiplies), cmocka_unit_test(raises_to_powers),
                                       cmocka_unit_test(finds_the_largest), cmocka_unit_test(converts),
                                       cmocka_unit_test(environment_chooses)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
