/* SPDX-License-Identifier: Apache-2.0 */
/* Attention over ranks, which are threads here: held to the fp64 reference of the whole, whatever is cut and exchanged, the
 * same bits each time, and as many bytes sent as was said before; also when messages are late and overtake each other. */
#include "../cmocka_all.h"

#include "on_threads.h"

static void run_all(const whole *w, part *parts, int bhsd, int keeps, uint64_t *shakes) {
    const int32_t size = (int32_t)w->s.ranks.ranks;
    for (int32_t rank = 0; rank < size; rank++) {
        parts[rank] = part_of(w, rank, bhsd, keeps);
    }
    threads_run(size, parts, NULL, thread_rank_run, 0, shakes);
}

static void matches_the_reference(void **state) {
    (void)state;
    uint64_t random = random_seed(31);
    for (int i = 0; random_round(&random, &i, 80); i++) {
        whole w;
        part parts[MOST_RANKS], again[MOST_RANKS];
        draw_whole(&random, &w, 90, 1, MOST_RANKS);
        make_whole(&w, &random);
        const int bhsd = (int)random_between(&random, 0, 1), keeps = (int)random_between(&random, 0, 1);
        run_all(&w, parts, bhsd, keeps, NULL);
        check_parts(&w, parts);
        run_all(&w, again, bhsd, !keeps, &random); /* what was kept changes what is sent, and no result */
        for (int32_t rank = 0; rank < w.s.ranks.ranks; rank++) {
            check_same(&parts[rank], &again[rank]);
            free_part(&parts[rank]);
            free_part(&again[rank]);
        }
        free_whole(&w);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matches_the_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
