/* SPDX-License-Identifier: Apache-2.0 */
/* GEMM with no more tiles than threads: threads share a tile by columns of blocks. */
#ifndef WEFT_CPU_GEMM_COLUMNS_H
#define WEFT_CPU_GEMM_COLUMNS_H

#include "cpu/gemm/job.h"

/* Whether threads share tiles by columns; memory for that, 0 if there is none; and the visit. */
int weft_cpu_gemm_by_columns(const weft_cpu_gemm_job *g);
int weft_cpu_gemm_alloc_columns(weft_cpu_gemm_job *g);
void weft_cpu_gemm_columns(void *context, void *scratch, const weft_visit *visit);

#endif
