/* Ranks by NCCL, with a fake one on the fake driver's streams: what is computed and sent, what is refused, and how it
 * fails. */
#include "../cuda/fake_images.h"

#include <sys/wait.h>
#include <unistd.h>

#include "fake_nccl.h"
#include "gpu_ranks.h"
#include <weft/nccl.h>

static fake_nccl_counts *counted(void) {
    void *library = dlopen(FAKE_NCCL_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    fake_nccl_counts *found = dlsym(library, "fake_nccl_counted");
    assert_non_null(found);
    return found;
}

/* Scripts both fakes; null: all well. */
static void script_both(const char *cuda, const char *nccl) {
    script(cuda);
    assert_int_equal(setenv("WEFT_NCCL_LIBRARY", FAKE_NCCL_LIBRARY, 1), 0);
    assert_int_equal(nccl ? setenv("FAKE_NCCL", nccl, 1) : unsetenv("FAKE_NCCL"), 0);
}

/* A rank that opens NCCL, runs its part and closes. */
typedef struct nccl_rank {
    pthread_t thread;
    part *part;
    const weft_nccl_id *id;
    weft_transport words; /* size 0: none */
    int32_t rank, size;
    int stays_away, leaves; /* never comes to the run; fails before it */
    weft_status opened;
    weft_message message;
    int aborted;
} nccl_rank;

static void *run_rank(void *at) {
    nccl_rank *r = at;
    weft_transport transport = WEFT_TRANSPORT_INIT;
    weft_nccl_options options = WEFT_NCCL_OPTIONS_INIT;
    weft_nccl *nccl;
    options.id = r->id;
    options.rank = r->rank;
    options.size = r->size;
    options.seconds = r->part->seconds;
    options.words = r->words.send ? &r->words : NULL;
    enter_gpu(r->part);
    r->opened = weft_nccl_open(&nccl, &options, &transport, &r->message);
    if (r->opened == WEFT_OK) {
        assert_int_equal(transport.rank, r->rank);
        assert_int_equal(transport.size, r->size);
        r->part->status = r->stays_away ? WEFT_FAILED : run_part(r->part, &transport);
        weft_dist_destroy(r->part->dist[1]);
        r->part->dist[1] = NULL;
        r->aborted = weft_nccl_is_aborted(nccl);
    }
    r->part->gpu->context_pop(&(void *){NULL});
    r->part->nccl = r->opened ? NULL : nccl;
    return NULL;
}

typedef struct ranks {
    nccl_rank list[MOST_RANKS];
    part parts[MOST_RANKS];
    weft_threads *threads;
    int32_t size;
} ranks;

static void start(ranks *all, const whole *w, const weft_nccl_id *id, int bhsd, int keeps, double seconds, int words) {
    all->size = (int32_t)w->s.ranks.ranks;
    assert_int_equal(weft_threads_create(&all->threads, all->size, NULL), WEFT_OK);
    for (int32_t i = 0; i < all->size; i++) {
        all->parts[i] = part_of(w, i, bhsd, keeps);
        all->parts[i].seconds = seconds;
        all->list[i] = (nccl_rank){.part = &all->parts[i], .id = id, .rank = i, .size = all->size};
        all->list[i].words = (weft_transport)WEFT_TRANSPORT_INIT;
        if (words) {
            assert_int_equal(weft_threads_transport(all->threads, i, &all->list[i].words, NULL), WEFT_OK);
        }
    }
}

static void run(ranks *all) {
    for (int32_t i = 0; i < all->size; i++) {
        assert_int_equal(pthread_create(&all->list[i].thread, NULL, run_rank, &all->list[i]), 0);
    }
    for (int32_t i = 0; i < all->size; i++) {
        pthread_join(all->list[i].thread, NULL);
    }
}

static void finish(ranks *all) {
    for (int32_t i = 0; i < all->size; i++) {
        weft_dist_destroy(all->parts[i].dist[0]);
        all->parts[i].dist[0] = NULL;
        weft_nccl_close(all->parts[i].nccl);
        leave_gpu(&all->parts[i]);
    }
    weft_threads_destroy(all->threads);
}

static void matches_the_reference(void **state) {
    (void)state;
    uint64_t random = random_seed(272);
    for (int i = 0; random_round(&random, &i, 40); i++) {
        whole w;
        ranks all;
        weft_nccl_id id;
        script_both("lazy=1", i % 3 == 0 ? "late=2" : NULL);
        const fake_counts before = *counts();
        assert_int_equal(weft_nccl_id_make(&id, NULL), WEFT_OK);
        draw_whole(&random, &w, 90, 1, MOST_RANKS);
        suit_gpu(&w, &random);
        make_whole(&w, &random);
        start(&all, &w, &id, (int)random_between(&random, 0, 1), (int)random_between(&random, 0, 1), 60, i % 2);
        run(&all);
        for (int32_t rank = 0; rank < all.size; rank++) {
            if (all.list[rank].opened || all.parts[rank].status) {
                fail_msg("rank %d: %s %s", (int)rank, all.list[rank].message.text, all.parts[rank].message.text);
            }
            assert_int_equal(all.parts[rank].counted[0].sent, all.parts[rank].expected[0].sent);
            assert_int_equal(all.parts[rank].counted[1].sent, all.parts[rank].expected[1].sent);
        }
        check_parts(&w, all.parts);
        finish(&all);
        free_whole(&w);
        assert_int_equal(counted()->mismatches, 0);
        assert_int_equal(counted()->aborted, 0);
        assert_int_equal(counted()->comms, 0);
        check_nothing_leaked(&before, counts());
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(matches_the_reference)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
