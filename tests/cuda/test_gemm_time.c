/* SPDX-License-Identifier: Apache-2.0 */
/* The model of the Hopper GEMM behaves as a time does, on launches that are drawn at random. What it chooses is held to
 * measured launches in tests/cuda/test_gemm_choice.c. */
#include "../cmocka_all.h"

#include <math.h>

#include "cuda/sm90/gemm/time.h"

static const int64_t tiles[][2] = {{64, 128}, {128, 64}, {128, 128}, {128, 192}, {128, 256}, {256, 128}, {256, 192}};
static const int64_t clusters[][2] = {{1, 1}, {2, 1}, {1, 2}, {4, 1}, {1, 4}};
enum { TILES = sizeof tiles / sizeof *tiles, CLUSTERS = sizeof clusters / sizeof *clusters };

static double bytes_of(const weft_gemm_model *m) {
    const double rows = (double)m->a.length, cols = (double)m->b.length, k = (double)m->k;
    return 2 * (double)m->batch * (rows * k + cols * k + rows * cols);
}

/* A product with lines that are aligned to 128 bytes, to 32 or to 16. */
static weft_gemm_model draw(uint64_t *random) {
    const int64_t tile = random_between(random, 0, TILES - 1), cluster = random_between(random, 0, CLUSTERS - 1);
    weft_gemm_model m = {.batch = random_between(random, 1, 3),
                         .k = 8 * random_between(random, 1, 2000),
                         .step = 64,
                         .split = random_between(random, 0, 3) ? 1 : INT64_C(2) << random_between(random, 0, 2 * !cluster),
                         .workers = 132,
                         .per_sm = tiles[tile][0] < 128 ? 2 : 1};
    m.a = (weft_gemm_operand){random_between(random, 1, 16384), tiles[tile][0], clusters[cluster][0], 0, 0};
    m.b = (weft_gemm_operand){8 * random_between(random, 1, 2000), tiles[tile][1], clusters[cluster][1], 0, 0};
    m.b.contiguous = (int)random_between(random, 0, 1);
    m.a.line_bytes = INT64_C(16) << random_between(random, 0, 3);
    m.b.line_bytes = INT64_C(16) << random_between(random, 0, 3);
    m.bytes = bytes_of(&m);
    return m;
}

static double time_of(weft_gemm_model m) {
    m.bytes = bytes_of(&m);
    const double time = weft_gemm_time(&m);
    assert_true(isfinite(time) && time > 0);
    return time;
}

static void deeper_products_take_longer(void **state) {
    (void)state;
    uint64_t random = random_seed(1);
    for (int i = 0; random_round(&random, &i, 2000); i++) {
        weft_gemm_model m = draw(&random);
        const double time = time_of(m);
        m.k += 64 * m.split;
        assert_true(time_of(m) > time);
        m.k *= 3;
        /* Short ones last as long as their launch, as adding up many parts, or, with few steps, as their stores. */
        assert_true(time_of(m) > 1.2 * time || time < 10 || m.split > 2 || m.k <= 64 * 10 * m.split);
    }
}

/* Twice the parts with as many steps each: there is more to add up. */
static void parts_take_time_to_join(void **state) {
    (void)state;
    uint64_t random = random_seed(7);
    for (int i = 0; random_round(&random, &i, 2000); i++) {
        weft_gemm_model m = draw(&random);
        m.a.tile = 128;
        m.b.tile = random_between(&random, 0, 1) ? 128 : 256;
        m.a.cluster = m.b.cluster = m.per_sm = 1;
        m.split = m.b.tile / 64;
        m.k = 64 * m.split * random_between(&random, 1, 200);
        for (double last = 0; m.split <= 8; m.split *= 2, m.k *= 2) {
            const double time = time_of(m);
            assert_true(time > last + 0.5);
            last = time;
        }
    }
}

/* Positions are what one CTA, cluster or group of splits computes. As many as there are SMs are a wave. */
static int64_t positions_of(const weft_gemm_model *m) {
    const int64_t rows = m->a.tile * m->a.cluster, cols = m->b.tile * m->b.cluster;
    return m->batch * ((m->a.length + rows - 1) / rows) * ((m->b.length + cols - 1) / cols);
}

static void more_waves_take_longer(void **state) {
    (void)state;
    uint64_t random = random_seed(2);
    for (int i = 0; random_round(&random, &i, 2000); i++) {
        weft_gemm_model m = draw(&random);
        const double time = time_of(m);
        const int64_t before = positions_of(&m);
        m.a.length += m.a.tile * m.a.cluster * random_between(&random, 1, 200);
        const int64_t ctas = m.a.cluster * m.b.cluster * m.split;
        if ((positions_of(&m) - before) * ctas >= m.workers) { /* a wave more */
            assert_true(time_of(m) > time);
        }
    }
}

/* Never less time for twice the work, and hardly more than twice. */
static void batches_add_up(void **state) {
    (void)state;
    uint64_t random = random_seed(3);
    for (int i = 0; random_round(&random, &i, 2000); i++) {
        weft_gemm_model m = draw(&random);
        const double time = time_of(m);
        m.batch *= 2;
        assert_true(time_of(m) > 0.98 * time && time_of(m) < 2.5 * time);
    }
}

static void misaligned_lines_take_longer(void **state) {
    (void)state;
    uint64_t random = random_seed(4);
    for (int i = 0; random_round(&random, &i, 2000); i++) {
        weft_gemm_model m = draw(&random);
        weft_gemm_operand *side = i % 2 ? &m.a : &m.b;
        double last = 0;
        for (side->line_bytes = 128; side->line_bytes >= 16; side->line_bytes /= 2) {
            const double time = time_of(m);
            assert_true(time >= last * (1 - 1e-12)); /* sums in another order */
            last = time;
        }
    }
}

/* A cluster's CTAs outside of C load for the others. What is inside of it, and the number of clusters, stays. */
static void empty_ctas_take_time(void **state) {
    (void)state;
    uint64_t random = random_seed(6);
    for (int i = 0; random_round(&random, &i, 2000); i++) {
        weft_gemm_model m = draw(&random);
        weft_gemm_operand *side = i % 2 ? &m.a : &m.b;
        m.a.cluster = m.b.cluster = 1;
        side->cluster = 2;
        side->length = 2 * side->tile * random_between(&random, 1, 8);
        const double whole = weft_gemm_time(&m);
        side->length -= side->tile;
        assert_true(weft_gemm_time(&m) > whole);
    }
}

/* With fewer SMs nothing ends sooner than the clock gains by it, and the peak of the chip is the end. */
static void chips_have_limits(void **state) {
    (void)state;
    uint64_t random = random_seed(5);
    for (int i = 0; random_round(&random, &i, 2000); i++) {
        weft_gemm_model m = draw(&random);
        const double time = time_of(m);
        const double flops = 2.0 * (double)m.batch * (double)m.a.length * (double)m.b.length * (double)m.k;
        assert_true(flops / time < 990e6);        /* in a microsecond: the peak of an H200 */
        assert_true(bytes_of(&m) / time < 4.9e6); /* and its memory */
        m.workers = 66;
        assert_true(time_of(m) > 0.7 * time);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deeper_products_take_longer),
        cmocka_unit_test(parts_take_time_to_join),
        cmocka_unit_test(more_waves_take_longer),
        cmocka_unit_test(batches_add_up),
        cmocka_unit_test(misaligned_lines_take_longer),
        cmocka_unit_test(empty_ctas_take_time),
        cmocka_unit_test(chips_have_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
