/* SPDX-License-Identifier: Apache-2.0 */
/* What tests of matrix products over ranks share: the whole of a problem, what a rank does with its part, and what is
 * right. Ranks are threads in test_products.c and processes in mpi_products.c. */
#ifndef WEFT_TESTS_DIST_PRODUCTS_H
#define WEFT_TESTS_DIST_PRODUCTS_H

#include <weft/dist.h>

#include "../random.h"
#include "cuda/driver/driver.h"

#include "most_ranks.h"

typedef struct whole_product {
    weft_gemm p; /* of all ranks; leading dimensions are those of `all` below */
    weft_ranks ranks;
    int64_t pad[3];                    /* elements between lines of a rank's A, B and C */
    int aligned;                       /* 1: lines begin at multiples of 16 bytes, as GPUs want them */
    char *a, *b, *c, *residual, *bias; /* (batch, rows, columns), packed row by row; c: before the run */
    float *scale, *row_scale, *column_scale;
} whole_product;

/* A rank's matrix: rows and columns of the whole one, in a layout of its own. */
typedef struct part_matrix {
    int64_t row, rows, column, columns, ld, stride;
    weft_major major;
    weft_dtype dtype;
    char *at; /* null: it is empty */
    size_t bytes;
} part_matrix;

typedef struct part_product {
    const whole_product *w;
    int32_t rank;
    double seconds;              /* that are waited; 0: 60 */
    const weft_cuda_driver *gpu; /* null: it computes on the CPU. A context is current */
    void *stream;                /* of the GPU */
    weft_status status;
    weft_message message;
    weft_dist *dist;
    part_matrix c;
    weft_dist_traffic expected, counted;
} part_product;

/* Draws a problem of sizes up to `most`, over ranks between these. */
void draw_product(uint64_t *random, whole_product *w, int64_t most, int64_t least_ranks, int64_t most_ranks);
void suit_gpu_product(whole_product *w);               /* makes it one that GPUs take */
void fill_product(whole_product *w, uint64_t *random); /* takes its matrices */
void free_product(whole_product *w);

part_product product_part_of(const whole_product *w, int32_t rank);
weft_status run_product(part_product *m, const weft_transport *transport);
void free_product_part(part_product *m);

/* Where a rank's C lies in the whole, by what `dist` says; `at` is null. */
part_matrix product_c_of(const whole_product *w, const weft_dist *dist, int64_t rank);

/* The parts of all ranks are what the reference says, and what one rank would compute. */
void check_product(const whole_product *w, const part_product *parts);
void check_product_counts(const part_product *m);

#endif
