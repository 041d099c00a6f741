/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of small numbers, a bit for each. */
#ifndef WEFT_BASE_BITS_H
#define WEFT_BASE_BITS_H

#include <stdint.h>

#define WEFT_BITS_WORDS(count) (((count) + 63) / 64)

static inline void weft_bits_set(uint64_t *words, uint32_t bit) {
    words[bit / 64] |= UINT64_C(1) << bit % 64;
}

/* Without a branch, since callers cannot tell which way it would go. */
static inline void weft_bits_clear_if(uint64_t *words, uint32_t bit, int yes) {
    words[bit / 64] &= ~((uint64_t)(yes != 0) << bit % 64);
}

/* The first number of the set from `from` on, and after the last of `count` numbers, a power of two of at least 64, from 0
 * on. There must be one. */
static inline uint32_t weft_bits_next(const uint64_t *words, uint32_t count, uint32_t from) {
    uint32_t word = from / 64;
    uint64_t bits = words[word] >> from % 64 << from % 64;
    while (bits == 0) {
        word = (word + 1) & (count / 64 - 1);
        bits = words[word];
    }
    return word * 64 + (uint32_t)__builtin_ctzll(bits);
}

#endif
