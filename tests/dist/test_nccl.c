/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks by NCCL, with a fake one on the fake driver's streams: what is computed and sent, what is refused, and how it
 * fails. */
#include "../cuda/fake_images.h"

#include <string.h>

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
    weft_transport words, transport; /* words of size 0: none */
    int32_t rank, size;
    int stays_away; /* never comes to the run */
    weft_nccl *nccl;
    weft_status opened;
    weft_message message;
} nccl_rank;

static void *open_rank(void *at) {
    nccl_rank *r = at;
    void *context;
    weft_nccl_options options = WEFT_NCCL_OPTIONS_INIT;
    options.id = r->id;
    options.rank = r->rank;
    options.size = r->size;
    options.seconds = r->part->seconds;
    options.words = r->words.size ? &r->words : NULL;
    enter_gpu(&r->part->gpu, &r->part->stream);
    r->transport = (weft_transport)WEFT_TRANSPORT_INIT;
    r->opened = weft_nccl_open(&r->nccl, &options, &r->transport, &r->message);
    assert_true(r->opened || (r->transport.rank == r->rank && r->transport.size == r->size));
    r->part->gpu->context_pop(&context);
    return NULL;
}

static void *run_rank(void *at) {
    nccl_rank *r = at;
    if (!r->opened && !r->stays_away) {
        void *context;
        r->part->gpu->primary_retain(&context, FAKE_GPU);
        r->part->gpu->context_push(context);
        r->part->status = run_part(r->part, &r->transport);
        r->part->gpu->context_pop(&context);
        r->part->gpu->primary_release(FAKE_GPU);
    }
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
        if (words) {
            all->list[i].words = (weft_transport)WEFT_TRANSPORT_INIT;
            assert_int_equal(weft_threads_transport(all->threads, i, &all->list[i].words, NULL), WEFT_OK);
        }
    }
}

static void at_once(ranks *all, void *(*what)(void *)) {
    for (int32_t i = 0; i < all->size; i++) {
        assert_int_equal(pthread_create(&all->list[i].thread, NULL, what, &all->list[i]), 0);
    }
    for (int32_t i = 0; i < all->size; i++) {
        pthread_join(all->list[i].thread, NULL);
    }
}

static void finish(ranks *all) {
    for (int32_t i = 0; i < all->size; i++) {
        weft_dist_destroy(all->parts[i].dist[0]);
        weft_dist_destroy(all->parts[i].dist[1]);
        all->parts[i].dist[0] = all->parts[i].dist[1] = NULL;
        weft_nccl_close(all->list[i].nccl);
        free_part_on_gpu(&all->parts[i]);
    }
    weft_threads_destroy(all->threads);
}

static void matches_the_reference(void **state) {
    (void)state;
    uint64_t random = random_seed(272);
    for (int i = 0; random_round(&random, &i, 24); i++) {
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
        at_once(&all, open_rank);
        at_once(&all, run_rank);
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
        assert_int_equal(counted()->comms, 0);
        check_nothing_leaked(&before, counts());
    }
}

/* ---- what is refused, and failures ---- */

static void absent(void **state) {
    (void)state;
    weft_message message;
    weft_nccl_id id;
    int32_t version;
    script_both(NULL, "version=21305");
    setenv("WEFT_NCCL_LIBRARY", "/nowhere/libnccl.so.2", 1);
    assert_int_equal(weft_nccl_id_make(&id, &message), WEFT_NOT_FOUND);
    assert_non_null(strstr(message.text, "no NCCL: /nowhere/libnccl.so.2"));
    setenv("WEFT_NCCL_LIBRARY", FAKE_CUDA_LIBRARY, 1);
    assert_int_equal(weft_nccl_version(&version, &message), WEFT_UNSUPPORTED);
    assert_string_equal(message.text, "NCCL has no ncclGetVersion: it is too old, or not NCCL");
    setenv("WEFT_NCCL_LIBRARY", FAKE_NCCL_LIBRARY, 1);
    assert_int_equal(weft_nccl_version(&version, &message), WEFT_UNSUPPORTED);
    assert_string_equal(message.text, "NCCL is too old: it is number 21305, and weft needs 21400 (2.14) or newer");
    script_both(NULL, NULL);
    assert_int_equal(weft_nccl_version(&version, &message), WEFT_OK);
    assert_int_equal(version, 22105);
}

static void bad_options(void **state) {
    (void)state;
    weft_transport transport = WEFT_TRANSPORT_INIT;
    weft_nccl_options o = WEFT_NCCL_OPTIONS_INIT;
    weft_message message;
    weft_nccl_id id;
    weft_nccl *nccl;
    const weft_device cpu = WEFT_DEVICE_INIT;
    script_both(NULL, NULL);
    const fake_counts before = *counts();
    assert_int_equal(weft_nccl_id_make(&id, NULL), WEFT_OK);
    assert_int_equal(weft_nccl_id_make(NULL, NULL), WEFT_INVALID);
    assert_int_equal(weft_nccl_open(NULL, &o, &transport, &message), WEFT_INVALID);
    assert_int_equal(weft_nccl_open(&nccl, &o, &transport, &message), WEFT_INVALID);
    assert_string_equal(message.text, "comm and id: one of them is given, the other is null");
    o.id = &id;
    o.device = &cpu;
    assert_int_equal(weft_nccl_open(&nccl, &o, &transport, &message), WEFT_INVALID);
    assert_string_equal(message.text, "device is not a GPU");
    o.device = NULL;
    o.rank = 1;
    assert_int_equal(weft_nccl_open(&nccl, &o, &transport, &message), WEFT_INVALID);
    assert_string_equal(message.text, "rank 1 is not one of 1");
    o.rank = 0;
    o.seconds = -1;
    assert_int_equal(weft_nccl_open(&nccl, &o, &transport, &message), WEFT_INVALID);
    assert_null(nccl);
    check_nothing_leaked(&before, counts());
}

static whole small(uint64_t *random, int64_t ranks) {
    whole w;
    draw_whole(random, &w, 60, ranks, ranks);
    const weft_attention fresh = WEFT_ATTENTION_INIT;
    const weft_ranks none = WEFT_RANKS_INIT;
    w.s.p = fresh;
    w.s.p.operation = WEFT_ATTENTION_BACKWARD;
    w.s.p.heads = w.s.p.kv_heads = 2;
    w.s.p.seq = w.s.p.kv_seq = 60;
    w.s.p.head_dim = 32;
    w.s.p.dtype = WEFT_BF16;
    w.s.ranks = none;
    w.s.ranks.ranks = ranks;
    make_whole(&w, random);
    return w;
}

/* Opens ranks under one script and runs them under another. Nothing is left of them. */
static void fail_with(const char *opening, const char *running, int stays_away, int words, double seconds, ranks *all) {
    uint64_t random = random_seed(273);
    weft_nccl_id id;
    whole w = small(&random, 3);
    script_both("lazy=1", NULL);
    assert_int_equal(weft_nccl_id_make(&id, NULL), WEFT_OK);
    const fake_counts before = *counts();
    start(all, &w, &id, 0, 0, seconds, words);
    all->list[1].stays_away = stays_away;
    script_both("lazy=1", opening);
    at_once(all, open_rank);
    script_both("lazy=1", running);
    at_once(all, run_rank);
    for (int32_t i = 0; i < all->size; i++) {
        all->list[i].message = all->list[i].opened ? all->list[i].message : all->parts[i].message;
        all->list[i].opened = all->list[i].opened ? all->list[i].opened : all->parts[i].status;
        assert_true(all->list[i].stays_away || all->parts[i].status == WEFT_OK || weft_nccl_is_aborted(all->list[i].nccl));
    }
    finish(all);
    free_whole(&w);
    assert_int_equal(counted()->comms, 0);
    check_nothing_leaked(&before, counts());
}

static void every_entry_point_fails(void **state) {
    (void)state;
    static const struct {
        const char *opening, *running, *says;
    } cases[] = {{"init=2", NULL, "a communicator: NCCL: as scripted"},
                 {"async=6", NULL, "a communicator: NCCL: remote process exited"},
                 {"error=3", NULL, "a communicator: NCCL: as scripted"},
                 {"count=3", NULL, "the communicator: NCCL: as scripted"},
                 {"rank=3", NULL, "the communicator: NCCL: as scripted"},
                 {NULL, "send=2", "a round of messages: NCCL: as scripted"},
                 {NULL, "receive=2", "a round of messages: NCCL: as scripted"},
                 {NULL, "begin=3", "a round of messages: NCCL: as scripted"},
                 {NULL, "group=1", "a round of messages: NCCL: as scripted"},
                 {NULL, "error=3", "another rank, or the way to it: NCCL: as scripted"},
                 {NULL, "async=6", "another rank, or the way to it: NCCL: remote process exited"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ranks all;
        fail_with(cases[i].opening, cases[i].running, 0, 0, 60, &all);
        for (int32_t rank = 0; rank < all.size; rank++) {
            assert_int_equal(all.list[rank].opened, WEFT_FAILED);
            assert_non_null(strstr(all.list[rank].message.text, cases[i].says));
        }
    }
}

/* A rank that stays away is named, by each that waits for it or hears of it, and their GPUs wait no more. */
static void a_rank_stays_away(void **state) {
    (void)state;
    for (int words = 0; words < 2; words++) {
        ranks all;
        int named = 0;
        fail_with(NULL, NULL, 1, words, 1, &all);
        for (int32_t rank = 0; rank < all.size; rank += 2) {
            assert_int_equal(all.list[rank].opened, WEFT_FAILED);
            named += strstr(all.list[rank].message.text, "rank 1 has not answered for 1 s") != NULL;
        }
        assert_true(words ? named == 2 : named >= 1);
    }
}

/* A communicator that not all ranks come to. */
static void nobody_comes(void **state) {
    (void)state;
    weft_transport transport = WEFT_TRANSPORT_INIT;
    weft_nccl_options o = WEFT_NCCL_OPTIONS_INIT;
    weft_message message;
    weft_nccl_id id;
    weft_nccl *nccl;
    script_both("lazy=1", NULL);
    const fake_counts before = *counts();
    assert_int_equal(weft_nccl_id_make(&id, NULL), WEFT_OK);
    o.id = &id;
    o.size = 2;
    o.seconds = 0.05;
    assert_int_equal(weft_nccl_open(&nccl, &o, &transport, &message), WEFT_FAILED);
    assert_string_equal(message.text, "a communicator: a rank has not come for 0.05 s");
    assert_int_equal(counted()->comms, 0);
    check_nothing_leaked(&before, counts());
}

/* The program's own communicator is neither ended nor taken for another GPU's. */
static void borrowed(void **state) {
    (void)state;
    weft_transport transport = WEFT_TRANSPORT_INIT;
    weft_nccl_options o = WEFT_NCCL_OPTIONS_INIT;
    weft_device second = WEFT_DEVICE_INIT;
    weft_message message;
    weft_nccl *nccl;
    void *library = dlopen(FAKE_NCCL_LIBRARY, RTLD_NOW | RTLD_LOCAL), *comm;
    int (*make)(void **, int, weft_nccl_id, int, void *);
    struct {
        size_t size;
        int magic, version, blocking;
    } config = {24, (int)0xcafebeef, 21400, 0};
    weft_nccl_id id;
    script_both("lazy=1 devices=2", NULL);
    assert_int_equal(weft_nccl_id_make(&id, NULL), WEFT_OK);
    *(void **)&make = dlsym(library, "ncclCommInitRankConfig");
    assert_int_equal(make(&comm, 1, id, 0, &config), 7);
    second.kind = WEFT_DEVICE_CUDA;
    second.index = 1;
    o.comm = comm;
    o.device = &second;
    assert_int_equal(weft_nccl_open(&nccl, &o, &transport, &message), WEFT_INVALID);
    assert_string_equal(message.text, "the communicator is of GPU 0, and the device is GPU 1");
    o.device = NULL;
    assert_int_equal(weft_nccl_open(&nccl, &o, &transport, &message), WEFT_OK);
    assert_int_equal(transport.size, 1);
    weft_nccl_close(nccl);
    assert_int_equal(counted()->comms, 1);
    counted()->comms = 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(absent),
                                       cmocka_unit_test(bad_options),
                                       cmocka_unit_test(matches_the_reference),
                                       cmocka_unit_test(every_entry_point_fails),
                                       cmocka_unit_test(a_rank_stays_away),
                                       cmocka_unit_test(nobody_comes),
                                       cmocka_unit_test(borrowed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
