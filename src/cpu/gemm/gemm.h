/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU's GEMM. */
#ifndef WEFT_CPU_GEMM_GEMM_H
#define WEFT_CPU_GEMM_GEMM_H

#include "plan/plan.h"

/* One walk of the plan; the data begins with product `first` of the batch. */
weft_status weft_cpu_gemm(const weft_plan *plan, const weft_gemm_data *data, int64_t first, weft_message *message);

#endif
