/* SPDX-License-Identifier: Apache-2.0 */
/* weft run --ranks: threads of this process as ranks, held to the reference, bytes counted. */
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/bench.h>
#include <weft/report.h>

#include "base/clock.h"
#include "base/json.h"
#include "cli.h"
#include "progress.h"
#include "table.h"
#include "verbs/checked.h"
#include "verbs/ranks_run.h"

enum { MOST_THREADS = 512 };

/* ---- a rank ---- */

/* A transport that gives up as soon as a rank has failed: in one process there is no need to wait for it. */
static weft_status send_on(void *self, const void *buffer, size_t bytes, int32_t to, int32_t tag, void **request,
                           weft_message *message) {
    const ranks_member *m = self;
    progress_add(m->of_a_message);
    return m->transport.send(m->transport.self, buffer, bytes, to, tag, request, message);
}

static weft_status receive_on(void *self, void *buffer, size_t bytes, int32_t from, int32_t tag, void **request,
                              weft_message *message) {
    const weft_transport *t = &((ranks_member *)self)->transport;
    return t->receive(t->self, buffer, bytes, from, tag, request, message);
}

static weft_status test_on(void *self, void *request, int32_t *done, weft_message *message) {
    ranks_member *m = self;
    const weft_status status = m->transport.test(m->transport.self, request, done, message);
    if (status || *done || !__atomic_load_n(&m->w->lost, __ATOMIC_RELAXED)) {
        return status;
    }
    m->gives_up = 1;
    (void)m->transport.cancel(m->transport.self, request);
    snprintf(message->text, sizeof message->text, "another rank has failed");
    return WEFT_FAILED;
}

static int32_t cancel_on(void *self, void *request) {
    const weft_transport *t = &((ranks_member *)self)->transport;
    return t->cancel(t->self, request);
}

static weft_status run_member(ranks_member *m) {
    const ranks_whole *w = m->w;
    const weft_transport init = WEFT_TRANSPORT_INIT;
    weft_transport transport;
    weft_dist_options options = WEFT_DIST_OPTIONS_INIT;
    weft_schedule schedule = w->q.schedule;
    schedule.workers = schedule.workers > 0 ? schedule.workers : 1;
    options.ranks = &w->ranks;
    options.transport = &transport;
    options.schedule = &schedule;
    m->transport = init;
    weft_status status = weft_threads_transport(w->threads, m->rank, &m->transport, &m->message);
    transport = m->transport;
    transport.self = m;
    transport.send = send_on;
    transport.receive = receive_on;
    transport.test = test_on;
    transport.cancel = cancel_on;
    status = status ? status : weft_dist_create(&m->dist, &w->q.problem, &options, &m->message);
    status = status ? status : weft_dist_expect(m->dist, m->rank, 0, &m->expected, &m->message);
    m->begin = calloc((size_t)w->runs, sizeof(double));
    m->end = calloc((size_t)w->runs, sizeof(double));
    m->parts = calloc(1, w->kind->parts_size);
    if (!status && (!m->begin || !m->end || !m->parts)) {
        snprintf(m->message.text, sizeof m->message.text, "no memory for rank %d", (int)m->rank);
        return WEFT_NO_MEMORY;
    }
    m->of_a_message = 1 / (double)(m->expected.messages + 1);
    status = status ? status : w->kind->take(m, &options);
    for (int64_t i = 0; i < w->runs && !status; i++) {
        status = w->kind->renew(m);
        m->begin[i] = weft_now();
        status = status ? status : w->kind->run(m);
        m->end[i] = weft_now();
        progress_add(1 - (double)m->expected.messages * m->of_a_message);
    }
    weft_dist_counted(m->dist, &m->counted);
    return status;
}

static void *run_thread(void *at) {
    ranks_member *m = at;
    m->status = run_member(m);
    if (m->status) {
        __atomic_store_n(&m->w->lost, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

static void release(ranks_member *m) {
    if (m->parts) {
        m->w->kind->release(m);
    }
    weft_dist_destroy(m->dist);
    free(m->parts);
    free(m->begin);
    free(m->end);
}

/* Runs all ranks at the same time. Returns how the first that failed by itself did. */
static weft_status run_ranks(ranks_whole *w, ranks_member *members, weft_message *message) {
    const int32_t size = (int32_t)w->ranks.ranks;
    pthread_t threads[MOST_THREADS];
    int32_t begun = 0;
    while (begun < size && pthread_create(&threads[begun], NULL, run_thread, &members[begun]) == 0) {
        begun++;
    }
    if (begun < size) {
        __atomic_store_n(&w->lost, 1, __ATOMIC_RELAXED);
    }
    for (int32_t i = 0; i < begun; i++) { /* without all of them the others give up */
        pthread_join(threads[i], NULL);
    }
    for (int32_t i = 0; i < begun; i++) {
        if (members[i].status && !members[i].gives_up) {
            *message = members[i].message;
            return members[i].status;
        }
    }
    if (begun < size) {
        snprintf(message->text, sizeof message->text, "no thread for rank %d", (int)begun);
        return WEFT_NO_MEMORY;
    }
    return WEFT_OK;
}

/* ---- the result ---- */

typedef struct outcome {
    double seconds, tflops;
    uint64_t sent, expected, sent_most, messages;
    weft_check check;
} outcome;

static weft_status sum_up(const ranks_whole *w, const ranks_member *members, outcome *o) {
    double *times = calloc((size_t)w->runs, sizeof *times);
    if (!times) {
        return WEFT_NO_MEMORY;
    }
    for (int64_t i = 0; i < w->runs; i++) {
        double begin = INFINITY, end = 0;
        for (int64_t r = 0; r < w->ranks.ranks; r++) {
            begin = fmin(begin, members[r].begin[i]);
            end = fmax(end, members[r].end[i]);
        }
        times[i] = end - begin;
    }
    o->seconds = weft_median(times, (size_t)w->runs);
    free(times);
    for (int64_t r = 0; r < w->ranks.ranks; r++) {
        const uint64_t sent = members[r].counted.sent / (uint64_t)w->runs;
        o->sent += sent;
        o->expected += members[r].expected.sent;
        o->messages += members[r].expected.messages;
        o->sent_most = sent > o->sent_most ? sent : o->sent_most;
    }
    o->tflops = o->seconds > 0 ? weft_problem_flops(&w->q.problem) / o->seconds / 1e12 : 0;
    return WEFT_OK;
}

static int report(const ranks_whole *w, const weft_plan *plan, const outcome *o) {
    const weft_check *c = &o->check;
    const int equal = o->sent == o->expected, code = c->passed && equal ? EXIT_OK : EXIT_FAILED;
    char ranks[512];
    if (w->settings->json) {
        weft_ranks_json(&w->ranks, ranks, sizeof ranks);
        json_t *object = json_pack(
            "{s:s, s:o, s:o, s:I, s:f, s:I, s:f, s:o, s:{s:I, s:I, s:I, s:I, s:b}}", "device", "cpu", "problem",
            plan_member(plan, "problem"), "ranks", weft_json_read(ranks, strlen(ranks), 0, NULL), "seed",
            (json_int_t)w->settings->seed, "seconds", o->seconds, "runs", (json_int_t)w->runs, "tflops", o->tflops, "check",
            checked_json(c), "traffic", "sent", (json_int_t)o->sent, "sent_most", (json_int_t)o->sent_most, "expected",
            (json_int_t)o->expected, "messages", (json_int_t)o->messages, "equal", equal);
        const int printed = print_json(object);
        return printed ? printed : code;
    }
    weft_ranks_text(&w->ranks, ranks, sizeof ranks);
    print_wrapped("%" PRId64 " ranks on threads of this host, %s: %.6f s", w->ranks.ranks, ranks, o->seconds);
    if (w->runs > 1) {
        print_wrapped(" (median of %" PRId64 " runs)", w->runs);
    }
    print_wrapped(", %s\n", weft_rate_text(o->tflops).text);
    checked_print(c);
    print_wrapped("sent:  %" PRIu64 " bytes, %" PRIu64 " by one rank at most, in %" PRIu64 " messages; expected %" PRIu64
                  ": %s\n",
                  o->sent, o->sent_most, o->messages, o->expected, equal ? "equal" : "NOT EQUAL");
    return code;
}

static weft_status run_and_check(ranks_whole *w, weft_bench *bench, outcome *o, weft_message *message) {
    const weft_dist_traffic none = WEFT_DIST_TRAFFIC_INIT;
    weft_status status = weft_bench_data(bench, &w->data, message);
    ranks_member *members = calloc((size_t)w->ranks.ranks, sizeof *members);
    status = status || members ? status : WEFT_NO_MEMORY;
    status = status ? status : weft_threads_create(&w->threads, (int32_t)w->ranks.ranks, message);
    status = status ? status : w->kind->keep(w);
    for (int32_t i = 0; i < w->ranks.ranks && !status; i++) {
        members[i] = (ranks_member){.w = w, .rank = i, .expected = none, .counted = none};
    }
    progress_begin("running ranks", (double)w->ranks.ranks * (double)w->runs);
    status = status ? status : run_ranks(w, members, message);
    progress_end();
    status = status ? status : sum_up(w, members, o);
    if (!status) {
        for (int64_t i = 0; i < w->ranks.ranks; i++) {
            w->kind->put(&members[i]);
        }
        w->ranks = weft_dist_ranks(members[0].dist);
        progress_part part = {1, 0};
        const weft_check_options check = checked_options(w->settings, &part);
        progress_begin("checking", 1);
        status = weft_check_sample(&w->q.problem, w->data, w->before, &check, &o->check, message);
        progress_end();
    }
    for (int64_t i = 0; i < w->ranks.ranks && members; i++) {
        release(&members[i]);
    }
    free(members);
    free(w->before);
    weft_threads_destroy(w->threads);
    return status;
}

static const ranks_kind *const kinds[] = {
    [WEFT_ATTENTION] = &ranks_of_attention, [WEFT_ATTENTION_BACKWARD] = &ranks_of_attention, [WEFT_GEMM] = &ranks_of_gemm};

int ranks_run(const settings *s) {
    ranks_whole w = {.settings = s, .runs = s->repeat > 0 ? s->repeat : 1};
    outcome o = {.check = WEFT_CHECK_INIT};
    weft_bench_options options = WEFT_BENCH_INIT;
    weft_dist_options on_paper = WEFT_DIST_OPTIONS_INIT;
    weft_message message = {"out of memory"};
    progress_part part = {1, 0};
    weft_bench *bench = NULL;
    weft_dist *dist = NULL;
    weft_plan *plan = NULL;
    int code = ranks_read(s, &w.ranks);
    if (code == EXIT_OK && w.ranks.ranks > MOST_THREADS) {
        code = complain(EXIT_USAGE, "--ranks %" PRId64 " are more than %d threads: simulate takes more", s->ranks,
                        MOST_THREADS);
    }
    if (code) {
        return code;
    }
    on_paper.ranks = &w.ranks;
    options.seed = (uint64_t)s->seed;
    weft_status status = question_of(s, &w.q, &message);
    status =
        status ? status : weft_dist_create(&dist, &w.q.problem, &on_paper, &message); /* refuses before anything runs */
    status = status ? status : weft_plan_create(&plan, &w.q.problem, &w.q.options, &message);
    options.progress = progress_seen() ? progress_told : NULL;
    options.progress_user = &part;
    progress_begin("drawing inputs", 1);
    status = status ? status : weft_bench_open(&bench, plan, &options, &message);
    progress_end();
    if (!status) {
        w.kind = kinds[w.q.problem.operation]; /* others have been refused */
        status = run_and_check(&w, bench, &o, &message);
    }
    code = status ? complain_status(status, &message) : report(&w, plan, &o);
    weft_bench_close(bench);
    weft_plan_destroy(plan);
    weft_dist_destroy(dist);
    return code;
}
