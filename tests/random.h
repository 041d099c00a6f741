/* Random numbers for tests, from the generator that the library uses. */
#ifndef WEFT_TESTS_RANDOM_H
#define WEFT_TESTS_RANDOM_H

#include "../src/base/random.h"

static inline uint64_t random_bits(uint64_t *state) {
    return weft_random(state);
}

/* Between low and high, both included. */
static inline int64_t random_between(uint64_t *state, int64_t low, int64_t high) {
    const uint64_t count = (uint64_t)high - (uint64_t)low + 1; /* 0: all of them */
    const uint64_t bits = random_bits(state);
    return (int64_t)((uint64_t)low + (count ? bits % count : bits));
}

#endif
