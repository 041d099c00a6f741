/* SPDX-License-Identifier: Apache-2.0 */
/* Attention over ranks with a GPU each, by the fake driver: its streams do their work as late as they may, so that a copy
 * or a kernel that does not wait for what it needs finds memory as it was before. Messages are staged through pinned
 * memory, or handed to a transport that takes the memory of both. */
#include "../cuda/fake_images.h"

#include "gpu_ranks.h"

static void run_all(const whole *w, part *parts, int bhsd, int keeps, int on_device, uint64_t *shakes) {
    const int32_t size = (int32_t)w->s.ranks.ranks;
    for (int32_t rank = 0; rank < size; rank++) {
        parts[rank] = part_of(w, rank, bhsd, keeps);
    }
    threads_run(size, parts, NULL, rank_on_gpu, on_device, shakes);
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
