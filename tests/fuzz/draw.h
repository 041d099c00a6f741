/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of the unit tests, drawn from a fuzzer's input: random_between() takes a byte or two of it, and is random again
 * behind its end. So a fuzzer has the tests' generators, and learns which of their choices lead to new code. Include it
 * before any header of the tests. */
#ifndef WEFT_TESTS_FUZZ_DRAW_H
#define WEFT_TESTS_FUZZ_DRAW_H

#include "../../src/base/random.h"
#include "require.h"

static bytes drawn_from;

static inline uint64_t drawn_bits(uint64_t *state) {
    if (drawn_from.left < 2) {
        return weft_random(state);
    }
    const uint8_t byte = next_byte(&drawn_from);
    return byte < 0xc0 ? byte : (uint64_t)(byte & 0x3f) << 8 | next_byte(&drawn_from);
}

#define RANDOM_DRAW drawn_bits

/* The input from here on. The numbers that no choice depends on follow from its first byte. */
static inline uint64_t draw_from(const uint8_t *data, size_t size) {
    const bytes input = {data, size};
    drawn_from = input;
    return next_byte(&drawn_from);
}

#endif
