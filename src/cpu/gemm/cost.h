/* What a GEMM takes on this host by its tiles, in products of one value of k. */
#ifndef WEFT_CPU_GEMM_COST_H
#define WEFT_CPU_GEMM_COST_H

#include "cpu/cpu.h"

/* How tiles cut one side: how many, and the lines of one and of all, each tile padded to whole blocks; the last one may be
 * shorter. */
typedef struct weft_cpu_side {
    double tiles, one, all;
} weft_cpu_side;

weft_cpu_side weft_cpu_cut_side(int64_t length, int64_t tile, int64_t lines);

/* What a line of a tile takes besides, in products. */
typedef struct weft_cpu_fetching {
    double m, n;
} weft_cpu_fetching;

/* What tiles take: padded to whole blocks, and their lines. */
typedef struct weft_cpu_spent {
    double tiles; /* how many */
    double one, all;
} weft_cpu_spent;

weft_cpu_spent weft_cpu_spend(weft_cpu_fetching f, double grids, weft_cpu_side m, weft_cpu_side n);

/* How tiles come to workers that have a core each: in no order, as if they could be cut anywhere, or in that of raster-m or
 * raster-n. It matters where the last ones, which are often small, come last. */
typedef enum weft_cpu_way { WEFT_CPU_FLUID, WEFT_CPU_DOWN, WEFT_CPU_ALONG } weft_cpu_way;

weft_cpu_way weft_cpu_way_of(int32_t order);

/* Whether there are few enough tiles to deal them out one by one. */
int weft_cpu_is_dealt(int64_t products, weft_cpu_side m, weft_cpu_side n, int64_t workers);

/* With no more tiles than workers those of one product are shared out by columns of blocks. */
int weft_cpu_by_columns(const weft_cpu_kernel *kernel, const weft_gemm *p, weft_cpu_side m, weft_cpu_side n,
                        int64_t workers);

/* Of a walk over so many products. WEFT_CPU_FLUID is never more than the others. */
double weft_cpu_gemm_cost(const weft_cpu_kernel *kernel, const weft_gemm *p, int64_t products, weft_cpu_side m,
                          weft_cpu_side n, int64_t workers, weft_cpu_way how);

#endif
