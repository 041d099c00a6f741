/* SPDX-License-Identifier: Apache-2.0 */
/* What this processor has, beyond what its architecture guarantees. */
#ifndef WEFT_CPU_FEATURES_H
#define WEFT_CPU_FEATURES_H

#include <stdint.h>

#if defined(__x86_64__)
#define WEFT_CPU_X86     1
#define WEFT_CPU_AARCH64 0
#elif defined(__aarch64__)
#define WEFT_CPU_X86     0
#define WEFT_CPU_AARCH64 1
#else
#define WEFT_CPU_X86     0
#define WEFT_CPU_AARCH64 0
#endif

/* Where processors and systems say what they have. */
enum {
    WEFT_CPU_LEAF_1_ECX, /* x86: CPUID, leaf and register */
    WEFT_CPU_LEAF_7_EBX,
    WEFT_CPU_LEAF_7_EDX,
    WEFT_CPU_LEAF_7_1_EAX,
    WEFT_CPU_XCR0,       /* x86: registers that the system saves */
    WEFT_CPU_PERMISSION, /* x86: bit 0, the system lets this process use AMX tiles */
    WEFT_CPU_HWCAP,      /* aarch64: the system's words */
    WEFT_CPU_HWCAP2,
    WEFT_CPU_SVE_LENGTH, /* aarch64: bit n, SVE registers have n times 128 bits */
    WEFT_CPU_WORDS
};
typedef struct weft_cpu_words {
    uint64_t word[WEFT_CPU_WORDS];
} weft_cpu_words;

/* What this processor and this system have. */
weft_cpu_words weft_cpu_ask(void);

/* What a feature of features.def needs; returns 0 where there is no such feature, or a flag of it is unknown. */
int weft_cpu_needs(const char *feature, weft_cpu_words *needs);

/* Whether all that a feature needs is there. */
int weft_cpu_have(const weft_cpu_words *words, const char *feature);

#endif
