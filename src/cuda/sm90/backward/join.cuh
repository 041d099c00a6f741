/* SPDX-License-Identifier: Apache-2.0 */
/* Where tiles are split: the CTAs of a cluster have a part of the tile each, and add up dV and dK by way of shared memory.
 *
 * Each of the eight consumer warps has a slice: 16 rows of dV, of dK, or (narrow) of both. Every slice has an owner, one of
 * the CTAs: all send it theirs, and it adds them in the order of the parts, whoever came first, and stores the sum. There
 * is room for them where K and V were, but not for all at a time: they go in rounds, so many columns each. Narrow, first
 * all rounds of dV and then those of dK; wide, each round has columns of both. */
#ifndef WEFT_CUDA_SM90_BACKWARD_JOIN_CUH
#define WEFT_CUDA_SM90_BACKWARD_JOIN_CUH

#include "cuda/sm90/backward/store.cuh"

/* Where a slice's sums are stored: its first row and the round's first column. */
struct backward_joined {
    char *to;
    int64_t stride; /* bytes from row to row */
    int rows, columns;
    float factor;
};

template <class S> struct backward_join {
    static constexpr uint32_t number_bytes = 32 * 4; /* of a warp */
    backward_desk<S> &desk;
    const weft_hopper_backward_joining &plan;
    uint32_t base, parts, rank, group;
    uint32_t rounds; /* so far */

    /* For a tile, and what is kept for it alone: registers of the sweep are for nothing else. number: of the warpgroup
     * among the consumers; tiles: before this one. */
    __device__ __forceinline__ backward_join(const weft_hopper_backward_params &p, backward_desk<S> &shared,
                                             uint32_t address, uint32_t number, uint32_t tiles)
        : desk(shared), plan(p.joining), base(address), parts((uint32_t)p.splits), rank(cluster_rank()), group(number),
          rounds(tiles * (uint32_t)p.joining.rounds) {
    }

    /* The first slice that a CTA has. */
    __device__ __forceinline__ uint32_t first_of(uint32_t cta) const {
        return (uint32_t)(plan.firsts >> 4 * cta) & 15;
    }

    /* Where a slice of a part is, the i-th that its owner has, if slices have COUNT numbers a thread. */
    template <int COUNT> __device__ __forceinline__ uint32_t place(uint32_t part, uint32_t i) const {
        return base + S::k_at + (part * plan.each + i) * (COUNT * number_bytes) + thread_index() % 32 * 16;
    }

    /* Waits until nobody in the cluster reads what lies there: neither K and V nor what came in the last round. Then so
     * many numbers of each thread that has a slice of the first warpgroup, or of the second, may come. */
    __device__ __forceinline__ void begin_round(uint32_t first_count, uint32_t second_count) const {
        const uint32_t lane = thread_index() % 32;
        __syncwarp();
        mbarrier_give_back_at(shared_address(&desk.parts_empty), lane, lane < parts);
        mbarrier_wait(shared_address(&desk.parts_empty), rounds % 2);
        if (group == 0 && thread_index() % 128 == 0) {
            const uint32_t first = first_of(rank), last = first_of(rank + 1), middle = min(max(first, 4u), last);
            const uint32_t numbers = (middle - first) * first_count + (last - middle) * second_count;
            mbarrier_expect(shared_address(&desk.parts_full), parts * numbers * number_bytes);
        }
    }

    /* Sends COUNT numbers of each thread, from the FIRST on, to the owner of the warp's slice. ROOM: the most that a slice
     * has in this round. */
    template <int FIRST, int COUNT, int ROOM, int ALL>
    __device__ __forceinline__ void send(const float (&sums)[ALL]) const {
        const uint32_t slice = group * 4 + thread_index() % 128 / 32, owner = plan.owners >> 4 * slice & 15;
        const uint32_t to = cluster_address(place<ROOM>(rank, slice - first_of(owner)), owner);
        const uint32_t full = cluster_address(shared_address(&desk.parts_full), owner);
#pragma unroll
        for (int i = 0; i < COUNT / 4; i++) {
            int32_t words[4];
#pragma unroll
            for (int j = 0; j < 4; j++) {
                words[j] = __float_as_int(sums[FIRST + 4 * i + j]);
            }
            cluster_send(to + i * (4 * number_bytes), full, words);
        }
    }

    /* Adds and stores the slices that this CTA has, 16 columns at a time. of: where those of a slice go. */
    template <int ROOM, class TARGET> __device__ __forceinline__ void end_round(const TARGET &of) {
        constexpr uint32_t boxes = ROOM / 8;
        const uint32_t lane = thread_index() % 32, warp = group * 4 + thread_index() % 128 / 32;
        const uint32_t first = first_of(rank), count = first_of(rank + 1) - first;
        mbarrier_wait(shared_address(&desk.parts_full), rounds % 2);
        rounds++;
#pragma unroll 1
        for (uint32_t unit = warp; unit < count * boxes; unit += 8) {
            const backward_joined target = of(first + unit / boxes);
            uint32_t from = place<ROOM>(0, unit / boxes) + unit % boxes * (8 * number_bytes);
            float sums[2][4] = {};
            for (uint32_t part = 0; part < parts; part++, from += plan.each * (ROOM * number_bytes)) {
#pragma unroll
                for (uint32_t i = 0; i < 2; i++) {
                    float more[4];
                    shared_load(from + i * (4 * number_bytes), more);
#pragma unroll
                    for (int j = 0; j < 4; j++) {
                        sums[i][j] += more[j];
                    }
                }
            }
#pragma unroll
            for (int i = 0; i < 4; i++) { /* four lanes have 16 bytes: an exchange would cost registers in the sweep */
                const int row = (int)lane / 4 + i / 2 * 8, column = (int)(unit % boxes * 16 + lane % 4 * 2) + i % 2 * 8;
                const float(&two)[4] = sums[i % 2];
                if (row < target.rows && column < target.columns) {
                    *(uint32_t *)(target.to + row * target.stride + 2 * column) =
                        pack_halves<S::bf16>(two[i / 2 * 2] * target.factor, two[i / 2 * 2 + 1] * target.factor);
                }
            }
        }
    }
};

/* A round of a narrow tile: COUNT numbers of each thread of dV or of dK, all warps' slices being of the same. */
template <class S, int FIRST, int COUNT, int ALL>
static __device__ __forceinline__ void backward_join_some(backward_join<S> &join, bool of_dk, const float (&dv)[ALL],
                                                          const float (&dk)[ALL], const backward_joined &target) {
    join.begin_round(COUNT, COUNT);
    if (of_dk) {
        join.template send<FIRST, COUNT, COUNT>(dk);
    } else {
        join.template send<FIRST, COUNT, COUNT>(dv);
    }
    join.template end_round<COUNT>([&](uint32_t slice) -> backward_joined {
        const int row = (int)slice * 16, column = 2 * FIRST;
        return {target.to + row * target.stride + 2 * column, target.stride, target.rows - row,
                min(target.columns - column, 2 * COUNT), target.factor};
    });
}

/* The rounds of a narrow tile: first dV, then dK. */
template <class S, int COUNT>
static __device__ __forceinline__ void backward_join_narrow(backward_join<S> &join, const float (&dv)[COUNT],
                                                            const float (&dk)[COUNT], const backward_joined &of_dv,
                                                            const backward_joined &of_dk) {
#pragma unroll 1
    for (int i = 0; i < 2; i++) {
        const backward_joined target = i == 0 ? of_dv : of_dk;
        if (join.plan.rounds == 2) {
            backward_join_some<S, 0, COUNT>(join, i == 1, dv, dk, target);
        } else {
            backward_join_some<S, 0, COUNT / 2>(join, i == 1, dv, dk, target);
            backward_join_some<S, COUNT / 2, COUNT / 2>(join, i == 1, dv, dk, target);
        }
    }
}

/* The round number ROUND of ROUNDS of a wide tile. */
template <class S, int ROUND, int ROUNDS, int COUNT>
static __device__ __forceinline__ void backward_join_round(backward_join<S> &join, const float (&sums)[COUNT],
                                                           const backward_joined &dv, const backward_joined &dk) {
    constexpr int v = S::depth_v / 2 / ROUNDS, k = S::depth / 2 / ROUNDS, mine = COUNT / ROUNDS; /* numbers of a thread */
    join.begin_round(v, k);
    join.template send<ROUND * mine, mine, k>(sums);
    join.template end_round<k>([&](uint32_t slice) -> backward_joined {
        const backward_joined &of = slice < 4 ? dv : dk;
        const int row = (int)slice % 4 * 16, column = ROUND * 2 * (slice < 4 ? v : k);
        const int columns = min(of.columns - column, 2 * (slice < 4 ? v : k));
        return {of.to + row * of.stride + 2 * column, of.stride, of.rows - row, columns, of.factor};
    });
}

/* The rounds of a wide tile: the first warpgroup has dV, the second dK. */
template <class S, int COUNT>
static __device__ __forceinline__ void backward_join_wide(backward_join<S> &join, const float (&sums)[COUNT],
                                                          const backward_joined &dv, const backward_joined &dk) {
    if (join.plan.rounds == 2) {
        backward_join_round<S, 0, 2>(join, sums, dv, dk);
        backward_join_round<S, 1, 2>(join, sums, dv, dk);
        return;
    }
    backward_join_round<S, 0, 4>(join, sums, dv, dk);
    backward_join_round<S, 1, 4>(join, sums, dv, dk);
    backward_join_round<S, 2, 4>(join, sums, dv, dk);
    backward_join_round<S, 3, 4>(join, sums, dv, dk);
}

#endif
