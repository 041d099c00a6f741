/* What this processor has, beyond what its architecture guarantees. */
#ifndef WEFT_CPU_FEATURES_H
#define WEFT_CPU_FEATURES_H

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

int weft_cpu_has_bf16(void); /* aarch64: BF16 matrix instructions; x86: AVX-512 BF16 */
int weft_cpu_has_fp16(void); /* aarch64: halves multiplied, floats added (FHM); x86: AVX-512 FP16 */
int weft_cpu_sve_bits(void); /* aarch64: of an SVE register; 0: there are none */
int weft_cpu_has_sve_bf16(void);
int weft_cpu_has_avx2(void);
int weft_cpu_has_avx512(void);
int weft_cpu_has_amx(void); /* AMX BF16, and the system lets us use it */

#endif
