/* weft run: a problem on random inputs, timed and checked against the reference. */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "plan/describe.h"
#include "base/json.h"
#include "progress.h"
#include "report/rate.h"
#include "verbs/check.h"
#include "verbs/count.h"
#include "verbs/gpu.h"
#include "verbs/measure_host.h"

/* How long a run took, the median of `runs`. */
typedef struct timing {
    double seconds;
    int64_t runs;
} timing;

/* Refuses what the host's memory cannot hold, before anything is allocated. */
static int check_memory(double bytes) {
    const double have = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    if (bytes > 0.9 * have) {
        return complain(EXIT_USAGE, "the problem needs %.1f GiB and this host has %.1f", bytes / 0x1p30, have / 0x1p30);
    }
    return EXIT_OK;
}

/* `counted` is null without --counters. */
static int report(const settings *s, const weft_plan *plan, const timing *t, double flops, const check *c,
                  const device_case *counted) {
    const int passed = check_passed(c);
    const double tflops = t->seconds > 0 ? flops / t->seconds / 1e12 : 0;
    const char *kernel = weft_plan_kernel(plan);
    if (s->json) {
        json_t *object = json_pack("{s:s, s:s, s:s, s:o, s:o, s:I, s:f, s:I, s:f, s:{s:f, s:f, s:I, s:b}}", "device",
                                   plan->backend->name, "machine", plan->machine.name, "kernel", kernel, "problem",
                                   weft_plan_problem_json(plan), "schedule", weft_plan_schedule_json(plan), "seed",
                                   (json_int_t)s->seed, "seconds", t->seconds, "runs", (json_int_t)t->runs, "tflops",
                                   tflops, "check", "max_error", isfinite(c->max_error) ? c->max_error : DBL_MAX, "bound",
                                   c->bound, "checked", (json_int_t)c->checked, "passed", passed);
        if (counted) {
            weft_json_set(&object, "counters", device_case_json(counted));
        }
        const int code = print_json(object);
        return code ? code : passed ? EXIT_OK : EXIT_FAILED;
    }
    printf("%s on %s: %.6f s", kernel, plan->backend->name, t->seconds);
    if (t->runs > 1) {
        printf(" (median of %" PRId64 " runs)", t->runs);
    }
    printf(", %s\ncheck: error %.3g, allowed %.3g, %" PRId64 " %s compared: %s\n", weft_rate_text(tflops).text,
           c->max_error, c->bound, c->checked, plan->subject == WEFT_SUBJECT_ATTENTION ? "rows" : "elements",
           passed ? "passed" : "FAILED");
    if (counted) {
        device_case_print(counted);
    }
    return passed ? EXIT_OK : EXIT_FAILED;
}

static int run_once(const weft_plan *plan, const void *data, timing *t) {
    weft_message message = {""};
    progress_begin("running", 1);
    const double begin = now();
    progress_part part = {1, 0};
    const weft_progress told = progress_seen() ? progress_told : NULL;
    const weft_status status = plan->subject == WEFT_SUBJECT_GEMM
                                   ? weft_plan_run_gemm_with_progress(plan, data, told, &part, &message)
                                   : weft_plan_run_attention_with_progress(plan, data, told, &part, &message);
    t->seconds = now() - begin;
    t->runs = 1;
    progress_end();
    return status ? complain_status(status, &message) : EXIT_OK;
}

/* Two runs to warm up, which also say how many fit the time there is, then those that count. */
/* `data` is a weft_attention_data or a weft_gemm_data, as the plan's subject is. */
static int run_on_gpu(const settings *s, const weft_plan *plan, const void *data, timing *t) {
    gpu g = {0};
    double *times = NULL, last = 0;
    int code = gpu_open(&g, plan, data);
    for (int i = 0; i < 2 && code == EXIT_OK; i++) {
        code = gpu_time(&g, plan, &last);
    }
    if (code == EXIT_OK) {
        t->runs = gpu_runs(s->repeat, last);
        times = calloc((size_t)t->runs, sizeof *times);
        code = times ? EXIT_OK : complain(EXIT_FAILED, "out of memory");
    }
    for (int64_t i = 0; i < t->runs && code == EXIT_OK; i++) {
        code = i == t->runs - 1 ? gpu_poison(&g, plan, data) : EXIT_OK; /* the last run is the one that is checked */
        code = code ? code : gpu_time(&g, plan, &times[i]);
    }
    if (code == EXIT_OK) {
        t->seconds = median(times, (size_t)t->runs);
        code = gpu_fetch(&g, plan, data);
    }
    free(times);
    gpu_close(&g);
    return code;
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
        timing t = {0, 0};
        check c = {0, 0, 0, 0};
        device_case counted;
        code = plan->placed ? run_on_gpu(s, plan, &data, &t) : run_once(plan, &data, &t);
        code = code || !s->counters ? code : count_plan(plan, &counted);
        code = code ? code : check_attention(p, &data, &c);
        code = code ? code : report(s, plan, &t, weft_attention_flops(p), &c, s->counters ? &counted : NULL);
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
        timing t = {0, 0};
        check c = {0, 0, 0, 0};
        device_case counted;
        code = plan->placed ? run_on_gpu(s, plan, &data, &t) : run_once(plan, &data, &t);
        code = code || !s->counters ? code : count_plan(plan, &counted);
        if (code == EXIT_OK) {
            check_gemm(p, &data, c_before, &c);
            code = report(s, plan, &t, weft_gemm_flops(p), &c, s->counters ? &counted : NULL);
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
    if (code == EXIT_OK && s->counters && !plan->placed) {
        code = complain(EXIT_USAGE, "--counters are of a GPU: --device cuda");
    }
    if (code == EXIT_OK) {
        if (s->verbose) {
            char text[1024];
            weft_plan_text(plan, text, sizeof text);
            fputs(text, s->json ? stderr : stdout);
        } else if (!s->machine && !s->json) {
            printf("planned for this %s: %s (--machine chooses another)\n", plan->placed ? "GPU" : "host",
                   plan->machine.title);
        }
        code = subject == WEFT_SUBJECT_ATTENTION ? run_attention(s, plan) : run_gemm(s, plan);
    }
    weft_plan_destroy(plan);
    return code;
}
