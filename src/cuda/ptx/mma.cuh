/* SPDX-License-Identifier: Apache-2.0 */
/* mma.sync: C += A B on the tensor cores, fp32 sums (sm_80); m16n8k16 of 16-bit operands, m16n8k8 of TF32.
 *
 * Of lane i, with g = i / 4 and t = 2 (i mod 4): a[0] is A(g, t..t+1), a[1] is A(g+8, t..), a[2] is A(g, t+8..), a[3] is
 * A(g+8, t+8..); b0 is B(t..t+1, g), b1 is B(t+8.., g); c[0..1] is C(g, t..t+1), c[2..3] is C(g+8, t..). Of TF32 a word is
 * one element in place of two: a[0] is A(g, t/2), a[2] is A(g, t/2+4), b1 is B(t/2+4, g). */
#ifndef WEFT_CUDA_PTX_MMA_CUH
#define WEFT_CUDA_PTX_MMA_CUH

#include <stdint.h>

template <bool BF16>
static __device__ __forceinline__ void mma_m16n8k16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    if constexpr (BF16) {
        asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%0, %1, %2, %3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    } else {
        asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%0, %1, %2, %3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    }
}

/* Elements are fp32, of which the instruction reads the upper 19 bits. */
static __device__ __forceinline__ void mma_m16n8k8_tf32(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

#endif
