/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU as a backend. */
#ifndef WEFT_CPU_BACKEND_H
#define WEFT_CPU_BACKEND_H

#include "plan/plan.h"

extern const weft_backend weft_backend_cpu;

#endif
