/* weft run: a problem on random inputs, timed and checked against the reference. */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "cli.h"
#include "plan/describe.h"
#include "plan/problem.h"
#include "plan/random.h"
#include "ref/ref.h"

/* The check costs as much as the reference, so large problems are checked on a sample of about this many operations. */
static const double CHECK_OPERATIONS = 4e9;

static double next_normal(uint64_t *state) {
    const double u = weft_random_real(state), v = weft_random_real(state);
    return sqrt(-2.0 * log(1.0 - u)) * cos(6.283185307179586 * v);
}

void *make_buffer(weft_dtype dtype, size_t count, uint64_t *random) {
    void *data = malloc(count * weft_dtype_bytes(dtype));
    for (size_t i = 0; data && i < count; i++) {
        weft_ref_store(dtype, data, i, random ? next_normal(random) : NAN);
    }
    return data;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Ten times a second at most; the line is wiped at the end. `user` is the time of the last one. */
static void show_progress(void *user, int64_t done, int64_t total) {
    double *last = user;
    if (done == total) {
        fputs("\r\033[K", stderr);
    } else if (now() - *last > 0.1) {
        *last = now();
        fprintf(stderr, "\r%" PRId64 " of %" PRId64 " tiles", done, total);
    }
}

/* Refuses what the host's memory cannot hold, before anything is allocated. */
static int check_memory(double bytes) {
    const double have = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    if (bytes > 0.9 * have) {
        return complain(EXIT_USAGE, "the problem needs %.1f GiB and this host has %.1f", bytes / 0x1p30, have / 0x1p30);
    }
    return EXIT_OK;
}

static void compare(check *c, double exact, double naive, double result, double *largest) {
    if (isfinite(exact) && !isfinite(result)) {
        c->wrong = 1;
    }
    c->max_error = fmax(c->max_error, fabs(result - exact));
    c->bound = fmax(c->bound, 2 * fabs(naive - exact));
    *largest = fmax(*largest, fabs(exact));
}

/* Rounding the exact result once cannot be avoided, so it is always allowed; where the sums have no more digits than the
 * result, two units of its last place. */
static void allow_rounding(check *c, weft_dtype dtype, double largest) {
    const double rounding = dtype == WEFT_FP32 ? 0x1p-22 : dtype == WEFT_FP16 ? 0x1p-11 : 0x1p-8;
    c->bound = fmax(c->bound, rounding * largest);
}

/* How many of `count` items, each of `cost` operations, are checked: every `stride`-th. */
static int64_t check_stride(int64_t count, double cost) {
    const double affordable = fmax(1.0, CHECK_OPERATIONS / cost);
    return affordable >= (double)count ? 1 : (int64_t)ceil((double)count / affordable);
}

int check_attention(const weft_attention *p, const weft_attention_data *data, check *c) {
    double *weights = malloc((size_t)p->kv_seq * sizeof *weights);
    float *plain = malloc((size_t)p->kv_seq * sizeof *plain);
    double exact[256], naive[256], lse, largest = 0;
    const int64_t rows = p->batch * p->heads * p->seq;
    const int64_t stride = check_stride(rows, 8.0 * (double)p->kv_seq * (double)p->head_dim);
    int code = EXIT_OK;
    if (!weights || !plain) {
        code = complain(EXIT_FAILED, "out of memory");
    } else {
        for (int64_t i = 0; i < rows; i += stride, c->checked++) {
            const int64_t row = i % p->seq, head = i / p->seq % p->heads, batch = i / p->seq / p->heads;
            weft_ref_attention_row(p, data, batch, head, row, weights, exact, &lse);
            weft_ref_attention_row_naive(p, data, batch, head, row, plain, naive);
            const double off = fabs((double)data->lse[(batch * p->heads + head) * p->seq + row] - lse);
            c->wrong |= !(off <= 1e-4 * fmax(1.0, fabs(lse))) && isfinite(lse);
            const size_t at = weft_row_index(&p->o_strides, batch, row, head);
            for (int64_t d = 0; d < p->head_dim; d++) {
                compare(c, exact[d], naive[d], weft_ref_load(p->dtype, data->o, at + (size_t)d), &largest);
            }
        }
        allow_rounding(c, p->dtype, largest);
    }
    free(weights);
    free(plain);
    return code;
}

void check_gemm(const weft_gemm *p, const weft_gemm_data *data, void *old_c, check *c) {
    const weft_gemm_data before = {data->a, data->b, old_c};
    const int64_t count = p->m * p->n;
    const int64_t stride = check_stride(count, 4.0 * (double)p->k);
    double largest = 0;
    for (int64_t i = 0; i < count; i += stride, c->checked++) {
        const int64_t row = i / p->n, col = i % p->n;
        const double result = weft_ref_load(p->c_dtype, data->c, weft_matrix_index(p->c_major, p->ldc, row, col));
        compare(c, weft_ref_gemm_element(p, &before, row, col), weft_ref_gemm_element_naive(p, &before, row, col), result,
                &largest);
    }
    allow_rounding(c, p->c_dtype, largest);
}

static int report(const settings *s, const weft_plan *plan, double seconds, double flops, const check *c) {
    const int passed = c->max_error <= c->bound && !c->wrong;
    const double tflops = seconds > 0 ? flops / seconds / 1e12 : 0;
    if (s->json) {
        const int code = print_json(
            json_pack("{s:s, s:s, s:s, s:o, s:o, s:I, s:f, s:f, s:{s:f, s:f, s:I, s:b}}", "device", "cpu", "machine",
                      plan->machine.name, "kernel", plan->backend->name, "problem", weft_plan_problem_json(plan),
                      "schedule", weft_plan_schedule_json(plan), "seed", (json_int_t)s->seed, "seconds", seconds, "tflops",
                      tflops, "check", "max_error", isfinite(c->max_error) ? c->max_error : DBL_MAX, "bound", c->bound,
                      "checked", (json_int_t)c->checked, "passed", passed));
        return code ? code : passed ? EXIT_OK : EXIT_FAILED;
    }
    printf("%s on cpu: %.6f s, %.6f TFLOP/s\ncheck: error %.3g, allowed %.3g, %" PRId64 " %s compared: %s\n",
           plan->backend->name, seconds, tflops, c->max_error, c->bound, c->checked,
           plan->subject == WEFT_SUBJECT_ATTENTION ? "rows" : "elements", passed ? "passed" : "FAILED");
    return passed ? EXIT_OK : EXIT_FAILED;
}

static int run_attention(const settings *s, weft_plan *plan) {
    const weft_attention *p = &plan->attention;
    const weft_attention_extents sizes = weft_attention_sizes(p);
    const double elements = (double)sizes.q + (double)sizes.k + (double)sizes.v + (double)sizes.o;
    int code = check_memory(elements * (double)weft_dtype_bytes(p->dtype) + 4.0 * (double)sizes.lse);
    if (code) {
        return code;
    }
    uint64_t random = (uint64_t)s->seed;
    void *q = make_buffer(p->dtype, sizes.q, &random), *k = make_buffer(p->dtype, sizes.k, &random);
    void *v = make_buffer(p->dtype, sizes.v, &random), *o = make_buffer(p->dtype, sizes.o, NULL);
    float *lse = make_buffer(WEFT_FP32, sizes.lse, NULL);
    if (!q || !k || !v || !o || !lse) {
        code = complain(EXIT_FAILED, "out of memory");
    } else {
        const weft_attention_data data = {q, k, v, o, lse};
        weft_message message = {""};
        check c = {0, 0, 0, 0};
        const double begin = now();
        const weft_status status = weft_plan_run_attention(plan, &data, &message);
        const double seconds = now() - begin;
        code = status ? complain_status(status, &message) : check_attention(p, &data, &c);
        if (code == EXIT_OK) {
            code = report(s, plan, seconds, weft_attention_flops(p), &c);
        }
    }
    free(q);
    free(k);
    free(v);
    free(o);
    free(lse);
    return code;
}

static int run_gemm(const settings *s, weft_plan *plan) {
    const weft_gemm *p = &plan->gemm;
    const weft_gemm_extents sizes = weft_gemm_sizes(p);
    const size_t c_bytes = sizes.c * weft_dtype_bytes(p->c_dtype);
    const double bytes = ((double)sizes.a + (double)sizes.b) * (double)weft_dtype_bytes(p->dtype) + 2 * (double)c_bytes;
    int code = check_memory(bytes);
    if (code) {
        return code;
    }
    uint64_t random = (uint64_t)s->seed;
    void *a = make_buffer(p->dtype, sizes.a, &random), *b = make_buffer(p->dtype, sizes.b, &random);
    void *c_now = make_buffer(p->c_dtype, sizes.c, p->beta != 0 ? &random : NULL), *c_before = malloc(c_bytes);
    if (!a || !b || !c_now || !c_before) {
        code = complain(EXIT_FAILED, "out of memory");
    } else {
        memcpy(c_before, c_now, c_bytes);
        const weft_gemm_data data = {a, b, c_now};
        weft_message message = {""};
        check c = {0, 0, 0, 0};
        const double begin = now();
        const weft_status status = weft_plan_run_gemm(plan, &data, &message);
        const double seconds = now() - begin;
        if (status) {
            code = complain_status(status, &message);
        } else {
            check_gemm(p, &data, c_before, &c);
            code = report(s, plan, seconds, weft_gemm_flops(p), &c);
        }
    }
    free(a);
    free(b);
    free(c_now);
    free(c_before);
    return code;
}

int cmd_run(const settings *s, const char *const *words, size_t count) {
    (void)count;
    const int subject = subject_or_complain("run", words[0]);
    if (subject < 0) {
        return EXIT_USAGE;
    }
    weft_plan *plan = NULL;
    int code = make_plan(s, (weft_subject)subject, &plan);
    if (code == EXIT_OK) {
        if (s->verbose) {
            char text[1024];
            weft_plan_text(plan, text, sizeof text);
            fputs(text, s->json ? stderr : stdout);
        } else if (!s->machine && !s->json) {
            printf("planned for this host: %s (--machine chooses another)\n", plan->machine.title);
        }
        double last = now();
        if (isatty(STDERR_FILENO)) {
            weft_plan_on_progress(plan, show_progress, &last);
        }
        code = subject == WEFT_SUBJECT_ATTENTION ? run_attention(s, plan) : run_gemm(s, plan);
    }
    weft_plan_destroy(plan);
    return code;
}
