/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a tile: its sums go to C, after those of the other parts are added where its steps are shared out.
 *
 * The parts, two to eight, are CTAs of one cluster. A tile is units of 16 rows x 64 columns, a warp's sums of a piece of C,
 * which the parts own in turn, each as many as the next or one more. Each part sends every unit of its sums to the shared
 * memory of who owns it, where the ring is not needed any more; then a warp of the owner adds the parts' sums of a unit up,
 * in the order of the parts, and stores it. So nothing but shared memory is needed, the result does not depend on who is
 * first, and however many parts there are, a CTA sends and adds at most a tile. */
#ifndef WEFT_CUDA_SM90_GEMM_SPLIT_CUH
#define WEFT_CUDA_SM90_GEMM_SPLIT_CUH

#include "cuda/sm90/gemm/store.cuh"

/* Who owns what of a tile. Its columns are pieces of C, the last of which may begin within the one before it. */
template <class S> struct gemm_units {
    static constexpr int columns = gemm_piece_columns<WEFT_BF16, S::tile_n>, sums = columns / 2; /* of a thread */
    static constexpr uint32_t bytes = sums * 4 * 32;
    static constexpr uint32_t slices = (S::tile_n + columns - 1) / columns, count = S::warps * slices;
    static_assert((count + WEFT_GEMM_MAX_CLUSTER - 1) * bytes + 2 * S::tile_n * 8 <= S::pieces_at,
                  "the ring has room for them, and for the vectors of an epilogue");
    uint32_t parts;

    static __device__ __forceinline__ constexpr int column(uint32_t slice) {
        return gemm_piece_at<WEFT_BF16, S::tile_n>((int)slice);
    }

    __device__ __forceinline__ uint32_t owner(uint32_t unit) const {
        return unit * parts / count;
    }

    __device__ __forceinline__ uint32_t first(uint32_t owner) const {
        return (owner * count + parts - 1) / parts;
    }

    /* Where a thread's four sums of the i-th unit of an owner lie in its ring, as a part has sent them. */
    __device__ __forceinline__ uint32_t at(uint32_t part, uint32_t i, uint32_t quad) const {
        const uint32_t most = (count + parts - 1) / parts;
        return (part * most + i) * bytes + (quad * 32 + thread_index() % 32) * 16;
    }
};

/* Sends this warp's units to their owners. */
template <class S>
static __device__ __forceinline__ void gemm_send_units(const weft_gemm_params &p, const gemm_place &me,
                                                       const gemm_units<S> &units, const float (&sums)[S::tile_n / 2]) {
    const uint32_t together = (uint32_t)(p.cluster_m * p.cluster_n), warp = thread_index() / 32 - 4;
#pragma unroll
    for (uint32_t slice = 0; slice < units.slices; slice++) {
        const uint32_t unit = warp * units.slices + slice, owner = units.owner(unit);
        const uint32_t to = cluster_address(me.base, me.rank + (owner - me.part) * together) +
                            units.at(me.part, unit - units.first(owner), 0);
#pragma unroll
        for (uint32_t quad = 0; quad < units.sums / 4; quad++) {
            const float *from = &sums[units.column(slice) / 2 + 4 * quad];
            cluster_store(to + quad * 512, {from[0], from[1], from[2], from[3]});
        }
    }
}

/* Adds up the parts' sums of the i-th unit of this CTA. */
template <class S>
static __device__ __forceinline__ void gemm_add_unit(const gemm_place &me, const gemm_units<S> &units, uint32_t i,
                                                     float (&own)[gemm_units<S>::sums]) {
    constexpr int count = gemm_units<S>::sums;
#pragma unroll
    for (int j = 0; j < count; j++) {
        own[j] = 0;
    }
#pragma unroll 2
    for (uint32_t part = 0; part < units.parts; part++) {
        const uint32_t from = me.base + units.at(part, i, 0);
        float x[count / 4][4];
#pragma unroll
        for (uint32_t quad = 0; quad < count / 4; quad++) {
            shared_load(from + quad * 512, x[quad]);
        }
#pragma unroll
        for (int j = 0; j < count; j++) {
            own[j] += x[j / 4][j % 4];
        }
    }
}

/* x, y: the warp's first column and row. */
template <class S>
static __device__ __forceinline__ void gemm_finish(const weft_gemm_params &p, const gemm_place &me, gemm_pieces &pieces,
                                                   const gemm_vectors<S> &vectors, float (&sums)[S::blocks][S::tile_n / 2],
                                                   int32_t x, int32_t y, int32_t z) {
    constexpr uint32_t vector_bytes = S::tile_n * 8;
    static_assert(vector_bytes <= WEFT_GEMM_PIECE_BYTES, "a piece's place has room for them");
    if constexpr (S::splits) {
        if (p.split > 1) {
            const gemm_units<S> units = {(uint32_t)p.split};
            cluster_meet(false); /* everybody's ring is free */
            gemm_send_units<S>(p, me, units, sums[0]);
            cluster_meet(true); /* everybody's sums have arrived */
            const uint32_t vectors_at = me.base + S::pieces_at - (thread_index() / 128) * vector_bytes; /* the ring's end */
            if (vectors.wanted(p)) {
                vectors.put(vectors_at);
            }
            const uint32_t warp = thread_index() / 32 - 4, first = units.first(me.part), end = units.first(me.part + 1);
#pragma unroll 1
            for (uint32_t i = warp; i < end - first; i += S::warps) {
                const uint32_t unit = first + i;
                const int32_t column = x + units.column(unit % units.slices);
                const int32_t row = y + 16 * ((int32_t)(unit / units.slices) - (int32_t)warp);
                float own[1][units.sums];
                if (gemm_has_old<S>(p)) {
                    gemm_fetch_old<S>(p, pieces, 0, column, row, z, elect_one());
                }
                gemm_add_unit<S>(me, units, i, own[0]);
                pieces.vectors = vectors_at + (uint32_t)(column - x) * 8;
                gemm_store<S, units.columns>(p, pieces, own, column, row, z);
            }
            return;
        }
    }
    if (vectors.wanted(p)) { /* where pieces of the tile before may still be on their way */
        pieces.vectors = pieces.of_group();
        if (elect_one()) {
            tma_store_wait_read<0>();
        }
        gemm_meet_group();
        vectors.put(pieces.vectors);
    }
    gemm_store<S, S::tile_n>(p, pieces, sums, x, y, z);
}

#endif
