/* Random inputs, and results held to the reference: what the verbs that run share. */
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

/* A buffer of `count` elements: random normal, or with a null state poison that no correct run leaves behind. */
void *make_buffer(weft_dtype dtype, size_t count, uint64_t *random);

/* Compares a sample of the rows of O, or of the elements of C, adding to *c. Problems are resolved; `old_c` is C before the
 * run, for beta. Returns an exit code. */
int check_attention(const weft_attention *p, const weft_attention_data *data, check *c);
void check_gemm(const weft_gemm *p, const weft_gemm_data *data, void *old_c, check *c);

#endif
