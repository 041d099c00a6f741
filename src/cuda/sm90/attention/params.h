/* SPDX-License-Identifier: Apache-2.0 */
/* The Hopper attention kernel's parameters and variants: plain C for the host, and CUDA for the kernel.
 *
 * One source, src/cuda/sm90/attention/kernel.cuh, computes attention forward with wgmma, fed by the copy engine.
 * variants.def lists what is compiled of it. Order, sweep, dispatch and workers are in the walk. */
#ifndef WEFT_CUDA_SM90_ATTENTION_PARAMS_H
#define WEFT_CUDA_SM90_ATTENTION_PARAMS_H

#include <weft/order/pages.h>
#include <weft/weft.h>

#include "cuda/driver/tensor_map.h"
#include "cuda/plan/counter_pool.h"
#include "order/deal.h"

/* Counters of a launch: tickets, looks of all workers (see weft_hopper_pace), and CTAs that are done. */
enum { WEFT_HOPPER_TICKETS, WEFT_HOPPER_LOOKS, WEFT_HOPPER_DONE, WEFT_HOPPER_COUNTERS };

/* Keeps workers in step, so that what one has read is still in the L2 when the others come to it: every so many steps a
 * worker looks how far all have come in the mean, and waits where it is too far ahead. */
typedef struct weft_hopper_pace {
    int32_t steps; /* from look to look; 0: workers go as they like */
    int32_t slack; /* looks that a worker may be ahead of the mean */
} weft_hopper_pace;

/* Sums of two lengths are numbers of 32 bits. */
enum { WEFT_HOPPER_MAX_LENGTH = 1 << 29 };

/* CTAs that share out the steps of a tile, at most: as many as every Hopper can have in a cluster. */
enum { WEFT_HOPPER_MAX_SPLIT = 8 };

/* What a variant was compiled for. Each can do what those before it can, but for the last two. */
typedef enum weft_hopper_form {
    WEFT_HOPPER_PLAIN,  /* tiles whose steps begin at key 0: no mask, causal; sinks */
    WEFT_HOPPER_MASKS,  /* bands over sequences: windows, chunks, prefixes, packed batches, lengths that vary */
    WEFT_HOPPER_SCORES, /* softcap, slopes */
    WEFT_HOPPER_PAIRS,  /* block masks, tree masks */
    WEFT_HOPPER_BIAS,   /* a dense bias; masks, but no scores and no pairs */
    WEFT_HOPPER_PAGES,  /* a KV cache; masks and scores, but no pairs and no bias */
    WEFT_HOPPER_FORMS
} weft_hopper_form;

/* softcap * tanh(scale * score / softcap) in base 2, of small scores: score * (first + third * score^2 + fifth * score^4).
 */
typedef struct weft_hopper_cap {
    float first, third, fifth;
    float most; /* the square of the largest score that this will do for */
} weft_hopper_cap;

/* Steps of a bias in shared memory at a time, at most. */
enum { WEFT_HOPPER_BIAS_PLACES = 4 };

/* A dense bias. An axis along which it is the same for all has length 1. */
typedef struct weft_hopper_bias {
    weft_tensor_map map; /* (kv_seq, seq, heads, batch), in boxes of 128 bytes, or a step's if they are fewer, x `rows` */
    uint64_t keep;       /* how long the L2 is to keep it: a WEFT_KEEP_… */
    int32_t type;        /* a weft_bias_type */
    int32_t rows;        /* 64, or 1: the same for all queries */
    int32_t by_head, by_batch; /* 1, or 0: the same for all heads, for all batches */
    float scale;               /* of scores, above 0 */
} weft_hopper_bias;

/* Passed by value.
 *
 * Launch: a one-dimensional grid of walk.order.count CTAs under grid dispatch, else of walk.workers; threads and dynamic
 * shared memory from the variant. A variant that splits: under grid dispatch only, each of those a cluster of CTAs, at most
 * WEFT_HOPPER_MAX_SPLIT, that share out the steps of its tile. */
typedef struct weft_hopper_attention_params {
    /* Tensors in boxes of 64 columns, swizzled. The rows of a tile are (query, head): `pack` heads that share a K and V,
     * side by side for each query. */
    weft_tensor_map q;     /* (head_dim, pack, seq, heads / pack, batch), in boxes of pack x tile_m / pack rows */
    weft_tensor_map o_map; /* as q, in boxes of pack x 64 / pack rows */
    weft_tensor_map k, v;  /* (head_dim, seq, heads, batch), in boxes of tile_n rows; pages: see weft_hopper_pages */
    void *o;
    float *lse;             /* (batch, heads, seq), or null */
    weft_strides o_strides; /* elements, multiples of 8 */
    int64_t heads;
    int32_t seq, kv_seq, head_dim; /* seq and kv_seq at most WEFT_HOPPER_MAX_LENGTH */
    int32_t offset;                /* query i sees keys 0 .. i + offset; kv_seq where there is no mask */
    float scale_log2;              /* scale * log2(e), above 0; of capped scores softcap * log2(e) */
    float cap;                     /* scale / softcap; 0: scores are not capped */
    weft_hopper_cap small;         /* capped scores that are small */
    const float *sinks;            /* (heads), or null */
    const float *alibi;            /* slopes, (heads) of each sequence, or null; then a tile has one head and sequence */
    int64_t alibi_stride;          /* from sequence to sequence */
    int32_t pack_bits;             /* pack is 2 to the power of this, at most 64 */
    weft_divisor by_kv_group;      /* heads / kv_heads / pack: rows of the grid of tiles that share a K and V */
    int32_t ping_pong;             /* 1: warpgroups start their products one after the other */
    int32_t rotates;               /* slopes, 1: a tile begins at its queries' positions, comes down to its least step, and
                                    * then from its last one to where it began; queries see all keys of their sequence */
    /* Dynamic dispatch: WEFT_HOPPER_COUNTERS, 0 before the launch and after, or where it finds them; else both null. */
    uint64_t *counter;
    weft_counter_pool *pool;
    uint64_t keep_o;       /* how long the L2 is to keep O: a WEFT_KEEP_… */
    weft_hopper_pace pace; /* dynamic dispatch only */
    /* The worker that the CTA on each SM stands for, under static dispatch; null: CTA i is worker i. */
    const uint32_t *worker_of_sm;
    /* Tiles of the variant's tile_m x tile_n, no clusters. Plain: a prefix, else a band, see weft_reach; with pairs, tiles
     * and steps do not cross blocks. */
    weft_walk walk;
    weft_hopper_bias bias; /* of variants that have one */
} weft_hopper_attention_params;

/* K or V in boxes of eight rows and of one, where not all rows of a page count. */
typedef struct weft_hopper_rows {
    weft_tensor_map eight, one;
} weft_hopper_rows;

/* A KV cache. The batches of K and V are its pages, if it has any. */
typedef struct weft_hopper_pages {
    weft_hopper_rows k, v;
    weft_pages all;       /* the table in device memory; its `page` may be 0 */
    int32_t rows, copies; /* of a page that are copied at a time, and such copies of a step: 1, 2, 4, ..., at most 32 */
    int32_t deep;   /* 1: all columns of a step are one copy, by a map (64, seq, head_dim / 64, heads, batch); 0: each 64 */
    int32_t page;   /* keys of a page: all.page */
    uint32_t count; /* pages that there are, numbers up to 2^31 - 1 where there is no list */
} weft_hopper_pages;

/* What variants with pages take in place of the parameters of all others, which a launch had better not be longer by. */
typedef struct weft_hopper_paged_params {
    weft_hopper_attention_params all;
    weft_hopper_pages pages;
} weft_hopper_paged_params;

/* What is compiled: a row of variants.def. */
typedef struct weft_hopper_attention_variant {
    const char *symbol; /* the entry point */
    const char *module; /* the image that holds it */
    weft_dtype dtype;
    int32_t depth;          /* head dims up to this one */
    int32_t tile_m, tile_n; /* queries of a tile, keys of a step */
    int32_t threads;        /* of a CTA */
    uint32_t shared_bytes;  /* dynamic */
    int32_t splits;         /* 1: the warpgroups, and perhaps CTAs of a cluster, share out the steps of a tile */
    int32_t form;           /* a weft_hopper_form */
    double rate;            /* TFLOP/s at most, by the card's power */
    double tile_ns;         /* what a tile takes beside its steps, all warpgroups having queries */
    double step_ns[4];      /* what a step takes with 1, 2, ... warpgroups at work */
} weft_hopper_attention_variant;

/* Bytes of `rows` rows of Q, K or V in shared memory: boxes of 64 columns, 128 bytes a row. */
#define WEFT_HOPPER_TILE_BYTES(depth, rows) (((depth) + 63) / 64 * (rows)*128)

/* Tiles whose queries are in shared memory at a time, beside `stages` blocks of K and of V: two where they fit the 227 KiB
 * of a CTA, of which barriers and jobs take the last one, so that the next tile begins under the end of this one. */
#define WEFT_HOPPER_Q_SLOTS(depth, tile_m, tile_n, stages)                                                                 \
    (2 * WEFT_HOPPER_TILE_BYTES(depth, tile_m) + 2 * (stages)*WEFT_HOPPER_TILE_BYTES(depth, tile_n) <= 225 * 1024 ? 2 : 1)

/* The same beside a bias, of which 256 keys, of 16 bits each, are to fit as well: a step of it takes long to come. */
#define WEFT_HOPPER_BIAS_Q_SLOTS(depth, tile_m, tile_n, stages)                                                            \
    (2 * WEFT_HOPPER_TILE_BYTES(depth, tile_m) + 2 * (stages)*WEFT_HOPPER_TILE_BYTES(depth, tile_n) + (tile_m)*256 * 2 <=  \
             222 * 1024                                                                                                    \
         ? 2                                                                                                               \
         : 1)

/* Bytes of a bias in shared memory: as many such steps as there is room for, up to WEFT_HOPPER_BIAS_PLACES. Barriers, jobs
 * and views take 2 KiB with one tile's queries, and up to 4 with two. */
#define WEFT_HOPPER_BIAS_ROOM(depth, tile_m, tile_n, stages)                                                               \
    ((WEFT_HOPPER_BIAS_Q_SLOTS(depth, tile_m, tile_n, stages) > 1 ? 222 * 1024 : 224 * 1024) -                             \
     WEFT_HOPPER_BIAS_Q_SLOTS(depth, tile_m, tile_n, stages) * WEFT_HOPPER_TILE_BYTES(depth, tile_m) -                     \
     2 * (stages)*WEFT_HOPPER_TILE_BYTES(depth, tile_n))
#define WEFT_HOPPER_BIAS_BYTES(depth, tile_m, tile_n, stages)                                                              \
    ((WEFT_HOPPER_BIAS_ROOM(depth, tile_m, tile_n, stages) / ((tile_m) * (tile_n)*2) < WEFT_HOPPER_BIAS_PLACES             \
          ? WEFT_HOPPER_BIAS_ROOM(depth, tile_m, tile_n, stages) / ((tile_m) * (tile_n)*2)                                 \
          : WEFT_HOPPER_BIAS_PLACES) *                                                                                     \
     (tile_m) * (tile_n)*2)

/* Dynamic shared memory: queries, `stages` blocks of K and of V, and what it takes to align them. */
#define WEFT_HOPPER_SHARED_BYTES(depth, tile_m, tile_n, stages)                                                            \
    (WEFT_HOPPER_Q_SLOTS(depth, tile_m, tile_n, stages) * WEFT_HOPPER_TILE_BYTES(depth, tile_m) +                          \
     2 * (stages)*WEFT_HOPPER_TILE_BYTES(depth, tile_n) + 1024)

/* The same with the bias, of a form that has one. */
#define WEFT_HOPPER_FORM_BYTES(depth, tile_m, tile_n, stages, form)                                                        \
    ((form) != WEFT_HOPPER_BIAS                                                                                            \
         ? WEFT_HOPPER_SHARED_BYTES(depth, tile_m, tile_n, stages)                                                         \
         : WEFT_HOPPER_BIAS_Q_SLOTS(depth, tile_m, tile_n, stages) * WEFT_HOPPER_TILE_BYTES(depth, tile_m) +               \
               2 * (stages)*WEFT_HOPPER_TILE_BYTES(depth, tile_n) +                                                        \
               WEFT_HOPPER_BIAS_BYTES(depth, tile_m, tile_n, stages) + 1024)

/* The initialiser of a variant from a row: #define WEFT_HOPPER_ATTENTION(...) WEFT_HOPPER_ATTENTION_VARIANT(__VA_ARGS__),
 */
#define WEFT_HOPPER_ATTENTION_VARIANT(symbol, module, DTYPE, depth, groups, keys, stages, splits, form, rate, tile,        \
                                      step_1, step_2, step_3, step_4)                                                      \
    {                                                                                                                      \
#symbol, #module, WEFT_##DTYPE, depth, 64 * ((splits) ? 1 : (groups)), keys, 128 * ((groups) + 1),                 \
            WEFT_HOPPER_FORM_BYTES(depth, 64 * ((splits) ? 1 : (groups)), keys, stages, form), splits, form, rate, tile, { \
            step_1, step_2, step_3, step_4                                                                                 \
        }                                                                                                                  \
    }

#endif
