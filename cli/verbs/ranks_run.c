/* weft run attention --ranks: threads of this process as ranks, held to the reference, bytes counted. */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <weft/bench.h>
#include <weft/report.h>

#include "base/clock.h"
#include "base/json.h"
#include "cli.h"
#include "verbs/ranks.h"

enum { MOST_THREADS = 512 };

/* A tensor of all rows, (batch, rows, heads, dim) or (batch, heads, rows, dim), and how a rank's part of it is one. */
typedef struct tensor {
    char *all;
    int64_t rows, heads, line; /* line: bytes of a row of a head */
    int32_t of;
} tensor;

enum { Q, K, V, O, GRAD_O, GRAD_Q, GRAD_K, GRAD_V, LSE, TENSORS };

typedef struct whole {
    const settings *settings;
    weft_attention problem;
    weft_ranks ranks;
    weft_schedule schedule;
    weft_threads *threads;
    tensor tensors[TENSORS];
    const float *sinks, *alibi;
    int back;
    int64_t runs;
} whole;

typedef struct member {
    const whole *w;
    int32_t rank;
    weft_status status;
    weft_message message;
    weft_dist *dist[2]; /* forward, and backward */
    char *part[TENSORS];
    float *grad_sinks;
    double *begin, *end; /* of each run */
    weft_dist_traffic expected, counted;
} member;

/* ---- rows ---- */

static tensor tensor_of(const whole *w, const void *all, int32_t of, int64_t heads, int64_t dim) {
    const weft_attention *p = &w->problem;
    return (tensor){(char *)(uintptr_t)all, of == WEFT_QUERY_ROWS ? p->seq : p->kv_seq, heads,
                    dim * (int64_t)weft_dtype_bytes(p->dtype), of};
}

/* Copies a rank's rows of a tensor, head by head. An LSE has heads apart, whatever the layout. */
static void move(const member *m, int number, int put) {
    const tensor *t = &m->w->tensors[number];
    const int apart = number == LSE || m->w->problem.layout == WEFT_BHSD;
    const int64_t mine = weft_dist_rows(m->dist[0], m->rank, t->of);
    const int64_t row = apart ? t->line : t->heads * t->line;
    for (int64_t n = 0; n < m->w->problem.batch * t->heads; n++) {
        const int64_t batch = n / t->heads, head = n % t->heads;
        char *all = t->all + (apart ? n * t->rows : batch * t->rows * t->heads + head) * t->line;
        char *part = m->part[number] + (apart ? n * mine : batch * mine * t->heads + head) * t->line;
        if (put) {
            weft_dist_put(m->dist[0], m->rank, t->of, all, (size_t)row, part, (size_t)row, (size_t)t->line);
        } else {
            weft_dist_pick(m->dist[0], m->rank, t->of, all, (size_t)row, part, (size_t)row, (size_t)t->line);
        }
    }
}

static weft_status take_parts(member *m) {
    const whole *w = m->w;
    const weft_attention *p = &w->problem;
    m->grad_sinks = malloc((size_t)p->heads * sizeof(float));
    m->begin = calloc((size_t)w->runs, sizeof(double));
    m->end = calloc((size_t)w->runs, sizeof(double));
    int enough = m->grad_sinks && m->begin && m->end;
    for (int i = 0; i < TENSORS && enough; i++) {
        const tensor *t = &w->tensors[i];
        const int64_t lines = p->batch * t->heads * weft_dist_rows(m->dist[0], m->rank, t->of);
        m->part[i] = t->line > 0 ? malloc((size_t)(lines * t->line)) : NULL;
        enough = t->line == 0 || m->part[i];
        if (enough && t->all && (i < O || i == GRAD_O)) {
            move(m, i, 0);
        }
    }
    return enough ? WEFT_OK : WEFT_NO_MEMORY;
}

/* ---- a rank ---- */

static weft_status run_forward(member *m) {
    weft_attention_data data = WEFT_ATTENTION_DATA_INIT;
    data.q = m->part[Q];
    data.k = m->part[K];
    data.v = m->part[V];
    data.o = m->part[O];
    data.lse = (float *)(void *)m->part[LSE];
    data.sinks = m->w->sinks;
    data.alibi = m->w->alibi;
    return weft_dist_run(m->dist[0], &data, NULL, &m->message);
}

static weft_status run_backward(member *m) {
    weft_attention_gradients data = WEFT_ATTENTION_GRADIENTS_INIT;
    data.q = m->part[Q];
    data.k = m->part[K];
    data.v = m->part[V];
    data.o = m->part[O];
    data.lse = (float *)(void *)m->part[LSE];
    data.grad_o = m->part[GRAD_O];
    data.grad_q = m->part[GRAD_Q];
    data.grad_k = m->part[GRAD_K];
    data.grad_v = m->part[GRAD_V];
    data.sinks = m->w->sinks;
    data.alibi = m->w->alibi;
    data.grad_sinks = data.sinks ? m->grad_sinks : NULL;
    return weft_dist_run(m->dist[1], &data, NULL, &m->message);
}

static weft_status run_member(member *m) {
    const whole *w = m->w;
    weft_transport transport = WEFT_TRANSPORT_INIT;
    weft_dist_options options = WEFT_DIST_OPTIONS_INIT;
    weft_attention p = w->problem;
    options.ranks = &w->ranks;
    options.transport = &transport;
    options.schedule = &w->schedule;
    weft_status status = weft_threads_transport(w->threads, m->rank, &transport, &m->message);
    for (int i = 0; i <= w->back && !status; i++) {
        p.operation = i == 0 ? WEFT_ATTENTION : WEFT_ATTENTION_BACKWARD;
        status = weft_dist_create(&m->dist[i], &p, &options, &m->message);
    }
    status = status ? status : weft_dist_expect(m->dist[w->back], m->rank, 0, &m->expected, &m->message);
    status = status ? status : take_parts(m);
    status = status || !w->back ? status : run_forward(m);
    for (int64_t i = 0; i < w->runs && !status; i++) {
        m->begin[i] = weft_now();
        status = w->back ? run_backward(m) : run_forward(m);
        m->end[i] = weft_now();
    }
    weft_dist_counted(m->dist[w->back], &m->counted);
    return status;
}

static void *run_thread(void *at) {
    member *m = at;
    m->status = run_member(m);
    return NULL;
}

static void release(member *m) {
    weft_dist_destroy(m->dist[0]);
    weft_dist_destroy(m->dist[1]);
    for (int i = 0; i < TENSORS; i++) {
        free(m->part[i]);
    }
    free(m->grad_sinks);
    free(m->begin);
    free(m->end);
}

/* Runs all ranks at the same time. Returns how the first that failed did. */
static weft_status run_ranks(const whole *w, member *members, weft_message *message) {
    const int32_t size = (int32_t)w->ranks.ranks;
    pthread_t threads[MOST_THREADS];
    int32_t begun = 0;
    while (begun < size && pthread_create(&threads[begun], NULL, run_thread, &members[begun]) == 0) {
        begun++;
    }
    for (int32_t i = 0; i < begun; i++) { /* without all of them the others give up in time */
        pthread_join(threads[i], NULL);
    }
    for (int32_t i = 0; i < begun; i++) {
        if (members[i].status) {
            *message = members[i].message;
            return members[i].status;
        }
    }
    return begun == size ? WEFT_OK : WEFT_NO_MEMORY;
}

/* ---- the result ---- */

typedef struct outcome {
    double seconds, tflops;
    uint64_t sent, expected, sent_most, messages;
    weft_check check;
} outcome;

static void sum_up(const whole *w, const member *members, outcome *o) {
    double *times = calloc((size_t)w->runs, sizeof *times);
    for (int64_t i = 0; i < w->runs && times; i++) {
        double begin = INFINITY, end = 0;
        for (int64_t r = 0; r < w->ranks.ranks; r++) {
            begin = fmin(begin, members[r].begin[i]);
            end = fmax(end, members[r].end[i]);
        }
        times[i] = end - begin;
    }
    o->seconds = times ? weft_median(times, (size_t)w->runs) : 0;
    free(times);
    for (int64_t r = 0; r < w->ranks.ranks; r++) {
        const uint64_t sent = members[r].counted.sent / (uint64_t)w->runs;
        o->sent += sent;
        o->expected += members[r].expected.sent;
        o->messages += members[r].expected.messages;
        o->sent_most = sent > o->sent_most ? sent : o->sent_most;
    }
    o->tflops = o->seconds > 0 ? weft_problem_flops(&w->problem) / o->seconds / 1e12 : 0;
}

static int report(const whole *w, const weft_plan *plan, const outcome *o) {
    const weft_check *c = &o->check;
    const int equal = o->sent == o->expected, code = c->passed && equal ? EXIT_OK : EXIT_FAILED;
    char ranks[512];
    if (w->settings->json) {
        weft_ranks_json(&w->ranks, ranks, sizeof ranks);
        json_t *object =
            json_pack("{s:s, s:o, s:o, s:I, s:f, s:I, s:f, s:{s:f, s:f, s:I, s:b}, s:{s:I, s:I, s:I, s:I, s:b}}", "device",
                      "cpu", "problem", plan_member(plan, "problem"), "ranks", json_loads(ranks, 0, NULL), "seed",
                      (json_int_t)w->settings->seed, "seconds", o->seconds, "runs", (json_int_t)w->runs, "tflops",
                      o->tflops, "check", "max_error", isfinite(c->max_error) ? c->max_error : DBL_MAX, "bound", c->bound,
                      "checked", (json_int_t)c->checked, "passed", c->passed, "traffic", "sent", (json_int_t)o->sent,
                      "sent_most", (json_int_t)o->sent_most, "expected", (json_int_t)o->expected, "messages",
                      (json_int_t)o->messages, "equal", equal);
        const int printed = print_json(object);
        return printed ? printed : code;
    }
    weft_ranks_text(&w->ranks, ranks, sizeof ranks);
    printf("%" PRId64 " ranks on threads of this host, %s: %.6f s", w->ranks.ranks, ranks, o->seconds);
    if (w->runs > 1) {
        printf(" (median of %" PRId64 " runs)", w->runs);
    }
    printf(", %s\ncheck: error %.3g, allowed %.3g, %" PRId64 " %s compared: %s\n", weft_rate_text(o->tflops).text,
           c->max_error, c->bound, c->checked, c->unit, c->passed ? "passed" : "FAILED");
    printf("sent:  %" PRIu64 " bytes, %" PRIu64 " by one rank at most, in %" PRIu64 " messages; expected %" PRIu64 ": %s\n",
           o->sent, o->sent_most, o->messages, o->expected, equal ? "equal" : "NOT EQUAL");
    return code;
}

/* The tensors of the whole problem, whose inputs a bench has drawn. */
static void take_tensors(whole *w, const void *data) {
    const weft_attention *p = &w->problem;
    const int64_t dim_v = p->head_dim_v > 0 ? p->head_dim_v : p->head_dim;
    const weft_attention_gradients *g = data;
    const weft_attention_data *f = data;
    tensor *t = w->tensors;
    t[Q] = tensor_of(w, w->back ? g->q : f->q, WEFT_QUERY_ROWS, p->heads, p->head_dim);
    t[K] = tensor_of(w, w->back ? g->k : f->k, WEFT_KEY_ROWS, p->kv_heads, p->head_dim);
    t[V] = tensor_of(w, w->back ? g->v : f->v, WEFT_KEY_ROWS, p->kv_heads, dim_v);
    t[O] = tensor_of(w, w->back ? NULL : f->o, WEFT_QUERY_ROWS, p->heads, dim_v);
    t[LSE] = (tensor){w->back ? NULL : (char *)(void *)f->lse, p->seq, p->heads, sizeof(float), WEFT_QUERY_ROWS};
    w->sinks = w->back ? g->sinks : f->sinks;
    w->alibi = w->back ? g->alibi : f->alibi;
    if (w->back) {
        t[GRAD_O] = tensor_of(w, g->grad_o, WEFT_QUERY_ROWS, p->heads, dim_v);
        t[GRAD_Q] = tensor_of(w, g->grad_q, WEFT_QUERY_ROWS, p->heads, p->head_dim);
        t[GRAD_K] = tensor_of(w, g->grad_k, WEFT_KEY_ROWS, p->kv_heads, p->head_dim);
        t[GRAD_V] = tensor_of(w, g->grad_v, WEFT_KEY_ROWS, p->kv_heads, dim_v);
    }
}

/* Puts the ranks' results where the bench has those of one run. */
static void put_results(const whole *w, const void *data, const member *members) {
    static const int forward[] = {O, LSE}, backward[] = {GRAD_Q, GRAD_K, GRAD_V};
    const int *list = w->back ? backward : forward, count = w->back ? 3 : 2;
    for (int64_t r = 0; r < w->ranks.ranks; r++) {
        for (int i = 0; i < count; i++) {
            if (w->tensors[list[i]].all) {
                move(&members[r], list[i], 1);
            }
        }
    }
    const weft_attention_gradients *g = data;
    for (int64_t h = 0; h < w->problem.heads && w->back && w->sinks && g->grad_sinks; h++) {
        g->grad_sinks[h] = members[0].grad_sinks[h];
    }
}

static weft_status run_and_check(whole *w, weft_bench *bench, outcome *o, weft_message *message) {
    const void *data = NULL;
    const weft_dist_traffic none = WEFT_DIST_TRAFFIC_INIT;
    weft_status status = weft_bench_data(bench, &data, message);
    member *members = calloc((size_t)w->ranks.ranks, sizeof *members);
    status = status ? status : weft_threads_create(&w->threads, (int32_t)w->ranks.ranks, message);
    if (status || !members) {
        free(members);
        return status ? status : WEFT_NO_MEMORY;
    }
    take_tensors(w, data);
    for (int32_t i = 0; i < w->ranks.ranks; i++) {
        members[i].w = w;
        members[i].rank = i;
        members[i].expected = members[i].counted = none;
    }
    status = run_ranks(w, members, message);
    if (!status) {
        sum_up(w, members, o);
        put_results(w, data, members);
        w->ranks = weft_dist_ranks(members[0].dist[w->back]);
        status = weft_check_result(&w->problem, data, NULL, &o->check, message);
    }
    for (int64_t i = 0; i < w->ranks.ranks; i++) {
        release(&members[i]);
    }
    free(members);
    weft_threads_destroy(w->threads);
    return status;
}

int ranks_run(const settings *s) {
    whole w = {.settings = s, .runs = s->repeat > 0 ? s->repeat : 1};
    outcome o = {.check = WEFT_CHECK_INIT};
    weft_bench_options options = WEFT_BENCH_INIT;
    weft_dist_options on_paper = WEFT_DIST_OPTIONS_INIT;
    weft_message message = {"out of memory"};
    weft_bench *bench = NULL;
    weft_dist *dist = NULL;
    weft_plan *plan = NULL;
    question q;
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
    weft_status status = question_of(s, &q, &message);
    status = status ? status : weft_dist_create(&dist, &q.problem, &on_paper, &message); /* refuses before anything runs */
    status = status ? status : weft_plan_create(&plan, &q.problem, &q.options, &message);
    status = status ? status : weft_bench_open(&bench, plan, &options, &message);
    if (!status) {
        w.problem = q.problem.attention;
        w.schedule = q.schedule;
        w.schedule.workers = w.schedule.workers > 0 ? w.schedule.workers : 1;
        w.back = operation_base(q.problem.operation) != 0;
        status = run_and_check(&w, bench, &o, &message);
    }
    code = status ? complain_status(status, &message) : report(&w, plan, &o);
    weft_bench_close(bench);
    weft_plan_destroy(plan);
    weft_dist_destroy(dist);
    return code;
}
