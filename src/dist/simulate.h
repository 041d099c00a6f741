/* SPDX-License-Identifier: Apache-2.0 */
/* Simulating several ways to share a problem, which have kernels in common. */
#ifndef WEFT_DIST_SIMULATE_H
#define WEFT_DIST_SIMULATE_H

#include "dist/prices.h"

/* A caller's options, checked and copied; `machine` is that of ours. */
weft_status weft_dist_simulate_take(weft_dist_simulate_options *ours, weft_machine *machine,
                                    const weft_dist_simulate_options *theirs, weft_message *message);

/* weft_dist_simulate() with such options, and with prices that may know kernels from before. */
weft_status weft_dist_simulate_with(const weft_dist *dist, const weft_dist_simulate_options *options, weft_prices *prices,
                                    weft_dist_simulation *simulation, weft_message *message);

#endif
