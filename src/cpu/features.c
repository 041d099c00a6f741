/* Asking the processor, and the system, what they have. */
#include "cpu/features.h"

#if WEFT_CPU_AARCH64
#include <sys/auxv.h>
#include <sys/prctl.h>

int weft_cpu_has_bf16(void) {
    return (getauxval(AT_HWCAP2) >> 14 & 1) != 0; /* HWCAP2_BF16 */
}

int weft_cpu_has_fp16(void) {
    return (getauxval(AT_HWCAP) >> 23 & 1) != 0; /* HWCAP_ASIMDFHM */
}

int weft_cpu_sve_bits(void) {
    enum { GET_VECTOR_LENGTH = 51, LENGTH = 0xffff };                                 /* its lower bits, in bytes */
    const int length = getauxval(AT_HWCAP) >> 22 & 1 ? prctl(GET_VECTOR_LENGTH) : -1; /* HWCAP_SVE */
    return length < 0 ? 0 : 8 * (length & LENGTH);
}

int weft_cpu_has_sve_bf16(void) {
    return weft_cpu_sve_bits() > 0 && (getauxval(AT_HWCAP2) >> 12 & 1); /* HWCAP2_SVEBF16 */
}
#endif

#if WEFT_CPU_X86
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

int weft_cpu_has_avx2(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

int weft_cpu_has_avx512(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq");
}

int weft_cpu_has_bf16(void) {
    unsigned a, b, c, d;
    return weft_cpu_has_avx512() && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 5 & 1);
}

int weft_cpu_has_fp16(void) {
    unsigned a, b, c, d;
    return weft_cpu_has_avx512() && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d >> 23 & 1);
}

/* A process must ask Linux before its first use of tiles. */
int weft_cpu_has_amx(void) {
    enum { ASK_PERMISSION = 0x1023, TILE_DATA = 18 };
    unsigned a, b, c, d;
    return weft_cpu_has_bf16() && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d >> 22 & 1) && (d >> 24 & 1) &&
           syscall(SYS_arch_prctl, ASK_PERMISSION, TILE_DATA) == 0;
}
#endif
