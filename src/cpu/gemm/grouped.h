/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU's grouped products. */
#ifndef WEFT_CPU_GEMM_GROUPED_H
#define WEFT_CPU_GEMM_GROUPED_H

#include "plan/plan.h"

/* Fills in what the schedule leaves open. */
void weft_cpu_grouped_choose(weft_plan *plan);

weft_status weft_cpu_grouped(const weft_plan *plan, const void *data, weft_message *message);

#endif
