/* What tiles cost on this host, as a model: no clock is read. */
#ifndef WEFT_CPU_COST_H
#define WEFT_CPU_COST_H

#include "cpu/cpu.h"

/* A problem cut in tiles, and how they are handed out. */
typedef struct weft_cpu_layout {
    const weft_plan *plan; /* its problem */
    const weft_cpu_kernel *kernel;
    int64_t tile_m, tile_n, tile_k;
    weft_order order; /* of the positions */
    int64_t halves;   /* tiles of a position, side by side */
    int64_t tiles;    /* of a line of the grid: query blocks of a head, or tiles along n */
    int64_t workers;
    int dynamic; /* whoever is free takes the next position */
} weft_cpu_layout;

/* How long the busiest worker takes. A multiplication is 1 for every pair of elements of the output, and every value of k
 * or of the head dim; the rest is in that unit. */
double weft_cpu_layout_cost(const weft_cpu_layout *layout);

/* The same of a plan that is made: see weft_backend. */
double weft_cpu_cost(const weft_plan *plan);

#endif
