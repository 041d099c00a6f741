/* SPDX-License-Identifier: Apache-2.0 */
/* A closed form for the time of a GEMM on an H200, wave by wave: good enough to choose by. */
#ifndef WEFT_CUDA_SM90_GEMM_TIME_H
#define WEFT_CUDA_SM90_GEMM_TIME_H

#include <stdint.h>

/* One of A and B, as tiles of it are loaded. */
typedef struct weft_gemm_operand {
    int64_t length, tile; /* of the product along m or n, and of a tile; as the kernel sees it: with a row-major C */
    int64_t cluster;      /* CTAs of a cluster along the same axis */
    int64_t line_bytes;   /* from one line to the next */
    int contiguous;       /* lines run along m or n, and boxes of 64 are loaded; else along k */
} weft_gemm_operand;

/* A product and a way to cut it: tiles, clusters that share loads, CTAs that split the steps of a tile. */
typedef struct weft_gemm_model {
    int64_t batch, k, step;
    weft_gemm_operand a, b;
    int64_t split;
    int64_t workers; /* SMs */
    int64_t per_sm;  /* CTAs that share one */
    int transposed;  /* columns of a tile lie in C one behind the other: it stores 32 bytes of a line at a time */
    double bytes;    /* of A, B and C */
} weft_gemm_model;

/* Of so many places for CTAs, those that clusters of `ctas` fill. */
int64_t weft_gemm_filled(int64_t places, int64_t ctas);

/* Whether so many workers take hardly more waves than all would: then the SMs that are left idle cost nothing. */
int weft_gemm_has_spare_workers(int64_t positions, int64_t workers, int64_t all);

/* Microseconds, by the numbers of costs.def. */
double weft_gemm_time(const weft_gemm_model *m);

/* The parts of it for whoever follows the tiles one by one, in seconds: of a launch, of a tile beside its steps, and of a
 * step while all SMs are at work and no load is late. */
void weft_gemm_parts(const weft_gemm_model *m, double *launch, double *tile, double *step);

#endif
