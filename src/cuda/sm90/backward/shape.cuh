/* SPDX-License-Identifier: Apache-2.0 */
/* Constants of a variant of the Hopper backward, and what the threads of a CTA share. */
#ifndef WEFT_CUDA_SM90_BACKWARD_SHAPE_CUH
#define WEFT_CUDA_SM90_BACKWARD_SHAPE_CUH

#include <type_traits>

#include "cuda/ptx/cluster.cuh"
#include "cuda/ptx/grid.cuh"
#include "cuda/ptx/keep.cuh"
#include "cuda/ptx/ldmatrix.cuh"
#include "cuda/ptx/math.cuh"
#include "cuda/ptx/mbarrier.cuh"
#include "cuda/ptx/shared.cuh"
#include "cuda/ptx/stmatrix.cuh"
#include "cuda/ptx/thread.cuh"
#include "cuda/ptx/tma.cuh"
#include "cuda/ptx/wgmma.cuh"
#include "cuda/sm90/backward/params.h"

/* The columns of variants.def: narrow. */
template <int DTYPE, int DEPTH, int QUERIES, int FORM> struct backward_shape {
    static constexpr bool wide = false;
    static constexpr bool ragged = FORM != WEFT_HOPPER_BACKWARD_PLAIN;
    static constexpr bool general = FORM >= WEFT_HOPPER_BACKWARD_GENERAL; /* and full, which has all of it */
    static constexpr bool full = FORM == WEFT_HOPPER_BACKWARD_FULL;
    static constexpr bool pairs = FORM == WEFT_HOPPER_BACKWARD_GENERAL; /* block masks and tree masks */
    static constexpr bool bf16 = DTYPE == WEFT_BF16;
    static constexpr int depth = DEPTH, depth_v = DEPTH, queries = QUERIES, keys = WEFT_HOPPER_BACKWARD_NARROW_KEYS;
    static constexpr int groups = 2, stages = WEFT_HOPPER_BACKWARD_STAGES;
    static constexpr int boxes = DEPTH / 64, boxes_v = boxes;             /* of 64 columns */
    static constexpr uint32_t kv_box = keys * 128, q_box = queries * 128; /* bytes of each */
    static constexpr uint32_t kv_bytes = boxes * kv_box, v_bytes = kv_bytes, q_bytes = boxes * q_box;
    static constexpr uint32_t ds_box = keys * 128, ds_bytes = queries / 64 * ds_box; /* rows are keys, of 64 queries */
    /* dQ of a step: a warpgroup has 64 queries of so many columns. */
    static constexpr bool by_queries = QUERIES == 128; /* else by columns */
    static constexpr int dq_columns = by_queries ? DEPTH : DEPTH / 2;
    static constexpr uint32_t k_at = 0, v_at = kv_bytes, ring_at = v_at + kv_bytes, stage_bytes = 2 * q_bytes;
    static constexpr uint32_t ds_at = ring_at + stages * stage_bytes, dq_at = ds_at + 2 * ds_bytes,
                              dq_bytes = queries * DEPTH * 4;
    static constexpr uint32_t numbers_at = dq_at + 2 * dq_bytes, numbers_bytes = 2 * queries * 4;
    static constexpr uint32_t bytes = numbers_at + stages * numbers_bytes;
    static constexpr int watchers = 2 + general; /* warps that are told of tiles beside the consumers */
    /* Registers of a thread: what the producer's warpgroup gives back is what the consumers get. */
    static constexpr int consumer_registers = general ? 232 : 240, producer_registers = general ? 40 : 24;
    static_assert(DEPTH % 64 == 0 && (QUERIES == 64 || QUERIES == 128), "what boxes and fragments divide into");
    static_assert(bytes + WEFT_HOPPER_BACKWARD_DESK == WEFT_HOPPER_BACKWARD_NARROW_BYTES(DEPTH, QUERIES), "see there");

    /* The first of the i-th eight columns of dQ that a warpgroup has. */
    static __device__ __forceinline__ constexpr int dq_column(int group, int i) {
        return (by_queries ? 0 : group * dq_columns) + i * 8;
    }
};

/* Wide: both warpgroups have all keys of a tile, and there is no dQ: see dq.cuh. */
template <int DTYPE, int DEPTH, int DEPTH_V, int FORM> struct backward_wide_shape {
    static constexpr bool wide = true;
    static constexpr bool ragged = false;                                 /* it has no sums of dQ */
    static constexpr bool general = FORM >= WEFT_HOPPER_BACKWARD_GENERAL; /* and full, which has all of it */
    static constexpr bool full = FORM == WEFT_HOPPER_BACKWARD_FULL;
    static constexpr bool pairs = FORM == WEFT_HOPPER_BACKWARD_GENERAL;
    static constexpr bool bf16 = DTYPE == WEFT_BF16;
    static constexpr int depth = DEPTH, depth_v = DEPTH_V, queries = 64, keys = WEFT_HOPPER_BACKWARD_WIDE_KEYS;
    static constexpr int groups = 2, stages = WEFT_HOPPER_BACKWARD_WIDE_STAGES, o_stages = 2;
    static constexpr int boxes = DEPTH / 64, boxes_v = DEPTH_V / 64; /* of 64 columns */
    static constexpr uint32_t kv_box = keys * 128, q_box = queries * 128;
    static constexpr uint32_t kv_bytes = boxes * kv_box, v_bytes = boxes_v * kv_box; /* of K, and of V */
    static constexpr uint32_t q_bytes = boxes * q_box, o_bytes = boxes_v * q_box;
    static constexpr uint32_t weights_bytes = keys * queries * 4;
    static constexpr uint32_t k_at = 0, v_at = kv_bytes, ring_at = v_at + v_bytes, o_ring_at = ring_at + stages * q_bytes;
    static constexpr int kept = 128; /* columns of K that stay in registers: weights take their place */
    static constexpr uint32_t weights_at = k_at + (DEPTH - kept) / 64 * kv_box, numbers_at = o_ring_at + o_stages * o_bytes;
    static constexpr uint32_t numbers_bytes = queries * 4, deltas_at = numbers_at + stages * numbers_bytes;
    static constexpr uint32_t bytes = deltas_at + o_stages * numbers_bytes;
    static constexpr int watchers = general;
    static constexpr int consumer_registers = general && DEPTH <= 192 ? 224 : 240,
                         producer_registers = 504 - 2 * consumer_registers;
    static_assert(DEPTH > 128 && DEPTH <= 256 && DEPTH % 64 == 0 && DEPTH_V <= DEPTH && DEPTH_V % 64 == 0, "likewise");
    static_assert(weights_bytes == kept / 64 * kv_box, "their place is as large");
    static_assert(bytes + WEFT_HOPPER_BACKWARD_DESK == WEFT_HOPPER_BACKWARD_WIDE_BYTES(DEPTH, DEPTH_V), "see there");
};

template <int DTYPE, int DEPTH, int DEPTH_V, int KEYS, int QUERIES, int FORM>
using backward_shape_of =
    std::conditional_t<KEYS == WEFT_HOPPER_BACKWARD_WIDE_KEYS, backward_wide_shape<DTYPE, DEPTH, DEPTH_V, FORM>,
                       backward_shape<DTYPE, DEPTH, QUERIES, FORM>>;

/* A tile of keys and its steps. Blocks of queries are visited for one head of the group after the other. */
struct backward_job {
    int32_t more;                  /* 0: there is none, and no further one */
    int32_t batch, head;           /* of keys */
    int32_t first_head;            /* of queries */
    int32_t number, key;           /* the tile's, and its first key */
    int32_t steps;                 /* blocks of queries, for each head, perhaps none; under a block mask: for all heads */
    int32_t first;                 /* of them, in the order of visiting; behind `edge` comes `wrap`. Under a block mask: the
                                      number of it in the list, modulo what it has */
    int32_t edge, wrap, direction; /* see weft_visit */
    int32_t full_begin, full_end;  /* blocks full_begin .. full_end - 1 need no mask */
};

/* General: also what of it counts. */
struct backward_general_job : backward_job {
    int32_t sequence;               /* that its keys are of */
    int32_t rows;                   /* keys of the tile; what lies behind them is another's, or is not there */
    int32_t key_begin, key_end;     /* keys that count, counted from the tile's first */
    int32_t query_begin, query_end; /* queries of the sequence that count */
};

/* What is said of a step: whether the tile has further ones; ragged: whether some queries of its block are not there, and
 * of that of the step before. */
enum { BACKWARD_MORE = 1, BACKWARD_LACKS = 2, BACKWARD_LACKED = 4 };

/* A block of queries, as the producer hands it over with Q and dO. */
struct backward_step {
    int32_t flags;
    int32_t hides; /* whether some of its queries do not see some of the tile's keys */
    int32_t last;  /* the last key that is there, and */
    int32_t seen;  /* where causal, the last that the first query sees; both counted from the tile's first */
};

/* General: likewise. */
struct backward_general_step {
    int32_t flags, hides;
    int32_t begin, end; /* queries that count, counted from the block's first: the others are to be zeros */
};

/* Full: also which pairs they are. */
struct backward_full_step : backward_general_step {
    int32_t row, key;    /* the block's first query, and the tile's first key */
    int32_t head, batch; /* of queries */
};

struct backward_nothing {};

/* Pairs: the bits of a step's queries and keys in memory. */
struct backward_bits {
    const uint32_t *words;     /* of a block mask: the word of the first query and key, see weft_blocks_words(); or null */
    int32_t stride, last_word; /* words from query to query, and the last of a query, counted from the first */
    const uint64_t *tree;      /* of a tree mask: the first query's; or null */
    int32_t tree_at;           /* the number of the first key among the tree's, below 0 where it is before them */
    int32_t last;              /* the last query that is there, counted from the first */
};

/* General: the keys that each query of a stage sees, where some are hidden. The first, counted from the tile's first key,
 * and 256 times how many. */
template <class S> struct backward_views {
    alignas(16) uint16_t runs[S::stages][S::queries];
    /* Slopes: by how much scores fall with distance, in base 2 (full: in natural units); how far the first query stands
     * behind the first key. */
    float slope[S::stages], away[S::stages];
    std::conditional_t<S::pairs, backward_bits[S::stages], backward_nothing> bits; /* where some are hidden */
};

template <class S> using backward_job_of_form = std::conditional_t<S::general, backward_general_job, backward_job>;
template <class S>
using backward_step_of_form =
    std::conditional_t<S::full, backward_full_step, std::conditional_t<S::general, backward_general_step, backward_step>>;

/* What consumers tell each other, those who add, and who hands over what they read: narrow. */
template <class S> struct backward_links {
    uint64_t ds_full[2], ds_empty[2];
    uint64_t turn[2];                 /* each consumer's, at the tensor cores */
    uint64_t dq_full[2], dq_empty[2]; /* of each who adds */
    uint64_t job_done;                /* by those that add */

    __device__ __forceinline__ void begin() {
        for (int i = 0; i < 2; i++) {
            mbarrier_init(shared_address(&ds_full[i]), 4 * S::groups * MBARRIER_WARP);
            mbarrier_init(shared_address(&ds_empty[i]), 4 * S::groups * MBARRIER_WARP);
            mbarrier_init(shared_address(&turn[i]), 4 * MBARRIER_WARP);
            mbarrier_init(shared_address(&dq_full[i]), 4 * S::groups * MBARRIER_WARP);
            mbarrier_init(shared_address(&dq_empty[i]), 1);
        }
        mbarrier_init(shared_address(&job_done), 2);
    }
};

/* Wide: dO has a ring of its own. */
template <class S> struct backward_wide_links {
    uint64_t o_full[2], o_empty[2];
    uint64_t o_clean[2]; /* general: for the first warpgroup, from the second */
    uint64_t weights_full, weights_empty;

    __device__ __forceinline__ void begin() {
        mbarrier_init(shared_address(&weights_full), 4 * MBARRIER_WARP);
        mbarrier_init(shared_address(&weights_empty), 4 * MBARRIER_WARP);
        for (int i = 0; i < 2; i++) {
            mbarrier_init(shared_address(&o_full[i]), 1);
            mbarrier_init(shared_address(&o_empty[i]), 4 * S::groups * MBARRIER_WARP);
            mbarrier_init(shared_address(&o_clean[i]), 4 * MBARRIER_WARP);
        }
    }
};

/* Barriers, steps and the job of a CTA. */
template <class S> struct backward_desk {
    uint64_t kv_full, kv_empty;
    uint64_t job_seen; /* by watchers, where there are some */
    uint64_t full[S::stages], empty[S::stages];
    uint64_t parts_full, parts_empty; /* where tiles are split: see join.cuh */
    std::conditional_t<S::wide, backward_wide_links<S>, backward_links<S>> links;
    backward_step_of_form<S> steps[S::stages];
    backward_job_of_form<S> job[2]; /* of even tiles and of odd ones */
    weft_worker worker;             /* the producer's */
    std::conditional_t<S::general, backward_views<S>, backward_nothing> views;

    /* Sets up the barriers. One thread. parts: CTAs that share a tile. */
    __device__ __forceinline__ void begin(int parts) {
        mbarrier_init(shared_address(&parts_full), 1);
        mbarrier_init(shared_address(&parts_empty), 4 * S::groups * (uint32_t)parts);
        mbarrier_init(shared_address(&kv_full), 1);
        mbarrier_init(shared_address(&kv_empty), 4 * S::groups * MBARRIER_WARP);
        mbarrier_init(shared_address(&job_seen), S::watchers * MBARRIER_WARP + (S::watchers == 0));
        for (int i = 0; i < S::stages; i++) {
            mbarrier_init(shared_address(&full[i]), 1 + S::general * MBARRIER_WARP);
            mbarrier_init(shared_address(&empty[i]), 4 * S::groups * MBARRIER_WARP);
        }
        links.begin();
        mbarrier_init_done();
    }
};

/* Goes through the steps of a tile: heads of its group, blocks of queries. */
struct backward_course {
    const backward_job &job;
    int32_t block, head; /* at hand; the head counted from the group's first */
    int32_t left;        /* steps, with this one */
    static constexpr int32_t bits_at = WEFT_HOPPER_BACKWARD_NO_BITS;

    __device__ __forceinline__ backward_course(const weft_hopper_backward_params &p, const backward_job &tile)
        : job(tile), block(tile.first), head(0), left(tile.steps * p.group) {
    }

    __device__ __forceinline__ void next() {
        block = block == job.edge ? job.wrap : block + job.direction;
        head += block == job.first;
        left--;
    }
};

/* Whether there is a block mask. */
template <class S> static __device__ __forceinline__ bool backward_is_listed(const weft_hopper_backward_params &p) {
    return S::pairs && p.lists.main;
}

/* Pairs: the list of a tile for a head, see weft_hopper_backward_lists. */
struct backward_list {
    char *at;
    int64_t pair_bytes;

    __device__ __forceinline__ backward_list(const weft_hopper_backward_params &p, int batch, int head, int tile)
        : at(weft_hopper_backward_list(&p.lists, batch, head, tile)), pair_bytes(p.lists.pair_bytes) {
    }

    /* The words of a step, or, of number -1, those in front. */
    __device__ __forceinline__ int32_t *operator[](int step) const {
        const uint32_t entry = (uint32_t)(step + 1);
        return (int32_t *)(at + entry / 2 * pair_bytes + entry % 2 * 8);
    }

    __device__ __forceinline__ int32_t count() const {
        return *(*this)[-1];
    }
};

/* Wide: the same of a tile of queries, for the last launch. */
struct backward_queries_list {
    int32_t *at;

    __device__ __forceinline__ backward_queries_list(const weft_hopper_backward_params &p, int batch, int head, int tile) {
        const int64_t line = (int64_t)batch * p.lists.heads + (p.lists.heads > 1 ? head : 0);
        const int tiles = (p.blocks + 1) / 2, blocks = (p.kv_seq + 63) / 64;
        at = p.lists.queries + (line * tiles + tile) * ((blocks + 1) * 3);
    }

    __device__ __forceinline__ int32_t *operator[](int step) const {
        return at + 3 * (step + 1);
    }

    __device__ __forceinline__ int32_t count() const {
        return *at;
    }
};

/* Pairs: the same as a course, under a block mask: through what is listed. */
struct backward_listed_course : backward_course {
    const weft_hopper_backward_params &p;
    backward_list list; /* of the head at hand */
    int32_t count, at;  /* its steps, and the number of the one at hand */
    int32_t head_left;  /* as `left`, of this head */
    int32_t bits_at;    /* of the step at hand */

    __device__ __forceinline__ backward_listed_course(const weft_hopper_backward_params &params, const backward_job &tile)
        : backward_course(params, tile), p(params), list(params, tile.batch, tile.first_head, tile.number) {
        left = tile.steps;
        begin();
    }

    /* Begins with the head at hand, or the next that has a step. */
    __device__ __forceinline__ void begin() {
        for (; left > 0; head++) {
            list = backward_list(p, job.batch, job.first_head + head, job.number);
            count = head_left = list.count();
            if (count > 0) {
                at = job.direction < 0 ? count - 1 : job.first % count;
                read();
                return;
            }
        }
    }

    __device__ __forceinline__ void read() {
        block = list[at][0];
        bits_at = list[at][1];
    }

    __device__ __forceinline__ void next() {
        left--;
        if (--head_left == 0) {
            head++;
            begin();
            return;
        }
        at = at + job.direction == count ? 0 : at + job.direction;
        read();
    }
};

/* Where the numbers of a block's query are: a thread needs those of two neighbouring queries of every eight. It has four at
 * a time, from 64 bytes that its warp reads together. */
static __device__ __forceinline__ int backward_number_at(int query) {
    return query / 16 * 16 + query % 8 / 2 * 4 + query / 8 % 2 * 2 + query % 2;
}

/* Finds the notes of blocks of queries. */
template <class S> struct backward_notes {
    const weft_hopper_backward_params &p;
    int inside; /* see weft_hopper_backward_note() */

    __device__ __forceinline__ backward_notes(const weft_hopper_backward_params &params)
        : p(params), inside(S::wide ? 0 : params.notes.inside) {
        if constexpr (S::general && !S::wide) { /* rows behind a packed batch are not written */
            const weft_sequences &all = p.walk.reach.sequences;
            if (all.lengths.q_starts) {
                inside = weft_hopper_backward_notes_inside(&p, (int)all.lengths.q_starts[all.count], S::queries);
            }
        }
    }

    __device__ __forceinline__ bool has(int block) const {
        return weft_hopper_backward_notes_has(&p, inside, block);
    }

    __device__ __forceinline__ weft_hopper_backward_noted at(int batch, int head, int block) const {
        return weft_hopper_backward_note(&p, inside, S::queries, batch, head, block);
    }

    /* Where a number of a query of a block is behind the first of its kind. */
    __device__ __forceinline__ int64_t place(weft_hopper_backward_noted noted, int query) const {
        const uint32_t at = (uint32_t)backward_number_at(query) * 4, row_bytes = (uint32_t)p.notes.row_bytes;
        return S::wide || p.notes.rows == 1 ? at : at / row_bytes * noted.stride + at % row_bytes;
    }

    /* Where the numbers of one kind begin: 0 logarithms, 1 deltas. */
    template <int KIND> __device__ __forceinline__ char *numbers(weft_hopper_backward_noted noted) const {
        return noted.at + (S::wide ? KIND * S::queries * 4 : KIND * p.notes.rows * noted.stride);
    }

    /* Has the numbers of one kind, of all queries of a block, copied to shared memory. */
    template <int KIND>
    __device__ __forceinline__ void load(int batch, int head, int block, uint32_t to, uint32_t barrier) const {
        const weft_hopper_backward_noted noted = at(batch, head, block);
        if constexpr (S::wide) {
            bulk_load(to, numbers<KIND>(noted), S::queries * 4, barrier);
            return;
        }
        if (block < inside && p.notes.boxed) {
            tma_load_4d(to, &p.noted, barrier, 0, block * S::queries + KIND * p.notes.rows, head, batch);
            return;
        }
        const uint32_t row_bytes = (uint32_t)p.notes.row_bytes;
        const char *from = numbers<KIND>(noted);
#pragma unroll 1
        for (uint32_t done = 0; done < S::queries * 4; done += row_bytes, from += noted.stride) {
            bulk_load(to + done, from, min(row_bytes, S::queries * 4 - done), barrier);
        }
    }
};

/* Where the turn of a tile is in the notes of every block. */
struct backward_turn_at {
    uint32_t row, byte;

    __device__ __forceinline__ backward_turn_at(const weft_hopper_backward_params &p, int tile) {
        const uint32_t at = 16 + 2 * (uint32_t)tile, row_bytes = (uint32_t)p.notes.row_bytes, rows = at / row_bytes;
        row = 2 * (uint32_t)p.notes.rows + rows;
        byte = at - rows * row_bytes;
    }

    __device__ __forceinline__ uint16_t *in(weft_hopper_backward_noted noted) const {
        return (uint16_t *)(noted.at + row * noted.stride + byte);
    }
};

/* A place in the ring of stages. */
template <int STAGES> struct backward_slot {
    uint32_t index = 0, parity = 0;

    __device__ __forceinline__ void next() {
        index = index + 1 == STAGES ? 0 : index + 1;
        parity ^= index == 0;
    }
};

/* Narrow: where sums of dQ of a block of queries lie, in memory and, for one step, in shared memory: the first warpgroup's,
 * then the other's, without columns behind the head dim. A whole block has them as threads hold them, four numbers for
 * every eight columns (wgmma.cuh). A block that lacks queries has rows, as many as there are queries. */
template <class S> struct backward_sums_of_block {
    static constexpr int all_octets = S::dq_columns / 8; /* eights of columns of a warpgroup */
    const weft_hopper_backward_params &p;
    int queries; /* of the block that are there */

    __device__ __forceinline__ backward_sums_of_block(const weft_hopper_backward_params &params, int block)
        : p(params), queries(min(S::queries, params.seq - block * S::queries)) {
    }

    __device__ __forceinline__ bool lacks_rows() const {
        return S::ragged && queries < S::queries;
    }

    /* Eights of columns of a warpgroup that are there. */
    static __device__ __forceinline__ int octets(const weft_hopper_backward_params &p, int group) {
        return S::by_queries ? p.head_dim / 8 : min(max(p.head_dim / 8 - group * all_octets, 0), all_octets);
    }

    /* Rows of a warpgroup that are there. */
    __device__ __forceinline__ int rows(int group) const {
        return S::by_queries ? min(max(queries - group * 64, 0), 64) : queries;
    }

    __device__ __forceinline__ uint32_t bytes(int group) const {
        return (uint32_t)(rows(group) * octets(p, group)) * 32;
    }

    /* Those of the first warpgroup, and the other's behind them. line: the head's number. */
    __device__ __forceinline__ char *at(int64_t line, int block) const {
        return (char *)(p.sums + (line * p.seq + block * S::queries) * p.head_dim);
    }
};

#endif
