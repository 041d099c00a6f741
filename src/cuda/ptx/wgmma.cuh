/* SPDX-License-Identifier: Apache-2.0 */
/* wgmma: products of a warpgroup, fp32 sums in registers (sm_90a): m64 x N x k16 of 16-bit operands, m64 x N x k8 of TF32.
 *
 * Of thread i of the warpgroup, with row r = 16 (i / 32) + i / 4 mod 8 and column c = 2 (i mod 4): d[4 j + 0..1] is
 * D(r, 8 j + c..c+1), d[4 j + 2..3] is D(r + 8, 8 j + c..). An A operand in registers has, of the same thread,
 * a[0] = A(r, c..c+1), a[1] = A(r + 8, c..), a[2] = A(r, c + 8..), a[3] = A(r + 8, c + 8..): the sums of a product, two
 * neighbouring ones rounded and packed, are the operand of the next.
 *
 * Products run behind the thread's back. Before the first of a batch: wgmma_fence(); after the last: wgmma_commit(); the
 * sums, and an operand in registers, are the thread's again after wgmma_wait(). The compiler does not know that:
 * wgmma_hold() tells it where values are settled. */
#ifndef WEFT_CUDA_PTX_WGMMA_CUH
#define WEFT_CUDA_PTX_WGMMA_CUH

#include <stdint.h>

/* Orders the warpgroup's use of registers (and its own writes to shared memory, after fence_shared_for_async) before
 * products that follow. */
static __device__ __forceinline__ void wgmma_fence() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

/* Closes a batch. */
static __device__ __forceinline__ void wgmma_commit() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* Waits until at most PENDING of the latest batches are not done. */
template <int PENDING> static __device__ __forceinline__ void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

/* Keeps the compiler from moving uses of these registers across this place. */
template <int COUNT> static __device__ __forceinline__ void wgmma_hold(float (&d)[COUNT]) {
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        asm volatile("" : "+f"(d[i])::"memory");
    }
}

/* Describes an operand in shared memory with 128-byte swizzle: 8 rows of 128 bytes are an atom of 1024 bytes, aligned to
 * that.
 *
 *   k-major (rows are m or n, 64 elements of k each): `apart` is the bytes from 8 rows to the next 8, 1024 when they follow
 *   each other; 16 further elements of k are 32 bytes on.
 *   mn-major (rows are k, 64 elements of m or n each): `apart` is the bytes from 8 rows of k to the next 8, `across` from
 * 64 elements of m or n to the next 64; 16 further rows of k are 2 apart on. */
static __device__ __forceinline__ uint64_t wgmma_operand(uint32_t address, uint32_t apart = 1024, uint32_t across = 16) {
    return (uint64_t)((address & 0x3FFFF) >> 4) | (uint64_t)(across >> 4) << 16 | (uint64_t)(apart >> 4) << 32 |
           (uint64_t)1 << 62;
}

/* The same operand so many bytes further on. Only the lower half of a description changes. */
static __device__ __forceinline__ uint64_t wgmma_further(uint64_t operand, uint32_t bytes) {
    return (operand >> 32) << 32 | (uint32_t)((uint32_t)operand + (bytes >> 4));
}

/* One product: D = A B, or D += A B where `add`. A_MN, B_MN: the operand is mn-major. N a multiple of 16, up to 256.
 * `shared_first` does not take D in: sums that have no value yet would hold registers from the start of the kernel on.
 * `shared_tf32`: operands are k-major, 32 elements of fp32 to 128 bytes; the instruction reads their upper 19 bits. */
template <int N> struct wgmma;

/* The registers %0, %1, ... and d[0], d[1], ... by tens: t is the number without its last digit, empty for 0. */
/* clang-format off */
#define WEFT_NAMES_2(t) "%" #t "0, %" #t "1"
#define WEFT_NAMES_4(t) "%" #t "0, %" #t "1, %" #t "2, %" #t "3"
#define WEFT_NAMES_6(t) "%" #t "0, %" #t "1, %" #t "2, %" #t "3, %" #t "4, %" #t "5"
#define WEFT_NAMES_8(t) "%" #t "0, %" #t "1, %" #t "2, %" #t "3, %" #t "4, %" #t "5, %" #t "6, %" #t "7"
#define WEFT_NAMES_10(t) "%" #t "0, %" #t "1, %" #t "2, %" #t "3, %" #t "4, %" #t "5, %" #t "6, %" #t "7, %" #t "8, %" #t "9"
#define WEFT_REGISTERS_2(c, t) c(d[t##0]), c(d[t##1])
#define WEFT_REGISTERS_4(c, t) c(d[t##0]), c(d[t##1]), c(d[t##2]), c(d[t##3])
#define WEFT_REGISTERS_6(c, t) c(d[t##0]), c(d[t##1]), c(d[t##2]), c(d[t##3]), c(d[t##4]), c(d[t##5])
#define WEFT_REGISTERS_8(c, t) c(d[t##0]), c(d[t##1]), c(d[t##2]), c(d[t##3]), c(d[t##4]), c(d[t##5]), c(d[t##6]), c(d[t##7])
#define WEFT_REGISTERS_10(c, t) c(d[t##0]), c(d[t##1]), c(d[t##2]), c(d[t##3]), c(d[t##4]), c(d[t##5]), c(d[t##6]), c(d[t##7]), c(d[t##8]), c(d[t##9])
#define WEFT_NAMES_T1 WEFT_NAMES_10()
#define WEFT_REGISTERS_T1(c) WEFT_REGISTERS_10(c, )
#define WEFT_NAMES_T2 WEFT_NAMES_T1 ", " WEFT_NAMES_10(1)
#define WEFT_REGISTERS_T2(c) WEFT_REGISTERS_T1(c), WEFT_REGISTERS_10(c, 1)
#define WEFT_NAMES_T3 WEFT_NAMES_T2 ", " WEFT_NAMES_10(2)
#define WEFT_REGISTERS_T3(c) WEFT_REGISTERS_T2(c), WEFT_REGISTERS_10(c, 2)
#define WEFT_NAMES_T4 WEFT_NAMES_T3 ", " WEFT_NAMES_10(3)
#define WEFT_REGISTERS_T4(c) WEFT_REGISTERS_T3(c), WEFT_REGISTERS_10(c, 3)
#define WEFT_NAMES_T5 WEFT_NAMES_T4 ", " WEFT_NAMES_10(4)
#define WEFT_REGISTERS_T5(c) WEFT_REGISTERS_T4(c), WEFT_REGISTERS_10(c, 4)
#define WEFT_NAMES_T6 WEFT_NAMES_T5 ", " WEFT_NAMES_10(5)
#define WEFT_REGISTERS_T6(c) WEFT_REGISTERS_T5(c), WEFT_REGISTERS_10(c, 5)
#define WEFT_NAMES_T7 WEFT_NAMES_T6 ", " WEFT_NAMES_10(6)
#define WEFT_REGISTERS_T7(c) WEFT_REGISTERS_T6(c), WEFT_REGISTERS_10(c, 6)
#define WEFT_NAMES_T8 WEFT_NAMES_T7 ", " WEFT_NAMES_10(7)
#define WEFT_REGISTERS_T8(c) WEFT_REGISTERS_T7(c), WEFT_REGISTERS_10(c, 7)
#define WEFT_NAMES_T9 WEFT_NAMES_T8 ", " WEFT_NAMES_10(8)
#define WEFT_REGISTERS_T9(c) WEFT_REGISTERS_T8(c), WEFT_REGISTERS_10(c, 8)
#define WEFT_NAMES_T10 WEFT_NAMES_T9 ", " WEFT_NAMES_10(9)
#define WEFT_REGISTERS_T10(c) WEFT_REGISTERS_T9(c), WEFT_REGISTERS_10(c, 9)
#define WEFT_NAMES_T11 WEFT_NAMES_T10 ", " WEFT_NAMES_10(10)
#define WEFT_REGISTERS_T11(c) WEFT_REGISTERS_T10(c), WEFT_REGISTERS_10(c, 10)
#define WEFT_NAMES_T12 WEFT_NAMES_T11 ", " WEFT_NAMES_10(11)
#define WEFT_REGISTERS_T12(c) WEFT_REGISTERS_T11(c), WEFT_REGISTERS_10(c, 11)
#define WEFT_SUMS_8(c) WEFT_REGISTERS_8(c, )
#define WEFT_SUMS_16(c) WEFT_REGISTERS_T1(c), WEFT_REGISTERS_6(c, 1)
#define WEFT_SUMS_24(c) WEFT_REGISTERS_T2(c), WEFT_REGISTERS_4(c, 2)
#define WEFT_SUMS_32(c) WEFT_REGISTERS_T3(c), WEFT_REGISTERS_2(c, 3)
#define WEFT_SUMS_40(c) WEFT_REGISTERS_T4(c)
#define WEFT_SUMS_48(c) WEFT_REGISTERS_T4(c), WEFT_REGISTERS_8(c, 4)
#define WEFT_SUMS_56(c) WEFT_REGISTERS_T5(c), WEFT_REGISTERS_6(c, 5)
#define WEFT_SUMS_64(c) WEFT_REGISTERS_T6(c), WEFT_REGISTERS_4(c, 6)
#define WEFT_SUMS_72(c) WEFT_REGISTERS_T7(c), WEFT_REGISTERS_2(c, 7)
#define WEFT_SUMS_80(c) WEFT_REGISTERS_T8(c)
#define WEFT_SUMS_88(c) WEFT_REGISTERS_T8(c), WEFT_REGISTERS_8(c, 8)
#define WEFT_SUMS_96(c) WEFT_REGISTERS_T9(c), WEFT_REGISTERS_6(c, 9)
#define WEFT_SUMS_104(c) WEFT_REGISTERS_T10(c), WEFT_REGISTERS_4(c, 10)
#define WEFT_SUMS_112(c) WEFT_REGISTERS_T11(c), WEFT_REGISTERS_2(c, 11)
#define WEFT_SUMS_120(c) WEFT_REGISTERS_T12(c)
#define WEFT_SUMS_128(c) WEFT_REGISTERS_T12(c), WEFT_REGISTERS_8(c, 12)
/* clang-format on */

/* The instructions for N columns: `names` and `sums` are its N / 2 registers; A0, A1, ... number the operands after them.
 */
#define WEFT_WGMMA(N, names, sums, A0, A1, A2, A3, A4, A5, A6)                                                             \
    template <> struct wgmma<N> {                                                                                          \
        template <bool BF16, bool A_MN, bool B_MN>                                                                         \
        static __device__ __forceinline__ void shared(float (&d)[N / 2], uint64_t a, uint64_t b, bool add) {               \
            if constexpr (BF16) {                                                                                          \
                WEFT_WGMMA_SHARED(N, "bf16", names, WEFT_SUMS_##sums("+f"), A0, A1, A2, A3, A4);                           \
            } else {                                                                                                       \
                WEFT_WGMMA_SHARED(N, "f16", names, WEFT_SUMS_##sums("+f"), A0, A1, A2, A3, A4);                            \
            }                                                                                                              \
        }                                                                                                                  \
        template <bool BF16, bool A_MN, bool B_MN>                                                                         \
        static __device__ __forceinline__ void shared_first(float (&d)[N / 2], uint64_t a, uint64_t b) {                   \
            constexpr bool add = false;                                                                                    \
            if constexpr (BF16) {                                                                                          \
                WEFT_WGMMA_SHARED(N, "bf16", names, WEFT_SUMS_##sums("=f"), A0, A1, A2, A3, A4);                           \
            } else {                                                                                                       \
                WEFT_WGMMA_SHARED(N, "f16", names, WEFT_SUMS_##sums("=f"), A0, A1, A2, A3, A4);                            \
            }                                                                                                              \
        }                                                                                                                  \
        static __device__ __forceinline__ void shared_tf32(float (&d)[N / 2], uint64_t a, uint64_t b, bool add) {          \
            WEFT_WGMMA_TF32(N, names, WEFT_SUMS_##sums("+f"), A0, A1, A2);                                                 \
        }                                                                                                                  \
        template <bool BF16, bool B_MN>                                                                                    \
        static __device__ __forceinline__ void registers(float (&d)[N / 2], const uint32_t *a, uint64_t b, bool add) {     \
            if constexpr (BF16) {                                                                                          \
                WEFT_WGMMA_REGISTERS(N, "bf16", names, WEFT_SUMS_##sums("+f"), A0, A1, A2, A3, A4, A5, A6);                \
            } else {                                                                                                       \
                WEFT_WGMMA_REGISTERS(N, "f16", names, WEFT_SUMS_##sums("+f"), A0, A1, A2, A3, A4, A5, A6);                 \
            }                                                                                                              \
        }                                                                                                                  \
    };
#define WEFT_WGMMA_SHARED(N, type, names, sums, A0, A1, A2, A3, A4)                                                        \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #A2 ", 0;\n"                                                         \
                 "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." type "." type " {" names "}, %" #A0 ", %" #A1           \
                 ", p, 1, 1, %" #A3 ", %" #A4 ";\n}"                                                                       \
                 : sums                                                                                                    \
                 : "l"(a), "l"(b), "r"((uint32_t)add), "n"(A_MN ? 1 : 0), "n"(B_MN ? 1 : 0))
#define WEFT_WGMMA_TF32(N, names, sums, A0, A1, A2)                                                                        \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #A2 ", 0;\n"                                                         \
                 "wgmma.mma_async.sync.aligned.m64n" #N "k8.f32.tf32.tf32 {" names "}, %" #A0 ", %" #A1 ", p, 1, 1;\n}"    \
                 : sums                                                                                                    \
                 : "l"(a), "l"(b), "r"((uint32_t)add))
#define WEFT_WGMMA_REGISTERS(N, type, names, sums, A0, A1, A2, A3, A4, A5, A6)                                             \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #A5 ", 0;\n"                                                         \
                 "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." type "." type " {" names "}, {%" #A0 ", %" #A1          \
                 ", %" #A2 ", %" #A3 "}, %" #A4 ", p, 1, 1, %" #A6 ";\n}"                                                  \
                 : sums                                                                                                    \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((uint32_t)add), "n"(B_MN ? 1 : 0))

/* clang-format off */
WEFT_WGMMA(16, WEFT_NAMES_8(), 8, 8, 9, 10, 11, 12, 13, 14)
WEFT_WGMMA(32, WEFT_NAMES_T1 ", " WEFT_NAMES_6(1), 16, 16, 17, 18, 19, 20, 21, 22)
WEFT_WGMMA(48, WEFT_NAMES_T2 ", " WEFT_NAMES_4(2), 24, 24, 25, 26, 27, 28, 29, 30)
WEFT_WGMMA(64, WEFT_NAMES_T3 ", " WEFT_NAMES_2(3), 32, 32, 33, 34, 35, 36, 37, 38)
WEFT_WGMMA(80, WEFT_NAMES_T4, 40, 40, 41, 42, 43, 44, 45, 46)
WEFT_WGMMA(96, WEFT_NAMES_T4 ", " WEFT_NAMES_8(4), 48, 48, 49, 50, 51, 52, 53, 54)
WEFT_WGMMA(112, WEFT_NAMES_T5 ", " WEFT_NAMES_6(5), 56, 56, 57, 58, 59, 60, 61, 62)
WEFT_WGMMA(128, WEFT_NAMES_T6 ", " WEFT_NAMES_4(6), 64, 64, 65, 66, 67, 68, 69, 70)
WEFT_WGMMA(144, WEFT_NAMES_T7 ", " WEFT_NAMES_2(7), 72, 72, 73, 74, 75, 76, 77, 78)
WEFT_WGMMA(160, WEFT_NAMES_T8, 80, 80, 81, 82, 83, 84, 85, 86)
WEFT_WGMMA(176, WEFT_NAMES_T8 ", " WEFT_NAMES_8(8), 88, 88, 89, 90, 91, 92, 93, 94)
WEFT_WGMMA(192, WEFT_NAMES_T9 ", " WEFT_NAMES_6(9), 96, 96, 97, 98, 99, 100, 101, 102)
WEFT_WGMMA(208, WEFT_NAMES_T10 ", " WEFT_NAMES_4(10), 104, 104, 105, 106, 107, 108, 109, 110)
WEFT_WGMMA(224, WEFT_NAMES_T11 ", " WEFT_NAMES_2(11), 112, 112, 113, 114, 115, 116, 117, 118)
WEFT_WGMMA(240, WEFT_NAMES_T12, 120, 120, 121, 122, 123, 124, 125, 126)
WEFT_WGMMA(256, WEFT_NAMES_T12 ", " WEFT_NAMES_8(12), 128, 128, 129, 130, 131, 132, 133, 134)
/* clang-format on */

#endif
