/* The end of a tile: its sums go to C, after those of the other parts are added where its steps are shared out.
 *
 * The parts are CTAs of one cluster. Each owns 64 of the tile's columns: it sends the others' slices of its sums to
 * their shared memory, where the ring is not needed any more, adds up what it gets, always in the order of the parts, and
 * stores its slice. So nothing but shared memory is needed, and the result does not depend on who is first. */
#ifndef WEFT_CUDA_SM90_GEMM_SPLIT_CUH
#define WEFT_CUDA_SM90_GEMM_SPLIT_CUH

#include "cuda/sm90/gemm/store.cuh"

/* Where a part's slice lies in its owner's ring, four sums of a thread together. */
template <int COUNT> static __device__ __forceinline__ uint32_t gemm_slice_at(uint32_t base, uint32_t part, int quad) {
    const uint32_t thread = threadIdx.x - 128;
    return base + part * (COUNT * 4 * 256) + ((uint32_t)quad * 256 + thread) * 16;
}

/* Adds up the parts' sums of this CTA's slice: `own` becomes the whole. */
template <class S>
static __device__ __forceinline__ void gemm_add_parts(const weft_gemm_params &p, const gemm_place &me,
                                                      const float (&sums)[S::tile_n / 2], float (&own)[32]) {
    constexpr int count = 32; /* of a slice, in a thread */
    const uint32_t together = (uint32_t)(p.cluster_m * p.cluster_n);
    cluster_meet(false); /* everybody's ring is free */
#pragma unroll
    for (uint32_t owner = 0; owner < S::split; owner++) {
        if (owner == me.part) {
#pragma unroll
            for (int i = 0; i < count; i++) {
                own[i] = sums[owner * count + i];
            }
        } else {
            const uint32_t there = cluster_address(me.base, owner * together + me.rank - me.first);
#pragma unroll
            for (int quad = 0; quad < count / 4; quad++) {
                const float *from = &sums[owner * count + 4 * quad];
                cluster_store(gemm_slice_at<count>(there, me.part, quad), {from[0], from[1], from[2], from[3]});
            }
        }
    }
    cluster_meet(true); /* everybody's sums have arrived */
#pragma unroll
    for (int quad = 0; quad < count / 4; quad++) {
        float whole[4] = {0, 0, 0, 0};
#pragma unroll
        for (uint32_t part = 0; part < S::split; part++) {
            float x[4] = {own[4 * quad], own[4 * quad + 1], own[4 * quad + 2], own[4 * quad + 3]};
            if (part != me.part) {
                shared_load(gemm_slice_at<count>(me.base, part, quad), x);
            }
#pragma unroll
            for (int i = 0; i < 4; i++) {
                whole[i] += x[i];
            }
        }
#pragma unroll
        for (int i = 0; i < 4; i++) {
            own[4 * quad + i] = whole[i];
        }
    }
}

/* x, y: the warp's first column and row of what this CTA stores. */
template <class S>
static __device__ __forceinline__ void gemm_finish(const weft_gemm_params &p, const gemm_place &me, gemm_pieces &pieces,
                                                   float (&sums)[S::blocks][S::tile_n / 2], int32_t x, int32_t y,
                                                   int32_t z) {
    if constexpr (S::split > 1) {
        if (p.split > 1) {
            float own[1][32];
            gemm_add_parts<S>(p, me, sums[0], own[0]);
            gemm_store<S, 64>(p, pieces, own, x, y, z);
            return;
        }
    }
    gemm_store<S, S::tile_n>(p, pieces, sums, x, y, z);
}

#endif
