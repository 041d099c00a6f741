/* SPDX-License-Identifier: Apache-2.0 */
/* What has to hold, and bytes of a fuzzer's input: all that the fuzzers of pure functions need, which are the fastest. */
#ifndef WEFT_TESTS_FUZZ_REQUIRE_H
#define WEFT_TESTS_FUZZ_REQUIRE_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Also where assert() is compiled out. */
static inline void require(int condition) {
    if (!condition) {
        abort();
    }
}

/* What is left of an input. */
typedef struct bytes {
    const uint8_t *data;
    size_t left;
} bytes;

/* The next byte; zeros behind the last. */
static inline uint8_t next_byte(bytes *in) {
    if (in->left == 0) {
        return 0;
    }
    in->left--;
    return *in->data++;
}

/* From `least` to `most`, by one byte. */
static inline int64_t next_between(bytes *in, int64_t least, int64_t most) {
    return least + next_byte(in) % (most - least + 1);
}

/* Any number, by eight bytes. */
static inline int64_t next_number(bytes *in) {
    uint64_t number = 0;
    const size_t count = in->left < sizeof number ? in->left : sizeof number;
    memcpy(&number, in->data, count);
    in->data += count;
    in->left -= count;
    return (int64_t)number;
}

/* A small number, or any of 32 bits. */
static inline int32_t next_length(bytes *in, int32_t most) {
    const uint8_t byte = next_byte(in);
    return byte < 0xf0 ? byte % (most + 1) : (int32_t)next_number(in);
}

#endif
