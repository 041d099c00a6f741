/* Random inputs, and results held to the reference. */
#ifndef WEFT_CLI_CHECK_H
#define WEFT_CLI_CHECK_H

#include <weft/weft.h>

/* How far a result is from the reference, and how far it may be. */
typedef struct check {
    double max_error; /* against fp64 */
    double bound;     /* twice the error of a plain kernel in the same dtype */
    int64_t checked;  /* rows of O or elements of C that were compared */
    int wrong;        /* an element that should be finite is not, or an LSE is off */
} check;

/* Relative error of rounding a result once to the dtype. */
double check_rounding(weft_dtype dtype);

/* A buffer of `count` elements: random normal, or poison that no correct run leaves behind. Null when memory ran out. */
void *make_buffer(weft_dtype dtype, size_t count, uint64_t *random);

/* Compare a result with the reference, on a sample where the problem is large. Problems are resolved; `old_c` is C before
 * the run, for beta. */
int check_attention(const weft_attention *p, const weft_attention_data *data, check *c);
void check_gemm(const weft_gemm *p, const weft_gemm_data *data, void *old_c, check *c);

static inline int check_passed(const check *c) {
    return c->max_error <= c->bound && !c->wrong;
}

#endif
