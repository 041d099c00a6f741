/* SPDX-License-Identifier: Apache-2.0 */
/* Every row of kernels.def that this processor can run, against fp64; with --bench, how fast each is. */
#include "../../cmocka_all.h"
#include "../../random.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cpu/kernel/convert.h"
#include "cpu/kernel/kernel.h"
#include "cpu/memory.h"
#include "ref/ref.h"

enum { MOST_LINES = 64, MOST_K = 128 };

static float random_float(uint64_t *random) {
    return (float)(weft_random_real(random) * 2 - 1);
}

/* Calls `check` with each usable row. */
static void each(void (*check)(const weft_cpu_kernel *kernel)) {
    int usable, checked = 0;
    const weft_cpu_kernel *kernel;
    for (size_t i = 0; (kernel = weft_cpu_kernel_at(i, &usable)); i++) {
        if (usable) {
            if (kernel->start) {
                kernel->start();
            }
            check(kernel);
            if (kernel->stop) {
                kernel->stop();
            }
            checked++;
        }
    }
    assert_true(checked >= 1);
}

/* A value of a packed panel. */
static double packed_value(const weft_cpu_kernel *kernel, weft_cpu_operand o, const void *panel, int64_t line, int64_t k) {
    return weft_ref_load(kernel->dtype, panel,
                         (size_t)((k / o.interleave * o.lines + line) * o.interleave + k % o.interleave));
}

/* Packing: every dtype and both directions, whole and ragged panels; what is missing is 0. */
static void check_packing(const weft_cpu_kernel *kernel) {
    static unsigned char source[MOST_LINES * (MOST_K + 3) * 4];
    uint64_t random = random_seed(1);
    void *panel = weft_cpu_alloc(MOST_LINES * MOST_K * sizeof(float));
    assert_non_null(panel);
    assert_int_equal(kernel->a.lines % kernel->depth, 0); /* attention relies on it */
    for (int round = 0; random_round(&random, &round, 300); round++) {
        const weft_cpu_operand o = round % 2 ? kernel->a : kernel->b;
        weft_cpu_source s = {(weft_dtype)(round % 3),
                             source,
                             3,
                             0,
                             0,
                             random_between(&random, 1, o.lines),
                             random_between(&random, 1, MOST_K - kernel->depth)};
        s.lines = round % 4 < 2 ? o.lines : s.lines;
        s.line_stride = round % 5 < 2 ? 1 : round % 5 < 4 ? MOST_K : 3;
        s.k_stride = round % 5 < 2 ? MOST_LINES : round % 5 < 4 ? 1 : MOST_LINES * 3 / 2;
        if (s.line_stride == 3) {
            s.k = 1;
        }
        for (size_t i = 0; i < sizeof source / 4; i++) {
            weft_ref_store(s.dtype, source, i, weft_random_real(&random) - 0.5);
        }
        memset(panel, 0x7f, MOST_LINES * MOST_K * sizeof(float));
        (round % 2 ? kernel->pack_a : kernel->pack_b)(&s, panel);
        const size_t end = weft_cpu_panel_bytes(kernel, o, s.k);
        for (size_t i = end; i < end + 256; i++) { /* nothing is written beyond */
            assert_int_equal(((const unsigned char *)panel)[i], 0x7f);
        }
        for (int64_t k = 0; k < weft_cpu_pad(s.k, kernel->depth); k++) {
            for (int64_t line = 0; line < o.lines; line++) {
                double want = 0;
                if (line < s.lines && k < s.k) {
                    want = weft_ref_load(s.dtype, source, s.index + (size_t)(line * s.line_stride + k * s.k_stride));
                    want = weft_ref_round(kernel->dtype, want);
                }
                assert_true(packed_value(kernel, o, panel, line, k) == want);
            }
        }
    }
    weft_cpu_free(panel);
}

static void check_multiply(const weft_cpu_kernel *kernel) {
    uint64_t random = random_seed(2);
    const int64_t rows = kernel->a.lines, cols = kernel->b.lines;
    static float from[MOST_LINES * MOST_K], c[MOST_LINES * MOST_LINES], before[MOST_LINES * MOST_LINES];
    void *a = weft_cpu_alloc(MOST_LINES * MOST_K * 4), *b = weft_cpu_alloc(MOST_LINES * MOST_K * 4);
    assert_true(a && b);
    for (int round = 0; random_round(&random, &round, 100); round++) {
        const int64_t k = random_between(&random, 1, MOST_K / kernel->depth) * kernel->depth;
        weft_cpu_source s = {WEFT_FP32, from, 0, MOST_K, 1, rows, k};
        for (size_t i = 0; i < sizeof from / sizeof *from; i++) {
            from[i] = random_float(&random);
        }
        kernel->pack_a(&s, a);
        for (size_t i = 0; i < sizeof from / sizeof *from; i++) {
            from[i] = random_float(&random);
        }
        s.lines = cols;
        kernel->pack_b(&s, b);
        for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
            c[i] = before[i] = random_float(&random);
        }
        const int64_t wanted = round % 3 ? rows : random_between(&random, 1, rows); /* of the block's rows */
        const int64_t along = round % 4 ? cols : random_between(&random, 1, cols);  /* of its columns */
        weft_cpu_multiply(kernel, wanted, along, k, a, b, c, round % 2);
        for (int64_t i = 0; i < MOST_LINES * MOST_LINES; i++) {
            double sum = before[i];
            if (i < rows * cols && (i >= wanted * cols || i % cols >= along)) {
                continue;
            }
            if (i < rows * cols) {
                sum = round % 2 ? sum : 0;
                for (int64_t j = 0; j < k; j++) {
                    sum +=
                        packed_value(kernel, kernel->a, a, i / cols, j) * packed_value(kernel, kernel->b, b, i % cols, j);
                }
            }
            assert_true(fabs(sum - (double)c[i]) < (i < rows * cols ? 1e-5 : 1e-30)); /* nothing outside is written */
        }
    }
    weft_cpu_free(a);
    weft_cpu_free(b);
}

/* A where it lies gives the sums that A packed gives, bit for bit. */
static void check_unpacked(const weft_cpu_kernel *kernel) {
    if (!kernel->multiply_unpacked) {
        return;
    }
    enum { STEP = MOST_K + 3 }; /* elements between rows: unaligned */
    uint64_t random = random_seed(7);
    const int64_t rows = kernel->a.lines, cols = kernel->b.lines;
    static unsigned char lying[MOST_LINES * STEP * 4], from[MOST_LINES * MOST_K * 4];
    static float c[MOST_LINES * MOST_LINES], want[MOST_LINES * MOST_LINES];
    void *a = weft_cpu_alloc(MOST_LINES * MOST_K * 4), *b = weft_cpu_alloc(MOST_LINES * MOST_K * 4);
    assert_true(a && b);
    for (int round = 0; random_round(&random, &round, 50); round++) {
        const int64_t k = random_between(&random, 1, MOST_K / kernel->depth) * kernel->depth;
        weft_cpu_source s = {kernel->dtype, lying, 0, STEP, 1, rows, k}, t = {kernel->dtype, from, 0, MOST_K, 1, cols, k};
        for (size_t i = 0; i < MOST_LINES * MOST_K; i++) {
            weft_ref_store(kernel->dtype, lying, i / MOST_K * STEP + i % MOST_K, weft_random_real(&random) - 0.5);
            weft_ref_store(kernel->dtype, from, i, weft_random_real(&random) - 0.5);
        }
        kernel->pack_a(&s, a);
        kernel->pack_b(&t, b);
        for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
            c[i] = want[i] = random_float(&random);
        }
        kernel->multiply(k, a, b, want, round % 2);
        kernel->multiply_unpacked(k, lying, STEP * (int64_t)weft_dtype_bytes(kernel->dtype), b, c, round % 2);
        assert_memory_equal(c, want, sizeof c);
    }
    weft_cpu_free(a);
    weft_cpu_free(b);
}

/* B where it lies gives the same sums, and is packed as pack_b() packs it. */
static void check_packing_on_the_way(const weft_cpu_kernel *kernel) {
    if (!kernel->multiply_and_pack) {
        return;
    }
    enum { STEP = MOST_LINES + 3 }; /* elements between rows: unaligned */
    uint64_t random = random_seed(8);
    const int64_t rows = kernel->a.lines, cols = kernel->b.lines;
    static unsigned char lying[MOST_K * STEP * 4], from[MOST_LINES * MOST_K * 4];
    static float c[MOST_LINES * MOST_LINES], want[MOST_LINES * MOST_LINES];
    const size_t panel = (size_t)cols * MOST_K * weft_dtype_bytes(kernel->dtype);
    void *a = weft_cpu_alloc(MOST_LINES * MOST_K * 4), *b = weft_cpu_alloc(panel), *packed = weft_cpu_alloc(panel);
    assert_true(a && b && packed);
    for (int round = 0; random_round(&random, &round, 50); round++) {
        const int64_t k = random_between(&random, 1, MOST_K / kernel->depth) * kernel->depth;
        const weft_cpu_source s = {kernel->dtype, from, 0, MOST_K, 1, rows, k},
                              t = {kernel->dtype, lying, 0, 1, STEP, cols, k};
        for (size_t i = 0; i < MOST_LINES * MOST_K; i++) {
            weft_ref_store(kernel->dtype, lying, i / MOST_LINES * STEP + i % MOST_LINES, weft_random_real(&random) - 0.5);
            weft_ref_store(kernel->dtype, from, i, weft_random_real(&random) - 0.5);
        }
        memset(b, 0, panel);
        memset(packed, 0, panel);
        kernel->pack_a(&s, a);
        kernel->pack_b(&t, b);
        for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
            c[i] = want[i] = random_float(&random);
        }
        kernel->multiply(k, a, b, want, round % 2);
        kernel->multiply_and_pack(k, a, lying, STEP * (int64_t)weft_dtype_bytes(kernel->dtype), packed, c, round % 2);
        assert_memory_equal(c, want, sizeof c);
        assert_memory_equal(packed, b, panel); /* nothing behind it is written */
    }
    weft_cpu_free(a);
    weft_cpu_free(b);
    weft_cpu_free(packed);
}

/* Weights against exp2, sums against weights, over two blocks with a mask. */
static void check_softmax(const weft_cpu_kernel *kernel) {
    const int64_t width = kernel->b.lines, keys = 2 * kernel->a.lines;
    const double error = kernel->dtype == WEFT_BF16 ? 0x1p-17 : 0x1p-21; /* what cpu.h says */
    float *scores = weft_cpu_alloc((size_t)(keys * width) * 4), *was = weft_cpu_alloc((size_t)(keys * width) * 4);
    float max[MOST_LINES], sum[MOST_LINES], rescale[MOST_LINES];
    int32_t begin[MOST_LINES], end[MOST_LINES];
    const weft_cpu_seen seen = {begin, end};
    assert_true(scores && was);
    uint64_t random = random_seed(3);
    for (int round = 0; random_round(&random, &round, 300); round++) {
        double total[MOST_LINES] = {0};
        const float factor = 0.1f + (float)weft_random_real(&random), spread = round % 2 ? 4 : 120;
        for (int64_t q = 0; q < width; q++) {
            max[q] = -INFINITY;
            sum[q] = 0;
        }
        for (int block = 0; block < 2; block++) {
            const float *old = memcpy(was, max, (size_t)width * 4);
            float before[MOST_LINES];
            memcpy(before, old, sizeof(float) * (size_t)width);
            for (int64_t i = 0; i < keys * width; i++) {
                const float score = random_float(&random) * spread;
                scores[i] = was[i] = i % width == 2 ? -fabsf(score) : score; /* far below a maximum near 0 */
            }
            for (int64_t q = 0; q < width; q++) {
                begin[q] = (int32_t)(round % 2 ? random_between(&random, 0, keys) : 0);
                end[q] = (int32_t)(q == 1 ? 0 : random_between(&random, 0, keys));
            }
            const int hidden = round % 3 != 0;
            const int grew = kernel->panel->softmax(keys, scores, factor, hidden ? &seen : NULL, max, sum, rescale);
            int changed = 0;
            for (int64_t q = 0; q < width; q++) {
                const int64_t first = hidden ? begin[q] : 0, visible = hidden ? end[q] : keys;
                double top = before[q];
                for (int64_t key = first; key < visible; key++) {
                    const double score = (double)(was[key * width + q] * factor);
                    top = score > top ? score : top;
                }
                assert_true(top == (double)max[q]);
                changed |= top != (double)before[q];
                const double shift = top == -INFINITY ? 0 : top, factor_old = exp2((double)before[q] - shift);
                const double slack = error + 0x1p-24 * (2 * fabs(shift) + (isinf(before[q]) ? 0 : fabs((double)before[q])));
                assert_true(fabs((double)rescale[q] - factor_old) <= slack * factor_old + 0x1p-126);
                total[q] *= factor_old;
                for (int64_t key = 0; key < keys; key++) {
                    const float weight = scores[key * width + q];
                    const double x = (double)was[key * width + q] * (double)factor - shift;
                    const int shown = key >= first && key < visible;
                    const double want = shown ? exp2(x) : 0;
                    /* Without FMA x is rounded twice: the product, which is x + shift, and the difference. */
                    const double slack_x = 0x1p-24 * (fabs(x + shift) + fabs(x));
                    assert_true(fabs((double)weight - want) <= (error + log(2) * slack_x) * want + 0x1p-126);
                    assert_true(shown || weight == 0);
                    total[q] += want;
                }
                assert_true(fabs((double)sum[q] - total[q]) <= (error + 1e-4) * total[q]);
            }
            assert_true(grew || !changed);
        }
    }
    /* NaN stays, -inf gives 0, a row without keys keeps a sum of 0. */
    for (int64_t i = 0; i < keys * width; i++) {
        scores[i] = i % width == 0 ? NAN : -INFINITY;
    }
    for (int64_t q = 0; q < width; q++) {
        max[q] = -INFINITY;
        sum[q] = 0;
    }
    kernel->panel->softmax(keys, scores, 1, NULL, max, sum, rescale);
    assert_true(isnan(sum[0]) && sum[1] == 0 && scores[1] == 0 && isnan(scores[0]));
    weft_cpu_free(scores);
    weft_cpu_free(was);
}

static void check_differentiate(const weft_cpu_kernel *kernel) {
    const int64_t width = kernel->b.lines, keys = kernel->a.lines;
    static float scores[MOST_LINES * MOST_LINES], grads[MOST_LINES * MOST_LINES], s[MOST_LINES * MOST_LINES],
        g[MOST_LINES * MOST_LINES];
    float lse2[MOST_LINES], delta[MOST_LINES], factors[MOST_LINES];
    int32_t begin[MOST_LINES], end[MOST_LINES];
    const weft_cpu_seen seen = {begin, end};
    uint64_t random = random_seed(4);
    for (int round = 0; random_round(&random, &round, 100); round++) {
        for (int64_t i = 0; i < keys * width; i++) {
            scores[i] = s[i] = random_float(&random) * 5;
            grads[i] = g[i] = random_float(&random);
        }
        for (int64_t q = 0; q < width; q++) {
            lse2[q] = 5 + random_float(&random);
            factors[q] = delta[q] = random_float(&random);
            begin[q] = (int32_t)(round % 4 == 1 ? random_between(&random, 0, keys) : 0);
            end[q] = (int32_t)random_between(&random, 0, keys);
        }
        kernel->panel->differentiate(keys, scores, grads, 0.7f, round % 2 ? &seen : NULL, lse2, delta);
        for (int64_t i = 0; i < keys * width; i++) {
            const int64_t q = i % width, key = i / width;
            const int shown = round % 2 == 0 || (key >= begin[q] && key < end[q]);
            const double weight = shown ? exp2((double)s[i] * 0.7 - (double)lse2[q]) : 0;
            assert_true(fabs((double)scores[i] - weight) <= 1e-5 * weight);
            assert_true(fabs((double)grads[i] - weight * ((double)g[i] - (double)delta[q])) <= 1e-5);
        }
        memcpy(s, scores, sizeof s);
        kernel->panel->scale(keys, scores, factors);
        for (int64_t i = 0; i < keys * width; i++) {
            assert_true(scores[i] == s[i] * factors[i % width]);
        }
    }
}

/* Scores and sums of many keys are those of one key after the other, bit for bit: a cache's pages do not matter. */
static void check_decode(const weft_cpu_kernel *kernel) {
    enum { ROWS = 8, KEYS = 70, DIM = 192, PITCH = 128 };
    static float q[WEFT_CPU_DECODE_MOST_ROWS * DIM], lying[KEYS * DIM], scores[WEFT_CPU_DECODE_MOST_ROWS * PITCH],
        want[WEFT_CPU_DECODE_MOST_ROWS * PITCH], out[WEFT_CPU_DECODE_MOST_ROWS * DIM],
        sums[WEFT_CPU_DECODE_MOST_ROWS * DIM];
    const weft_cpu_decode *decode = kernel->decode;
    const int64_t step = DIM * sizeof *lying;
    uint64_t random = random_seed(9);
    if (kernel->dtype != WEFT_FP32) { /* tile registers add in another order than vectors */
        return;
    }
    for (int round = 0; random_round(&random, &round, 100); round++) {
        const int rows = (int)random_between(&random, 1, ROWS), keys = (int)random_between(&random, 1, KEYS);
        const int64_t dim = 16 * random_between(&random, 1, DIM / 16);
        if (!decode->takes(rows, dim)) {
            continue;
        }
        weft_cpu_ahead ahead = {(const char *)lying, keys, step, dim * (int64_t)sizeof *lying, 0};
        for (int i = 0; i < WEFT_CPU_DECODE_MOST_ROWS * DIM; i++) {
            q[i] = i < rows * dim ? random_float(&random) : 0;
            out[i] = sums[i] = random_float(&random);
        }
        for (int i = 0; i < KEYS * DIM; i++) {
            lying[i] = random_float(&random);
        }
        decode->dots(WEFT_FP32, rows, keys, dim, q, (const char *)lying, step, scores, PITCH, &ahead);
        for (int key = 0; key < keys; key++) {
            const char *at = (const char *)lying + key * step;
            decode->dots(WEFT_FP32, rows, 1, dim, q, at, step, want + key, PITCH, &ahead);
        }
        decode->sums(WEFT_FP32, rows, keys, dim, scores, PITCH, (const char *)lying, step, out, &ahead);
        for (int key = 0; key < keys; key++) {
            const char *at = (const char *)lying + key * step;
            decode->sums(WEFT_FP32, rows, 1, dim, scores + key, PITCH, at, step, sums, &ahead);
        }
        for (int row = 0; row < rows; row++) {
            double exact = 0;
            for (int64_t d = 0; d < dim; d++) {
                exact += (double)q[row * dim + d] * (double)lying[(keys - 1) * DIM + d];
            }
            assert_true(fabs((double)scores[row * PITCH + keys - 1] - exact) <= 1e-4);
            assert_memory_equal(scores + row * PITCH, want + row * PITCH, (size_t)keys * sizeof *scores);
            assert_memory_equal(out + row * dim, sums + row * dim, (size_t)dim * sizeof *out);
        }
    }
}

/* Rows of results against the reference's rounding, in pieces; and turning. */
static void check_rows(const weft_cpu_kernel *kernel) {
    enum { MOST = 200 };
    float from[2 * MOST], transposed[2 * MOST];
    unsigned char to[MOST * 4 + 8], want[4];
    uint64_t random = random_seed(6);
    for (int round = 0; random_round(&random, &round, 200); round++) {
        const weft_dtype dtype = (weft_dtype)(round % 3);
        const size_t bytes = weft_dtype_bytes(dtype);
        const int64_t count = random_between(&random, 1, MOST), width = round % 2 ? 32 : count, pitch = round % 2 ? 40 : 0;
        const float factor = round % 4 ? random_float(&random) : 1;
        for (int i = 0; i < 2 * MOST; i++) {
            from[i] = round % 7 == 0 && i % 13 == 5 ? NAN : random_float(&random) * (i % 5 ? 1 : 1e5f);
        }
        memset(to, 0x7f, sizeof to);
        kernel->rows->store(dtype, count, from, width, pitch, factor, to + 1); /* unaligned */
        for (int64_t i = 0; i < count; i++) {
            const float value = from[i / width * pitch + i % width] * factor;
            weft_ref_store(dtype, want, 0, (double)value);
            if (isnan(value)) {
                unsigned char got[4];
                memcpy(got, to + 1 + (size_t)i * bytes, bytes);
                assert_true(isnan(weft_ref_load(dtype, got, 0)));
            } else {
                assert_memory_equal(to + 1 + (size_t)i * bytes, want, bytes);
            }
        }
        assert_int_equal(to[0], 0x7f);
        assert_int_equal(to[1 + (size_t)count * bytes], 0x7f);
    }
    for (int round = 0; round < 60; round++) { /* rows of rows: each as store() does it */
        const weft_dtype dtype = (weft_dtype)(round % 3);
        const int64_t bytes = (int64_t)weft_dtype_bytes(dtype), count = random_between(&random, 1, 40),
                      step = 40 * bytes + 3;
        unsigned char many[5 * 163], one[160];
        for (int i = 0; i < 2 * MOST; i++) {
            from[i] = random_float(&random);
        }
        memset(many, 0x7f, sizeof many);
        kernel->rows->store_rows(dtype, 4, count, from, 50, 0.5f, many, step);
        for (int64_t i = 0; i < 4; i++) {
            kernel->rows->store(dtype, count, from + i * 50, count, 0, 0.5f, one);
            assert_memory_equal(many + i * step, one, (size_t)(count * bytes));
            assert_int_equal(many[i * step + count * bytes], 0x7f);
        }
    }
    const int64_t columns = 12;
    kernel->rows->transpose(24, columns, from, transposed);
    for (int64_t i = 0; i < 24 * columns; i++) {
        assert_memory_equal(&transposed[i % columns * 24 + i / columns], &from[i], sizeof *from);
    }
}

static void check_narrow(const weft_cpu_kernel *kernel) {
    if (!kernel->narrow) {
        assert_int_equal(kernel->b.interleave, 1); /* a panel of weights is an operand as it stands */
        assert_int_equal(kernel->dtype, WEFT_FP32);
        return;
    }
    const int64_t k = 4 * kernel->depth < MOST_K ? 4 * kernel->depth : MOST_K;
    static float c[MOST_K * MOST_LINES];
    void *panel = weft_cpu_alloc(sizeof c);
    uint64_t random = random_seed(5);
    assert_non_null(panel);
    for (int64_t i = 0; i < k * kernel->b.lines; i++) {
        c[i] = i % 97 ? random_float(&random) : NAN;
    }
    kernel->narrow(k, c, panel);
    for (int64_t i = 0; i < k * kernel->b.lines; i++) {
        const double want = weft_ref_round(kernel->dtype, (double)c[i]);
        const double got = packed_value(kernel, kernel->b, panel, i % kernel->b.lines, i / kernel->b.lines);
        assert_true(isnan(want) ? isnan(got) : got == want);
    }
    weft_cpu_free(panel);
}

static void packing(void **state) {
    (void)state;
    each(check_packing);
}
static void multiply(void **state) {
    (void)state;
    each(check_multiply);
    each(check_unpacked);
    each(check_packing_on_the_way);
}
static void softmax(void **state) {
    (void)state;
    each(check_softmax);
}
static void differentiate(void **state) {
    (void)state;
    each(check_differentiate);
}
static void rows(void **state) {
    (void)state;
    each(check_rows);
}
static void decode(void **state) {
    (void)state;
    each(check_decode);
}
static void narrow(void **state) {
    (void)state;
    each(check_narrow);
}

static void converts(void **state) {
    (void)state;
    static const weft_dtype dtypes[] = {WEFT_FP16, WEFT_BF16};
    uint64_t random = random_seed(4);
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

/* WEFT_CPU takes a feature or a whole name; what it cannot mean is ignored. */
static void chosen_by_name(void **state) {
    (void)state;
    int usable;
    const weft_cpu_kernel *kernel;
    for (size_t i = 0; (kernel = weft_cpu_kernel_at(i, &usable)); i++) {
        if (usable) {
            assert_int_equal(setenv("WEFT_CPU", strstr(kernel->name, "__") + 2, 1), 0);
            assert_ptr_equal(weft_cpu_choose(WEFT_CPU_PRODUCTS, kernel->dtype), kernel);
            assert_int_equal(setenv("WEFT_CPU", kernel->name, 1), 0);
            assert_ptr_equal(weft_cpu_choose(WEFT_CPU_PRODUCTS, kernel->dtype), kernel);
            assert_ptr_equal(weft_cpu_choose(WEFT_CPU_ATTENTION, kernel->dtype), kernel);
            if (kernel->dtype == WEFT_FP32) { /* takes what it can widen */
                assert_ptr_equal(weft_cpu_choose(WEFT_CPU_PRODUCTS, WEFT_BF16), kernel);
                assert_ptr_equal(weft_cpu_choose(WEFT_CPU_PRODUCTS, WEFT_FP16), kernel);
            }
        }
    }
    assert_int_equal(setenv("WEFT_CPU", "abacus", 1), 0);
    const weft_cpu_kernel *other = weft_cpu_choose(WEFT_CPU_PRODUCTS, WEFT_FP32);
    assert_int_equal(unsetenv("WEFT_CPU"), 0);
    assert_ptr_equal(weft_cpu_choose(WEFT_CPU_PRODUCTS, WEFT_FP32), other);
    assert_int_equal(weft_cpu_choose(WEFT_CPU_ATTENTION, WEFT_FP16)->dtype, WEFT_FP32);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Seconds of one call, the best of a few runs of many. */
#define TIME(call)                                                                                                         \
    do {                                                                                                                   \
        best = INFINITY;                                                                                                   \
        for (int run = 0; run < 5; run++) {                                                                                \
            const double begin = now();                                                                                    \
            for (int i = 0; i < 1000; i++) {                                                                               \
                call;                                                                                                      \
            }                                                                                                              \
            best = fmin(best, (now() - begin) / 1000);                                                                     \
        }                                                                                                                  \
    } while (0)

static void bench(const weft_cpu_kernel *kernel) {
    const int64_t rows = kernel->a.lines, cols = kernel->b.lines, keys = weft_cpu_pad(192, rows);
    const size_t bytes = (size_t)(keys + MOST_LINES) * MOST_LINES * 4 * 4;
    void *a = weft_cpu_alloc(bytes), *b = weft_cpu_alloc(bytes);
    float *c = weft_cpu_alloc(bytes), max[MOST_LINES] = {0}, sum[MOST_LINES] = {0}, rescale[MOST_LINES];
    assert_true(a && b && c);
    double best;
    memset(a, 0, bytes);
    memset(b, 0, bytes);
    memset(c, 0, bytes);
    printf("%s\n", kernel->name);
    for (int64_t k = 64; k <= 256; k *= 2) {
        TIME(kernel->multiply(k, a, b, c, 0));
        printf("  multiply, k = %-3d %8.1f GFLOP/s\n", (int)k, 2e-9 * (double)(rows * cols * k) / best);
    }
    const double scores = (double)(keys * cols);
    TIME(kernel->panel->softmax(keys, c, 1, NULL, max, sum, rescale));
    printf("  softmax           %8.2f ns a score\n", 1e9 * best / scores);
    TIME(kernel->panel->differentiate(keys, c, b, 1, NULL, max, sum));
    printf("  differentiate    %8.2f ns a score\n", 1e9 * best / scores);
    if (kernel->narrow) {
        TIME(kernel->narrow(keys, c, b));
        printf("  narrow           %8.2f ns a weight\n", 1e9 * best / scores);
    }
    for (int dtype = 0; dtype < 3; dtype++) {
        const weft_cpu_source lines = {(weft_dtype)dtype, c, 0, 128, 1, rows, 128},
                              across = {(weft_dtype)dtype, c, 0, 1, 128, rows, 128};
        TIME(kernel->pack_a(&lines, a));
        printf("  pack %s, along k  %8.2f ns a value;",
               dtype == 0   ? "fp32"
               : dtype == 1 ? "fp16"
                            : "bf16",
               1e9 * best / (double)(rows * 128));
        TIME(kernel->pack_a(&across, a));
        printf(" across %8.2f\n", 1e9 * best / (double)(rows * 128));
    }
    weft_cpu_free(a);
    weft_cpu_free(b);
    weft_cpu_free(c);
}

/* Every kernel, and whether it can be run here. */
static void list(void) {
    int usable;
    const weft_cpu_kernel *kernel;
    for (size_t i = 0; (kernel = weft_cpu_kernel_at(i, &usable)); i++) {
        printf("%s %s\n", kernel->name, usable ? "run" : "not run");
    }
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        list();
        return 0;
    }
    if (argc == 2 && strcmp(argv[1], "--bench") == 0) {
        each(bench);
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packing),       cmocka_unit_test(multiply), cmocka_unit_test(softmax),
        cmocka_unit_test(differentiate), cmocka_unit_test(narrow),   cmocka_unit_test(rows),
        cmocka_unit_test(decode),        cmocka_unit_test(converts), cmocka_unit_test(chosen_by_name)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
