/* The CPU's GEMM. */
#ifndef WEFT_CPU_GEMM_GEMM_H
#define WEFT_CPU_GEMM_GEMM_H

#include "plan/plan.h"

weft_status weft_cpu_gemm(const weft_plan *plan, const weft_gemm_data *data, weft_message *message);

#endif
