/* The end of a tile: its sums go to C, after those of the other parts are added where its steps are shared out.
 *
 * The parts are CTAs of one cluster, in groups of S::split: part = group * S::split + slice. Each owns a slice of the tile,
 * 64 columns. It sends the others' slices of its sums to the shared memory of the CTAs of its group that own them, where
 * the ring is not needed any more, and adds up what it gets. Then the groups send their slices to the first one, which adds
 * them up and stores them. Sums are always added in the order of the parts, then of the groups. So nothing but shared
 * memory is needed, and the result does not depend on who is first. */
#ifndef WEFT_CUDA_SM90_GEMM_SPLIT_CUH
#define WEFT_CUDA_SM90_GEMM_SPLIT_CUH

#include "cuda/sm90/gemm/store.cuh"

/* Sums of a slice in a thread, and bytes of a slice. */
enum { GEMM_SLICE = 32, GEMM_SLICE_BYTES = GEMM_SLICE * 4 * 256 };

/* The ring has a slot for a slice of each part of the group, and others for those of the groups 1, 2, ..., which may come
 * while the first are still read. */
template <class S> static __device__ __forceinline__ constexpr uint32_t gemm_slot_of_group(uint32_t group) {
    constexpr int groups = WEFT_GEMM_MAX_CLUSTER / S::split;
    static_assert((S::split + groups - 1) * GEMM_SLICE_BYTES <= S::pieces_at, "the ring has room for all slots");
    return S::split + group - 1;
}

/* Where four sums of a thread lie in a slot. */
static __device__ __forceinline__ uint32_t gemm_slice_at(uint32_t base, uint32_t slot, int quad) {
    const uint32_t thread = threadIdx.x - 128;
    return base + slot * GEMM_SLICE_BYTES + ((uint32_t)quad * 256 + thread) * 16;
}

/* Sends a slice to a slot of another CTA. */
static __device__ __forceinline__ void gemm_send_slice(const gemm_place &me, uint32_t cta, uint32_t slot,
                                                       const float *slice) {
    const uint32_t there = cluster_address(me.base, cta);
#pragma unroll
    for (int quad = 0; quad < GEMM_SLICE / 4; quad++) {
        const float *from = slice + 4 * quad;
        cluster_store(gemm_slice_at(there, slot, quad), {from[0], from[1], from[2], from[3]});
    }
}

/* Adds up the group's sums of this CTA's slice: `own` becomes their sum. */
template <class S>
static __device__ __forceinline__ void gemm_add_parts(const weft_gemm_params &p, const gemm_place &me,
                                                      const float (&sums)[S::tile_n / 2], float (&own)[GEMM_SLICE]) {
    const uint32_t together = (uint32_t)(p.cluster_m * p.cluster_n), slice = me.part % S::split;
    cluster_meet(false); /* everybody's ring is free */
#pragma unroll
    for (uint32_t owner = 0; owner < S::split; owner++) {
        if (owner == slice) {
#pragma unroll
            for (int i = 0; i < GEMM_SLICE; i++) {
                own[i] = sums[owner * GEMM_SLICE + i];
            }
        } else {
            gemm_send_slice(me, me.rank + (owner - slice) * together, slice, &sums[owner * GEMM_SLICE]);
        }
    }
    cluster_meet(true); /* everybody's sums have arrived */
#pragma unroll
    for (int quad = 0; quad < GEMM_SLICE / 4; quad++) {
        float whole[4] = {0, 0, 0, 0};
#pragma unroll
        for (uint32_t part = 0; part < S::split; part++) {
            float x[4] = {own[4 * quad], own[4 * quad + 1], own[4 * quad + 2], own[4 * quad + 3]};
            if (part != slice) {
                shared_load(gemm_slice_at(me.base, part, quad), x);
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

/* Adds up the groups' sums of this slice: in the first group `own` becomes the whole. */
template <class S>
static __device__ __forceinline__ void gemm_add_groups(const weft_gemm_params &p, const gemm_place &me,
                                                       float (&own)[GEMM_SLICE]) {
    const uint32_t in_group = S::split * (uint32_t)(p.cluster_m * p.cluster_n), group = me.part / S::split;
    if (group > 0) {
        gemm_send_slice(me, me.rank - group * in_group, gemm_slot_of_group<S>(group), own);
    }
    cluster_meet(true); /* the groups' sums have arrived */
    if (group > 0) {
        return;
    }
#pragma unroll 1
    for (uint32_t other = 1; other < (uint32_t)p.split / S::split; other++) {
#pragma unroll
        for (int quad = 0; quad < GEMM_SLICE / 4; quad++) {
            float x[4];
            shared_load(gemm_slice_at(me.base, gemm_slot_of_group<S>(other), quad), x);
#pragma unroll
            for (int i = 0; i < 4; i++) {
                own[4 * quad + i] += x[i];
            }
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
            float own[1][GEMM_SLICE];
            gemm_add_parts<S>(p, me, sums[0], own[0]);
            if (p.split > S::split) {
                gemm_add_groups<S>(p, me, own[0]);
            }
            if (gemm_stores<S>(me)) {
                gemm_store<S, 64>(p, pieces, own, x, y, z);
            }
            return;
        }
    }
    gemm_store<S, S::tile_n>(p, pieces, sums, x, y, z);
}

#endif
