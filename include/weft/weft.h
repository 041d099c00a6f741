/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Weft: attention and matrix products, tile by tile, in an order of your choosing.
 *
 * This header includes the others here. Read them in this order: status.h, problem.h, data.h with the simple calls, and
 * plan.h for those who want to choose a schedule or have a GPU. Nothing here prints or exits. The library loads the CUDA
 * driver and kernels once and reads stored tunings once; it has no other global state. Every function may be called from
 * any thread, and one plan may run in many threads at once.
 *
 * Every struct that crosses this boundary begins with struct_size, which its _INIT macro sets. A library that is newer than
 * the caller's header takes what the caller's struct lacks as 0; one that is older refuses fields that it does not know
 * unless they are 0. A 0 in a field that is a choice means: choose for me.
 */
#ifndef WEFT_H
#define WEFT_H

#include "data.h"
#include "names.h"
#include "order.h"
#include "plan.h"
#include "problem.h"
#include "status.h"

#define WEFT_VERSION_MAJOR 0
#define WEFT_VERSION_MINOR 3
#define WEFT_VERSION_PATCH 0
#define WEFT_VERSION       "0.3.0"

#ifdef __cplusplus
extern "C" {
#endif

/** The version of the library in use, "0.3.0". */
WEFT_API const char *weft_version(void);

/** Features of this architecture's processors that CPU kernels are compiled for, by number from 0: "avx2". `present` gets 1
 * where this processor and system have it, else 0. Null past the last. */
WEFT_API const char *weft_cpu_feature(size_t number, int32_t *present);

/** The CUDA version that compiled this build's kernels for GPUs, 13000 for 13.0; 0: it has none. */
WEFT_API int32_t weft_cuda_version(void);

#ifdef __cplusplus
}
#endif

#endif
