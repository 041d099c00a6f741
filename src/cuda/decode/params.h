/* SPDX-License-Identifier: Apache-2.0 */
/* The decode kernel's parameters and variants: plain C for the host, and CUDA for the kernel.
 *
 * Two launches of a run. `main`: CTAs take runs of keys of a sequence (include/weft/order/runs.h) and leave the sums of
 * each in the workspace, or the output where a sequence is one run. `merge`: the others' outputs. weft_plan_prepare() is
 * one more, `deal`: it makes a list of all runs, and `main` then takes runs from there. */
#ifndef WEFT_CUDA_DECODE_PARAMS_H
#define WEFT_CUDA_DECODE_PARAMS_H

#include <weft/weft.h>

#include "weft/order/pages.h"
#include "weft/order/runs.h"

enum {
    WEFT_DECODE_WARPS = 4,                            /* of a CTA; each has a part of every leaf */
    WEFT_DECODE_KEYS = WEFT_LEAF / WEFT_DECODE_WARPS, /* of a leaf that a warp has */
    WEFT_DECODE_BLOCK = 16,                           /* keys that a warp loads and multiplies at a time */
    WEFT_DECODE_BLOCKS = WEFT_DECODE_KEYS / WEFT_DECODE_BLOCK,
    WEFT_DECODE_MERGE_WARPS = 8,
    WEFT_DECODE_DEAL_WARPS = 16
};

/* The runs of a sequence, for the launch that merges: where the first is among those of all, for the first tile, how many
 * there are, the first one's number among those of its level, counted from key 0, and the sequence's tiles: a run is as
 * many places from the next. */
typedef struct weft_decode_dealt {
    int32_t place, count, first, tiles;
} weft_decode_dealt;

/* A run of the list that weft_plan_prepare() makes: longest runs first. */
typedef struct weft_decode_listed {
    int32_t place; /* of its node, among those of all runs */
    int32_t sequence, tile;
    int32_t count;      /* runs of the sequence */
    int32_t begin, end; /* leaves */
    int32_t unused[2];
} weft_decode_listed;

/* How many runs the list has, and how many of them workers have taken beside the first of each: 0 before every launch. */
typedef struct weft_decode_list_head {
    int32_t count;
    uint32_t taken;
    int32_t unused[2];
} weft_decode_list_head;

/* Passed by value. Pointers are to device memory, aligned to 16 bytes; strides are in elements, multiples of 8. */
typedef struct weft_decode_params {
    const void *q;
    void *k, *v; /* written where keys are appended */
    void *o;
    float *lse; /* (batch, heads, seq), or null */
    weft_strides q_strides, k_strides, v_strides, o_strides;
    int32_t seq, heads, kv_heads; /* queries of the tensor's batch */
    int32_t most;                 /* of a sequence */
    int32_t group;                /* heads / kv_heads; rows of a kv head are (query, head), the head fastest */
    weft_divisor by_group;
    int32_t tiles;                /* of rows, for each kv head */
    int32_t head_dim, head_dim_v; /* at most the variant's, multiples of 8 */
    float scale;                  /* to base 2, or with a cap: to the argument of its tanh */
    float cap;                    /* to base 2; 0: none */
    const float *sinks, *alibi;
    int64_t alibi_stride;
    weft_pages pages;
    weft_runs runs;
    int32_t alike; /* 1: sequences are like the one below, and what it has is known */
    weft_sequence sequence;
    weft_rows seen;        /* by its first query */
    int32_t first, leaves; /* from `first` on */
    int32_t level;
    int32_t merged_rows;   /* that a CTA of `merge` has */
    weft_divisor by_tiles; /* runs.tiles */
    /* Where all sequences are alike: runs of each, those that are whole, and of these and the others in all tiles. */
    int32_t runs_each, whole;
    weft_divisor by_whole, by_others;
    uint64_t keep; /* how long the L2 is to keep whole blocks of keys: see WEFT_KEEP_NORMAL */
    /* New keys; null: none. */
    const void *k_new, *v_new;
    weft_strides k_new_strides, v_new_strides;
    /* Rotation; 0: none. */
    int32_t rotary_dim, rotary_rows, rotary_interleaved;
    int32_t rotary_moves; /* 1: query i stands at i; 0: all at the first */
    const void *cos, *sin;
    const int32_t *positions;
    /* For each run and row: sums of the output's columns, and largest score and sum. */
    float *sums;
    float *stats;
    weft_decode_dealt *dealt; /* of each sequence; null: they are alike, or nothing is to be merged. A list has its own */
    /* Where runs are prepared; null: every CTA finds its own. */
    weft_decode_list_head *list_head;
    weft_decode_listed *list;
} weft_decode_params;

/* What is compiled: a row of variants.def. */
typedef struct weft_decode_variant {
    /* The entry points. The main one is for sequences of unlike lengths; there are others in its place where all are alike,
     * where runs are prepared, and for new keys and rotation. */
    const char *main, *alike, *listed, *append, *merge;
    const char *module;
    weft_dtype dtype;
    int32_t depth; /* head dims up to this one */
    int32_t rows;  /* of a tile: 8 or 16 */
    int32_t ctas;  /* that fit an SM */
    int32_t shared_bytes;
} weft_decode_variant;

/* Shared memory: blocks of K and V for each warp and stage; sums of each warp, rows apart by 4 more than it takes; largest
 * scores and sums. */
#define WEFT_DECODE_RING_BYTES(depth, stages) (WEFT_DECODE_WARPS * (stages)*2 * WEFT_DECODE_BLOCK * (depth)*2)
#define WEFT_DECODE_SUM_ROW(depth)            ((depth) + 4)
#define WEFT_DECODE_SHARED_BYTES(depth, rows, stages)                                                                      \
    (WEFT_DECODE_RING_BYTES(depth, stages) + WEFT_DECODE_WARPS * (rows) * (WEFT_DECODE_SUM_ROW(depth) + 2) * 4)

#define WEFT_DECODE_VARIANT(symbol, module, DTYPE, depth, rows, stages, ctas)                                              \
    {                                                                                                                      \
#symbol "_main", #symbol "_alike", #symbol "_listed", #symbol "_append", #symbol "_merge", #module, WEFT_##DTYPE,  \
            depth, rows, ctas, WEFT_DECODE_SHARED_BYTES(depth, rows, stages)                                               \
    }

#endif
