/* Candidates on the GPU: one set of inputs, the schedules in turns, because the chip's clocks move with heat. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "candidates.h"
#include "check.h"
#include "cli.h"
#include "gpu.h"
#include "measure_host.h"
#include "ref/ref.h"

enum { ROUNDS = 7 }; /* of which the median counts */

/* What measuring needs: a plan and ROUNDS times for each candidate, and the inputs. */
typedef struct bench {
    weft_plan **plans;
    double *times; /* (count, rounds) */
    void *q, *k, *v, *o, *lse;
    void *first; /* O of the first candidate, which was checked */
    double bound;
} bench;

static int prepare(bench *b, const settings *s, const candidate *list, size_t count, size_t rounds) {
    uint64_t random = (uint64_t)s->seed;
    b->plans = calloc(count, sizeof *b->plans);
    b->times = calloc(count * rounds, sizeof *b->times);
    if (!b->plans || !b->times) {
        return complain(EXIT_FAILED, "out of memory");
    }
    for (size_t i = 0; i < count; i++) {
        const int code = make_plan(&list[i].chosen, WEFT_SUBJECT_ATTENTION, &b->plans[i]);
        if (code) {
            return code;
        }
    }
    const weft_attention *p = &b->plans[0]->attention;
    const weft_attention_extents sizes = weft_attention_sizes(p);
    b->q = make_buffer(p->dtype, sizes.q, &random);
    b->k = make_buffer(p->dtype, sizes.k, &random);
    b->v = make_buffer(p->dtype, sizes.v, &random);
    b->o = make_buffer(p->dtype, sizes.o, NULL);
    b->first = make_buffer(p->dtype, sizes.o, NULL);
    b->lse = make_buffer(WEFT_FP32, sizes.lse, NULL);
    return b->q && b->k && b->v && b->o && b->first && b->lse ? EXIT_OK : complain(EXIT_FAILED, "out of memory");
}

/* Holds what a candidate computed to the reference, for the first, and for the others to the first: another schedule
 * changes nothing but rounding. */
static int verify(bench *b, gpu *g, size_t number, const candidate *c) {
    const weft_attention_data data = {b->q, b->k, b->v, number == 0 ? b->first : b->o, b->lse};
    const weft_attention *p = &b->plans[0]->attention;
    check found = {0, 0, 0, 0};
    char name[128];
    int code = gpu_fetch(g, &data);
    if (code == EXIT_OK && number == 0) {
        code = check_attention(p, &data, &found);
        b->bound = found.bound;
    }
    const size_t count = code || number == 0 ? 0 : weft_attention_sizes(p).o;
    for (size_t i = 0; i < count; i++) {
        const double off = fabs(weft_ref_load(p->dtype, b->o, i) - weft_ref_load(p->dtype, b->first, i));
        found.max_error = off <= found.max_error ? found.max_error : off; /* NaN stays */
        found.bound = 2 * b->bound;
    }
    if (code || check_passed(&found)) {
        return code;
    }
    candidate_name(c, name, sizeof name);
    return complain(EXIT_FAILED, "%s: the result is wrong: error %.3g, allowed %.3g", name, found.max_error, found.bound);
}

/* Round 0 warms up and is checked; the others count. */
static int measure(bench *b, gpu *g, const candidate *list, size_t count, size_t rounds) {
    const int show = isatty(STDERR_FILENO);
    int code = EXIT_OK;
    for (size_t round = 0; round <= rounds && code == EXIT_OK; round++) {
        for (size_t i = 0; i < count && code == EXIT_OK; i++) {
            double seconds;
            code = round == 0 ? gpu_poison(g) : EXIT_OK;
            code = code ? code : gpu_time(g, b->plans[i], &seconds);
            if (code == EXIT_OK && round == 0) {
                code = verify(b, g, i, &list[i]);
            } else if (code == EXIT_OK) {
                b->times[i * rounds + round - 1] = seconds;
            }
        }
        if (show) {
            fprintf(stderr, "\rround %zu of %zu", round, rounds);
        }
    }
    if (show) {
        fputs("\r\033[K", stderr);
    }
    return code;
}

int candidates_measure(const settings *s, candidate *list, size_t count) {
    const size_t rounds = s->repeat > 0 ? (size_t)s->repeat : ROUNDS;
    bench b = {0};
    gpu g = {0};
    if (count == 0) {
        return EXIT_OK;
    }
    int code = prepare(&b, s, list, count, rounds);
    if (code == EXIT_OK) {
        const weft_attention_data data = {b.q, b.k, b.v, b.o, b.lse};
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
    free(b.q);
    free(b.k);
    free(b.v);
    free(b.o);
    free(b.first);
    free(b.lse);
    return code;
}
