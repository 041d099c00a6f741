/* Parts of attentions to combine, drawn at random, and what is right. What nobody may read is NaN: gaps between rows, and
 * the outputs of parts that have seen no key. */
#ifndef WEFT_TESTS_COMBINES_H
#define WEFT_TESTS_COMBINES_H

#include <math.h>
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

/* Fills parts and LSEs of a resolved problem, whose memory is NaN everywhere. */
static inline void fill_parts(uint64_t *random, const weft_combine *p, void *const *parts, float *const *lses) {
    for (int64_t i = 0; i < p->parts * weft_combine_rows(p); i++) {
        const int64_t part = i % p->parts, row = i / p->parts;
        const size_t at = weft_combine_index(p, &p->part_strides, row);
        lses[part][row] = draw_lse(random);
        for (int64_t d = 0; d < p->head_dim && lses[part][row] != -INFINITY; d++) {
            weft_ref_store(p->dtype, parts[part], at + (size_t)d, draw_number(random));
        }
    }
}

/* The most that a result may be off: its rounding, and that of weights and sums in fp32. */
static inline double combine_bound(const weft_combine *p, double exact) {
    const double rounding = p->o_dtype == WEFT_FP32 ? 0x1p-24 : p->o_dtype == WEFT_FP16 ? 0x1p-11 : 0x1p-8;
    const double least = p->o_dtype == WEFT_FP16 ? 0x1p-24 : 0; /* of subnormals */
    return rounding * fabs(exact) + (double)p->parts * 4 * 0x1p-22 + least;
}

/* How many rows of a result, where the data has the parts, are wrong. */
static inline int64_t count_wrong(const weft_combine *p, const weft_combine_data *data, const void *o, const float *lse) {
    int64_t wrong = 0;
    for (int64_t row = 0; row < weft_combine_rows(p); row++) {
        double exact[WEFT_MAX_HEAD_DIM];
        const double want = weft_ref_combine_row(p, data, row, exact);
        const size_t at = weft_combine_index(p, &p->o_strides, row);
        int is_wrong = lse && !(isnan(want)         ? isnan(lse[row])
                                : want == -INFINITY ? lse[row] == -INFINITY
                                                    : fabs((double)lse[row] - want) <= 1e-6 * fmax(1, fabs(want)));
        for (int64_t d = 0; d < p->head_dim; d++) {
            const double got = weft_ref_load(p->o_dtype, o, at + (size_t)d);
            is_wrong |= isnan(exact[d]) ? !isnan(got) : !(fabs(got - exact[d]) <= combine_bound(p, exact[d]));
        }
        wrong += is_wrong;
    }
    return wrong;
}

/* Makes every element of O's rows NaN: what is left between them then is NaN in all bits, if nobody has written there. */
static inline int is_untouched_between(const weft_combine *p, void *o, size_t elements) {
    const size_t bytes = weft_dtype_bytes(p->o_dtype);
    for (int64_t row = 0; row < weft_combine_rows(p); row++) {
        memset((char *)o + weft_combine_index(p, &p->o_strides, row) * bytes, 0xff, (size_t)p->head_dim * bytes);
    }
    for (size_t i = 0; i < elements * bytes; i++) {
        if (((const unsigned char *)o)[i] != 0xff) {
            return 0;
        }
    }
    return 1;
}

#endif
