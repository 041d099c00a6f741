/* SPDX-License-Identifier: Apache-2.0 */
/* A live GPU as a machine: what its driver tells, what can be measured, and for the rest the machine file of the nearest
 * chip. */
#ifndef WEFT_CUDA_PLAN_LIVE_H
#define WEFT_CUDA_PLAN_LIVE_H

#include "cuda/driver/driver.h"
#include "cuda/l2/sides.h"
#include "machine/sheet.h"

/* Describes the GPU; `sides` may be null. */
weft_status weft_cuda_sheet(weft_sheet *sheet, const weft_cuda_device *device, const weft_cuda_sides *sides,
                            weft_message *message);

/* The same without sources or measurements, for plans. */
weft_status weft_cuda_describe(weft_machine *machine, const weft_cuda_device *device, weft_message *message);

#endif
