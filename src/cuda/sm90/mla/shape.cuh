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

/* The run of a place. There is room for p.places of them: packed queries of sequences that overlap, as no starts may have
 * them, could be more. */
static __device__ __forceinline__ bool mla_find(const weft_mla_params &p, decode_deal<WEFT_MLA_ROWS> &deal, int place,
                                                decode_run &run) {
    return deal.find(p.all, place, run) && run.place < p.places;
}

/* What a tile of a run sees. Keys are counted from the sequence's first. */
struct mla_view {
    weft_sequence s;
    int batch, kv_head;
    int origin;              /* column of key 0 */
    int row, count;          /* the tile's first row among the kv head's, and how many there are from it on */
    int begin, end;          /* keys that count */
    int seen_from, seen_end; /* by any row of the tile */
    int first, last;         /* blocks first .. last - 1 */

    /* What a query sees, counted from the sequence's first. */
    __device__ __forceinline__ weft_rows seen(const weft_decode_params &p, int64_t query) const {
        weft_rows seen = weft_band_seen(&p.runs.band, &s, s.rows.begin + query);
        seen.begin -= origin;
        seen.end -= origin;
        return seen;
    }
};

static __device__ __forceinline__ mla_view mla_view_of(const weft_decode_params &p, const decode_run &run) {
    const weft_sequences *all = &p.runs.sequences;
    mla_view view;
    view.s = p.alike ? p.sequence : weft_sequence_at(all, run.sequence);
    view.batch = all->packed ? 0 : run.sequence;
    view.kv_head = run.tile / p.tiles;
    view.origin = p.alike ? 0 : (int)weft_sequence_origin(all, run.sequence);
    view.row = (run.tile - view.kv_head * p.tiles) * WEFT_MLA_ROWS;
    view.count = (int)(view.s.rows.end - view.s.rows.begin) * p.group - view.row;
    view.begin = (int)view.s.columns.begin - view.origin;
    view.end = (int)view.s.columns.end - view.origin;
    const int64_t query = weft_divide(view.row, &p.by_group), used = view.s.used_end - view.s.rows.begin;
    const int64_t end = weft_divide(view.row + min(view.count, (int)WEFT_MLA_ROWS) - 1, &p.by_group);
    view.seen_from = view.seen_end = view.first = view.last = 0;
    if (query < used) {
        view.seen_from = (int)view.seen(p, query).begin;
        view.seen_end = (int)view.seen(p, weft_smaller(end, used - 1)).end;
    }
    if (view.seen_from < view.seen_end) {
        constexpr int blocks = WEFT_LEAF / WEFT_MLA_KEYS; /* of a leaf */
        view.first = max(view.seen_from / WEFT_MLA_KEYS, run.begin * blocks);
        view.last = min((view.seen_end + WEFT_MLA_KEYS - 1) / WEFT_MLA_KEYS, run.end * blocks);
        view.last = max(view.first, view.last);
    }
    return view;
}

#endif
