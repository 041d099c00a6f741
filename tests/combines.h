/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of attentions to combine, drawn at random, and what is right. What nobody may read is NaN: gaps between rows, and
 * the outputs of parts that have seen no key, a running result's among them. */
#ifndef WEFT_TESTS_COMBINES_H
#define WEFT_TESTS_COMBINES_H

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "plan/plan.h"
#include "problem/combine.h"
#include "random.h"
#include "ref/ref.h"

/* Strides in either layout, with gaps of multiples of `unit` elements. */
static inline weft_strides draw_part_strides(uint64_t *random, const weft_combine *p, int64_t unit) {
    const int64_t row = p->head_dim + unit * random_between(random, 0, 2), gap = unit * random_between(random, 0, 2);
    if (random_between(random, 0, 1)) {
        return (weft_strides){.batch = p->seq * (p->heads * row + gap), .seq = p->heads * row + gap, .head = row};
    }
    return (weft_strides){.batch = p->heads * (p->seq * row + gap), .seq = row, .head = p->seq * row + gap};
}

static inline weft_combine draw_combine(uint64_t *random, int64_t most) {
    static const weft_dtype dtypes[] = {WEFT_FP32, WEFT_FP16, WEFT_BF16};
    weft_combine p = WEFT_COMBINE_INIT;
    p.parts = random_between(random, 0, 1) ? 2 : random_between(random, 1, WEFT_MOST_PARTS);
    p.batch = random_between(random, 1, 4);
    p.heads = random_between(random, 1, 9);
    p.seq = random_between(random, 0, 1) ? 1 : random_between(random, 1, most);
    p.head_dim = random_between(random, 0, 1) ? 8 * random_between(random, 1, 32) : random_between(random, 1, 99);
    p.dtype = dtypes[random_between(random, 0, 2)];
    p.o_dtype = random_between(random, 0, 1) ? p.dtype : dtypes[random_between(random, 0, 2)];
    p.layout = random_between(random, 0, 1) ? WEFT_BSHD : WEFT_BHSD;
    if (random_between(random, 0, 1)) {
        p.part_strides = draw_part_strides(random, &p, random_between(random, 0, 1) ? 8 : 1);
        p.o_strides = draw_part_strides(random, &p, random_between(random, 0, 1) ? 8 : 1);
    }
    p.into = (int32_t)random_between(random, 0, 1);
    p.sum = random_between(random, 0, 3) == 0;
    p.lse_stride = p.sum || random_between(random, 0, 1) ? 0 : p.seq + random_between(random, 0, 9);
    return p;
}

static inline double draw_number(uint64_t *random) {
    return (double)random_between(random, -4000, 4000) / 1000;
}

/* The LSE of a part: at times that of one that has seen nothing, and, rarely, NaN. */
static inline float draw_lse(uint64_t *random) {
    const int64_t kind = random_between(random, 0, 199);
    return kind < 40 ? -INFINITY : kind == 199 ? NAN : (float)(10 * draw_number(random));
}

/* The buffers of a resolved problem on the heap, NaN everywhere, in a struct of data. */
typedef struct held {
    weft_problem problem;
    weft_buffer list[WEFT_BUFFERS];
    size_t count, bytes[WEFT_BUFFERS];
    weft_combine_data data;
} held;

/* The pointer to a buffer. */
static inline void **held_at(held *h, size_t i) {
    return (void **)(void *)((char *)&h->data + h->list[i].offset);
}

/* Aborts where the problem is wrong or memory runs out. */
static inline void hold(held *h, const weft_combine *p) {
    const weft_combine_data fresh = WEFT_COMBINE_DATA_INIT;
    const weft_operation_row *row;
    if (weft_problem_resolve(&h->problem, &row, p, NULL)) {
        abort();
    }
    h->count = row->buffers(&h->problem, h->list);
    h->data = fresh;
    for (size_t i = 0; i < h->count; i++) {
        h->bytes[i] = h->list[i].elements * weft_dtype_bytes(h->list[i].dtype);
        void *memory = malloc(h->bytes[i]);
        if (!memory) {
            abort();
        }
        *held_at(h, i) = memset(memory, 0xff, h->bytes[i]);
    }
}

/* Bytes of the buffer of a field of the data; 0: the problem has none. */
static inline size_t held_bytes(const held *h, size_t offset) {
    for (size_t i = 0; i < h->count; i++) {
        if (h->list[i].offset == offset) {
            return h->bytes[i];
        }
    }
    return 0;
}

static inline void let_go(held *h) {
    for (size_t i = 0; i < h->count; i++) {
        free(*held_at(h, i));
    }
}

/* The same with copies of all buffers: data as it was before a run. */
static inline void hold_copy(held *copy, held *h) {
    hold(copy, &h->problem.combine);
    for (size_t i = 0; i < h->count; i++) {
        memcpy(*held_at(copy, i), *held_at(h, i), h->bytes[i]);
    }
}

/* Fills what a run reads: the parts, their LSEs and, with `into`, O and its LSE. */
static inline void fill_terms(uint64_t *random, held *h) {
    const weft_combine *p = &h->problem.combine;
    for (int64_t row = 0; row < weft_combine_rows(p); row++) {
        weft_combine_term terms[WEFT_MOST_TERMS];
        for (int64_t i = 0; i < p->parts && !p->sum; i++) {
            ((float *)(uintptr_t)h->data.lses[i])[row] = draw_lse(random);
        }
        if (p->into && !p->sum) {
            h->data.lse[weft_combine_lse_index(p, row)] = draw_lse(random);
        }
        const int count = weft_combine_terms(p, &h->data, row, terms);
        for (int i = 0; i < count; i++) {
            for (int64_t d = 0; d < p->head_dim && terms[i].lse != -INFINITY; d++) {
                weft_ref_store(terms[i].dtype, (void *)(uintptr_t)terms[i].values, terms[i].at + (size_t)d,
                               draw_number(random));
            }
        }
    }
}

/* The most that a result may be off: its rounding, and that of weights and sums in fp32. A sum may be as large as all of
 * its terms together. */
static inline double combine_bound(const weft_combine *p, double exact) {
    const double rounding = p->o_dtype == WEFT_FP32 ? 0x1p-24 : p->o_dtype == WEFT_FP16 ? 0x1p-11 : 0x1p-8;
    const double least = p->o_dtype == WEFT_FP16 ? 0x1p-24 : 0; /* of subnormals */
    const double terms = (double)(p->parts + p->into);
    return rounding * fabs(exact) + terms * (p->sum ? terms : 1) * 4 * 0x1p-22 + least;
}

/* How many rows of a result are wrong; the data is as it was before the run. */
static inline int64_t count_wrong(const weft_combine *p, const weft_combine_data *data, const void *o, const float *lses) {
    int64_t wrong = 0;
    for (int64_t row = 0; row < weft_combine_rows(p); row++) {
        double exact[WEFT_MAX_HEAD_DIM];
        const double want = weft_ref_combine_row(p, data, row, exact);
        const size_t at = weft_combine_index(p, &p->o_strides, row);
        const float *lse = lses ? &lses[weft_combine_lse_index(p, row)] : NULL;
        int is_wrong = lse && !(isnan(want)         ? isnan(*lse)
                                : want == -INFINITY ? *lse == -INFINITY
                                                    : fabs((double)*lse - want) <= 1e-6 * fmax(1, fabs(want)));
        for (int64_t d = 0; d < p->head_dim; d++) {
            const double got = weft_ref_load(p->o_dtype, o, at + (size_t)d);
            is_wrong |= isnan(exact[d]) ? !isnan(got) : !(fabs(got - exact[d]) <= combine_bound(p, exact[d]));
        }
        wrong += is_wrong;
    }
    return wrong;
}

static inline int is_nan_in_all_bits(const void *memory, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        if (((const unsigned char *)memory)[i] != 0xff) {
            return 0;
        }
    }
    return 1;
}

/* Makes every element of O's rows and of their LSEs NaN: what is left between them then is NaN in all bits, if nobody has
 * written there. */
static inline int is_untouched_between(held *h) {
    const weft_combine *p = &h->problem.combine;
    const size_t bytes = weft_dtype_bytes(p->o_dtype), lses = held_bytes(h, offsetof(weft_combine_data, lse));
    for (int64_t row = 0; row < weft_combine_rows(p); row++) {
        memset((char *)h->data.o + weft_combine_index(p, &p->o_strides, row) * bytes, 0xff, (size_t)p->head_dim * bytes);
        if (lses) {
            memset(&h->data.lse[weft_combine_lse_index(p, row)], 0xff, sizeof(float));
        }
    }
    return is_nan_in_all_bits(h->data.o, held_bytes(h, offsetof(weft_combine_data, o))) &&
           is_nan_in_all_bits(h->data.lse, lses);
}

#endif
