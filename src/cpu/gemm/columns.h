/* GEMM with no more tiles than threads: a tile is shared out by columns of blocks. */
#ifndef WEFT_CPU_GEMM_COLUMNS_H
#define WEFT_CPU_GEMM_COLUMNS_H

#include "cpu/gemm/job.h"

/* Whether tiles are shared out by columns of blocks; the memory for that, or 0; and the visit that does it. */
int weft_cpu_gemm_by_columns(const weft_cpu_gemm_job *g);
int weft_cpu_gemm_alloc_columns(weft_cpu_gemm_job *g);
void weft_cpu_gemm_columns(void *context, void *room, const weft_visit *visit);

#endif
