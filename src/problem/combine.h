/* SPDX-License-Identifier: Apache-2.0 */
/* Combining parts of an attention: what its backends share. */
#ifndef WEFT_PROBLEM_COMBINE_H
#define WEFT_PROBLEM_COMBINE_H

#include <weft/weft.h>

/* Rows of a resolved problem, batch by batch, head by head: as an LSE lies. */
static inline int64_t weft_combine_rows(const weft_combine *p) {
    return p->batch * p->heads * p->seq;
}

/* Index of the first element of a row in a tensor with these strides. */
static inline size_t weft_combine_index(const weft_combine *p, const weft_strides *s, int64_t row) {
    const int64_t line = row / p->seq;
    return (size_t)(line / p->heads * s->batch + row % p->seq * s->seq + line % p->heads * s->head);
}

/* Index of a row in the LSE of the result. */
static inline size_t weft_combine_lse_index(const weft_combine *p, int64_t row) {
    return (size_t)(row / p->seq * p->lse_stride + row % p->seq);
}

/* What is added up in a row: a row of O as it was, or of a part. */
typedef struct weft_combine_term {
    const void *values;
    weft_dtype dtype;
    size_t at;  /* index of the row's first element */
    double lse; /* in a sum 0: all weigh 1 */
} weft_combine_term;

enum { WEFT_MOST_TERMS = WEFT_MOST_PARTS + 1 };

/* The terms of a row, in the order in which they are added; how many. */
static inline int weft_combine_terms(const weft_combine *p, const weft_combine_data *data, int64_t row,
                                     weft_combine_term terms[WEFT_MOST_TERMS]) {
    int count = 0;
    if (p->into) {
        terms[count++] = (weft_combine_term){data->o, p->o_dtype, weft_combine_index(p, &p->o_strides, row),
                                             p->sum ? 0 : (double)data->lse[weft_combine_lse_index(p, row)]};
    }
    for (int64_t i = 0; i < p->parts; i++) {
        terms[count++] = (weft_combine_term){data->parts[i], p->dtype, weft_combine_index(p, &p->part_strides, row),
                                             p->sum ? 0 : (double)data->lses[i][row]};
    }
    return count;
}

#endif
