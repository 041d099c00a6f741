#include "verbs/measure_host.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#include "cli.h"
#include "options/schedules.h"
#include "plan/describe.h"
#include "base/json.h"
#include "report/view.h"
#include "verbs/check.h"

enum { MOST = 8, REPEATS = 64 };

/* A problem's buffers, whichever the subject. */
typedef struct buffers {
    void *in[3], *out;
    float *lse;
    void *old_out; /* GEMM: C before the run */
} buffers;

double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double median(double *times, size_t count) {
    qsort(times, count, sizeof *times, by_value);
    return count == 0 ? 0 : count % 2 ? times[count / 2] : (times[count / 2 - 1] + times[count / 2]) / 2;
}

static int make_buffers(buffers *b, const weft_plan *plan, uint64_t seed) {
    memset(b, 0, sizeof *b);
    if (plan->subject == WEFT_SUBJECT_ATTENTION) {
        const weft_attention_extents sizes = weft_attention_sizes(&plan->attention);
        b->in[0] = make_buffer(plan->attention.dtype, sizes.q, &seed);
        b->in[1] = make_buffer(plan->attention.dtype, sizes.k, &seed);
        b->in[2] = make_buffer(plan->attention.dtype, sizes.v, &seed);
        b->out = make_buffer(plan->attention.dtype, sizes.o, NULL);
        b->lse = make_buffer(WEFT_FP32, sizes.lse, NULL);
        return b->in[0] && b->in[1] && b->in[2] && b->out && b->lse;
    }
    const weft_gemm_extents sizes = weft_gemm_sizes(&plan->gemm);
    b->in[0] = make_buffer(plan->gemm.dtype, sizes.a, &seed);
    b->in[1] = make_buffer(plan->gemm.dtype, sizes.b, &seed);
    b->out = make_buffer(plan->gemm.c_dtype, sizes.c, NULL);
    b->old_out = make_buffer(plan->gemm.c_dtype, sizes.c, NULL);
    return b->in[0] && b->in[1] && b->out && b->old_out;
}

static void free_buffers(buffers *b) {
    for (int i = 0; i < 3; i++) {
        free(b->in[i]);
    }
    free(b->out);
    free(b->lse);
    free(b->old_out);
}

/* Runs a plan once; with a check, compares the result too. */
static int run_once(const weft_plan *plan, const buffers *b, double *seconds, check *c) {
    weft_message message = {""};
    weft_status status;
    const weft_attention_data attention = {b->in[0], b->in[1], b->in[2], b->out, b->lse};
    const weft_gemm_data gemm = {b->in[0], b->in[1], b->out};
    const double begin = now();
    if (plan->subject == WEFT_SUBJECT_ATTENTION) {
        status = weft_plan_run_attention(plan, &attention, &message);
    } else {
        status = weft_plan_run_gemm(plan, &gemm, &message);
    }
    *seconds = now() - begin;
    if (status) {
        return complain_status(status, &message);
    }
    if (c && plan->subject == WEFT_SUBJECT_ATTENTION) {
        return check_attention(&plan->attention, &attention, c);
    }
    if (c) {
        check_gemm(&plan->gemm, &gemm, b->old_out, c);
    }
    return EXIT_OK;
}

static json_t *schedule_json(const weft_plan *plan, const char *name, double *times, int repeats, const check *c) {
    const int attention = plan->subject == WEFT_SUBJECT_ATTENTION;
    const double flops = attention ? weft_attention_flops(&plan->attention) : weft_gemm_flops(&plan->gemm);
    const double seconds = median(times, (size_t)repeats); /* and sorts them */
    return json_pack("{s:s, s:o, s:f, s:f, s:f, s:f, s:f, s:f, s:b}", "schedule", name, "choices",
                     weft_plan_schedule_json(plan), "seconds", seconds, "least", times[0], "most", times[repeats - 1],
                     "tflops", flops / seconds / 1e12, "max_error", isfinite(c->max_error) ? c->max_error : 1e300, "bound",
                     c->bound, "passed", check_passed(c));
}

/* Runs plans of one problem in turns; times are (count, repeats). The first run of each warms up and is checked. */
static int time_plans(weft_plan *const *plans, size_t count, size_t repeats, double *times, check *checks) {
    buffers b;
    int code = make_buffers(&b, plans[0], 1) ? EXIT_OK : complain(EXIT_FAILED, "out of memory");
    for (size_t i = 0; i < count && code == EXIT_OK; i++) {
        code = run_once(plans[i], &b, &times[i * repeats], &checks[i]);
    }
    for (size_t r = 0; r < repeats && code == EXIT_OK; r++) {
        for (size_t i = 0; i < count && code == EXIT_OK; i++) {
            code = run_once(plans[i], &b, &times[i * repeats + r], NULL);
        }
    }
    free_buffers(&b);
    return code;
}

int measure_on_host(const settings *s, candidate *list, size_t count, weft_subject subject) {
    const size_t repeats = s->repeat > 0 ? (size_t)s->repeat : 5;
    weft_plan **plans = calloc(count + 1, sizeof *plans);
    double *times = calloc(count * repeats + 1, sizeof *times);
    check *checks = calloc(count + 1, sizeof *checks);
    int code = plans && times && checks ? EXIT_OK : complain(EXIT_FAILED, "out of memory");
    for (size_t i = 0; i < count && code == EXIT_OK; i++) {
        code = make_plan(&list[i].chosen, subject, &plans[i]);
    }
    if (code == EXIT_OK && count > 0) {
        code = time_plans(plans, count, repeats, times, checks);
    }
    for (size_t i = 0; i < count && code == EXIT_OK; i++) {
        list[i].measured = median(times + i * repeats, repeats);
        if (!check_passed(&checks[i])) {
            char name[128];
            candidate_name(&list[i], name, sizeof name);
            code = complain(EXIT_FAILED, "%s: the result is wrong: error %.3g, allowed %.3g", name, checks[i].max_error,
                            checks[i].bound);
        }
    }
    for (size_t i = 0; i < count && plans; i++) {
        weft_plan_destroy(plans[i]);
    }
    free(plans);
    free(times);
    free(checks);
    return code;
}

static int run_all(weft_plan *const *plans, size_t count, int repeats, json_t **result) {
    double times[MOST * REPEATS];
    weft_schedule schedules[MOST];
    check checks[MOST];
    memset(checks, 0, sizeof checks);
    for (size_t i = 0; i < count; i++) {
        schedules[i] = weft_plan_schedule(plans[i]);
    }
    const int code = time_plans(plans, count, (size_t)repeats, times, checks);
    if (code) {
        return code;
    }
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) {
        char name[96];
        schedule_name(schedules, count, i, name, sizeof name);
        weft_json_append(&list, schedule_json(plans[i], name, times + i * (size_t)repeats, repeats, &checks[i]));
    }
    char title[192];
    int threads = 1;
#ifdef _OPENMP
    threads = omp_get_max_threads();
#endif
    weft_view_title(plans[0], title, sizeof title);
    *result = json_pack("{s:s, s:o, s:s, s:s, s:i, s:i, s:o}", "title", title, "problem", weft_plan_problem_json(plans[0]),
                        "backend", plans[0]->backend->name, "kernel", weft_plan_kernel(plans[0]), "threads", threads,
                        "repeats", repeats, "schedules", list);
    return *result ? EXIT_OK : complain(EXIT_FAILED, "out of memory");
}

int measure_schedules(const settings *list, size_t count, weft_subject subject, int repeats, json_t **result) {
    weft_plan *plans[MOST] = {NULL};
    int code = count > 0 && count <= MOST && repeats > 0 && repeats <= REPEATS
                   ? EXIT_OK
                   : complain(EXIT_USAGE, "at most %d schedules, %d times each", MOST, REPEATS);
    for (size_t i = 0; i < count && code == EXIT_OK; i++) {
        code = make_plan(&list[i], subject, &plans[i]);
    }
    if (code == EXIT_OK) {
        code = run_all(plans, count, repeats, result);
    }
    for (size_t i = 0; i < count && i < MOST; i++) {
        weft_plan_destroy(plans[i]);
    }
    return code;
}
