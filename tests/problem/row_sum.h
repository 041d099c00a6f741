/* A toy operation, to show what one takes: the sum of each row of a matrix. docs/adding-an-operation.md walks through it. */
#ifndef WEFT_TESTS_ROW_SUM_H
#define WEFT_TESTS_ROW_SUM_H

#include <weft/weft.h>

enum { ROW_SUM = 4 }; /* beyond the numbers of weft_operation */

typedef struct row_sum {
    size_t struct_size;
    int32_t operation;
    int64_t rows, cols; /* fp32, packed, row-major */
} row_sum;

#define ROW_SUM_INIT                                                                                                       \
    { sizeof(row_sum), ROW_SUM, 0, 0 }

typedef struct row_sum_data {
    size_t struct_size;
    int32_t operation;
    const float *matrix; /* (rows, cols) */
    float *sums;         /* (rows) */
} row_sum_data;

#endif
