/* Transposing small squares while packing. */
#ifndef WEFT_CPU_X86_TRANSPOSE_H
#define WEFT_CPU_X86_TRANSPOSE_H

#include <immintrin.h>
#include <stdint.h>

/* Four rows of four floats, `step` bytes apart, become columns, `to_step` values apart. */
static inline void transpose_floats(const char *from, int64_t step, float *to, int64_t to_step) {
    __m128 a = _mm_loadu_ps((const float *)(const void *)from),
           b = _mm_loadu_ps((const float *)(const void *)(from + step));
    __m128 c = _mm_loadu_ps((const float *)(const void *)(from + 2 * step));
    __m128 d = _mm_loadu_ps((const float *)(const void *)(from + 3 * step));
    _MM_TRANSPOSE4_PS(a, b, c, d);
    _mm_storeu_ps(to, a);
    _mm_storeu_ps(to + to_step, b);
    _mm_storeu_ps(to + 2 * to_step, c);
    _mm_storeu_ps(to + 3 * to_step, d);
}

#endif
