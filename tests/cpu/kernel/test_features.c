/* SPDX-License-Identifier: Apache-2.0 */
/* What a processor must have before a kernel runs on it: everything that the kernel's flags let the compiler use. */
#include "../../cmocka_all.h"

#include <stdio.h>
#include <string.h>

#include "cpu/kernel/features.h"
#include "cpu/kernel/kernel.h"

/* A bit that a feature needs, by the processors' manuals. */
typedef struct need {
    int word, bit;
    const char *name;
} need;

/* clang-format off */
#define AVX \
    {WEFT_CPU_LEAF_1_ECX, 0, "SSE3"}, {WEFT_CPU_LEAF_1_ECX, 9, "SSSE3"}, {WEFT_CPU_LEAF_1_ECX, 19, "SSE4.1"}, \
    {WEFT_CPU_LEAF_1_ECX, 20, "SSE4.2"}, {WEFT_CPU_LEAF_1_ECX, 23, "POPCNT"}, {WEFT_CPU_LEAF_1_ECX, 26, "XSAVE"}, \
    {WEFT_CPU_LEAF_1_ECX, 27, "OSXSAVE"}, {WEFT_CPU_LEAF_1_ECX, 28, "AVX"}, \
    {WEFT_CPU_XCR0, 1, "SSE state"}, {WEFT_CPU_XCR0, 2, "AVX state"}
#define AVX2 \
    AVX, {WEFT_CPU_LEAF_1_ECX, 12, "FMA"}, {WEFT_CPU_LEAF_1_ECX, 29, "F16C"}, {WEFT_CPU_LEAF_7_EBX, 5, "AVX2"}
#define AVX512 \
    AVX2, {WEFT_CPU_LEAF_7_EBX, 16, "AVX512F"}, {WEFT_CPU_LEAF_7_EBX, 17, "AVX512DQ"}, \
    {WEFT_CPU_LEAF_7_EBX, 30, "AVX512BW"}, {WEFT_CPU_LEAF_7_EBX, 31, "AVX512VL"}, {WEFT_CPU_XCR0, 5, "mask state"}, \
    {WEFT_CPU_XCR0, 6, "upper state"}, {WEFT_CPU_XCR0, 7, "ZMM16-31 state"}
#define AVX512_BF16 AVX512, {WEFT_CPU_LEAF_7_1_EAX, 5, "AVX512_BF16"}
#define ARMV8_2 \
    {WEFT_CPU_HWCAP, 7, "CRC32"}, {WEFT_CPU_HWCAP, 8, "ATOMICS"}, {WEFT_CPU_HWCAP, 12, "ASIMDRDM"}, \
    {WEFT_CPU_HWCAP, 16, "DCPOP"}
#define HALVES {WEFT_CPU_HWCAP, 9, "FPHP"}, {WEFT_CPU_HWCAP, 10, "ASIMDHP"}
#define SVE    ARMV8_2, HALVES, {WEFT_CPU_HWCAP, 22, "SVE"}

enum { MOST = 32 };
static const struct {
    const char *feature;
    need needs[MOST]; /* as many as have a name */
} features[] = {
    {"generic", {{0}}},
    {"neon", {{0}}},
    {"avx2", {AVX2}},
    {"avx512", {AVX512}},
    {"avx512_bf16", {AVX512_BF16}},
    {"avx512_fp16", {AVX512, {WEFT_CPU_LEAF_7_EDX, 23, "AVX512_FP16"}}},
    {"amx", {AVX512_BF16, {WEFT_CPU_LEAF_7_EDX, 24, "AMX-TILE"}, {WEFT_CPU_LEAF_7_EDX, 22, "AMX-BF16"},
             {WEFT_CPU_XCR0, 17, "tile configuration"}, {WEFT_CPU_XCR0, 18, "tile data"},
             {WEFT_CPU_PERMISSION, 0, "permission"}}},
    {"neon_bfmmla", {ARMV8_2, {WEFT_CPU_HWCAP2, 14, "BF16"}}},
    {"neon_fhm", {ARMV8_2, HALVES, {WEFT_CPU_HWCAP, 23, "ASIMDFHM"}}},
    {"sve256", {SVE, {WEFT_CPU_SVE_LENGTH, 2, "256 bits"}}},
    {"sve256_bf16", {SVE, {WEFT_CPU_HWCAP2, 12, "SVEBF16"}, {WEFT_CPU_HWCAP2, 14, "BF16"},
                     {WEFT_CPU_SVE_LENGTH, 2, "256 bits"}}},
    {"sve512", {SVE, {WEFT_CPU_SVE_LENGTH, 4, "512 bits"}}},
};
/* clang-format on */
enum { FEATURES = sizeof features / sizeof *features };

static weft_cpu_words all_of(const need *needs) {
    weft_cpu_words words = {{0}};
    for (int i = 0; needs[i].name; i++) {
        words.word[needs[i].word] |= UINT64_C(1) << needs[i].bit;
    }
    return words;
}

/* With all that it needs a feature is there, without any one of it not, and it needs nothing else. */
static void every_bit_counts(void **state) {
    (void)state;
    for (int f = 0; f < FEATURES; f++) {
        const char *feature = features[f].feature;
        const weft_cpu_words all = all_of(features[f].needs);
        weft_cpu_words needs;
        assert_true(weft_cpu_needs(feature, &needs));
        assert_memory_equal(&needs, &all, sizeof all);
        assert_true(weft_cpu_have(&all, feature));
        for (const need *n = features[f].needs; n->name; n++) {
            weft_cpu_words less = all;
            less.word[n->word] &= ~(UINT64_C(1) << n->bit);
            if (weft_cpu_have(&less, feature)) {
                fail_msg("%s is taken without %s", feature, n->name);
            }
        }
    }
}

/* A kernel for one length of SVE registers is for no other, longer ones included. */
static void lengths_are_exact(void **state) {
    (void)state;
    weft_cpu_words words;
    assert_true(weft_cpu_needs("sve256", &words));
    for (int times = 1; times <= 16; times++) {
        words.word[WEFT_CPU_SVE_LENGTH] = UINT64_C(1) << times;
        assert_int_equal(weft_cpu_have(&words, "sve256"), times == 2);
        assert_int_equal(weft_cpu_have(&words, "sve512"), times == 4);
    }
}

/* Every row of features.def is in the list above, and every kernel's feature has a row. */
static void all_are_known(void **state) {
    (void)state;
    static const char *const names[] = {
#define WEFT_CPU_FEATURE(name, builds_on, flags) name,
#include "cpu/kernel/features.def"
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        int found = 0;
        for (int f = 0; f < FEATURES; f++) {
            found |= strcmp(names[i], features[f].feature) == 0;
        }
        assert_true(found);
    }
    const weft_cpu_words words = weft_cpu_ask();
    weft_cpu_words needs;
    const weft_cpu_kernel *kernel;
    int usable;
    for (size_t i = 0; (kernel = weft_cpu_kernel_at(i, &usable)); i++) {
        const char *feature = strstr(kernel->name, "__") + 2;
        assert_true(weft_cpu_needs(feature, &needs));
        assert_int_equal(usable, weft_cpu_have(&words, feature));
    }
    assert_false(weft_cpu_needs("none such", &needs));
    assert_true(weft_cpu_have(&words, "generic"));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_bit_counts), cmocka_unit_test(lengths_are_exact),
                                       cmocka_unit_test(all_are_known)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
