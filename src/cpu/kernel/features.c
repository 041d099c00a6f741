/* SPDX-License-Identifier: Apache-2.0 */
/* Asking the processor, and the system, what they have. */
#include "cpu/kernel/features.h"

#include <stddef.h>
#include <string.h>

#include <weft/weft.h>

#define BIT(n) (UINT64_C(1) << (n))

/* x86: every flag for AVX brings SSE3, SSSE3, SSE4.1, SSE4.2 and POPCNT as well, and XGETBV to ask what the system saves.
 */
#define LEAF_1_AVX (BIT(0) | BIT(9) | BIT(19) | BIT(20) | BIT(23) | BIT(26) | BIT(27) | BIT(28))
#define SAVES_YMM  (BIT(1) | BIT(2))
#define SAVES_ZMM  (SAVES_YMM | BIT(5) | BIT(6) | BIT(7))
#define SAVES_TILE (BIT(17) | BIT(18))

/* aarch64: CRC32, atomics, DC CVAP, rounding doubling multiplications; half precision, scalars and vectors. */
#define ARMV8_2 (BIT(7) | BIT(8) | BIT(12) | BIT(16))
#define HALVES  (BIT(9) | BIT(10))

/* What a compiler may use when it is given a flag. */
static const struct {
    const char *flag;
    weft_cpu_words needs;
} flags[] = {
    {"-mavx2", {{[WEFT_CPU_LEAF_1_ECX] = LEAF_1_AVX, [WEFT_CPU_LEAF_7_EBX] = BIT(5), [WEFT_CPU_XCR0] = SAVES_YMM}}},
    {"-mfma", {{[WEFT_CPU_LEAF_1_ECX] = LEAF_1_AVX | BIT(12), [WEFT_CPU_XCR0] = SAVES_YMM}}},
    {"-mf16c", {{[WEFT_CPU_LEAF_1_ECX] = LEAF_1_AVX | BIT(29), [WEFT_CPU_XCR0] = SAVES_YMM}}},
    {"-mavx512f", {{[WEFT_CPU_LEAF_7_EBX] = BIT(16), [WEFT_CPU_XCR0] = SAVES_ZMM}}},
    {"-mavx512vl", {{[WEFT_CPU_LEAF_7_EBX] = BIT(31)}}},
    {"-mavx512bw", {{[WEFT_CPU_LEAF_7_EBX] = BIT(30)}}},
    {"-mavx512dq", {{[WEFT_CPU_LEAF_7_EBX] = BIT(17)}}},
    {"-mprefer-vector-width=512", {{0}}},
    {"-mavx512bf16", {{[WEFT_CPU_LEAF_7_1_EAX] = BIT(5)}}},
    {"-mavx512fp16", {{[WEFT_CPU_LEAF_7_EDX] = BIT(23)}}},
    {"-mamx-tile", {{[WEFT_CPU_LEAF_7_EDX] = BIT(24), [WEFT_CPU_XCR0] = SAVES_TILE, [WEFT_CPU_PERMISSION] = BIT(0)}}},
    {"-mamx-bf16", {{[WEFT_CPU_LEAF_7_EDX] = BIT(22)}}},
    {"-march=armv8.2-a+bf16", {{[WEFT_CPU_HWCAP] = ARMV8_2, [WEFT_CPU_HWCAP2] = BIT(14)}}},
    {"-march=armv8.2-a+fp16fml", {{[WEFT_CPU_HWCAP] = ARMV8_2 | HALVES | BIT(23)}}},
    {"-march=armv8.2-a+sve", {{[WEFT_CPU_HWCAP] = ARMV8_2 | HALVES | BIT(22)}}},
    {"-march=armv8.2-a+sve+bf16", {{[WEFT_CPU_HWCAP] = ARMV8_2 | HALVES | BIT(22), [WEFT_CPU_HWCAP2] = BIT(12) | BIT(14)}}},
    {"-msve-vector-bits=256", {{[WEFT_CPU_SVE_LENGTH] = BIT(2)}}},
    {"-msve-vector-bits=512", {{[WEFT_CPU_SVE_LENGTH] = BIT(4)}}},
};

static const struct {
    const char *name, *builds_on, *flags;
} features[] = {
#define WEFT_CPU_FEATURE(name, builds_on, flags) {name, builds_on, flags},
#include "cpu/kernel/features.def"
};

/* Adds what one flag needs. */
static int add_flag(const char *flag, size_t length, weft_cpu_words *needs) {
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        if (strlen(flags[i].flag) == length && strncmp(flags[i].flag, flag, length) == 0) {
            for (int w = 0; w < WEFT_CPU_WORDS; w++) {
                needs->word[w] |= flags[i].needs.word[w];
            }
            return 1;
        }
    }
    return 0;
}

static int add_feature(const char *name, weft_cpu_words *needs) {
    size_t i = 0;
    while (i < sizeof features / sizeof *features && strcmp(features[i].name, name) != 0) {
        i++;
    }
    if (i == sizeof features / sizeof *features) {
        return 0;
    }
    int known = features[i].builds_on[0] == '\0' || add_feature(features[i].builds_on, needs);
    for (const char *at = features[i].flags; known && *at; at += strspn(at, " ")) {
        const size_t length = strcspn(at, " ");
        known = add_flag(at, length, needs);
        at += length;
    }
    return known;
}

int weft_cpu_needs(const char *feature, weft_cpu_words *needs) {
    memset(needs, 0, sizeof *needs);
    return add_feature(feature, needs);
}

int weft_cpu_have(const weft_cpu_words *words, const char *feature) {
    weft_cpu_words needs;
    int have = weft_cpu_needs(feature, &needs);
    for (int w = 0; w < WEFT_CPU_WORDS; w++) {
        have = have && (words->word[w] & needs.word[w]) == needs.word[w];
    }
    return have;
}

/* Whether a feature is of this architecture, and more than every processor of it has. */
static int is_here(const char *feature) {
    weft_cpu_words needs;
    uint64_t x86 = 0, aarch64 = 0;
    (void)weft_cpu_needs(feature, &needs);
    for (int w = 0; w < WEFT_CPU_WORDS; w++) {
        *(w < WEFT_CPU_HWCAP ? &x86 : &aarch64) |= needs.word[w];
    }
    return WEFT_CPU_X86 ? x86 != 0 : WEFT_CPU_AARCH64 && aarch64 != 0;
}

const char *weft_cpu_feature(size_t number, int32_t *present) {
    for (size_t i = 0; i < sizeof features / sizeof *features; i++) {
        if (is_here(features[i].name) && number-- == 0) {
            const weft_cpu_words words = weft_cpu_ask();
            *present = weft_cpu_have(&words, features[i].name);
            return features[i].name;
        }
    }
    return NULL;
}

#if WEFT_CPU_AARCH64
#include <sys/auxv.h>
#include <sys/prctl.h>

weft_cpu_words weft_cpu_ask(void) {
    enum { GET_VECTOR_LENGTH = 51, LENGTH = 0xffff, SVE = 22 }; /* the length is its lower bits, in bytes */
    weft_cpu_words words = {{[WEFT_CPU_HWCAP] = getauxval(AT_HWCAP), [WEFT_CPU_HWCAP2] = getauxval(AT_HWCAP2)}};
    const int length = words.word[WEFT_CPU_HWCAP] & BIT(SVE) ? prctl(GET_VECTOR_LENGTH) : -1;
    if (length >= 0) {
        words.word[WEFT_CPU_SVE_LENGTH] = BIT((length & LENGTH) / 16);
    }
    return words;
}

#elif WEFT_CPU_X86
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

static uint64_t read_xcr0(void) {
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

/* A process must ask Linux before its first use of tiles. */
weft_cpu_words weft_cpu_ask(void) {
    enum { OSXSAVE = 27, AMX_TILE = 24, ASK_PERMISSION = 0x1023, TILE_DATA = 18 };
    weft_cpu_words words = {{0}};
    unsigned a, b, c, d;
    if (__get_cpuid(1, &a, &b, &c, &d)) {
        words.word[WEFT_CPU_LEAF_1_ECX] = c;
    }
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
        words.word[WEFT_CPU_LEAF_7_EBX] = b;
        words.word[WEFT_CPU_LEAF_7_EDX] = d;
        if (a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d)) {
            words.word[WEFT_CPU_LEAF_7_1_EAX] = a;
        }
    }
    if (words.word[WEFT_CPU_LEAF_1_ECX] & BIT(OSXSAVE)) {
        words.word[WEFT_CPU_XCR0] = read_xcr0();
    }
    if (words.word[WEFT_CPU_LEAF_7_EDX] & BIT(AMX_TILE) && words.word[WEFT_CPU_XCR0] & BIT(TILE_DATA)) {
        words.word[WEFT_CPU_PERMISSION] = syscall(SYS_arch_prctl, ASK_PERMISSION, TILE_DATA) == 0;
    }
    return words;
}

#else
weft_cpu_words weft_cpu_ask(void) {
    return (weft_cpu_words){{0}};
}
#endif
