/* SPDX-License-Identifier: Apache-2.0 */
/* A small seeded generator (splitmix64), the same on every machine. */
#ifndef WEFT_BASE_RANDOM_H
#define WEFT_BASE_RANDOM_H

#include <stdint.h>

static inline uint64_t weft_random(uint64_t *state) {
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* Between 0 and 1, 1 excluded. */
static inline double weft_random_real(uint64_t *state) {
    return (double)(weft_random(state) >> 11) * 0x1p-53;
}

#endif
