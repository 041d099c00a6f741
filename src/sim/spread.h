/* SPDX-License-Identifier: Apache-2.0 */
/* How long steps take: as long as usual, more or less. */
#ifndef WEFT_SIM_SPREAD_H
#define WEFT_SIM_SPREAD_H

#include "base/random.h"

/* About normal, of standard deviation 1: the sum of four uniform numbers. */
static inline double weft_spread_draw(uint64_t *random) {
    double sum = 0;
    for (int i = 0; i < 4; i++) {
        sum += weft_random_real(random) - 0.5;
    }
    return sum * 1.7320508075688772;
}

static inline double weft_spread_at_least(double factor) {
    return factor > 0.1 ? factor : 0.1;
}

/* What a step that varies by `spread` draws for itself, on its time. From one draw: the sum of four numbers of 16 bits is
 * about normal. */
static inline double weft_spread_of_step(uint64_t *random, double spread) {
    const uint64_t bits = weft_random(random);
    const uint64_t sum = (bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48);
    return weft_spread_at_least(1.0 + spread * ((double)sum * 0x1p-16 - 2.0) * 1.7320508075688772);
}

#endif
