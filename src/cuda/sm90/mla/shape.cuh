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
    static constexpr bool alone = true; /* the level of a sequence's runs is its own */
    static constexpr bool bf16 = DTYPE == WEFT_BF16;
    static constexpr int rows = WEFT_MLA_ROWS;
    static constexpr int depth = WEFT_MLA_DEPTH_V; /* of the output */
    static constexpr int producer_registers = 56, consumer_registers = 224;
};

/* Parts of a block that arrive by themselves: four of two boxes of V, then K. */
enum { MLA_PARTS = 5 };

struct mla_desk {
    uint64_t full[WEFT_MLA_SLOTS][MLA_PARTS];
    uint64_t empty[WEFT_MLA_SLOTS][2]; /* by the half of V's columns that a consumer has */
    uint64_t weights[WEFT_MLA_SLOTS];  /* a block's weights are where its K was, and the rows' largest scores below */
    uint64_t q_full, q_empty;
    uint64_t left, counted;         /* a run's sums are in the workspace, and were counted */
    decode_run runs[4];             /* the latest of which sums are or will be there */
    uint64_t wrong[WEFT_MLA_SLOTS]; /* keys of a block whose page there is none of, a bit each */
    int is_last; /* of the one that was counted last: whether now all of its sequence and tile are there */
    float max[WEFT_MLA_SLOTS][WEFT_MLA_ROWS];
    float sums[2][2][WEFT_MLA_ROWS]; /* of weights, by each consumer; of this run and the one before */
};

/* Blocks of a CTA are numbered across its runs: which slot a block has, and which phase of the slot's barriers. */
static __device__ __forceinline__ uint32_t mla_slot(uint32_t block) {
    return block % WEFT_MLA_SLOTS;
}

static __device__ __forceinline__ uint32_t mla_parity(uint32_t block) {
    return block / WEFT_MLA_SLOTS % 2;
}

/* What a tile of a run sees. Keys are counted from the batch's first. */
struct mla_view {
    weft_sequence s;
    int batch, kv_head;
    int row, count;  /* the tile's first row among the kv head's, and how many there are from it on */
    weft_rows seen;  /* by any row of the tile */
    int first, last; /* blocks first .. last - 1 */
};

static __device__ __forceinline__ mla_view mla_view_of(const weft_decode_params &p, const decode_run &run) {
    mla_view view;
    view.s = p.alike ? p.sequence : weft_sequence_at(&p.runs.sequences, run.sequence);
    view.batch = run.sequence;
    view.kv_head = run.tile / p.tiles;
    view.row = (run.tile - view.kv_head * p.tiles) * WEFT_MLA_ROWS;
    view.count = (int)(view.s.rows.end - view.s.rows.begin) * p.group - view.row;
    const int64_t query = view.s.rows.begin + (int64_t)weft_divide(view.row, &p.by_group);
    const int64_t end =
        view.s.rows.begin + (int64_t)weft_divide(view.row + min(view.count, (int)WEFT_MLA_ROWS) - 1, &p.by_group);
    view.seen.begin = view.seen.end = 0;
    view.first = view.last = 0;
    if (query < view.s.used_end) {
        view.seen.begin = weft_band_seen(&p.runs.band, &view.s, query).begin;
        view.seen.end = weft_band_seen(&p.runs.band, &view.s, weft_smaller(end, view.s.used_end - 1)).end;
    }
    if (view.seen.begin < view.seen.end) {
        constexpr int blocks = WEFT_LEAF / WEFT_MLA_KEYS; /* of a leaf */
        view.first = max((int)view.seen.begin / WEFT_MLA_KEYS, run.begin * blocks);
        view.last = min(((int)view.seen.end + WEFT_MLA_KEYS - 1) / WEFT_MLA_KEYS, run.end * blocks);
        view.last = max(view.first, view.last);
    }
    return view;
}

#endif
