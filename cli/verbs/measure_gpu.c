/* Candidates on the GPU: one set of inputs, the schedules in turns, because the chip's clocks move with heat. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli.h"
#include "progress.h"
#include "ref/ref.h"
#include "verbs/candidates.h"
#include "verbs/check.h"
#include "verbs/gpu.h"
#include "verbs/measure_host.h"

enum { ROUNDS = 7 }; /* of which the median counts */

/* What measuring needs: a plan and ROUNDS times for each candidate, and the problem's buffers on the host. */
typedef struct bench {
    weft_plan **plans;
    double *times;        /* (count, rounds) */
    void *in[3], *out[2]; /* Q, K, V, O and LSE, or A, B and C */
    void *first;          /* O or C of the first candidate, which was checked */
    void *old;            /* C before any run */
    double bound;
} bench;

static int make_buffers(bench *b, uint64_t random) {
    const weft_plan *plan = b->plans[0];
    if (plan->subject == WEFT_SUBJECT_GEMM) {
        const weft_gemm *p = &plan->gemm;
        const weft_gemm_extents sizes = weft_gemm_sizes(p);
        b->in[0] = make_buffer(p->dtype, sizes.a, &random);
        b->in[1] = make_buffer(p->dtype, sizes.b, &random);
        b->out[0] = make_buffer(p->c_dtype, sizes.c, NULL);
        b->first = make_buffer(p->c_dtype, sizes.c, NULL);
        b->old = make_buffer(p->c_dtype, sizes.c, p->beta != 0 ? &random : NULL);
        return b->in[0] && b->in[1] && b->out[0] && b->first && b->old;
    }
    const weft_attention *p = &plan->attention;
    const weft_attention_extents sizes = weft_attention_sizes(p);
    b->in[0] = make_buffer(p->dtype, sizes.q, &random);
    b->in[1] = make_buffer(p->dtype, sizes.k, &random);
    b->in[2] = make_buffer(p->dtype, sizes.v, &random);
    b->out[0] = make_buffer(p->dtype, sizes.o, NULL);
    b->first = make_buffer(p->dtype, sizes.o, NULL);
    b->out[1] = make_buffer(WEFT_FP32, sizes.lse, NULL);
    return b->in[0] && b->in[1] && b->in[2] && b->out[0] && b->first && b->out[1];
}

static int prepare(bench *b, const settings *s, const candidate *list, size_t count, size_t rounds, weft_subject subject) {
    b->plans = calloc(count, sizeof *b->plans);
    b->times = calloc(count * rounds, sizeof *b->times);
    if (!b->plans || !b->times) {
        return complain(EXIT_FAILED, "out of memory");
    }
    for (size_t i = 0; i < count; i++) {
        const int code = make_plan(&list[i].chosen, subject, &b->plans[i]);
        if (code) {
            return code;
        }
    }
    return make_buffers(b, (uint64_t)s->seed) ? EXIT_OK : complain(EXIT_FAILED, "out of memory");
}

/* The host's buffers as the plan's subject has them; the result goes to `out`. */
typedef union host_data {
    weft_attention_data attention;
    weft_gemm_data gemm;
} host_data;

static host_data data_of(const bench *b, void *out) {
    host_data data;
    if (b->plans[0]->subject == WEFT_SUBJECT_GEMM) {
        data.gemm = (weft_gemm_data){b->in[0], b->in[1], out};
    } else {
        data.attention = (weft_attention_data){b->in[0], b->in[1], b->in[2], out, b->out[1]};
    }
    return data;
}

/* Holds what a candidate computed to the reference, for the first, and for the others to the first: another schedule
 * changes nothing but rounding. */
static int verify(bench *b, gpu *g, size_t number, const candidate *c) {
    const weft_plan *plan = b->plans[0];
    const int is_gemm = plan->subject == WEFT_SUBJECT_GEMM;
    const host_data data = data_of(b, number == 0 ? b->first : b->out[0]);
    const weft_dtype dtype = is_gemm ? plan->gemm.c_dtype : plan->attention.dtype;
    check found = {0, 0, 0, 0};
    char name[128];
    int code = gpu_fetch(g, plan, &data);
    if (code == EXIT_OK && number == 0 && is_gemm) {
        check_gemm(&plan->gemm, &data.gemm, b->old, &found);
    } else if (code == EXIT_OK && number == 0) {
        code = check_attention(&plan->attention, &data.attention, &found);
    }
    b->bound = number == 0 ? found.bound : b->bound;
    const size_t all = is_gemm ? weft_gemm_sizes(&plan->gemm).c : weft_attention_sizes(&plan->attention).o;
    const size_t count = code || number == 0 ? 0 : all;
    const double rounding = 2 * check_rounding(dtype); /* the sample that the bound is from misses the largest results */
    for (size_t i = 0; i < count && check_passed(&found); i++) {
        const double first = weft_ref_load(dtype, b->first, i);
        found.max_error = fabs(weft_ref_load(dtype, b->out[0], i) - first); /* may be NaN */
        found.bound = 2 * b->bound + rounding * fabs(first);
    }
    if (code || check_passed(&found)) {
        return code;
    }
    candidate_name(c, name, sizeof name);
    return complain(EXIT_FAILED, "%s: the result is wrong: error %.3g, allowed %.3g", name, found.max_error, found.bound);
}

/* Round 0 warms up and is checked; the others count. */
static int measure(bench *b, gpu *g, const candidate *list, size_t count, size_t rounds) {
    progress_begin("measuring", (double)rounds + 1);
    const host_data old = data_of(b, b->old);
    int code = EXIT_OK;
    for (size_t round = 0; round <= rounds && code == EXIT_OK; round++) {
        for (size_t i = 0; i < count && code == EXIT_OK; i++) {
            double seconds;
            code = round == 0 ? gpu_poison(g, b->plans[0], &old) : EXIT_OK;
            code = code ? code : gpu_time(g, b->plans[i], &seconds);
            if (code == EXIT_OK && round == 0) {
                code = verify(b, g, i, &list[i]);
            } else if (code == EXIT_OK) {
                b->times[i * rounds + round - 1] = seconds;
            }
        }
        progress_add(1);
    }
    progress_end();
    return code;
}

int candidates_measure(const settings *s, candidate *list, size_t count, weft_subject subject) {
    const size_t rounds = s->repeat > 0 ? (size_t)s->repeat : ROUNDS;
    bench b = {0};
    gpu g = {0};
    if (count == 0) {
        return EXIT_OK;
    }
    int code = prepare(&b, s, list, count, rounds, subject);
    if (code == EXIT_OK) {
        const host_data data = data_of(&b, b.out[0]);
        code = gpu_open(&g, b.plans[0], &data);
        code = code ? code : measure(&b, &g, list, count, rounds);
    }
    for (size_t i = 0; i < count && code == EXIT_OK; i++) {
        list[i].measured = median(b.times + i * rounds, rounds);
    }
    for (size_t i = 0; i < count && b.plans; i++) {
        weft_plan_destroy(b.plans[i]);
    }
    gpu_close(&g);
    free(b.plans);
    free(b.times);
    for (size_t i = 0; i < 3; i++) {
        free(b.in[i]);
    }
    free(b.out[0]);
    free(b.out[1]);
    free(b.first);
    free(b.old);
    return code;
}
