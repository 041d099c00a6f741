/* SPDX-License-Identifier: Apache-2.0 */
/* Attention over ranks with a GPU each, by the fake driver: its streams do their work as late as they may, so that a copy
 * or a kernel that does not wait for what it needs finds memory as it was before. Messages are staged through pinned
 * memory, or handed to a transport that takes the memory of both. */
#include "../cuda/fake_images.h"

#include "gpu_ranks.h"
#include "shaken.h"

static void run_all(const whole *w, part *parts, int bhsd, int keeps, int on_device, uint64_t *shakes) {
    const int32_t size = (int32_t)w->s.ranks.ranks;
    weft_threads *threads;
    thread_rank ranks[MOST_RANKS];
    shaken shakens[MOST_RANKS];
    assert_int_equal(weft_threads_create(&threads, size, NULL), WEFT_OK);
    for (int32_t rank = 0; rank < size; rank++) {
        weft_transport plain = WEFT_TRANSPORT_INIT;
        parts[rank] = part_of(w, rank, bhsd, keeps);
        ranks[rank] = (thread_rank){.part = &parts[rank]};
        assert_int_equal(weft_threads_transport(threads, rank, &plain, NULL), WEFT_OK);
        ranks[rank].transport = shakes ? shaken_open(&shakens[rank], &plain, random_bits(shakes)) : plain;
        ranks[rank].transport.on_device = on_device; /* the fake's memory is the host's: threads take both */
        assert_int_equal(pthread_create(&ranks[rank].thread, NULL, rank_on_gpu, &ranks[rank]), 0);
    }
    for (int32_t rank = 0; rank < size; rank++) {
        pthread_join(ranks[rank].thread, NULL);
    }
    for (int32_t rank = 0; rank < size; rank++) {
        if (parts[rank].status) {
            fail_msg("rank %d of %d: %s", (int)rank, (int)size, parts[rank].message.text);
        }
        if (shakes) {
            shaken_close(&shakens[rank]);
        }
        check_counts(&parts[rank]);
    }
    weft_threads_destroy(threads);
}

static void matches_the_reference(void **state) {
    (void)state;
    uint64_t random = random_seed(271);
    for (int i = 0; random_round(&random, &i, 24); i++) {
        whole w;
        part staged[MOST_RANKS], direct[MOST_RANKS];
        const fake_counts before = *counts();
        script("lazy=1");
        draw_whole(&random, &w, 90, 1, MOST_RANKS);
        suit_gpu(&w, &random);
        make_whole(&w, &random);
        const int bhsd = (int)random_between(&random, 0, 1), keeps = (int)random_between(&random, 0, 1);
        run_all(&w, staged, bhsd, keeps, WEFT_HOST_MEMORY, i % 2 ? &random : NULL);
        check_parts(&w, staged);
        run_all(&w, direct, bhsd, !keeps, WEFT_ANY_MEMORY, i % 2 ? NULL : &random);
        for (int32_t rank = 0; rank < w.s.ranks.ranks; rank++) {
            check_same(&staged[rank], &direct[rank]);
            free_part_on_gpu(&staged[rank]);
            free_part_on_gpu(&direct[rank]);
        }
        free_whole(&w);
        check_nothing_leaked(&before, counts());
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(matches_the_reference)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
