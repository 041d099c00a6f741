/* SPDX-License-Identifier: Apache-2.0 */
/* The launch before the others under a block mask: lists of the steps of each tile, see weft_hopper_backward_lists. */
#ifndef WEFT_CUDA_SM90_BACKWARD_LISTS_CUH
#define WEFT_CUDA_SM90_BACKWARD_LISTS_CUH

#include "cuda/sm90/backward/shape.cuh"

/* What a head's block mask has of a block's queries and a tile's keys: a number of its bits, or that it has none, or that
 * it does not list them. */
static __device__ __forceinline__ int32_t backward_listed(const weft_hopper_backward_params &p, int batch, int head,
                                                          int64_t row, int64_t key) {
    const weft_blocks &blocks = p.walk.reach.blocks;
    const int64_t entry = weft_blocks_entry(&blocks, batch, head, row, key);
    return entry < 0 ? WEFT_HOPPER_BACKWARD_NOT_LISTED
                     : max(blocks.pairs.block_bits_at[entry], (int32_t)WEFT_HOPPER_BACKWARD_NO_BITS);
}

/* Makes a list of those numbers from begin to end - 1 that `find` finds, with the words that it adds to them. All threads
 * of the CTA. */
template <int WORDS, class LIST, class FIND>
static __device__ __forceinline__ void backward_make_list(const LIST &list, int begin, int end, FIND find) {
    constexpr int warps = WEFT_HOPPER_BACKWARD_QUERY_THREADS / 32;
    static __shared__ uint32_t found[warps]; /* a bit for each thread */
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    int count = 0;
    for (; begin < end; begin += WEFT_HOPPER_BACKWARD_QUERY_THREADS) {
        const int number = begin + (int)threadIdx.x;
        int32_t entry[WORDS] = {number};
        const bool has = number < end && find(number, entry);
        const uint32_t mine = __ballot_sync(0xffffffffu, has);
        int place = count + __popc(mine & ((1u << lane) - 1));
        __syncthreads(); /* nobody reads the last ones any more */
        if (lane == 0) {
            found[warp] = mine;
        }
        __syncthreads();
        for (int i = 0; i < warps; i++) {
            place += i < warp ? __popc(found[i]) : 0;
            count += __popc(found[i]);
        }
        for (int i = 0; has && i < WORDS; i++) {
            list[place][i] = entry[i];
        }
    }
    if (threadIdx.x == 0) {
        *list[-1] = count;
    }
}

/* Transposes the lists of a block mask, one tile of keys after the other. Wide, also makes those of the last launch's tiles
 * of queries, which are two blocks of them each: a list has what one of the two has. */
static __device__ __forceinline__ void backward_make_lists(const weft_hopper_backward_params &p) {
    const int64_t keys = p.walk.reach.tile_rows, queries = p.walk.reach.tile_columns; /* of a tile, and of a block */
    const int heads = p.lists.heads, tiles = (int)p.walk.cols, lines = (int)p.walk.order.grid.batch * heads;
    for (int64_t i = blockIdx.x; i < (int64_t)lines * tiles; i += gridDim.x) {
        const int tile = (int)(i % tiles), head = (int)(i / tiles) % heads, batch = (int)(i / tiles) / heads;
        weft_visit visit = {};
        visit.tile = weft_tile_at(batch, 0, tile);
        visit.direction = 1;
        weft_visit_range_of(&p.walk, &visit, 0, WEFT_REACH_BAND);
        backward_make_list<2>(backward_list(p, batch, head, tile), (int)visit.first, (int)(visit.first + visit.steps),
                              [&](int block, int32_t(&entry)[2]) {
                                  entry[1] = backward_listed(p, batch, head, block * queries, tile * keys);
                                  return entry[1] != WEFT_HOPPER_BACKWARD_NOT_LISTED;
                              });
    }
    const int q_tiles = p.lists.queries ? (p.blocks + 1) / 2 : 0;
    for (int64_t i = blockIdx.x; i < (int64_t)lines * q_tiles; i += gridDim.x) {
        const int tile = (int)(i % q_tiles), head = (int)(i / q_tiles) % heads, batch = (int)(i / q_tiles) / heads;
        const int64_t row = (int64_t)tile * WEFT_HOPPER_BACKWARD_DQ_QUERIES;
        const weft_rows rows = {row, weft_smaller(row + WEFT_HOPPER_BACKWARD_DQ_QUERIES, p.seq)};
        const weft_rows blocks = weft_turns_reached(&p.walk.reach, batch, rows);
        backward_make_list<3>(backward_queries_list(p, batch, head, tile), (int)blocks.begin, (int)blocks.end,
                              [&](int block, int32_t(&entry)[3]) {
                                  bool any = false;
                                  for (int half = 0; half < 2; half++) {
                                      const int64_t first = row + half * queries;
                                      entry[1 + half] = first < p.seq ? backward_listed(p, batch, head, first, block * keys)
                                                                      : WEFT_HOPPER_BACKWARD_NOT_LISTED;
                                      any |= entry[1 + half] != WEFT_HOPPER_BACKWARD_NOT_LISTED;
                                  }
                                  return any;
                              });
    }
}

#endif
