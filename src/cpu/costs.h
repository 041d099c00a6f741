/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers of costs.def by their names. */
#ifndef WEFT_CPU_COSTS_H
#define WEFT_CPU_COSTS_H

static const struct weft_cpu_costs {
#define WEFT_COST(name, value, unit, source, meaning) double name;
#include "cpu/costs.def"
} weft_cpu_costs = {
#define WEFT_COST(name, value, unit, source, meaning) value,
#include "cpu/costs.def"
};

#endif
