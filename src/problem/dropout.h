/* SPDX-License-Identifier: Apache-2.0 */
/* Philox 4x32-10 (Salmon et al., 2011): random words as a function of a counter, in C that is also CUDA. Nothing is kept
 * from call to call, so that any thread on any device gives the same bits in any order. */
#ifndef WEFT_PROBLEM_DROPOUT_H
#define WEFT_PROBLEM_DROPOUT_H

#include <stdint.h>

#include <weft/order/base.h>

typedef struct weft_philox {
    uint32_t word[4];
} weft_philox;

WEFT_INLINE weft_philox weft_philox_at(uint64_t key, weft_philox counter) {
    uint32_t low = (uint32_t)key, high = (uint32_t)(key >> 32);
#if defined(__CUDA_ARCH__)
#pragma unroll 2 /* a kernel has many of these */
#endif
    for (int round = 0; round < 10; round++) {
        const uint64_t a = (uint64_t)0xD2511F53u * counter.word[0], b = (uint64_t)0xCD9E8D57u * counter.word[2];
        const weft_philox next = {{(uint32_t)(b >> 32) ^ counter.word[1] ^ low, (uint32_t)b,
                                   (uint32_t)(a >> 32) ^ counter.word[3] ^ high, (uint32_t)a}};
        counter = next;
        low += 0x9E3779B9u;
        high += 0xBB67AE85u;
    }
    return counter;
}

/* The words of keys 4 n .. 4 n + 3 of a query, for n = key / 4. A weight counts as 0 where its word is below
 * weft_dropout_limit(). `line` is batch * heads + head; queries and keys count from the first of their batch. */
WEFT_INLINE weft_philox weft_dropout_words(uint64_t seed, int64_t line, int64_t query, int64_t key) {
    const weft_philox counter = {{(uint32_t)(key / 4), (uint32_t)query, (uint32_t)line, (uint32_t)((uint64_t)line >> 32)}};
    return weft_philox_at(seed, counter);
}

WEFT_INLINE int weft_dropout_drops(uint64_t seed, int64_t line, int64_t query, int64_t key, uint32_t limit) {
    return weft_dropout_words(seed, line, query, key).word[key % 4] < limit;
}

/* Of 2^32 words, those that drop a weight. */
WEFT_INLINE uint32_t weft_dropout_limit(double dropout) {
    return (uint32_t)(dropout * 4294967296.0);
}

#endif
