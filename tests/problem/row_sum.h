/* SPDX-License-Identifier: Apache-2.0 */
/* The operation row-sum: y[i] is the sum of row i of x. */
#ifndef ROW_SUM_H
#define ROW_SUM_H

#include <weft/weft.h>

enum { ROW_SUM = WEFT_GROUPED_GEMM + 1 };

typedef struct row_sum {
    size_t struct_size;
    int32_t operation;
    int64_t rows, columns;
} row_sum;

typedef struct row_sum_data {
    size_t struct_size;
    int32_t operation;
    const float *x; /* (rows, columns) */
    float *y;       /* (rows) */
} row_sum_data;

#endif
