/* SPDX-License-Identifier: Apache-2.0 */
/* Which device a tuning is for. */
#ifndef WEFT_TUNE_IDENTITY_H
#define WEFT_TUNE_IDENTITY_H

#include "plan/plan.h"

/* "NVIDIA H200, 132 SMs" and 13; for the CPU its name, threads and kernel, and 0. */
weft_status weft_tune_identify(const weft_plan *draft, char *device, size_t size, int32_t *driver, weft_message *message);

#endif
