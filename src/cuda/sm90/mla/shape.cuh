/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel for multi-head latent attention knows when it is compiled, and what its warps share. */
#ifndef WEFT_CUDA_SM90_MLA_SHAPE_CUH
#define WEFT_CUDA_SM90_MLA_SHAPE_CUH

#include "cuda/decode/merge.cuh"
#include "cuda/ptx/cluster.cuh"
#include "cuda/ptx/mbarrier.cuh"
#include "cuda/ptx/stmatrix.cuh"
#include "cuda/ptx/thread.cuh"
#include "cuda/ptx/tma.cuh"
#include "cuda/ptx/wgmma.cuh"
#include "cuda/sm90/mla/params.h"

template <int DTYPE> struct mla_shape {
    static constexpr int alone = WEFT_MLA_ROWS; /* the level of a sequence's runs is its own */
    static constexpr bool bf16 = DTYPE == WEFT_BF16;
    static constexpr int rows = WEFT_MLA_ROWS;
    static constexpr int depth = WEFT_MLA_DEPTH_V; /* of the output */
    static constexpr int producer_registers = 56, consumer_registers = 224;
};

/* Parts of a block that arrive by themselves: boxes of V, then K. Runs that are known ahead. Warps that copy Q, and that
 * read of a run: those, the one that has blocks copied, and the consumers'. */
enum {
    MLA_PARTS = (WEFT_MLA_BOXES - 1) / WEFT_MLA_WIDE + 1,
    MLA_TASKS = 4,
    MLA_Q_WARPS = 2,
    MLA_READERS = MLA_Q_WARPS + 1 + 8
};

/* What a tile of a run sees. Keys are counted from the sequence's first. */
struct mla_view {
    int batch, kv_head;
    int query;               /* the sequence's first */
    int origin;              /* column of key 0 */
    int row, count;          /* the tile's first row among the kv head's, and how many there are from it on */
    int begin, end;          /* keys that count */
    int seen_from, seen_end; /* by any row of the tile */
    int first, last;         /* blocks first .. last - 1 */
};

/* A run of the CTA, worked out once and for all its warps. */
struct mla_task {
    int is_there; /* 0: the runs have ended */
    decode_run run;
    mla_view view;
    int from[WEFT_MLA_ROWS], to[WEFT_MLA_ROWS]; /* keys that a row sees; none where there is no row */
};

struct mla_desk {
    uint64_t full[WEFT_MLA_SLOTS][MLA_PARTS];
    uint64_t empty[WEFT_MLA_SLOTS][2]; /* by the half of V's columns that a consumer has */
    uint64_t weights[WEFT_MLA_SLOTS];  /* a block's weights are where its K was, and the rows' bases below */
    uint64_t q_full, q_empty;
    uint64_t task_full[MLA_TASKS], task_empty[MLA_TASKS];
    mla_task tasks[MLA_TASKS];
    uint64_t wrong[WEFT_MLA_SLOTS]; /* keys of a block whose page there is none of, a bit each */
    float base[WEFT_MLA_SLOTS][WEFT_MLA_ROWS];
    float sums[2][2][WEFT_MLA_ROWS]; /* of weights, by each consumer; of this run and the one before */
};

/* Blocks of a CTA are numbered across its runs: which slot a block has, and which phase of the slot's barriers. */
static __device__ __forceinline__ uint32_t mla_slot(uint32_t block) {
    return block % WEFT_MLA_SLOTS;
}

static __device__ __forceinline__ uint32_t mla_parity(uint32_t block) {
    return block / WEFT_MLA_SLOTS % 2;
}

/* The number-th run of the CTA, once it is known; and a warp's word that it needs it no more. */
static __device__ __forceinline__ const mla_task &mla_take(const mla_desk &desk, uint32_t number) {
    mbarrier_wait(shared_address(&desk.task_full[number % MLA_TASKS]), number / MLA_TASKS % 2);
    return desk.tasks[number % MLA_TASKS];
}

static __device__ __forceinline__ void mla_give_back(const mla_desk &desk, uint32_t number) {
    __syncwarp();
    mbarrier_arrive_warp(shared_address(&desk.task_empty[number % MLA_TASKS]));
}

#endif
