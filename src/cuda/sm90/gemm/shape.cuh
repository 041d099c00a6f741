/* SPDX-License-Identifier: Apache-2.0 */
/* What a CTA of the Hopper GEMM holds: its shape, its shared memory, its place in the cluster. */
#ifndef WEFT_CUDA_SM90_GEMM_SHAPE_CUH
#define WEFT_CUDA_SM90_GEMM_SHAPE_CUH

#include "cuda/ptx/cluster.cuh"
#include "cuda/ptx/grid.cuh"
#include "cuda/ptx/mbarrier.cuh"
#include "cuda/ptx/thread.cuh"
#include "cuda/ptx/tma.cuh"
#include "cuda/ptx/wgmma.cuh"
#include "cuda/sm90/gemm/grouped/params.h"
#include "cuda/sm90/gemm/params.h"

/* Tiles that are known ahead. */
enum { GEMM_JOBS = 4 };

/* How often one looks whether the others have come as far: about 50 microseconds. */
enum { GEMM_PATIENCE = 128 };

/* A tile to compute, as the scheduler hands it out; 0 steps: there is none. */
struct gemm_job {
    int32_t row, col, batch; /* the first tile of the cluster, in tiles */
    int32_t first;           /* the first step, and what to add for the next one */
    int32_t direction;
    int32_t steps;
    int32_t again; /* bits: 1, the next wave reads this A again; 2, this B */
    int32_t left;  /* of a group: its rows from the first tile's on, of which `row` is the first and `batch` the group */
};

/* Barriers: a stage or a job is full when it can be used, empty when it can be filled. */
struct gemm_desk {
    gemm_job jobs[GEMM_JOBS];
    uint64_t full[8], empty[8];
    uint64_t job_full[GEMM_JOBS], job_empty[GEMM_JOBS];
    uint64_t piece_full[WEFT_GEMM_MOST_WARPS][2];
};
static_assert(sizeof(gemm_desk) <= 1024, "WEFT_GEMM_SHARED_BYTES leaves 1024 bytes");

template <weft_dtype DTYPE, bool A_MN_, bool B_MN_, int TILE_M, int TILE_N, int STAGES, int FORM> struct gemm_shape {
    static constexpr bool bf16 = DTYPE == WEFT_BF16, tf32 = DTYPE == WEFT_FP32; /* two halves are an element of TF32 */
    static constexpr bool a_mn = A_MN_, b_mn = B_MN_;
    static constexpr int tile_m = TILE_M, tile_n = TILE_N, stages = STAGES;
    static constexpr int groups = WEFT_GEMM_GROUPS(TILE_M), warps = 4 * groups; /* that multiply */
    static constexpr int group_m = TILE_M / groups;                             /* rows of a warpgroup */
    static constexpr int blocks = group_m / 64;                                 /* its products of 64 rows */
    /* Registers of a thread that multiplies and of one that loads: in all at most 168 for each of the CTA's threads. */
    static constexpr bool by_phase = FORM == WEFT_GEMM_BY_PHASE, fused = FORM == WEFT_GEMM_FUSED;
    static constexpr bool grouped = FORM == WEFT_GEMM_GROUPED, transposed = FORM == WEFT_GEMM_TRANSPOSED;
    static constexpr bool lean = WEFT_GEMM_LEAN(TILE_M, TILE_N);
    static constexpr int multiplier_registers = lean ? 232 : fused ? 224 : 216;
    static constexpr int loader_registers = lean ? 40 : fused ? 56 : 72;
    static constexpr bool splits = !grouped && WEFT_GEMM_SPLITS(TILE_M); /* its steps may be shared out */
    static constexpr int atom_bytes = 64 * 64 * 2;                       /* of A or B: 64 rows or columns */
    static constexpr int a_bytes = TILE_M * 128;                         /* of A in a stage; B follows */
    static constexpr int stage_bytes = WEFT_GEMM_STAGE_BYTES(TILE_M, TILE_N);
    static constexpr int pieces_at = STAGES * stage_bytes;
    static constexpr int desk_at = pieces_at + WEFT_GEMM_PIECES_BYTES(TILE_M);
    static_assert(STAGES <= 8 && TILE_M % (64 * groups) == 0 && TILE_N % 16 == 0 && blocks * TILE_N <= 384, "");
    static_assert(WEFT_GEMM_WHOLE_PIECES(TILE_N) || (FORM == WEFT_GEMM_PLAIN && TILE_N > 64) || transposed, "");
    static_assert(WEFT_GEMM_WHOLE_PIECES(TILE_N) || !B_MN_, "boxes of B are 64 columns where these are contiguous");
};

/* Who and where a CTA is. A cluster is `split` times cluster_m x cluster_n CTAs: those of a part multicast to each other,
 * and the parts share out the steps of the same tiles. */
struct gemm_place {
    uint32_t base;       /* shared address of the ring */
    uint32_t rank, ctas; /* in the cluster, and of it */
    uint32_t part;       /* which share of the steps */
    uint32_t first;      /* rank of the part's first CTA */
    uint32_t in_m, in_n; /* rank - first: in_m * cluster_n + in_n */
};

static __device__ __forceinline__ gemm_place gemm_find_place(const weft_gemm_params &p, uint32_t base) {
    gemm_place me;
    const uint32_t along_n = (uint32_t)p.cluster_n, together = (uint32_t)p.cluster_m * along_n;
    me.base = base;
    me.ctas = together * (uint32_t)p.split;
    me.rank = me.ctas > 1 ? cluster_rank() : 0;
    me.part = me.first = me.in_m = 0;
    while (me.rank - me.first >= together) { /* of so few, quicker than a division */
        me.first += together;
        me.part++;
    }
    me.in_n = me.rank - me.first;
    while (me.in_n >= along_n) {
        me.in_n -= along_n;
        me.in_m++;
    }
    return me;
}

/* The steps of a tile that are this CTA's: from `begin` on, in the order of the sweep. */
struct gemm_share {
    int32_t begin, steps;
};

template <class S>
static __device__ __forceinline__ gemm_share gemm_share_of(const weft_gemm_params &p, const gemm_place &me, int32_t steps) {
    gemm_share share = {0, steps};
    if constexpr (S::splits) {
        if (p.split > 1) {
            const uint32_t all = (uint32_t)steps, parts = (uint32_t)p.split; /* at most 2^25 and 8 */
            share.begin = (int32_t)(all * me.part / parts);
            share.steps = (int32_t)(all * (me.part + 1) / parts) - share.begin;
        }
    }
    return share;
}

#define GEMM_DESK(S, place, field) ((place).base + S::desk_at + (uint32_t)offsetof(gemm_desk, field))

/* What a variant with phases takes besides. */
static __device__ __forceinline__ const weft_gemm_phase_params &gemm_by_phase(const weft_gemm_params &p) {
    return reinterpret_cast<const weft_gemm_phase_params &>(p);
}

/* And one for groups. */
static __device__ __forceinline__ const weft_hopper_grouped_params &gemm_grouped(const weft_gemm_params &p) {
    return reinterpret_cast<const weft_hopper_grouped_params &>(p);
}

static __device__ __forceinline__ int32_t gemm_phase_place(const weft_gemm_params &p, int32_t row) {
    return row * gemm_by_phase(p).phases.multiplier >> WEFT_FIRST_SHIFT;
}

/* A row of tiles of C: its place in its phase, and the third coordinate of A and C, the phase or the batch. */
struct gemm_rows {
    int32_t tile, z;
};

/* A cluster's rows may end outside of all phases, where nothing is read or stored. */
template <class S>
static __device__ __forceinline__ gemm_rows gemm_rows_of(const weft_gemm_params &p, int32_t row, int32_t batch) {
    if constexpr (S::by_phase) {
        const weft_gemm_phases &phases = gemm_by_phase(p).phases;
        const int32_t place = gemm_phase_place(p, row);
        return {row - place * phases.tiles, place < phases.count ? (int32_t)(phases.order >> (4 * place) & 15) : 8};
    }
    return {row, batch};
}

/* Those of this CTA's tile; of a group, the rows of C themselves. */
template <class S>
static __device__ __forceinline__ gemm_rows gemm_rows_of_job(const weft_gemm_params &p, const gemm_place &me,
                                                             const gemm_job &job) {
    if constexpr (S::grouped) {
        return {job.row + (int32_t)me.in_m * S::tile_m, gemm_grouped(p).groups.masked ? job.batch : 0};
    }
    return gemm_rows_of<S>(p, job.row + (int32_t)me.in_m, job.batch);
}

/* What a variant with an epilogue takes besides. */
static __device__ __forceinline__ const weft_gemm_fused_params &gemm_fused(const weft_gemm_params &p) {
    return reinterpret_cast<const weft_gemm_fused_params &>(p);
}

/* Columns of C in a tile. */
template <class S> static __device__ __forceinline__ int32_t gemm_columns_of(const weft_gemm_params &p) {
    if constexpr (S::fused) {
        return gemm_fused(p).epilogue.gate ? S::tile_n / 2 : S::tile_n;
    }
    return S::tile_n;
}

/* What is to be added to find the column of B that is `at` columns into a tile, where those from the half on are values. */
template <class S> static __device__ __forceinline__ int32_t gemm_value_after(const weft_gemm_params &p, uint32_t at) {
    if constexpr (S::fused) {
        const int32_t gate = gemm_fused(p).epilogue.gate;
        return gate && at >= S::tile_n / 2 ? gate - S::tile_n / 2 : 0;
    }
    return 0;
}

/* The first row and column of this CTA's tile. */
template <class S> static __device__ __forceinline__ int32_t gemm_row_of(const weft_gemm_params &p, const gemm_rows &rows) {
    if constexpr (S::grouped) {
        return rows.tile;
    }
    return min(rows.tile * S::tile_m, p.last_row);
}

template <class S>
static __device__ __forceinline__ int32_t gemm_col_of(const weft_gemm_params &p, const gemm_place &me,
                                                      const gemm_job &job) {
    return min((job.col + (int32_t)me.in_n) * gemm_columns_of<S>(p), p.last_col);
}

/* How many elements before a multiple of 64 the steps of a job begin: the same for the whole cluster, which shares B. */
template <class S> static __device__ __forceinline__ int32_t gemm_shift_of(const weft_gemm_params &p, int32_t row) {
    if constexpr (S::by_phase) {
        return (int32_t)(gemm_by_phase(p).phases.shifts >> (4 * gemm_phase_place(p, row)) & 15) * 8;
    }
    return 0;
}

template <class S>
static __device__ __forceinline__ const weft_tensor_map *gemm_map_of_a(const weft_gemm_params &p, int32_t z) {
    if constexpr (S::by_phase) {
        return z >= gemm_by_phase(p).phases.longer ? &gemm_by_phase(p).a_short : &p.a;
    }
    return &p.a;
}

template <class S>
static __device__ __forceinline__ const weft_tensor_map *gemm_map_of_c(const weft_gemm_params &p, int32_t z) {
    if constexpr (S::by_phase) {
        return z >= gemm_by_phase(p).phases.longer ? &gemm_by_phase(p).c_short : &p.c;
    }
    return &p.c;
}

/* The four warps of a warpgroup that multiplies wait for each other. */
static __device__ __forceinline__ void gemm_meet_group() {
    barrier_sync(thread_index() / 128, 128);
}

/* Whether an old C or a residual is added to the result, which transposed variants cannot. */
template <class S> static __device__ __forceinline__ bool gemm_has_old(const weft_gemm_params &p) {
    return !S::transposed && p.beta != 0;
}

/* What is added to the result: the old C, or a residual. */
template <class S>
static __device__ __forceinline__ const weft_tensor_map *gemm_map_of_added(const weft_gemm_params &p, int32_t z) {
    if constexpr (S::fused) {
        return &gemm_fused(p).added;
    }
    return gemm_map_of_c<S>(p, z);
}

/* Steps around a ring: `parity` flips each time it comes to the start. */
template <int LENGTH> struct gemm_ring_slot {
    uint32_t at, parity;

    __device__ __forceinline__ void next() {
        at++;
        if (at == LENGTH) {
            at = 0;
            parity ^= 1;
        }
    }
};

#endif
