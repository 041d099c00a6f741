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

#endif
