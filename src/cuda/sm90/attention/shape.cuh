/* SPDX-License-Identifier: Apache-2.0 */
/* Constants of a variant of the Hopper attention kernel, and what its threads share. */
#ifndef WEFT_CUDA_SM90_ATTENTION_SHAPE_CUH
#define WEFT_CUDA_SM90_ATTENTION_SHAPE_CUH

#include <type_traits>

#include "cuda/ptx/cluster.cuh"
#include "cuda/ptx/grid.cuh"
#include "cuda/ptx/keep.cuh"
#include "cuda/ptx/mbarrier.cuh"
#include "cuda/ptx/thread.cuh"
#include "cuda/ptx/tma.cuh"
#include "cuda/ptx/wgmma.cuh"
#include "cuda/sm90/attention/params.h"

/* The columns of variants.def. */
template <int DTYPE, int DEPTH, int GROUPS, int KEYS, int STAGES, bool SPLITS, int FORM> struct hopper_shape {
    static constexpr bool bf16 = DTYPE == WEFT_BF16;
    static constexpr int depth = DEPTH, groups = GROUPS, keys = KEYS, stages = STAGES;
    static constexpr bool splits = SPLITS;
    static constexpr int form = FORM;
    static constexpr bool masks = FORM >= WEFT_HOPPER_MASKS, pairs = FORM == WEFT_HOPPER_PAIRS,
                          pages = FORM == WEFT_HOPPER_PAGES, scores = FORM == WEFT_HOPPER_SCORES || pairs || pages,
                          bias = FORM == WEFT_HOPPER_BIAS;
    static constexpr bool rotates = scores && !pairs; /* whether a tile may begin at any of its steps */
    static constexpr bool scaled = bf16 && !bias;     /* whether shifts are, and in base 2: see hopper_scaled() */
    static constexpr int reach = pairs ? WEFT_REACH_BLOCKS : masks ? WEFT_REACH_BAND : WEFT_REACH_PREFIX;
    static constexpr int part =
        KEYS > 64 && !pairs ? 64 : 0; /* keys of a short step, which may be a tile's last; 0: none is */
    static constexpr int tile_m = SPLITS ? 64 : 64 * GROUPS;
    static constexpr int readers = SPLITS ? 1 : GROUPS; /* warpgroups that use a block of K or V */
    static constexpr int boxes = (DEPTH + 63) / 64;
    static constexpr uint32_t q_box = tile_m * 128, kv_box = KEYS * 128; /* bytes of 64 columns */
    static constexpr uint32_t q_bytes = boxes * q_box, kv_bytes = boxes * kv_box;
    static constexpr int q_slots =
        bias ? WEFT_HOPPER_BIAS_Q_SLOTS(DEPTH, tile_m, KEYS, STAGES) : WEFT_HOPPER_Q_SLOTS(DEPTH, tile_m, KEYS, STAGES);
    static constexpr bool stages_o = q_slots > 1; /* whether output is stored by way of the queries' place */
    /* Steps before its last that a tile's successor is asked for. An answer takes two thousand clocks, and more where a
     * sequence has to be found, or its pages; a later question leaves fewer tiles with workers that are behind. */
    static constexpr int ahead = pages ? 3 * STAGES : masks ? 2 * STAGES : STAGES;
    static constexpr uint32_t k_at = q_slots * q_bytes, v_at = k_at + STAGES * kv_bytes, bias_at = v_at + STAGES * kv_bytes;
    static constexpr uint32_t bias_bytes =
        WEFT_HOPPER_BIAS_BYTES(DEPTH, tile_m, KEYS, STAGES) / GROUPS; /* of a warpgroup */
    /* Registers of a thread. A CTA starts with 65536 / threads for each, in eights (168, 128, 96); what the producer gives
     * back is what the consumers get. */
    static constexpr int consumer_registers = GROUPS == 2 ? 224 : GROUPS == 3 ? (pages ? 152 : 160) : 112;
    static constexpr int producer_registers = GROUPS == 2 || pages ? 56 : 32;
    static_assert(GROUPS * consumer_registers + producer_registers <= (GROUPS + 1) * (65536 / (GROUPS + 1) / 128 / 8 * 8),
                  "the CTA's registers suffice");
    static_assert(!SPLITS || !masks, "steps are shared out from key 0 on");
    static_assert(!bias || (KEYS % 64 == 0 && bias_bytes >= 64 * KEYS * 4), "a step of a bias is whole boxes, and fits");
    static_assert(!SPLITS || STAGES % GROUPS == 0, "a warpgroup has stages of its own");
    static_assert(DEPTH % 32 == 0 && KEYS % 16 == 0 && GROUPS >= 2 && GROUPS <= 4, "what the fragments divide into");
};

/* A tile, as the producer hands it to the consumers. */
struct hopper_job {
    int32_t more;            /* 0: there is none, and no further one */
    int32_t batch, head;     /* of the queries; the head in packs */
    int32_t row;             /* the tile's first query */
    int32_t steps, downward; /* blocks of keys, and whether they are visited from the last to the first */
    int32_t end, begin;      /* masks: where its queries end; its least step, else 0 */
    int32_t sequence;        /* masks: of its first query */
    union {
        int32_t listed; /* pairs: its list of blocks, see weft_visit; its steps are then numbers of that list */
        int32_t first;  /* where it may be any (S::rotates): the step that it begins with */
    };
};

/* The step after another of a tile whose steps are begin .. begin + steps - 1, and which may have begun at any of them:
 * after its least step comes its last. */
static __device__ __forceinline__ int hopper_step_after(int step, int stride, int begin, int steps) {
    const int next = step + stride;
    return next < begin ? next + steps : next;
}

/* Where a tile's queries end: the first tile may have fewer than there is room for, the last one what is left. */
template <class S>
static __device__ __forceinline__ int hopper_end(const weft_hopper_attention_params &p, const hopper_job &job) {
    return S::masks ? job.end : job.row == 0 ? min((int)p.walk.reach.tile_rows - (int)p.walk.reach.lead, p.seq) : p.seq;
}

/* The 64 queries of a warpgroup, and the keys they see. */
struct hopper_share {
    int own;            /* steps that are not masked for all of them */
    int full, unmasked; /* steps full .. unmasked - 1 are masked for none; full is 0 but where there are masks */
    int before, after;  /* steps of the tile before and after its own, in the order of visiting */
    int first, stride;  /* the first of its own, likewise, and what to add for the next */
    int whole, part;    /* of its own, steps of S::keys and, at the end, short ones: 1 where S::part keys will do, else 0 */
};

/* What a warpgroup sees of a tile. */
template <class S>
static __device__ __forceinline__ hopper_share hopper_share_of(const weft_hopper_attention_params &p, const hopper_job &job,
                                                               uint32_t group) {
    const int first = job.row + ((int)group * 64 >> p.pack_bits), end = min(first + (64 >> p.pack_bits), p.seq);
    /* Keys that its first and its last query see. */
    const int least = min(first + 1 + p.offset, p.kv_seq), most = min(end + p.offset, p.kv_seq);
    const int steps = job.steps, own = most > 0 ? (int)((uint32_t)most + S::keys - 1) / S::keys : 0;
    hopper_share share;
    share.own = first >= hopper_end<S>(p, job) ? 0 : min(own, steps);
    share.full = 0;
    share.unmasked = least > 0 ? (int)((uint32_t)least / S::keys) : 0;
    share.first = job.downward ? share.own - 1 : 0;
    share.stride = job.downward ? -1 : 1;
    share.before = job.downward ? steps - share.own : 0;
    share.after = job.downward ? 0 : steps - share.own;
    const int others = (share.own - 1) * S::keys; /* keys before step own - 1 */
    share.part = S::part > 0 && share.own > 1 && !job.downward && most - others <= S::part;
    share.whole = share.own - share.part;
    if (share.part && least - others >= S::part) {
        share.unmasked = share.own; /* it ends where the keys do */
    }
    return share;
}

/* The keys that a query sees: begin .. end - 1. */
struct hopper_run {
    int32_t begin, end;
};

/* What a warpgroup sees of a tile with masks; runs: of the tile's queries. Both ends of a run grow from query to query.
 * tree_begin: see hopper_view. */
template <class S>
static __device__ __forceinline__ hopper_share hopper_share_of_runs(const weft_hopper_attention_params &p,
                                                                    const hopper_job &job, const hopper_run *runs,
                                                                    int tree_begin, uint32_t group) {
    const int queries = 64 >> p.pack_bits, at = (int)group * queries, last = min(at + queries, job.end - job.row) - 1;
    hopper_share share = {};
    share.stride = job.downward ? -1 : 1;
    const hopper_run from = runs[min(at, max(last, 0))], to = runs[max(last, 0)];
    const int begin = max((int)((uint32_t)from.begin / S::keys), job.begin);
    const int end = min((int)(((uint32_t)to.end + S::keys - 1) / S::keys), job.begin + job.steps);
    const bool sees = at <= last && from.begin < to.end && begin < end;
    share.own = sees ? end - begin : 0;
    share.full = (int)(((uint32_t)to.begin + S::keys - 1) / S::keys);
    share.unmasked = (int)((uint32_t)min(from.end, max(tree_begin, 0)) / S::keys);
    share.first = S::rotates && p.rotates ? job.first : job.downward ? end - 1 : begin; /* then, all see all steps */
    int below = sees ? begin - job.begin : job.steps;
    if (S::pairs && job.listed >= 0 && at <= last && from.begin < to.end) { /* all warpgroups go through all of a list */
        share.own = job.steps;
        share.first = job.begin + (job.downward ? job.steps - 1 : 0);
        below = 0;
    }
    const int above = job.steps - share.own - below;
    share.before = job.downward ? above : below;
    share.after = job.downward ? below : above;
    const int others = (end - 1) * S::keys; /* keys before its last step */
    share.part = S::part > 0 && share.own > 1 && !job.downward && to.end - others <= S::part;
    share.whole = share.own - share.part;
    if (share.part && from.end - others >= S::part) {
        share.unmasked = end; /* it ends where the keys do */
    }
    return share;
}

/* A value that is the same in all lanes of a warp, so that the compiler knows it, too: what it takes to be the same it
 * keeps in registers of the warp, not of each thread. */
static __device__ __forceinline__ int hopper_same(int value) {
    return __shfl_sync(0xffffffffu, value, 0);
}

/* What the queries of a tile see, under masks. */
template <class S> struct hopper_view {
    hopper_run runs[S::tile_m]; /* of each query */
    hopper_share shares[S::groups];
    int32_t tree_begin; /* pairs: weft_tree_begin(); without a tree, beyond all keys */
};

/* The step that a block of K is of, and which of the block mask's bits are its; below 0: none. */
struct hopper_step {
    int32_t step, bits_at;
};

/* Of a step's keys, the bits of a thread's two rows: 1 where a row sees the key. */
template <class S> struct hopper_words { uint32_t of[2][S::keys / 32]; };
struct hopper_nothing {};

/* The steps of a tile. */
struct hopper_steps {
    int32_t begin, steps;
};

/* Pages: where the keys of a tile are, and those that count. */
struct hopper_keys {
    hopper_run run;
    hopper_run seen; /* by some query of the tile */
    int32_t batch, kv_head;
};

/* Barriers of the warpgroups' rings of a bias. */
template <class S> struct hopper_bias_desk {
    uint64_t full[S::groups][WEFT_HOPPER_BIAS_PLACES], empty[S::groups][WEFT_HOPPER_BIAS_PLACES];
};

/* Barriers and jobs of a CTA. */
template <class S> struct hopper_desk {
    uint64_t q_full[S::q_slots], q_empty[S::q_slots];
    uint64_t k_full[S::stages], k_empty[S::stages];
    uint64_t v_full[S::stages], v_empty[S::stages];
    uint64_t wanted, told[S::q_slots]; /* masks: the next job is wanted; it is there */
    weft_worker worker;                /* of who asks for tiles, here to leave its registers alone */
    int64_t looks;                     /* the producer's, with those of the waves before; as if it had taken part in all */
    int32_t paced;                     /* whether it still waits for others */
    hopper_job jobs[S::q_slots];       /* each goes with its queries */
    std::conditional_t<S::masks, hopper_view<S>, hopper_nothing> views[S::q_slots]; /* likewise */
    std::conditional_t<S::pairs, hopper_step, hopper_nothing> listed[S::stages];    /* each goes with its K */
    std::conditional_t<S::bias, hopper_bias_desk<S>, hopper_nothing> bias;
    std::conditional_t<S::rotates && !S::pages, hopper_steps, hopper_nothing>
        fed; /* of the producer's tile; here as `worker` is */
    std::conditional_t<S::pages, hopper_keys, hopper_nothing> keys[S::q_slots],
        fed_keys[2]; /* of each job; of V's tile and of K's */
};

/* A place in the ring of blocks of K or V, of which every STRIDE-th is used. */
template <int STAGES, int STRIDE = 1> struct hopper_slot {
    uint32_t index, parity;

    __device__ __forceinline__ hopper_slot(uint32_t first = 0) : index(first), parity(0) {
    }

    __device__ __forceinline__ void next() {
        index += STRIDE;
        if (STRIDE == 1 ? index == STAGES : index >= STAGES) {
            index = STRIDE == 1 ? 0 : index - STAGES; /* the same, but that 0 needs no work */
            parity ^= 1;
        }
    }
};

#endif
