/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers for tests, from the generator that the library uses. Three variables of the environment choose the cases:
 *   WEFT_TEST_SEED=1     other cases than those of seed 0, which is the default
 *   WEFT_TEST_ROUNDS=25  a quarter of the rounds; 400: four times as many
 *   WEFT_TEST_ROUND=17   of every test with rounds only this one
 * A test that fails says which of them repeat it: see cmocka_all.h. */
#ifndef WEFT_TESTS_RANDOM_H
#define WEFT_TESTS_RANDOM_H

#include <stdio.h>
#include <stdlib.h>

#include "../src/base/random.h"

/* The case that a test is at. */
typedef struct random_case {
    int drawn;                      /* 1: the test has asked for random numbers and has not ended */
    int round;                      /* -1: in no round */
    uint64_t first;                 /* the generator before round 0 */
    long long seed, per_cent, only; /* the three variables; only < 0: all rounds */
} random_case;

static inline random_case *random_at(void) {
    static random_case at;
    return &at;
}

static inline long long random_setting(const char *name, long long usual) {
    const char *text = getenv(name);
    return text && *text ? atoll(text) : usual;
}

/* Says how to repeat the case that failed. */
static inline void random_report(void) {
    random_case *at = random_at();
    if (at->drawn) {
        fprintf(stderr, "this repeats it: WEFT_TEST_SEED=%lld", at->seed);
        if (at->round >= 0) {
            fprintf(stderr, " WEFT_TEST_ROUND=%d", at->round);
        }
        fprintf(stderr, "\n");
    }
    at->drawn = 0;
}

#ifdef __has_feature
#if __has_feature(address_sanitizer)
#include <sanitizer/common_interface_defs.h>
#define WEFT_TEST_AT_DEATH __sanitizer_set_death_callback(random_report)
#endif
#endif
#ifndef WEFT_TEST_AT_DEATH
#define WEFT_TEST_AT_DEATH (void)0
#endif

/* A generator: every test has a number of its own, so that no two have the same cases. */
static inline uint64_t random_seed(uint64_t number) {
    random_case *at = random_at();
    at->drawn = 1;
    at->round = -1;
    at->seed = random_setting("WEFT_TEST_SEED", 0);
    at->per_cent = random_setting("WEFT_TEST_ROUNDS", 100);
    at->only = random_setting("WEFT_TEST_ROUND", -1);
    WEFT_TEST_AT_DEATH;
    uint64_t other = (uint64_t)at->seed;
    return number + (at->seed ? weft_random(&other) : 0);
}

/* How many rounds a loop has that usually has so many. Sixteen are the least, for loops that go through kinds by i % kinds.
 */
static inline int random_rounds(int usual) {
    const random_case *at = random_at();
    const long long scaled = usual * at->per_cent / 100, least = usual < 16 ? usual : 16;
    return at->only >= 0 ? 1 : (int)(scaled < least ? least : scaled);
}

/* The head of a loop over random cases: for (int i = 0; random_round(&random, &i, 2000); i++). The generator of a round
 * follows from its number alone, so it can be repeated alone. */
static inline int random_round(uint64_t *random, int *round, int usual) {
    random_case *at = random_at();
    if (*round == 0) {
        at->first = *random;
        *round = at->only < 0 ? 0 : (int)at->only;
    }
    *random = at->first;
    const uint64_t start = weft_random(random);
    if (at->only >= 0 ? *round != at->only : *round >= random_rounds(usual)) {
        at->round = -1;
        return 0;
    }
    at->round = *round;
    *random = start + (uint64_t)*round;
    return 1;
}

static inline uint64_t random_bits(uint64_t *state) {
    return weft_random(state);
}

/* What cases are drawn with: a fuzzer takes it from its input (fuzz/draw.h). */
#ifndef RANDOM_DRAW
#define RANDOM_DRAW random_bits
#endif

/* Between low and high, both included. */
static inline int64_t random_between(uint64_t *state, int64_t low, int64_t high) {
    const uint64_t count = (uint64_t)high - (uint64_t)low + 1; /* 0: all of them */
    const uint64_t bits = RANDOM_DRAW(state);
    return (int64_t)((uint64_t)low + (count ? bits % count : bits));
}

#endif
