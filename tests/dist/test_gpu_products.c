/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products over ranks with a GPU each, by the fake driver, whose streams do their work as late as they may. */
#include "../cuda/fake_images.h"

#include <string.h>

#include "gpu_ranks.h"

static void run_all(const whole_product *w, part_product *parts, int on_device, uint64_t *shakes) {
    const int32_t size = (int32_t)w->ranks.ranks;
    for (int32_t rank = 0; rank < size; rank++) {
        parts[rank] = product_part_of(w, rank);
    }
    threads_run(size, NULL, parts, rank_on_gpu, on_device, shakes);
}

static void matches_the_reference(void **state) {
    (void)state;
    uint64_t random = random_seed(272);
    for (int i = 0; random_round(&random, &i, 40); i++) {
        whole_product w;
        part_product staged[MOST_RANKS], direct[MOST_RANKS];
        const fake_counts before = *counts();
        script("lazy=1");
        draw_product(&random, &w, 90, 1, MOST_RANKS);
        suit_gpu_product(&w);
        fill_product(&w, &random);
        run_all(&w, staged, WEFT_HOST_MEMORY, i % 2 ? &random : NULL);
        check_product(&w, staged);
        run_all(&w, direct, WEFT_ANY_MEMORY, i % 2 ? NULL : &random);
        for (int32_t rank = 0; rank < w.ranks.ranks; rank++) {
            if (staged[rank].c.at) {
                assert_memory_equal(staged[rank].c.at, direct[rank].c.at, staged[rank].c.bytes);
            }
            free_product_on_gpu(&staged[rank]);
            free_product_on_gpu(&direct[rank]);
        }
        free_product(&w);
        check_nothing_leaked(&before, counts());
    }
}

/* What begins within 16 bytes is refused when the ranks are made, by its name. */
static void refuses_what_is_misaligned(void **state) {
    (void)state;
    weft_device device = WEFT_DEVICE_INIT;
    weft_ranks ranks = WEFT_RANKS_INIT;
    device.kind = WEFT_DEVICE_CUDA;
    ranks.ranks = 2;
    static const struct {
        int cut, m, n, k, batch, c_col;
        const char *says;
    } cases[] = {{WEFT_CUT_M, 64, 64, 63, 1, 0, "rows of A as they come"},
                 {WEFT_CUT_M, 64, 62, 64, 1, 0, "rows of C"},
                 {WEFT_CUT_M, 64, 64, 64, 1, 1, "rows of C"},
                 {WEFT_CUT_K, 64, 64, 62, 1, 0, "rows of A"},
                 {WEFT_CUT_K, 64, 63, 64, 2, 0, "matrices of sums"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weft_gemm p = WEFT_GEMM_INIT;
        weft_threads *threads;
        weft_transport transport = WEFT_TRANSPORT_INIT;
        weft_message message;
        weft_dist *dist;
        p.m = cases[i].m;
        p.n = cases[i].n;
        p.k = cases[i].k;
        p.batch = cases[i].batch;
        p.dtype = p.c_dtype = WEFT_BF16;
        p.c_major = cases[i].c_col ? WEFT_COL_MAJOR : WEFT_ROW_MAJOR;
        ranks.cut = cases[i].cut;
        assert_int_equal(weft_threads_create(&threads, 2, NULL), WEFT_OK);
        assert_int_equal(weft_threads_transport(threads, 0, &transport, NULL), WEFT_OK);
        const weft_dist_options options = {sizeof options, &ranks, &transport, &device, NULL, 1};
        assert_int_equal(weft_dist_create(&dist, &p, &options, &message), WEFT_UNSUPPORTED);
        if (!strstr(message.text, cases[i].says)) {
            fail_msg("case %zu: %s", i, message.text);
        }
        weft_threads_destroy(threads);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(matches_the_reference),
                                       cmocka_unit_test(refuses_what_is_misaligned)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
