/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that fail: the others are told which one, within the time limit; nothing hangs, and nothing is leaked. */
#include "../cmocka_all.h"

#include <stdlib.h>
#include <string.h>

#include "dist/io.h"
#include "faulty.h"
#include "on_threads.h"
#include "shaken.h"

enum { RANKS = 4 };
static const double LIMIT = 6; /* seconds: the half of it is what a rank of a busy machine may take to answer */

/* Problems in which all ranks need what each has. */
static whole whole_of(int64_t exchange, int back, uint64_t *random) {
    const weft_attention fresh = WEFT_ATTENTION_INIT;
    const weft_ranks none = WEFT_RANKS_INIT;
    whole w = {.s = {.p = fresh, .ranks = none}};
    w.s.p.operation = back ? WEFT_ATTENTION_BACKWARD : WEFT_ATTENTION;
    w.s.p.heads = 4;
    w.s.p.kv_heads = 2;
    w.s.p.seq = w.s.p.kv_seq = 50;
    w.s.p.head_dim = 16;
    w.s.p.extras = back ? WEFT_SINKS : 0;
    w.s.ranks.ranks = RANKS;
    w.s.ranks.exchange = (int32_t)exchange;
    make_whole(&w, random);
    return w;
}

static whole_product product_of(int64_t exchange, int32_t cut, uint64_t *random) {
    const weft_gemm fresh = WEFT_GEMM_INIT;
    const weft_ranks none = WEFT_RANKS_INIT;
    whole_product w = {.p = fresh, .ranks = none};
    w.p.m = 50;
    w.p.n = 30;
    w.p.k = 40;
    w.ranks.ranks = RANKS;
    w.ranks.exchange = (int32_t)exchange;
    w.ranks.cut = cut;
    fill_product(&w, random);
    return w;
}

/* ---- a rank that never comes, that leaves, and that stalls ---- */

typedef struct scenario {
    whole w;
    whole_product product;
    int32_t cut; /* of the product; 0: it is the attention that runs */
    faulty faulty[RANKS];
    int32_t victim;
    fault fault;
    weft_threads *threads;
    part parts[RANKS];
    part_product products[RANKS];
    thread_rank ranks[RANKS];
    pthread_mutex_t lock;
} scenario;

static weft_status status_of(const scenario *s, int32_t rank) {
    return s->cut ? s->products[rank].status : s->parts[rank].status;
}

static const char *words_of(const scenario *s, int32_t rank) {
    return s->cut ? s->products[rank].message.text : s->parts[rank].message.text;
}

/* The same bits. */
static void check_as(const scenario *a, const scenario *b, int32_t rank) {
    if (a->cut) {
        assert_memory_equal(a->products[rank].c.at, b->products[rank].c.at, a->products[rank].c.bytes);
    } else {
        check_same(&a->parts[rank], &b->parts[rank]);
    }
}

static void start(scenario *s, fault fault, int64_t after, int64_t looks) {
    assert_int_equal(weft_threads_create(&s->threads, RANKS, NULL), WEFT_OK);
    s->fault = fault;
    pthread_mutex_init(&s->lock, NULL);
    pthread_mutex_lock(&s->lock);
    for (int32_t rank = 0; rank < RANKS; rank++) {
        weft_transport plain = WEFT_TRANSPORT_INIT;
        faulty *f = &s->faulty[rank];
        *f = (faulty){.lock = &s->lock, .after = after, .looks = looks};
        f->fault = rank == s->victim ? fault : NO_FAULT;
        s->parts[rank] = part_of(&s->w, rank, 0, 0);
        s->products[rank] = product_part_of(&s->product, rank);
        s->parts[rank].seconds = s->products[rank].seconds = LIMIT;
        assert_int_equal(weft_threads_transport(s->threads, rank, &plain, NULL), WEFT_OK);
        s->ranks[rank].part = &s->parts[rank];
        s->ranks[rank].product = s->cut ? &s->products[rank] : NULL;
        s->ranks[rank].transport = faulty_open(f, &plain);
        if (f->fault != NEVER_COMES) {
            assert_int_equal(pthread_create(&s->ranks[rank].thread, NULL, thread_rank_run, &s->ranks[rank]), 0);
        }
    }
}

/* Waits for all: for who stalls last, since it goes on when all others have ended. */
static void finish(scenario *s) {
    for (int32_t rank = 0; rank < RANKS; rank++) {
        if (rank != s->victim) {
            pthread_join(s->ranks[rank].thread, NULL);
        }
    }
    pthread_mutex_unlock(&s->lock);
    if (s->victim >= 0 && s->fault != NEVER_COMES) {
        pthread_join(s->ranks[s->victim].thread, NULL);
    }
}

static void clean(scenario *s) {
    for (int32_t rank = 0; rank < RANKS; rank++) {
        free_part(&s->parts[rank]);
        free_product_part(&s->products[rank]);
    }
    weft_threads_destroy(s->threads);
    pthread_mutex_destroy(&s->lock);
}

/* What a rank has to say when another is silent. A rank that has all it needs may be right instead. */
static void names_the_victim(const scenario *s, const scenario *good, int32_t rank, int may_be_right) {
    char first[64];
    if (status_of(s, rank) == WEFT_OK && may_be_right) {
        check_as(s, good, rank);
        return;
    }
    assert_int_equal(status_of(s, rank), WEFT_FAILED);
    snprintf(first, sizeof first, "rank %d has not answered for %g s", (int)s->victim, LIMIT);
    if (strncmp(words_of(s, rank), first, strlen(first)) != 0) {
        fail_msg("rank %d says '%s', not '%s'", (int)rank, words_of(s, rank), first);
    }
}

static void a_silent_rank_is_named(void **state) {
    static const struct {
        int64_t exchange;
        int back;
        int32_t cut;
    } kinds[] = {{WEFT_EXCHANGE_RING, 0, 0},          {WEFT_EXCHANGE_RING, 1, 0},
                 {WEFT_EXCHANGE_ALL_GATHER, 0, 0},    {WEFT_EXCHANGE_ALL_GATHER, 1, 0},
                 {WEFT_EXCHANGE_HEADS, 0, 0},         {WEFT_EXCHANGE_HEADS, 1, 0},
                 {WEFT_EXCHANGE_RING, 0, WEFT_CUT_M}, {WEFT_EXCHANGE_ALL_GATHER, 0, WEFT_CUT_M},
                 {WEFT_EXCHANGE_RING, 0, WEFT_CUT_K}, {WEFT_EXCHANGE_ALL_GATHER, 0, WEFT_CUT_K}};
    enum { KINDS = sizeof kinds / sizeof *kinds, FAULTS = 3 };
    (void)state;
    uint64_t random = random_seed(41);
    static scenario good[KINDS], bad[KINDS][FAULTS];
    for (int kind = 0; kind < KINDS; kind++) {
        good[kind] = (scenario){.w = whole_of(kinds[kind].exchange, kinds[kind].back, &random),
                                .product = product_of(kinds[kind].exchange, kinds[kind].cut, &random),
                                .cut = kinds[kind].cut,
                                .victim = -1};
        start(&good[kind], NO_FAULT, 0, 0);
        finish(&good[kind]);
        for (int f = 0; f < FAULTS; f++) { /* all at once: they take one time limit together */
            scenario *s = &bad[kind][f];
            *s = (scenario){.w = good[kind].w,
                            .product = good[kind].product,
                            .cut = good[kind].cut,
                            .victim = (int32_t)random_between(&random, 0, RANKS - 1)};
            const int64_t messages = good[kind].faulty[s->victim].begun;
            start(s, NEVER_COMES + (fault)f, random_between(&random, 1, messages), random_between(&random, 0, 3));
        }
    }
    for (int kind = 0; kind < KINDS; kind++) {
        for (int f = 0; f < FAULTS; f++) {
            scenario *s = &bad[kind][f];
            finish(s);
            for (int32_t rank = 0; rank < RANKS; rank++) {
                assert_int_equal(status_of(&good[kind], rank), WEFT_OK);
                if (rank != s->victim) {
                    names_the_victim(s, &good[kind], rank, f > 0);
                }
            }
            clean(s);

            /* A new meeting place, and all is well. */
            s->victim = -1;
            start(s, NO_FAULT, 0, 0);
            finish(s);
            for (int32_t rank = 0; rank < RANKS; rank++) {
                assert_int_equal(status_of(s, rank), WEFT_OK);
                check_as(s, &good[kind], rank);
            }
            clean(s);
        }
        clean(&good[kind]);
        free_whole(&good[kind].w);
        free_product(&good[kind].product);
    }
}

/* ---- ranks that run unlike problems ---- */

static void unlike_problems_end(void **state) {
    (void)state;
    uint64_t random = random_seed(42);
    for (int i = 0; random_round(&random, &i, 16); i++) {
        const int32_t size = (int32_t)random_between(&random, 2, RANKS),
                      other = (int32_t)random_between(&random, 0, size - 1);
        whole wholes[2];
        part parts[RANKS];
        thread_rank ranks[RANKS];
        shaken shakens[RANKS];
        weft_threads *threads;
        for (int j = 0; j < 2; j++) {
            draw_whole(&random, &wholes[j], 60, size, size);
            make_whole(&wholes[j], &random);
        }
        assert_int_equal(weft_threads_create(&threads, size, NULL), WEFT_OK);
        for (int32_t rank = 0; rank < size; rank++) {
            weft_transport plain = WEFT_TRANSPORT_INIT;
            parts[rank] = part_of(&wholes[rank == other], rank, 0, 0);
            parts[rank].seconds = 0.2;
            assert_int_equal(weft_threads_transport(threads, rank, &plain, NULL), WEFT_OK);
            ranks[rank] = (thread_rank){.part = &parts[rank]};
            ranks[rank].transport = shaken_open(&shakens[rank], &plain, random_bits(&random));
            assert_int_equal(pthread_create(&ranks[rank].thread, NULL, thread_rank_run, &ranks[rank]), 0);
        }
        for (int32_t rank = 0; rank < size; rank++) {
            pthread_join(ranks[rank].thread, NULL);
        }
        for (int32_t rank = 0; rank < size; rank++) {
            if (parts[rank].status == WEFT_OK) { /* who hears from nobody else may be right */
                check_counts(&parts[rank]);
            }
            assert_true(parts[rank].status == WEFT_OK || parts[rank].message.text[0]);
            shaken_close(&shakens[rank]);
            free_part(&parts[rank]);
        }
        weft_threads_destroy(threads);
        free_whole(&wholes[0]);
        free_whole(&wholes[1]);
    }
}

/* ---- waiting ---- */

typedef struct waiter {
    weft_io io;
    pthread_t thread;
    int computes;                /* so often, each time for a twentieth of a second */
    int32_t waits_for, sends_to; /* sends_to < 0: it waits */
    weft_status status;
    weft_message message;
} waiter;

/* Computes, and then sends to whom waits for it, or waits. */
static void *wait_or_compute(void *at) {
    waiter *w = at;
    char letter = 0;
    weft_io_begin(&w->io);
    for (int i = 0; i < w->computes; i++) {
        const struct timespec pause = {0, 50000000};
        nanosleep(&pause, NULL);
        weft_io_poll(&w->io);
    }
    w->status = w->sends_to >= 0 ? weft_io_send(&w->io, &letter, 1, w->sends_to, WEFT_TAG_KEYS, 0, &w->message)
                                 : weft_io_receive(&w->io, &letter, 1, w->waits_for, WEFT_TAG_KEYS, 0, &w->message);
    w->status = w->status ? w->status : weft_io_wait(&w->io, 0, &w->message);
    weft_io_end(&w->io, w->status);
    return NULL;
}

/* Ranks 0 and 1 of three: the last never comes. */
static void wait_together(waiter waiters[2], double seconds) {
    weft_threads *threads;
    assert_int_equal(weft_threads_create(&threads, 3, NULL), WEFT_OK);
    for (int32_t rank = 0; rank < 2; rank++) {
        weft_transport t = WEFT_TRANSPORT_INIT;
        assert_int_equal(weft_threads_transport(threads, rank, &t, NULL), WEFT_OK);
        assert_int_equal(weft_io_open(&waiters[rank].io, &t, seconds, NULL), WEFT_OK);
        assert_int_equal(pthread_create(&waiters[rank].thread, NULL, wait_or_compute, &waiters[rank]), 0);
    }
    for (int rank = 0; rank < 2; rank++) {
        pthread_join(waiters[rank].thread, NULL);
    }
    for (int rank = 0; rank < 2; rank++) {
        weft_io_close(&waiters[rank].io);
    }
    weft_threads_destroy(threads);
}

static void a_rank_that_computes_is_waited_for(void **state) {
    (void)state;
    waiter waiters[2] = {{.waits_for = 1, .sends_to = -1}, {.computes = (int)(LIMIT / 0.05), .sends_to = 0}};
    wait_together(waiters, LIMIT / 2); /* rank 1 computes for twice the limit */
    assert_int_equal(waiters[0].status, WEFT_OK);
    assert_int_equal(waiters[1].status, WEFT_OK);
}

static void ranks_that_wait_for_each_other_are_told(void **state) {
    (void)state;
    waiter waiters[2] = {{.waits_for = 1, .sends_to = -1}, {.waits_for = 0, .sends_to = -1}};
    wait_together(waiters, 0.5);
    int asks = 0;
    for (int rank = 0; rank < 2; rank++) {
        assert_int_equal(waiters[rank].status, WEFT_FAILED);
        asks += strstr(waiters[rank].message.text, "the same problem?") != NULL;
    }
    assert_true(asks > 0);
}

/* Rank 0 has given up and left when rank 1 comes to wait for it. */
static void who_comes_late_is_told(void **state) {
    (void)state;
    waiter waiters[2] = {{.waits_for = 2, .sends_to = -1}, {.computes = 40, .waits_for = 0, .sends_to = -1}};
    wait_together(waiters, 1);
    assert_int_equal(waiters[0].status, WEFT_FAILED);
    assert_string_equal(waiters[0].message.text, "rank 2 has not answered for 1 s");
    assert_int_equal(waiters[1].status, WEFT_FAILED);
    assert_string_equal(waiters[1].message.text, "rank 2 has not answered for 1 s, says rank 0");
}

/* A transport of a device has no words: the time limit is all there is. */
static void without_words_the_limit_counts(void **state) {
    (void)state;
    weft_threads *threads;
    weft_transport t = WEFT_TRANSPORT_INIT;
    weft_io io;
    weft_message message;
    char letter;
    assert_int_equal(weft_threads_create(&threads, 3, NULL), WEFT_OK);
    assert_int_equal(weft_threads_transport(threads, 0, &t, NULL), WEFT_OK);
    t.on_device = 1;
    assert_int_equal(weft_io_open(&io, &t, 0.2, NULL), WEFT_OK);
    weft_io_begin(&io);
    assert_int_equal(weft_io_receive(&io, &letter, 1, 2, WEFT_TAG_KEYS, 0, NULL), WEFT_OK);
    assert_int_equal(weft_io_wait(&io, 0, &message), WEFT_FAILED);
    assert_string_equal(message.text, "rank 2 has not answered for 0.2 s");
    weft_io_end(&io, WEFT_FAILED);
    weft_io_close(&io);
    void *request;
    assert_int_equal(weft_threads_transport(threads, 2, &t, NULL), WEFT_OK);
    uint64_t word[7];
    assert_int_equal(t.receive(t.self, word, sizeof word, 0, WEFT_TAG_WORD, &request, NULL), WEFT_OK);
    int32_t done = 1;
    assert_int_equal(t.test(t.self, request, &done, NULL), WEFT_OK);
    assert_int_equal(done, 0); /* nothing was told */
    assert_int_equal(t.cancel(t.self, request), 1);
    weft_threads_destroy(threads);
}

/* What has begun and never ends is given up, and so is its memory. */
static void what_is_under_way_is_given_up(void **state) {
    (void)state;
    weft_threads *threads;
    weft_transport t = WEFT_TRANSPORT_INIT;
    weft_io io;
    char *buffer = calloc(2, 1000);
    assert_int_equal(weft_threads_create(&threads, 2, NULL), WEFT_OK);
    assert_int_equal(weft_threads_transport(threads, 0, &t, NULL), WEFT_OK);
    assert_int_equal(weft_io_open(&io, &t, 1, NULL), WEFT_OK);
    weft_io_begin(&io);
    assert_int_equal(weft_io_send(&io, buffer, 1000, 1, WEFT_TAG_KEYS, 0, NULL), WEFT_OK);
    assert_int_equal(weft_io_receive(&io, buffer + 1000, 1000, 1, WEFT_TAG_KEYS, 0, NULL), WEFT_OK);
    weft_io_close(&io);
    free(buffer);
    weft_threads_destroy(threads);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_silent_rank_is_named),
        cmocka_unit_test(unlike_problems_end),
        cmocka_unit_test(a_rank_that_computes_is_waited_for),
        cmocka_unit_test(ranks_that_wait_for_each_other_are_told),
        cmocka_unit_test(who_comes_late_is_told),
        cmocka_unit_test(without_words_the_limit_counts),
        cmocka_unit_test(what_is_under_way_is_given_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
