/* Work laid out by the sides of a live GPU's L2. */
#ifndef WEFT_CLI_DEVICE_SIDES_H
#define WEFT_CLI_DEVICE_SIDES_H

#include "cuda/cuda.h"
#include "cuda/live.h"

/* Which worker each CTA of a persistent launch stands for; empty until it is first asked for. */
typedef struct device_sides {
    int workers; /* one to an SM; 0: not measured yet */
    int32_t worker_of_cta[WEFT_SIDES_MAX_SMS];
} device_sides;

/* Makes the even workers of a plan run on one side of the L2 and the odd ones on the other, which is where the swizzled
 * orders with two domains suppose them. The plan is static, has one CTA an SM and takes its order from a table: that table
 * is permuted on the GPU. The GPU puts the CTAs of a launch on its SMs in the same order each time when nothing else runs;
 * that order and the sides are measured once. */
weft_status device_sides_place(device_sides *sides, weft_plan *plan, weft_message *message);

#endif
