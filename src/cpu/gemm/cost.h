/* SPDX-License-Identifier: Apache-2.0 */
/* Cost of a GEMM's tiles on this host, in products of one value of k. */
#ifndef WEFT_CPU_GEMM_COST_H
#define WEFT_CPU_GEMM_COST_H

#include "cpu/kernel/kernel.h"
#include "cpu/tile.h"

/* How tiles reach workers: as a fluid that can be cut anywhere, which is a lower bound, or in the order of raster-m or
 * raster-n. The order matters because the often smaller tiles at the edge come last or not. */
typedef enum weft_cpu_way { WEFT_CPU_FLUID, WEFT_CPU_DOWN, WEFT_CPU_ALONG } weft_cpu_way;

weft_cpu_way weft_cpu_way_of(int32_t order);

/* Whether there are few enough tiles to simulate them one by one. */
int weft_cpu_is_dealt(int64_t products, weft_cpu_axis m, weft_cpu_axis n, int64_t workers);

/* Whether workers share the tiles of one product by columns of blocks: no more tiles than workers. */
int weft_cpu_by_columns(const weft_cpu_kernel *kernel, const weft_gemm *p, weft_cpu_axis m, weft_cpu_axis n,
                        int64_t workers);

/* Cost of a walk over so many products. WEFT_CPU_FLUID never costs more than the others. */
double weft_cpu_gemm_cost(const weft_cpu_kernel *kernel, const weft_gemm *p, int64_t products, weft_cpu_axis m,
                          weft_cpu_axis n, int64_t workers, weft_cpu_way how);

/* Whether each thread of a GEMM packs what its tile needs; otherwise all threads pack both operands first. */
int weft_cpu_packs_alone(const weft_plan *plan);

/* Whether a thread that packs alone packs B among the products of its first rows. */
int weft_cpu_packs_on_the_way(const weft_cpu_kernel *kernel, const weft_gemm *problem);

/* Whether such a thread leaves A in place for a tile with so many panels of B. */
int weft_cpu_leaves_a_in_place(const weft_cpu_kernel *kernel, const weft_gemm *problem, int64_t panels);

/* Whether a GEMM can take A unpacked, and its columns one by one, as sharing by columns needs. */
int weft_cpu_takes_unpacked(const weft_cpu_kernel *kernel, const weft_gemm *problem);

#endif
