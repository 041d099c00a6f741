/* SPDX-License-Identifier: Apache-2.0 */
/* Random products on a GPU, held to the reference in fp64 over poison: what the device tests of GEMM kernels share. */
#ifndef WEFT_TESTS_CUDA_GEMM_TRIAL_H
#define WEFT_TESTS_CUDA_GEMM_TRIAL_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../epilogues.h"
#include "../plans.h"
#include "base/random.h"
#include "cuda/driver/driver.h"
#include "gemm_right.h"
#include "plan/plan.h"

enum { PATTERN = 8 << 20 }; /* random numbers that are repeated in large matrices */

static uint64_t seed;

static int64_t between(int64_t low, int64_t high) {
    return low + (int64_t)(weft_random_real(&seed) * (double)(high - low + 1));
}

static int64_t to_8(int64_t value) {
    return (value + 7) / 8 * 8;
}

static int make(const weft_cuda_driver *d, matrix *m, weft_dtype dtype, size_t count) {
    *m = (matrix){malloc(count * weft_dtype_bytes(dtype) + 4), 0, count, count * weft_dtype_bytes(dtype), dtype};
    const size_t bytes = weft_dtype_bytes(dtype);
    for (size_t i = 0; m->host && i < count && i < PATTERN; i++) {
        const double u = weft_random_real(&seed), v = weft_random_real(&seed);
        weft_ref_store(dtype, m->host, i, sqrt(-2 * log(1 - u)) * cos(6.283185307179586 * v));
    }
    for (size_t i = PATTERN; m->host && i < count; i += PATTERN) {
        memcpy((char *)m->host + i * bytes, m->host, (count - i < PATTERN ? count - i : PATTERN) * bytes);
    }
    return m->host && d->memory_new(&m->there, m->bytes + 4) == 0 && d->copy_in(m->there, m->host, m->bytes) == 0;
}

static void release(const weft_cuda_driver *d, matrix *m) {
    free(m->host);
    if (m->there) {
        d->memory_free(m->there);
    }
}

/* What a product has beside A, B and C, on the host and on the GPU, in the order of its buffers. */
typedef struct extras {
    matrix of[EPILOGUE_BUFFERS];
    size_t offset[EPILOGUE_BUFFERS]; /* in the data */
    int count;
    matrix *sums;       /* the one that is written, or null */
    uint64_t workspace; /* on the GPU, or 0: the plan's own */
} extras;

static int make_extras(const weft_cuda_driver *d, const weft_gemm *p, extras *all) {
    weft_buffer buffer = WEFT_BUFFER_INIT;
    int ok = 1;
    for (size_t i = 0; ok && weft_problem_buffer(p, EPILOGUE_FIRST_BUFFER + i, &buffer, NULL) == WEFT_OK; i++) {
        all->offset[i] = buffer.offset;
        all->count++;
        ok = make(d, &all->of[i], buffer.dtype, buffer.elements);
        all->sums = buffer.is_written ? &all->of[i] : all->sums;
    }
    return ok;
}

/* What is captured brings a workspace; of other runs, those of an even number of rows do. */
static int bring_workspace(const weft_cuda_driver *d, const weft_plan *plan, extras *all) {
    const size_t bytes = weft_plan_workspace(plan);
    return bytes == 0 || (plan->gemm.m % 2 && !getenv("FAKE_CUDA")) || d->memory_new(&all->workspace, bytes) == 0;
}

/* A, B, C and these, where the host or the GPU has them. */
static weft_gemm_data data_of(const matrix *a, const matrix *b, const matrix *c, const extras *all, int there) {
    weft_gemm_data data =
        there ? gemm_data((void *)(uintptr_t)a->there, (void *)(uintptr_t)b->there, (void *)(uintptr_t)c->there)
              : gemm_data(a->host, b->host, c->host);
    for (int i = 0; i < all->count; i++) {
        set_epilogue_pointer(&data, all->offset[i], there ? (void *)(uintptr_t)all->of[i].there : all->of[i].host);
    }
    data.workspace = there ? (void *)(uintptr_t)all->workspace : NULL;
    return data;
}

/* Whether the sums of columns are those of C as it was stored, but for its rounding. */
static int sums_are_right(const weft_gemm *p, const extras *all, const void *got) {
    const double unit = p->c_dtype == WEFT_BF16 ? 0x1p-8 : p->c_dtype == WEFT_FP16 ? 0x1p-11 : 0x1p-18;
    for (int64_t i = 0; all->sums && i < p->batch * weft_gemm_columns(p); i++) {
        const int64_t batch = i / weft_gemm_columns(p), col = i % weft_gemm_columns(p);
        const double told = (double)((const float *)all->sums->host)[i];
        double sum = 0, size = 1e-3;
        for (int64_t row = 0; row < p->m; row++) {
            const double value = weft_ref_load(
                p->c_dtype, got, (size_t)(batch * p->c_stride) + weft_matrix_index(p->c_major, p->ldc, row, col));
            sum += value;
            size += fabs(value);
        }
        if (!(fabs(told - sum) <= unit * size)) {
            fprintf(stderr, "the sum of column %d is %g, and not %g\n", (int)i, told, sum);
            return 0;
        }
    }
    return 1;
}

/* Whether all of C was written, and nothing beside it. `stored`: bytes that the kernel stores at a time at the end of a
 * line, which begins at a multiple of that, or 1: a line's padding up to there may be written, see weft_gemm.ldc. */
static int is_whole(const weft_gemm *p, const matrix *c, const void *got, size_t stored) {
    const size_t bytes = weft_dtype_bytes(p->c_dtype), unit = stored > bytes ? stored / bytes : 1;
    unsigned char *owned = calloc(c->count, 1);
    size_t unwritten = 0, beside = 0;
    const int64_t columns = weft_gemm_columns(p);
    for (int64_t i = 0; owned && i < p->batch * p->m * columns; i++) {
        const int64_t batch = i / (p->m * columns), row = i / columns % p->m, col = i % columns;
        const size_t at = (size_t)(batch * p->c_stride) + weft_matrix_index(p->c_major, p->ldc, row, col);
        const size_t last = at / unit * unit + unit;
        for (size_t j = at; j < last && j < c->count; j++) {
            owned[j] = 1;
        }
        unwritten += isnan(weft_ref_load(p->c_dtype, got, at)) != 0; /* as poison is */
    }
    for (size_t i = 0; owned && i < c->count; i++) {
        static const unsigned char poison[4] = {0xff, 0xff, 0xff, 0xff};
        const void *before = p->beta != 0 ? (const char *)c->host + i * bytes : (const char *)poison;
        beside += !owned[i] && memcmp((const char *)got + i * bytes, before, bytes) != 0;
    }
    if (!owned || unwritten || beside) {
        fprintf(stderr, "%zu elements were not written, and %zu beside C were\n", unwritten, beside);
    }
    free(owned);
    return owned && !unwritten && !beside;
}

/* Runs it over poison, or over the old C where that is read; the result comes to `got`. */
static int run(const weft_cuda_driver *d, const weft_plan *plan, const matrix *a, const matrix *b, const matrix *c,
               const extras *all, void *got, weft_message *message) {
    const weft_gemm_data data = data_of(a, b, c, all, 1);
    const matrix *sums = all->sums;
    const int prepared = plan->gemm.beta != 0 ? d->copy_in(c->there, c->host, c->bytes)
                                              : d->set_words(c->there, UINT32_MAX, (c->bytes + 3) / 4, NULL);
    return prepared == 0 && (!sums || d->set_words(sums->there, UINT32_MAX, sums->bytes / 4, NULL) == 0) &&
           weft_plan_run(plan, &data, message) == WEFT_OK && d->copy_out(got, c->there, c->bytes) == 0 &&
           (!sums || d->copy_out(sums->host, sums->there, sums->bytes) == 0);
}

/* Runs the product of a plan and so many times more, and destroys the plan. Whether it is for the kernel `symbol`, unless
 * that is null, and all is right and the same bits each time; there may be no plan, and the message says why. stored: see
 * is_whole(); prepare: changes A and B beforehand, or null; holds: whether the result is right, or null, and all is as it
 * is of numbers that are alike. */
static int try_product(const weft_cuda_driver *d, weft_plan *plan, weft_message *message, const char *symbol, size_t stored,
                       void (*prepare)(const weft_cuda_driver *, const weft_gemm *, matrix *, matrix *),
                       int (*holds)(const weft_gemm *, const weft_gemm_data *, const void *), int repeats,
                       const char *name) {
    matrix a = {0}, b = {0}, c = {0};
    extras more = {0};
    char text[1024] = "";
    void *got = NULL, *again = NULL, *sums = NULL;
    int ok = plan && (!symbol || strcmp(((const weft_cuda_plan *)plan->placed)->main->choice.kernel, symbol) == 0);
    if (ok) {
        const weft_gemm *p = &plan->gemm;
        const weft_gemm_extents sizes = gemm_sizes(p);
        ok = make(d, &a, p->dtype, sizes.a) && make(d, &b, p->dtype, sizes.b) && make(d, &c, p->c_dtype, sizes.c) &&
             make_extras(d, p, &more) && bring_workspace(d, plan, &more) && (got = malloc(c.bytes)) &&
             (again = malloc(c.bytes)) && (sums = malloc(more.sums ? more.sums->bytes : 1));
        if (ok && prepare) {
            prepare(d, p, &a, &b);
        }
        const weft_gemm_data host = data_of(&a, &b, &c, &more, 0);
        ok = ok && run(d, plan, &a, &b, &c, &more, got, message) &&
             (holds ? holds(p, &host, got)
                    : is_whole(p, &c, got, stored) && right(p, &host, got) && sums_are_right(p, &more, got));
        if (ok && more.sums) {
            memcpy(sums, more.sums->host, more.sums->bytes);
        }
        for (int i = 0; i < repeats && ok; i++) {
            ok = run(d, plan, &a, &b, &c, &more, again, message) && memcmp(got, again, c.bytes) == 0 &&
                 (!more.sums || memcmp(sums, more.sums->host, more.sums->bytes) == 0);
        }
    }
    if (!ok) {
        if (plan) {
            weft_plan_text(plan, text, sizeof text);
        }
        fprintf(stderr, "%s is wrong: %s\n%s", name, message->text, text);
    }
    weft_plan_destroy(plan);
    release(d, &a);
    release(d, &b);
    release(d, &c);
    for (int i = 0; i < more.count; i++) {
        release(d, &more.of[i]);
    }
    if (more.workspace) {
        d->memory_free(more.workspace);
    }
    free(got);
    free(again);
    free(sums);
    return ok;
}

#endif
