/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a tile: sums, output, LSE and maximum. */
#ifndef WEFT_CUDA_STUDY_STORE_CUH
#define WEFT_CUDA_STUDY_STORE_CUH

#include "cuda/study/feed.cuh"
#include "cuda/study/piece.cuh"

/* Divides by the sums and stores output and LSE. `stage`: the warp's own rows of Q, not needed any more, through which the
 * output goes so that lanes store 16 bytes in a row. first: the warp's first row of the tile. */
template <class S>
static __device__ __forceinline__ void study_store(const weft_study_params &p, const study_job &job, int first,
                                                   study_rows<S> &rows, const float (&out)[S::bands][S::columns / 8][4],
                                                   unsigned char *stage) {
    const int lane = (int)(thread_index() % 32);
    const int64_t below = p.seq - job.visit.tile.block * S::tile_m - first; /* rows from this one on do not exist */
    const int present = below < S::warp_rows ? (int)below : S::warp_rows;   /* may be negative */
#pragma unroll
    for (int b = 0; b < S::bands; b++) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float sum = rows.sum[b][half];
            sum += __shfl_xor_sync(0xffffffffu, sum, 1); /* the four lanes that share the row */
            sum += __shfl_xor_sync(0xffffffffu, sum, 2);
            const float inverse = sum == 0 ? 0 : S::precise ? 1 / sum : reciprocal_flushed(sum);
            const int local = b * 16 + half * 8 + lane / 4;
#pragma unroll
            for (int n = 0; n < S::head_dim / 8; n++) {
                const uint32_t two = pack_halves<S::bf16>(out[b][n][2 * half] * inverse, out[b][n][2 * half + 1] * inverse);
                *(uint32_t *)(stage + study_offset<S>(local, n) + lane % 4 * 4) = two;
            }
            if (job.lse && lane % 4 == 0 && local < present) {
                const float log2_sum = S::precise ? log2f(sum) : log2_flushed(sum);
                const float ln2 = 0.693147181f;
                job.lse[first + local] = sum == 0 ? -INFINITY : ln2 * (rows.max[b][half] * p.scale_log2 + log2_sum);
            }
        }
    }
    __syncwarp();
    const int chunk = lane % S::lanes_per_row;
    const int64_t stride = 2 * p.o_strides.seq;
    char *o = job.o + first * stride + chunk * 16;
#pragma unroll 4
    for (int local = lane / S::lanes_per_row; local < S::warp_rows; local += 32 / S::lanes_per_row) {
        if (local < present && chunk < S::head_dim / 8) {
            *(uint4 *)(o + local * stride) = *(const uint4 *)(stage + study_offset<S>(local, chunk));
        }
    }
}

/* A row's sum over the four lanes that share it, with the sink, and the maximum that it is relative to; all in base 2. */
struct study_total {
    float sum, max, factor; /* of what was summed before the sink came */
};

template <class S>
static __device__ __forceinline__ study_total study_finish_row(const study_rows<S> &rows, int b, int half, float sink) {
    study_total t = {rows.sum[b][half], rows.max[b][half], 1};
    t.sum += __shfl_xor_sync(0xffffffffu, t.sum, 1);
    t.sum += __shfl_xor_sync(0xffffffffu, t.sum, 2);
    if (sink != -INFINITY) {
        const float max = fmaxf(t.max, sink);
        t.factor = study_exp2<S>(t.max - max); /* 0 where nothing was seen */
        t.sum = t.sum * t.factor + study_exp2<S>(sink - max);
        t.max = max;
    }
    return t;
}

/* Stores a row's 16-byte chunk, of which `elements` are there. */
static __device__ __forceinline__ void study_store_chunk(char *to, const unsigned char *from, int elements, int unit) {
    if (unit == 16 && elements >= 8) {
        *(uint4 *)to = *(const uint4 *)from;
        return;
    }
#pragma unroll 1
    for (int i = 0; i < min(elements, 8); i++) {
        ((uint16_t *)to)[i] = ((const uint16_t *)from)[i];
    }
}

/* Stores in fp32 what a lane has of a row: two numbers in a row, of `elements`. */
static __device__ __forceinline__ void study_store_floats(char *row, int column, float first, float second, int elements,
                                                          int unit) {
    float *to = (float *)row + column;
    if (unit == 16 && column + 2 <= elements) {
        *(float2 *)to = make_float2(first, second);
        return;
    }
    if (column < elements) {
        to[0] = first;
    }
    if (column + 1 < elements) {
        to[1] = second;
    }
}

/* The same for general variants. Warps that share rows each store columns of their own. */
template <class S>
static __device__ __forceinline__ void
study_store_general(const weft_study_params &p, const study_general_job &job, int first, const study_rows<S> &rows,
                    const float (&out)[S::bands][S::columns / 8][4], unsigned char *stage) {
    constexpr int chunks = S::columns / 8;
    const uint32_t thread = thread_index();
    const int lane = (int)(thread % 32), part = (int)(thread / 32 % S::split), present = job.rows - first;
    const int64_t stride = p.general.out_bytes * p.o_strides.seq;
    const bool floats = p.general.out_bytes == 4;
#pragma unroll
    for (int b = 0; b < S::bands; b++) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const study_total total = study_finish_row<S>(rows, b, half, job.sink);
            const float inverse = total.sum == 0 ? 0 : S::precise ? 1 / total.sum : reciprocal_flushed(total.sum);
            const float factor = inverse * total.factor * p.general.kept;
            const int local = b * 16 + half * 8 + lane / 4;
#pragma unroll
            for (int n = 0; n < chunks; n++) {
                const float one = out[b][n][2 * half] * factor, other = out[b][n][2 * half + 1] * factor;
                if (!floats) {
                    *(uint32_t *)(stage + study_offset<S>(local, part * chunks + n) + lane % 4 * 4) =
                        pack_halves<S::bf16>(one, other);
                } else if (local < present) {
                    study_store_floats(job.o + (first + local) * stride, 8 * (part * chunks + n) + lane % 4 * 2, one, other,
                                       p.general.head_dim_v, p.general.o_unit);
                }
            }
            if (lane % 4 == 0 && part == 0 && local < present) {
                const float log2_sum = S::precise ? log2f(total.sum) : log2_flushed(total.sum), ln2 = 0.693147181f;
                if (job.lse) {
                    job.lse[first + local] = total.sum == 0 ? -INFINITY : ln2 * (total.max + log2_sum);
                }
                if (job.max) {
                    job.max[first + local] = ln2 * rows.max[b][half];
                }
            }
        }
    }
    __syncwarp();
#pragma unroll 2
    for (int i = lane; i < S::warp_rows * chunks && !floats; i += 32) {
        const int local = i / chunks, chunk = part * chunks + i % chunks;
        if (local < present && 8 * chunk < p.general.head_dim_v) {
            study_store_chunk(job.o + (first + local) * stride + 16 * chunk, stage + study_offset<S>(local, chunk),
                              p.general.head_dim_v - 8 * chunk, p.general.o_unit);
        }
    }
}

#endif
