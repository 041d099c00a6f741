/* Work laid out by the sides of a live GPU's L2. */
#ifndef WEFT_CLI_DEVICE_SIDES_H
#define WEFT_CLI_DEVICE_SIDES_H

#include "cuda/plan/backend.h"

/* Which worker the CTA on each SM stands for; empty until it is first asked for. */
typedef struct device_sides {
    int workers;           /* one to an SM; 0: not measured yet */
    uint64_t worker_of_sm; /* device memory */
} device_sides;

/* Makes the even workers of a plan run on one side of the L2 and the odd ones on the other, which is where the swizzled
 * orders with two domains, and the simulator, suppose them. The plan is static and has one CTA an SM. The sides are
 * measured when they are first asked for; the plan's context is current. */
weft_status device_sides_place(device_sides *sides, weft_plan *plan, weft_message *message);

/* That every SM runs one CTA is how the GPU places them, not a promise: if it did not, a worker's tiles would be missing.
 * Writes to O what no kernel leaves behind (all bits set, which is no number), and looks for it after a run. */
weft_status device_sides_poison(const weft_cuda_driver *driver, uint64_t o, size_t bytes, weft_message *message);
weft_status device_sides_check(const weft_cuda_driver *driver, uint64_t o, size_t bytes, weft_message *message);

/* Releases the memory. */
void device_sides_close(device_sides *sides, const weft_cuda_driver *driver);

#endif
