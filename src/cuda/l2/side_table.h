/* SPDX-License-Identifier: Apache-2.0 */
/* Which side of the L2 every SM is on, where a kernel can look it up. */
#ifndef WEFT_CUDA_L2_SIDE_TABLE_H
#define WEFT_CUDA_L2_SIDE_TABLE_H

#include "cuda/driver/driver.h"
#include "cuda/l2/sides.h"

/* A table in memory of the current context, by SM number: WEFT_SIDES_MAX_SMS bytes, 0 or 1; the caller frees it. *table is
 * 0 where the L2 has no sides, where SMs have larger numbers, or where other work holds the GPU so that it cannot be
 * measured. A device is measured when it is first asked for, which takes about a second and the whole GPU; later calls only
 * copy. */
weft_status weft_cuda_side_table(const weft_cuda_driver *driver, const weft_cuda_device *device, uint64_t *table,
                                 weft_message *message);

#endif
