/* SPDX-License-Identifier: Apache-2.0 */
/* The arithmetic of a product's epilogue, in fp32: what the CPU, the GPU's kernels and their emulation compile. weft_gemm
 * says what comes when. */
#ifndef WEFT_PROBLEM_EPILOGUE_H
#define WEFT_PROBLEM_EPILOGUE_H

#include <math.h>

#include <weft/weft.h>

/* EACH: over numbers that a kernel has in registers, which have no index. */
#if defined(__CUDACC__)
#define WEFT_EPILOGUE      static __device__ __forceinline__
#define WEFT_EPILOGUE_EACH _Pragma("unroll")
#else
#define WEFT_EPILOGUE static inline
#define WEFT_EPILOGUE_EACH
#endif

/* exp(z) and 1 / z, by the GPU's instructions, which are off by about an ulp each and take subnormals for 0. */
WEFT_EPILOGUE float weft_epilogue_exp(float z) {
#if defined(__CUDA_ARCH__)
    float x;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(x) : "f"(1.4426950409f * z));
    return x;
#else
    return expf(z);
#endif
}

WEFT_EPILOGUE float weft_epilogue_invert(float z) {
#if defined(__CUDA_ARCH__)
    float x;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(x) : "f"(z));
    return x;
#else
    return 1.0f / z;
#endif
}

/* z Phi(z), with the normal distribution's Phi by the rational approximation 7.1.26 of Abramowitz and Stegun, whose error
 * is below 1.5e-7: a fraction of what erff() would take. `tail` is Phi(-|z|). */
WEFT_EPILOGUE float weft_epilogue_gelu(float z) {
    const float t = weft_epilogue_invert(1.0f + 0.23164189f * fabsf(z));
    const float sum = t * (0.12741480f + t * (-0.14224837f + t * (0.71070688f + t * (-0.72657602f + t * 0.53070271f))));
    const float tail = sum * weft_epilogue_exp(-0.5f * z * z);
    return z < 0 ? z * tail : z - (tail > 0 ? z * tail : 0); /* inf stays */
}

/* Replaces each of `count` numbers. One loop for each kind of activation: which it is, is asked once. */
WEFT_EPILOGUE void weft_epilogue_activate(int32_t activation, int count, float *z) {
    if (activation == WEFT_SILU) {
        WEFT_EPILOGUE_EACH for (int i = 0; i < count; i++) {
            z[i] *= weft_epilogue_invert(1.0f + weft_epilogue_exp(-z[i]));
        }
    } else if (activation == WEFT_GELU_TANH) { /* (1 + tanh(u)) / 2 = 1 / (1 + exp(-2 u)) */
        WEFT_EPILOGUE_EACH for (int i = 0; i < count; i++) {
            z[i] *= weft_epilogue_invert(1.0f + weft_epilogue_exp(z[i] * (-1.5957691f - 0.07135481f * z[i] * z[i])));
        }
    } else if (activation == WEFT_GELU) {
        WEFT_EPILOGUE_EACH for (int i = 0; i < count; i++) {
            z[i] = weft_epilogue_gelu(z[i]);
        }
    } else if (activation == WEFT_RELU) {
        WEFT_EPILOGUE_EACH for (int i = 0; i < count; i++) {
            z[i] = z[i] < 0 ? 0 : z[i]; /* NaN stays */
        }
    }
}

#endif
