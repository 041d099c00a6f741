/* What a GEMM takes on this host by its tiles, in products of one value of k. */
#ifndef WEFT_CPU_GEMM_COST_H
#define WEFT_CPU_GEMM_COST_H

#include "cpu/kernel/kernel.h"
#include "cpu/tile.h"

/* How tiles come to workers that have a core each: in no order, as if they could be cut anywhere, or in that of raster-m or
 * raster-n. It matters where the last ones, which are often small, come last. */
typedef enum weft_cpu_way { WEFT_CPU_FLUID, WEFT_CPU_DOWN, WEFT_CPU_ALONG } weft_cpu_way;

weft_cpu_way weft_cpu_way_of(int32_t order);

/* Whether there are few enough tiles to deal them out one by one. */
int weft_cpu_is_dealt(int64_t products, weft_cpu_axis m, weft_cpu_axis n, int64_t workers);

/* With no more tiles than workers those of one product are shared out by columns of blocks. */
int weft_cpu_by_columns(const weft_cpu_kernel *kernel, const weft_gemm *p, weft_cpu_axis m, weft_cpu_axis n,
                        int64_t workers);

/* Of a walk over so many products. WEFT_CPU_FLUID is never more than the others. */
double weft_cpu_gemm_cost(const weft_cpu_kernel *kernel, const weft_gemm *p, int64_t products, weft_cpu_axis m,
                          weft_cpu_axis n, int64_t workers, weft_cpu_way how);

/* Whether each thread of a GEMM packs what its tile needs; otherwise both operands are packed first, by all. */
int weft_cpu_packs_alone(const weft_plan *plan);

/* Whether a GEMM with no more tiles than workers takes A unpacked. Then tiles are shared out by columns of blocks. */
int weft_cpu_takes_unpacked(const weft_cpu_kernel *kernel, const weft_gemm *problem);

#endif
