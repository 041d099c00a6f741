/* A small seeded generator, the same on every machine. */
#ifndef WEFT_TESTS_RANDOM_H
#define WEFT_TESTS_RANDOM_H

#include <stdint.h>

static inline uint64_t random_bits(uint64_t *state) {
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* Between low and high, both included. */
static inline int64_t random_between(uint64_t *state, int64_t low, int64_t high) {
    const uint64_t count = (uint64_t)high - (uint64_t)low + 1; /* 0: all of them */
    const uint64_t bits = random_bits(state);
    return (int64_t)((uint64_t)low + (count ? bits % count : bits));
}

#endif
