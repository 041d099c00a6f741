/* SPDX-License-Identifier: Apache-2.0 */
/* The generator of dropout: known answers, and how many weights are dropped. */
#include "../cmocka_all.h"
#include "../random.h"

#include <math.h>

#include "problem/dropout.h"

/* Counter, key and words, as the generator's authors publish them. */
static void words_are_the_published_ones(void **state) {
    (void)state;
    static const struct {
        weft_philox counter;
        uint64_t key;
        weft_philox words;
    } known[] = {
        {{{0, 0, 0, 0}}, 0, {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}}},
        {{{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}},
         UINT64_MAX,
         {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}}},
        {{{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}},
         UINT64_C(0x299f31d0a4093822),
         {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const weft_philox got = weft_philox_at(known[i].key, known[i].counter);
        for (int j = 0; j < 4; j++) {
            assert_int_equal(got.word[j], known[i].words.word[j]);
        }
    }
}

static void so_many_are_dropped(void **state) {
    (void)state;
    enum { COUNT = 1 << 14 };
    uint64_t random = random_seed(230);
    for (int tenths = 0; tenths < 10; tenths++) {
        const uint32_t limit = weft_dropout_limit(tenths / 10.0);
        const uint64_t seed = random_bits(&random);
        int64_t dropped = 0;
        for (int64_t i = 0; i < COUNT; i++) {
            dropped += weft_dropout_drops(seed, i / 1024, i / 32 % 32, i % 32, limit);
        }
        assert_true(fabs((double)dropped / COUNT - tenths / 10.0) < 0.03);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(words_are_the_published_ones),
                                       cmocka_unit_test(so_many_are_dropped)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
