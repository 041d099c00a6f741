/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between GPUs by way of the host: pieces of them, their order, and how they fail, on the fake driver's late
 * streams. */
#include "../cuda/fake_images.h"

#include <string.h>

#include "../random.h"
#include "base/status.h"
#include "dist/staging.h"
#include "gpu_ranks.h"
#include "shaken.h"

enum { PIECE = 48 };

typedef struct pair {
    weft_threads *threads;
    weft_staging *staging[2];
    weft_transport t[2];
    shaken shaken[2];
    const weft_cuda_driver *gpu;
} pair;

static void open_pair(pair *p, uint64_t *shakes, int on_device) {
    script("lazy=1");
    assert_int_equal(weft_cuda_driver_get(&p->gpu, NULL), WEFT_OK);
    assert_int_equal(weft_threads_create(&p->threads, 2, NULL), WEFT_OK);
    for (int i = 0; i < 2; i++) {
        weft_transport plain = WEFT_TRANSPORT_INIT;
        assert_int_equal(weft_threads_transport(p->threads, i, &plain, NULL), WEFT_OK);
        weft_transport host = shakes ? shaken_open(&p->shaken[i], &plain, random_bits(shakes)) : plain;
        host.on_device = on_device;
        assert_int_equal(weft_staging_open(&p->staging[i], 0, &host, PIECE, &p->t[i], NULL), WEFT_OK);
        assert_int_equal(p->t[i].on_device, WEFT_DEVICE_MEMORY);
    }
}

static void close_pair(pair *p, int shakes) {
    for (int i = 0; i < 2; i++) {
        weft_staging_close(p->staging[i]);
        if (shakes) {
            shaken_close(&p->shaken[i]);
        }
    }
    weft_threads_destroy(p->threads);
}

static char *there(const pair *p, size_t bytes) {
    uint64_t at;
    assert_int_equal(p->gpu->memory_new(&at, bytes), 0);
    return (char *)(uintptr_t)at;
}

static void give_back(const pair *p, const void *at) {
    p->gpu->memory_free((uint64_t)(uintptr_t)at);
}

/* Messages of all lengths, of several tags and rounds, both ways: what arrives is what was there when the stream had come
 * so far, though the sender's memory is written by work that is still on its stream when the round begins. */
static void all_lengths(void **state) {
    (void)state;
    enum { MESSAGES = 6 };
    uint64_t random = random_seed(275);
    for (int i = 0; random_round(&random, &i, 60); i++) {
        pair p;
        void *streams[2], *requests[2][2 * MESSAGES];
        char *from[2][MESSAGES], *to[2][MESSAGES];
        size_t bytes[2][MESSAGES];
        unsigned words[2][MESSAGES];
        const fake_counts before = *counts();
        open_pair(&p, i % 2 ? &random : NULL, i % 3 ? WEFT_HOST_MEMORY : WEFT_ANY_MEMORY);
        for (int rank = 0; rank < 2; rank++) {
            p.gpu->stream_new(&streams[rank], WEFT_CU_STREAM_NON_BLOCKING);
            for (int n = 0; n < MESSAGES; n++) {
                bytes[rank][n] = 4 * (size_t)random_between(&random, 1, 3 * PIECE);
                words[rank][n] = (unsigned)random_bits(&random);
                from[rank][n] = there(&p, bytes[rank][n]);
                to[!rank][n] = there(&p, bytes[rank][n]);
            }
        }
        for (int rank = 0; rank < 2; rank++) {
            for (int n = 0; n < MESSAGES; n++) {
                const int32_t tag = WEFT_FIRST_TAG + n % 3;
                if (n % 2 == 0) {
                    for (int m = n; m < n + 2; m++) {
                        p.gpu->set_words((uint64_t)(uintptr_t)from[rank][m], words[rank][m], bytes[rank][m] / 4,
                                         streams[rank]);
                    }
                    assert_int_equal(p.t[rank].begin(p.t[rank].self, streams[rank], NULL), WEFT_OK);
                }
                assert_int_equal(p.t[rank].receive(p.t[rank].self, to[rank][n], bytes[!rank][n], !rank, tag,
                                                   &requests[rank][2 * n], NULL),
                                 WEFT_OK);
                assert_int_equal(p.t[rank].send(p.t[rank].self, from[rank][n], bytes[rank][n], !rank, tag,
                                                &requests[rank][2 * n + 1], NULL),
                                 WEFT_OK);
                if (n % 2) {
                    assert_int_equal(p.t[rank].end(p.t[rank].self, NULL), WEFT_OK);
                }
            }
        }
        for (int left = 4 * MESSAGES; left > 0;) {
            for (int n = 0; n < 4 * MESSAGES; n++) {
                const int rank = n / (2 * MESSAGES);
                void **request = &requests[rank][n % (2 * MESSAGES)];
                int32_t done = 0;
                assert_int_equal(*request ? p.t[rank].test(p.t[rank].self, *request, &done, NULL) : WEFT_OK, WEFT_OK);
                *request = done ? NULL : *request;
                left -= done;
            }
        }
        for (int rank = 0; rank < 2; rank++) {
            for (int n = 0; n < MESSAGES; n++) {
                for (size_t b = 0; b < bytes[!rank][n]; b += 4) {
                    assert_memory_equal(to[rank][n] + b, &words[!rank][n], 4);
                }
                give_back(&p, to[rank][n]);
                give_back(&p, from[!rank][n]);
            }
            p.gpu->stream_free(streams[rank]);
        }
        close_pair(&p, i % 2);
        check_nothing_leaked(&before, counts());
    }
}

/* A host's transport that fails at will. */
typedef struct broken {
    weft_transport inner;
    int sends, receives, tests, keeps; /* fail; a cancel that cannot say when a buffer is left alone */
    int cancelled;
} broken;

static weft_status broken_send(void *self, const void *b, size_t n, int32_t to, int32_t tag, void **r, weft_message *m) {
    broken *f = self;
    return f->sends ? weft_fail(m, WEFT_FAILED, "no sends") : f->inner.send(f->inner.self, b, n, to, tag, r, m);
}

static weft_status broken_receive(void *self, void *b, size_t n, int32_t from, int32_t tag, void **r, weft_message *m) {
    broken *f = self;
    return f->receives ? weft_fail(m, WEFT_FAILED, "no receives") : f->inner.receive(f->inner.self, b, n, from, tag, r, m);
}

static weft_status broken_test(void *self, void *request, int32_t *done, weft_message *m) {
    broken *f = self;
    if (f->tests) {
        f->inner.cancel(f->inner.self, request);
        return weft_fail(m, WEFT_FAILED, "no tests");
    }
    return f->inner.test(f->inner.self, request, done, m);
}

static int32_t broken_cancel(void *self, void *request) {
    broken *f = self;
    f->cancelled++;
    return f->inner.cancel(f->inner.self, request) && !f->keeps;
}

/* One message, of several pieces, that fails: it is told once, and nothing is left. */
static void host_fails(void **state) {
    (void)state;
    for (int kind = 0; kind < 10; kind++) {
        pair p = {NULL, {NULL, NULL}, {WEFT_TRANSPORT_INIT, WEFT_TRANSPORT_INIT}, {{.first = NULL}}, NULL};
        const int sends = kind % 2 == 0, fails = kind / 2;
        broken b = {.sends = fails == 0, .receives = fails == 0, .tests = fails == 1, .keeps = fails == 4};
        weft_transport plain = WEFT_TRANSPORT_INIT, *t = &p.t[0];
        weft_message message = {""};
        void *request = NULL, *peer = NULL;
        int32_t done = 0;
        char host[4 * PIECE];
        const fake_counts before = *counts();
        script("lazy=1");
        assert_int_equal(weft_cuda_driver_get(&p.gpu, NULL), WEFT_OK);
        assert_int_equal(weft_threads_create(&p.threads, 2, NULL), WEFT_OK);
        b.inner = plain;
        assert_int_equal(weft_threads_transport(p.threads, 0, &b.inner, NULL), WEFT_OK);
        weft_transport host_side = b.inner;
        host_side.self = &b;
        host_side.send = broken_send;
        host_side.receive = broken_receive;
        host_side.test = broken_test;
        host_side.cancel = broken_cancel;
        assert_int_equal(weft_staging_open(&p.staging[0], 0, &host_side, 2 * PIECE, t, NULL), WEFT_OK);
        char *at = there(&p, 4 * PIECE);
        assert_int_equal(t->send(t->self, at, 1, 1, WEFT_FIRST_TAG, &request, &message), WEFT_INVALID);
        assert_string_equal(message.text, "a message of a GPU outside of a round");
        assert_int_equal(t->begin(t->self, NULL, NULL), WEFT_OK);
        assert_int_equal(sends ? t->send(t->self, at, 4 * PIECE, 1, WEFT_FIRST_TAG, &request, NULL)
                               : t->receive(t->self, at, 4 * PIECE, 1, WEFT_FIRST_TAG, &request, NULL),
                         WEFT_OK);
        assert_int_equal(t->end(t->self, NULL), WEFT_OK);
        if (fails == 2) { /* the other end has another length */
            weft_transport other = WEFT_TRANSPORT_INIT;
            assert_int_equal(weft_threads_transport(p.threads, 1, &other, NULL), WEFT_OK);
            for (int n = 0; n < 100; n++) {
                assert_int_equal(t->test(t->self, request, &done, NULL), WEFT_OK);
                assert_int_equal(done, 0);
            }
            assert_int_equal(sends ? other.receive(other.self, host, PIECE + 30, 0, WEFT_FIRST_TAG, &peer, NULL)
                                   : other.send(other.self, host, PIECE + 30, 0, WEFT_FIRST_TAG, &peer, NULL),
                             WEFT_OK);
            assert_int_equal(other.test(other.self, peer, &done, NULL), WEFT_FAILED);
            done = 0;
        }
        if (fails < 3) {
            weft_status status = WEFT_OK;
            while (!status && !done) {
                status = t->test(t->self, request, &done, &message);
            }
            assert_int_equal(status, WEFT_FAILED);
            assert_non_null(strstr(message.text, fails == 0   ? (sends ? "no sends" : "no receives")
                                                 : fails == 1 ? "no tests"
                                                              : "not as long as was expected"));
        } else { /* nobody comes */
            for (int n = 0; n < 100; n++) {
                assert_int_equal(t->test(t->self, request, &done, NULL), WEFT_OK);
                assert_int_equal(done, 0);
            }
            assert_int_equal(t->cancel(t->self, request), 1); /* the GPU's memory is left alone */
            assert_int_equal(b.cancelled, 2);
        }
        give_back(&p, at);
        weft_staging_close(p.staging[0]);
        weft_threads_destroy(p.threads);
        const fake_counts after = *counts();
        assert_int_equal(after.allocations - before.allocations,
                         fails == 4 ? 2 : 0); /* pinned buffers stay with the host */
        assert_int_equal(after.streams, before.streams);
        assert_int_equal(after.events, before.events);
        assert_int_equal(after.contexts, before.contexts);
    }
}

/* The driver's entry points fail in turn: when it is opened, when a round begins, when a message does, and on its way. */
static void driver_fails(void **state) {
    (void)state;
    static const struct {
        const char *opening, *beginning, *message, *later, *says;
    } cases[] = {
        {"stream=1", NULL, NULL, NULL, "the GPU has no stream for messages"},
        {"push=201", NULL, NULL, NULL, "the GPU's context cannot be used"},
        {NULL, "event=1", NULL, NULL, "the GPU has no event for a message"},
        {NULL, "record=700", NULL, NULL, "messages cannot follow the stream"},
        {NULL, NULL, "pinned=0", NULL, "no pinned memory for messages: out of memory"},
        {NULL, NULL, NULL, "event_query=700", "the GPU fails before a message"},
        {NULL, NULL, NULL, "record=700", "messages cannot follow the stream"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weft_threads *threads;
        weft_staging *staging;
        weft_transport host = WEFT_TRANSPORT_INIT, t = WEFT_TRANSPORT_INIT;
        weft_message message = {""};
        const weft_cuda_driver *gpu;
        void *request = NULL;
        uint64_t at;
        int32_t done = 0;
        script(NULL);
        const fake_counts before = *counts();
        assert_int_equal(weft_cuda_driver_get(&gpu, NULL), WEFT_OK);
        assert_int_equal(gpu->memory_new(&at, PIECE), 0);
        assert_int_equal(weft_threads_create(&threads, 2, NULL), WEFT_OK);
        assert_int_equal(weft_threads_transport(threads, 0, &host, NULL), WEFT_OK);
        script(cases[i].opening);
        weft_status status = weft_staging_open(&staging, 0, &host, PIECE, &t, &message);
        script(cases[i].beginning);
        status = status ? status : t.begin(t.self, NULL, &message);
        script(cases[i].message);
        status = status ? status : t.send(t.self, (void *)(uintptr_t)at, PIECE, 1, WEFT_FIRST_TAG, &request, &message);
        script(cases[i].later);
        status = status ? status : t.end(t.self, &message);
        for (int n = 0; n < 9 && !status; n++) {
            status = t.test(t.self, request, &done, &message);
        }
        assert_true(status == WEFT_FAILED || status == WEFT_NO_MEMORY);
        assert_non_null(strstr(message.text, cases[i].says));
        script(NULL);
        weft_staging_close(staging);
        weft_threads_destroy(threads);
        gpu->memory_free(at);
        check_nothing_leaked(&before, counts());
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_lengths), cmocka_unit_test(host_fails),
                                       cmocka_unit_test(driver_fails)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
