/* SPDX-License-Identifier: Apache-2.0 */
/* Combining parts of an attention on the CPU. */
#ifndef WEFT_CPU_COMBINE_H
#define WEFT_CPU_COMBINE_H

#include "plan/plan.h"

/* Runs a plan with its data, a weft_combine_data. Rows do not depend on each other: any number of threads gives the same
 * bits. */
weft_status weft_cpu_combine(const weft_plan *plan, const void *data, weft_message *message);

#endif
