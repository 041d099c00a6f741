/* SPDX-License-Identifier: Apache-2.0 */
/* The Hopper backward: its parameters and variants, in plain C for the host and in CUDA for the kernels.
 *
 * A run is three launches, and up to two more, one after the other:
 *   list     under a block mask: the lists of its tiles
 *   deal     narrow, where the host does not know how long tiles are: their timetable
 *   begin    for each query the logarithm of its sum and its delta, dO times O; for each block of queries the turns of the
 *            tiles that add to it, by the timetable, and a zero where they are counted: its notes
 *   main     a CTA holds a tile of keys and sweeps the queries of all heads that share them: dK, dV
 *            narrow, 128 keys, for head dims up to 128 (sweep.cuh), also sums of dQ in fp32
 *            wide, 64 keys, up to 256 (wide.cuh), not: there are no turns then
 *   end      narrow, sums of dQ become dQ; wide, dQ from the start (dq.cuh)
 * The heads that share keys, and the blocks of queries of each, may be split into parts (weft_schedule.split), one for each
 * CTA of a cluster, so that a problem with few tiles has work for all SMs: see join.cuh. The general form also takes every
 * band over sequences: windows, chunks, prefixes, padding, used lengths, packed batches; tree masks and block masks, whose
 * lists are transposed; and softcap, ALiBi slopes and sinks, whose gradient begins in `begin` and ends in `end`. The full
 * form takes all that but tree masks and block masks, and also a dense bias and dropout.
 * Rows that do not count may hold anything: they are not read, or are zeros before they meet others.
 *
 * Each block of queries has its adds to sums in a fixed order, one tile of keys after the other, so that the bits are the
 * same in every run. */
#ifndef WEFT_CUDA_SM90_BACKWARD_PARAMS_H
#define WEFT_CUDA_SM90_BACKWARD_PARAMS_H

#include <weft/order/turns.h>
#include <weft/weft.h>

#include "cuda/driver/tensor_map.h"
#include "order/deal.h"

/* General: what becomes of scores, and sinks. */
typedef struct weft_hopper_backward_scores {
    float cap, cap_scale; /* the cap times log2(e), or 0; 2 log2(e) scale / cap */
    const float *alibi;   /* slopes, or null: that of sequence s and head h at s * alibi_stride + h */
    int64_t alibi_stride;
    const float *sinks; /* (heads), or null; the LSE has them */
    float *grad_sinks;  /* (heads), or null */
    float *sink_parts;  /* workspace: what each block of queries adds to the gradient of its head's sink */
} weft_hopper_backward_scores;

/* Full: what is added to scores or hides them, and which weights count as 0. */
typedef struct weft_hopper_backward_full {
    const void *bias;                                        /* or null */
    int64_t batch_bytes, head_bytes, query_bytes, key_bytes; /* the bias's strides, 0 where it repeats */
    int32_t bias_type;                                       /* a weft_bias_type */
    float cap;                                               /* as weft_hopper_backward_scores.cap, in natural units */
    float kept;             /* what weights are multiplied by that are not dropped; 1 where none is */
    uint32_t dropout_limit; /* a weight is dropped where its word is below; 0: none is */
    uint64_t dropout_seed;
    float *grad_bias; /* (batch, heads, seq, kv_seq), or null: zeros in `begin`, pairs that are seen in `main`;
                         wide: in `end` */
} weft_hopper_backward_full;

/* General: a block mask, whose lists are of blocks of queries, as lists of steps of each tile. They are made by `list`, for
 * each batch, and for each head where heads have masks of their own. A list is in the order of its steps, as many words for
 * each as are said below, and so many in front of them, of which the first is the count of its steps.
 * Entries of `main` are two words: a block of queries; its block's bits. Pairs of them lie apart: narrow, the i-th pairs of
 * all tiles are beside each other in dQ of the i-th block of queries, behind its notes, until `end` writes it. Where that
 * has not so many rows, and wide, lists are in the workspace, one after the other. */
typedef struct weft_hopper_backward_lists {
    int32_t heads;  /* that have masks of their own, 1: all have the same */
    int32_t in_row; /* tiles of a row */
    char *main;     /* or null; and in bytes from one to the next: */
    int64_t batch_bytes, head_bytes, row_bytes, tile_bytes, pair_bytes;
    int32_t *queries; /* wide, for `end`: (batch, heads, tiles of queries, 1 + blocks of keys, 3), or null: a block of keys;
                         its block's bits for the first 64 queries of the tile, and for the others */
} weft_hopper_backward_lists;

/* The steps of a tile of a batch, whatever its head. */
typedef struct weft_hopper_backward_span {
    int32_t begin;
    int32_t steps; /* below 0: the tile has no key, and nobody visits it */
} weft_hopper_backward_span;

/* Narrow: where the host does not know how long tiles are, `deal` makes what weft_walk has of a timetable and an order. It
 * is one CTA. Under a block mask a tile's coming has the number of the step in its lists that it begins with as `first`,
 * and when it begins as `at`: see backward_coming_listed(). */
typedef struct weft_hopper_backward_dealing {
    weft_coming *comings; /* of each tile that has keys; null: there is no such launch */
    uint32_t *next;       /* (positions) */
    uint32_t *table;      /* (positions): of each section the longest tiles first; behind all, tiles without keys */
    weft_hopper_backward_span *spans; /* (batch, tiles of a head) */
} weft_hopper_backward_dealing;

/* What `deal` takes, at most. */
enum {
    WEFT_HOPPER_BACKWARD_DEALT = 1 << 15,       /* positions, whose times are in shared memory */
    WEFT_HOPPER_BACKWARD_DEALT_WORKERS = 256,   /* two threads for each */
    WEFT_HOPPER_BACKWARD_DEALT_TIME = 1 << 29,  /* steps of all positions together */
    WEFT_HOPPER_BACKWARD_DEALT_SORTED = 1 << 13 /* positions that are sorted at a time */
};

/* Where tiles are split: who adds which of the eight slices of a tile's rows, see join.cuh. */
typedef struct weft_hopper_backward_joining {
    uint64_t firsts; /* four bits for each CTA of a cluster, and as many more behind them: the first of its slices */
    uint32_t owners; /* and for each slice: the CTA that has it */
    int32_t each;    /* slices of a CTA, at most */
    int32_t rounds;  /* in which they are sent: 2, or 4 with half as many columns each */
} weft_hopper_backward_joining;

/* What it takes a tile to begin and to end, in steps; and steps from where a tile is to where its neighbour is, which began
 * at the same time: with places for two dQ they hardly wait for each other. */
enum { WEFT_HOPPER_BACKWARD_BESIDE = 2, WEFT_HOPPER_BACKWARD_APART = 3 };

enum { WEFT_HOPPER_BACKWARD_DEAL_THREADS = 2 * WEFT_HOPPER_BACKWARD_DEALT_WORKERS };
enum { WEFT_HOPPER_BACKWARD_DEAL_BYTES = 4 * WEFT_HOPPER_BACKWARD_DEALT + 8 * WEFT_HOPPER_BACKWARD_DEALT_SORTED };

/* The image and the entry points of both, which all variants share. */
#define WEFT_HOPPER_BACKWARD_DEAL_MODULE "hopper_backward_deal_sm90a"
#define WEFT_HOPPER_BACKWARD_LIST        "attention_backward__hopper_list"
#define WEFT_HOPPER_BACKWARD_DEAL        "attention_backward__hopper_deal"

/* What a block of queries notes for `main`: of each query the logarithm of its sum and its delta, infinite and 0 where it
 * sees no key or is not there (full: no logarithms of base 2 but natural ones, as its scores are: no finite bias overflows
 * them); how many tiles have added to its sums so far, a word; and, 16 bytes behind that, the turn of each tile, 16 bits.
 * Narrow, notes are rows of as many bytes as a row of dQ, and lie where dQ of the block will, until `end` writes it.
 * A last block of fewer rows than that notes apart, in the workspace; so do all where rows are too short, and wide, where
 * `end` begins to write while others read. */
typedef struct weft_hopper_backward_notes {
    char *apart;       /* a block after the other */
    int32_t inside;    /* blocks of each head that note in dQ, the first ones: so many at most */
    int32_t each;      /* blocks of each head, behind those, that have room apart */
    int32_t taken;     /* rows of dQ that notes take */
    int32_t rows;      /* of one number of each query: logarithms, then deltas, then the rest */
    int32_t boxed;     /* those fill their rows: a box of `noted` has them */
    int32_t row_bytes; /* multiples of 16 */
    int64_t bytes;     /* of a block apart */
} weft_hopper_backward_notes;

/* In place of bits, which are a number of weft_pairs.block_bits: the block is full; or it is not listed. */
enum { WEFT_HOPPER_BACKWARD_NO_BITS = -1, WEFT_HOPPER_BACKWARD_NOT_LISTED = -2 };

/* Passed by value to all of them. Launch `begin` and `end` with a CTA for each block of queries of each head, `main` as the
 * walk says: a CTA (where tiles are split, a cluster of as many as there are parts) for each position under grid dispatch,
 * else walk.workers, all of which run at once where tiles wait for others that begin with them. `list` takes any number of
 * CTAs, `deal` one. */
typedef struct weft_hopper_backward_params {
    weft_tensor_map q, grad_o;  /* (head_dim, seq, heads, batch), in boxes of 64 columns x a step's queries, swizzled */
    weft_tensor_map k, v;       /* the same with kv_seq and kv_heads, in boxes of a tile's keys; v, grad_o: head_dim_v */
    weft_tensor_map to_k, to_v; /* plain, narrow: dK and dV likewise, in boxes of 16 keys */
    weft_tensor_map noted;      /* where notes are: dQ, in boxes of whole rows */
    const void *o, *grad_o_data;
    const float *lse; /* (batch, heads, seq) */
    void *grad_q, *grad_k, *grad_v;
    weft_strides o_strides, q_strides, k_strides, v_strides; /* elements, multiples of 8 */
    float *sums; /* workspace, of dQ: a block after the other, `blocks` of each head, see backward_sums_of_block */
    weft_hopper_backward_notes notes;
    int32_t heads, kv_heads, blocks;
    int32_t group;      /* heads of queries of a part: those that a tile goes through */
    int32_t splits;     /* parts of each tile, 1: it is not split */
    int32_t line_parts; /* neighbouring parts that have the same heads, and each some of their blocks: see weft_reach */
    int32_t seq, kv_seq, head_dim, head_dim_v;
    int32_t causal, offset;    /* plain: query i sees keys 0 .. i + offset where causal, else all */
    float scale, scale_log2;   /* scale * log2(e) */
    uint64_t *counter;         /* dynamic dispatch and workers by side, 0 before the launch */
    const uint8_t *side_of_sm; /* the side of the L2 that each SM is on, for workers by side; else null */
    weft_walk walk;            /* tiles of keys, steps of queries: one slice; general: a band, see weft_reach. Its timetable
                                  is for the adds to sums; `list` and `deal`, which come before, find none */
    weft_hopper_backward_scores scores;
    weft_hopper_backward_full full;
    weft_hopper_backward_lists lists;
    weft_hopper_backward_dealing dealing;
    weft_hopper_backward_joining joining;
} weft_hopper_backward_params;

/* The words in front of the list of `main` of a tile, for a head. */
WEFT_INLINE char *weft_hopper_backward_list(const weft_hopper_backward_lists *l, int batch, int head, int tile) {
    return l->main + batch * l->batch_bytes + head * l->head_bytes + tile / l->in_row * l->row_bytes +
           tile % l->in_row * l->tile_bytes;
}

/* The notes of a block. */
typedef struct weft_hopper_backward_noted {
    char *at;
    int64_t stride; /* bytes from a row to the next */
} weft_hopper_backward_noted;

/* The blocks of each head that note in dQ, if only its first `rows` rows are written. queries: of a block. */
WEFT_INLINE int weft_hopper_backward_notes_inside(const weft_hopper_backward_params *p, int rows, int queries) {
    const int64_t blocks = (weft_larger(rows, 0) + queries - p->notes.taken) / queries;
    return (int)weft_smaller(p->notes.inside, blocks);
}

/* Whether a block has notes; else it has no query. inside: of the blocks of a head, those that note in dQ. */
WEFT_INLINE int weft_hopper_backward_notes_has(const weft_hopper_backward_params *p, int inside, int block) {
    return block - inside < p->notes.each;
}

/* The notes of a block that has some; of another, those of the last: what is on a device may be wrong, and is not to lead
 * anywhere else. queries: of a block. */
WEFT_INLINE weft_hopper_backward_noted weft_hopper_backward_note(const weft_hopper_backward_params *p, int inside,
                                                                 int queries, int batch, int head, int block) {
    const weft_hopper_backward_notes *n = &p->notes;
    const int apart = (int)weft_smaller(block - inside, n->each - 1);
    weft_hopper_backward_noted noted = {n->apart + (((int64_t)batch * p->heads + head) * n->each + apart) * n->bytes,
                                        n->row_bytes};
    if ((uint32_t)block < (uint32_t)inside) { /* nothing of this where inside is 0 */
        const weft_strides *s = &p->q_strides;
        noted.at = (char *)p->grad_q + 2 * (batch * s->batch + head * s->head + (int64_t)block * queries * s->seq);
        noted.stride = 2 * s->seq;
    }
    return noted;
}

/* Where adds are counted. */
WEFT_INLINE uint32_t *weft_hopper_backward_adds(const weft_hopper_backward_params *p, weft_hopper_backward_noted noted) {
    return (uint32_t *)(void *)(noted.at + 2 * p->notes.rows * noted.stride);
}

/* What a variant takes. */
typedef enum weft_hopper_backward_form {
    WEFT_HOPPER_BACKWARD_PLAIN = 0,
    WEFT_HOPPER_BACKWARD_RAGGED = 1, /* plain, narrow: a last block of queries may lack some, as in what follows */
    WEFT_HOPPER_BACKWARD_GENERAL = 2,
    WEFT_HOPPER_BACKWARD_FULL = 3
} weft_hopper_backward_form;

/* What is compiled: a row of variants.def. */
typedef struct weft_hopper_backward_variant {
    const char *module;             /* the image */
    const char *begin, *main, *end; /* the entry points */
    weft_dtype dtype;
    int32_t depth, depth_v; /* head dims up to these: of Q and K, and of V */
    int32_t keys, queries;  /* of a tile, and of a step */
    int32_t form;           /* a weft_hopper_backward_form */
    uint32_t shared_bytes;  /* dynamic, of `main` */
    uint32_t dq_bytes;      /* wide: likewise, of `end` */
} weft_hopper_backward_variant;

/* Parts of a tile, at most: CTAs of a cluster, and slices of a tile that they add. */
enum { WEFT_HOPPER_BACKWARD_SPLITS = 8 };

/* Keys of a tile: this many, or half of them where it is wide. */
enum { WEFT_HOPPER_BACKWARD_NARROW_KEYS = 128, WEFT_HOPPER_BACKWARD_WIDE_KEYS = 64 };

/* Threads of a launch that has tiles, and of one that has blocks of queries. */
enum { WEFT_HOPPER_BACKWARD_THREADS = 384, WEFT_HOPPER_BACKWARD_QUERY_THREADS = 256 };
#define WEFT_HOPPER_BACKWARD_END_THREADS(keys)                                                                             \
    ((keys) == WEFT_HOPPER_BACKWARD_WIDE_KEYS ? WEFT_HOPPER_BACKWARD_THREADS : WEFT_HOPPER_BACKWARD_QUERY_THREADS)

/* Blocks of queries whose Q and dO are in shared memory at a time; wide, of dO two, of Q so many: it is needed longer. */
enum { WEFT_HOPPER_BACKWARD_STAGES = 2, WEFT_HOPPER_BACKWARD_WIDE_STAGES = 3 };

/* Wide, the last launch: queries of a tile, keys of a step. Stages of V. */
enum { WEFT_HOPPER_BACKWARD_DQ_QUERIES = 128, WEFT_HOPPER_BACKWARD_DQ_KEYS = 64 };
#define WEFT_HOPPER_BACKWARD_V_STAGES(depth) ((depth) > 192 ? 1 : 2)

/* Bytes of a CTA for what its threads tell each other. */
enum { WEFT_HOPPER_BACKWARD_DESK = 1024 };

/* Bytes of `main`'s shared memory.
 *   narrow   K and V; stages of Q and dO; two blocks of dS; two blocks of dQ; two numbers for each query of a stage
 *   wide     K and V; stages of Q, and of dO; a number for each query of a stage */
#define WEFT_HOPPER_BACKWARD_NARROW_BYTES(depth, queries)                                                                  \
    (2 * 128 * (depth)*2 + WEFT_HOPPER_BACKWARD_STAGES * 2 * (queries) * ((depth)*2 + 4) + 2 * 128 * (queries)*2 +         \
     2 * (queries) * (depth)*4 + WEFT_HOPPER_BACKWARD_DESK)
#define WEFT_HOPPER_BACKWARD_WIDE_BYTES(depth, depth_v)                                                                    \
    (64 * ((depth) + (depth_v)) * 2 + WEFT_HOPPER_BACKWARD_WIDE_STAGES * 64 * ((depth)*2 + 4) +                            \
     2 * 64 * ((depth_v)*2 + 4) + WEFT_HOPPER_BACKWARD_DESK)
#define WEFT_HOPPER_BACKWARD_BYTES(depth, depth_v, keys, queries)                                                          \
    ((keys) == WEFT_HOPPER_BACKWARD_WIDE_KEYS ? WEFT_HOPPER_BACKWARD_WIDE_BYTES(depth, depth_v)                            \
                                              : WEFT_HOPPER_BACKWARD_NARROW_BYTES(depth, queries))

/* Wide: bytes of the last launch. Q and dO of a tile; two stages of K; stages of V. */
#define WEFT_HOPPER_BACKWARD_DQ_BYTES(depth, depth_v)                                                                      \
    (128 * ((depth) + (depth_v)) * 2 + 2 * 64 * (depth)*2 + WEFT_HOPPER_BACKWARD_V_STAGES(depth) * 64 * (depth_v)*2 +      \
     WEFT_HOPPER_BACKWARD_DESK)

#define WEFT_HOPPER_BACKWARD_VARIANT(symbol, module, DTYPE, depth, depth_v, keys, queries, form)                           \
    {                                                                                                                      \
#module, #symbol "_begin", #symbol "_main", #symbol "_end", WEFT_##DTYPE, depth, depth_v, keys, queries, form,     \
            WEFT_HOPPER_BACKWARD_BYTES(depth, depth_v, keys, queries), WEFT_HOPPER_BACKWARD_DQ_BYTES(depth, depth_v)       \
    }

#endif
