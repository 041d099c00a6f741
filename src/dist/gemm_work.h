/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank of a shared matrix product has beside what all kinds have.
 *
 * Cut m: rows of A come by, and each rank computes all rows of its columns of C. Cut k: each rank computes a share of the
 * sum of all of C; sums of rows of C go from rank to rank, and end where these rows belong. Parts are rows of m. */
#ifndef WEFT_DIST_GEMM_WORK_H
#define WEFT_DIST_GEMM_WORK_H

#include "dist/kinds.h"

typedef struct weft_dist_product {
    weft_gemm ab, c;         /* this rank's A and B; its C: resolved, each right for these matrices only */
    int64_t a_rows, b_rows;  /* of this rank's matrices: A is (a_rows, b_rows), B (b_rows, columns), C (c_rows, columns) */
    int64_t columns, c_rows; /* any may be 0 */
    weft_dist_sum rounding, widening; /* of sums to C; of a bias to sums */
    char *rounded;                    /* C by rows, where the caller's is by columns; else null */
} weft_dist_product;

/* gemm.c: the product of a slice, of one of the batch, in packed matrices. */
weft_gemm weft_dist_gemm_slice_problem(const weft_dist *dist, const weft_dist_slice *slice);

/* Columns of a row of fp32 sums that weft_combine takes as so many equal blocks, and those that are left. */
enum { WEFT_DIST_BLOCK = 512 };

/* gemm.c: adding up, or rounding, rows of sums in two problems: all whole blocks of columns, and the rest. Rows are so far
 * apart. Returns 0 where there is nothing. */
int weft_dist_gemm_blocks(int64_t rows, int64_t columns, int64_t from, int64_t to, int rest, weft_combine *c);

#endif
