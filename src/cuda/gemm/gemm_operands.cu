/* SPDX-License-Identifier: Apache-2.0 */
/* Writes operands along k, those of fp32 in parts of bf16 or rounded to TF32: see operands_params.h. */
#include "cuda/gemm/operands_params.h"
#include "cuda/ptx/grid.cuh"
#include "cuda/ptx/math.cuh"

static __device__ __forceinline__ bool operand_is_finite(float x) {
    return (__float_as_int(x) & 0x7f800000) != 0x7f800000;
}

/* The nearest number without the last BITS bits, and the largest where that is infinite. x is finite. */
template <int BITS> static __device__ __forceinline__ float operand_nearest(float x) {
    constexpr uint32_t unit = 1u << BITS;
    const uint32_t bits = (uint32_t)__float_as_int(x), rounded = (bits + unit / 2 - 1 + (bits >> BITS & 1)) & ~(unit - 1);
    return __int_as_float((int)((rounded & 0x7fffffff) == 0x7f800000 ? rounded - unit : rounded));
}

static __device__ __forceinline__ float operand_tf32(float x) {
    return operand_is_finite(x) ? operand_nearest<13>(x) : x;
}

/* The parts of an element, each in the upper 16 bits. */
struct operand_parts {
    uint32_t of[4];
};

static __device__ __forceinline__ operand_parts operand_split(float x) {
    const uint32_t bits = (uint32_t)__float_as_int(x);
    const bool finite = operand_is_finite(x), is_nan = !finite && (bits & 0x007fffff) != 0;
    const float all = finite ? x : 0, first = operand_nearest<16>(all), second = operand_nearest<16>(all - first);
    operand_parts parts;
    parts.of[WEFT_GEMM_PART_FIRST] = (uint32_t)__float_as_int(first);
    parts.of[WEFT_GEMM_PART_WHOLE] = finite ? parts.of[WEFT_GEMM_PART_FIRST] : is_nan ? bits | 0x00400000 : bits;
    parts.of[WEFT_GEMM_PART_SECOND] = (uint32_t)__float_as_int(second);
    parts.of[WEFT_GEMM_PART_THIRD] = (uint32_t)__float_as_int(operand_nearest<16>(all - first - second));
    return parts;
}

/* An element in a place of fp32. */
static __device__ __forceinline__ float operand_placed(float x) {
    return x;
}

static __device__ __forceinline__ float operand_placed(uint16_t bits) {
    return __int_as_float(bits);
}

/* Loads a tile, with zeros where there are no elements. Neighbouring threads read neighbours, and a thread all of its
 * elements before it waits for any: those that are not there it reads from the end of a line. */
template <bool ALONG_K, class ELEMENT>
static __device__ __forceinline__ void operand_load(float (&tile)[WEFT_GEMM_OPERAND_TILE][WEFT_GEMM_OPERAND_TILE + 1],
                                                    const weft_gemm_operand_copy &o, const ELEMENT *from, int32_t line,
                                                    int32_t k, int32_t length) {
    constexpr int side = WEFT_GEMM_OPERAND_TILE, apart = WEFT_GEMM_OPERAND_THREADS / side, count = side / apart;
    const int x = threadIdx.x % side, y = threadIdx.x / side;
    const int32_t lines = o.lines - line, elements = length - k; /* that there are */
    const int32_t wide = ALONG_K ? elements : lines, high = ALONG_K ? lines : elements;
    from += (ALONG_K ? line * o.ld + k : k * o.ld + line) + min(x, wide - 1);
    ELEMENT values[count];
#pragma unroll
    for (int i = 0; i < count; i++) {
        values[i] = from[min(y + i * apart, high - 1) * o.ld];
    }
#pragma unroll
    for (int i = 0; i < count; i++) {
        const int j = y + i * apart;
        tile[ALONG_K ? j : x][ALONG_K ? x : j] = x < wide && j < high ? operand_placed(values[i]) : 0;
    }
}

template <class ELEMENT>
static __device__ __forceinline__ void operand_load(float (&tile)[WEFT_GEMM_OPERAND_TILE][WEFT_GEMM_OPERAND_TILE + 1],
                                                    const weft_gemm_operand_copy &o, uint32_t batch, int32_t line,
                                                    int32_t k, int32_t length) {
    const ELEMENT *from = (const ELEMENT *)o.from + batch * o.stride;
    if (o.along_k) {
        operand_load<true>(tile, o, from, line, k, length);
    } else {
        operand_load<false>(tile, o, from, line, k, length);
    }
}

/* Eight elements of 16 bits. */
static __device__ __forceinline__ void operand_store_narrow(uint16_t *to, const float *from) {
    uint32_t words[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        words[i] = (uint32_t)__float_as_int(from[2 * i]) | (uint32_t)__float_as_int(from[2 * i + 1]) << 16;
    }
    *(uint4 *)to = make_uint4(words[0], words[1], words[2], words[3]);
}

/* Eight elements of a line, from `k` on, in all sections. */
static __device__ __forceinline__ void operand_store_parts(const weft_gemm_operands_params &p, uint32_t order, uint16_t *to,
                                                           const float *from) {
    uint32_t words[4][4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const operand_parts low = operand_split(from[2 * i]), high = operand_split(from[2 * i + 1]);
#pragma unroll
        for (int part = 0; part < 4; part++) {
            words[part][i] = low.of[part] >> 16 | (high.of[part] & 0xffff0000);
        }
    }
#pragma unroll 1
    for (int section = 0; section < p.sections; section++, to += p.padded, order >>= 4) {
#pragma unroll
        for (uint32_t part = 0; part < 4; part++) { /* registers have no index */
            if ((order & 15) == part) {
                *(uint4 *)to = make_uint4(words[part][0], words[part][1], words[part][2], words[part][3]);
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(WEFT_GEMM_OPERAND_THREADS)
    gemm_operands(const __grid_constant__ weft_gemm_operands_params p) {
    constexpr int side = WEFT_GEMM_OPERAND_TILE, eights = side / 8;
    static __shared__ float tile[side][side + 1]; /* one more, for lines to begin in different banks */
    const bool is_b = blockIdx.x >= p.a.all_ctas;
    const weft_gemm_operand_copy &o = is_b ? p.b : p.a;
    const uint32_t cta = blockIdx.x - (is_b ? p.a.all_ctas : 0), batch = cta / o.ctas, at = cta % o.ctas;
    const uint32_t across = (uint32_t)(p.padded + side - 1) / side;
    const int32_t line = (int32_t)(at / across) * side, k = (int32_t)(at % across) * side;
    grid_let_next();
    grid_wait(); /* for who writes what is read, and reads what is written */
    if (p.narrow) {
        operand_load<uint16_t>(tile, o, batch, line, k, p.k);
    } else {
        operand_load<float>(tile, o, batch, line, k, p.k);
    }
    __syncthreads();
#pragma unroll
    for (int i = threadIdx.x; i < side * eights; i += WEFT_GEMM_OPERAND_THREADS) {
        const int y = i / eights, x = i % eights * 8;
        const int64_t own = (int64_t)batch * o.lines + line + y; /* the line, of all products */
        const float *from = &tile[y][x];
        uint16_t *to = (uint16_t *)o.to + own * p.distance;
        if (line + y >= o.lines || k + x >= p.padded) {
            continue;
        }
        if (p.narrow) {
            operand_store_narrow(to + k + x, from);
            continue;
        }
        if (p.sections > 0) {
            operand_store_parts(p, o.parts, to + k + x, from);
            continue;
        }
#pragma unroll
        for (int j = 0; j < 8; j += 4) {
            if (k + x + j < p.padded) {
                *(float4 *)((float *)to + k + x + j) = make_float4(operand_tf32(from[j]), operand_tf32(from[j + 1]),
                                                                   operand_tf32(from[j + 2]), operand_tf32(from[j + 3]));
            }
        }
    }
}
