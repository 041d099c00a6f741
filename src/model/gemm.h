/* A closed form for the time of a GEMM on an H200, tile by tile: good enough to choose by. */
#ifndef WEFT_MODEL_GEMM_H
#define WEFT_MODEL_GEMM_H

#include <stdint.h>

/* A product and a way to cut it: tiles, clusters that share loads, CTAs that share out the steps of a tile. */
typedef struct weft_gemm_model {
    int64_t batch, m, n, k;
    int64_t tile_m, tile_n, tile_k;
    int64_t columns; /* of one product of the tensor cores: 64, 128 or 256 */
    int64_t cluster_m, cluster_n, split;
    int64_t workers;          /* CTAs at a time */
    int a_crooked, b_crooked; /* lines of A, of B, do not begin at multiples of 128 bytes: each piece of one is two */
    double bytes;             /* of A, B and C */
} weft_gemm_model;

/* Clocks of an SM. What it costs to multiply is known from the chip; the other numbers were fitted to the sweep in
 * docs/results/gemm-sweep-h200.csv. */
double weft_model_gemm_clocks(const weft_gemm_model *m);

#endif
