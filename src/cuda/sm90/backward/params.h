/* The Hopper backward: its parameters and variants, in plain C for the host and in CUDA for the kernels.
 *
 * A run is three launches, one after the other:
 *   begin    for each query the logarithm of its sum and its delta, dO times O; for each block of queries the turns of the
 *            tiles that add to it, by the timetable, and a zero where they are counted
 *   main     a CTA holds a tile of keys and sweeps the queries of all heads that share them: dK, dV, and sums of dQ in fp32
 *   end      sums of dQ become dQ
 * The general form also takes every band over sequences: windows, chunks, prefixes, padding, used lengths, packed batches;
 * and softcap, ALiBi slopes and sinks, whose gradient begins in the first launch and ends in the last. The full form takes
 * all that, and also a dense bias and dropout.
 * Rows that do not count may hold anything: they are not read, or are zeros before they meet others.
 *
 * Each block of queries has its adds in a fixed order, one tile of keys after the other, so that the bits are the same in
 * every run. */
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
    float *grad_bias; /* (batch, heads, seq, kv_seq), or null: zeros in the first launch, pairs that are seen in `main` */
} weft_hopper_backward_full;

/* Passed by value to all three. Launch `begin` and `end` with a CTA for each block of queries of each head, `main` as the
 * walk says: a CTA for each position under grid dispatch, else walk.workers, all of which run at once where tiles wait for
 * others that begin with them. */
typedef struct weft_hopper_backward_params {
    weft_tensor_map q, grad_o; /* (head_dim, seq, heads, batch), in boxes of 64 columns x a step's queries, swizzled */
    weft_tensor_map k, v;      /* the same with kv_seq and kv_heads, in boxes of a tile's keys */
    const void *o, *grad_o_data;
    const float *lse; /* (batch, heads, seq) */
    void *grad_q, *grad_k, *grad_v;
    weft_strides o_strides, q_strides, k_strides, v_strides; /* elements, multiples of 8 */
    /* Workspace. Queries are in whole blocks: `blocks` of each head. */
    float *sums;               /* of dQ: a block after the other, each as the threads of `main` hold it */
    float *log2_sums, *deltas; /* of each query; infinite and 0 where it sees no key or is not there. Full: no logarithms
                                  of base 2 but natural ones, as its scores are: no finite bias overflows them */
    uint32_t *adds;            /* of each block: adds so far */
    uint16_t *turns;           /* of each tile of each head: its turn at each block that it reaches */
    int32_t heads, blocks;
    int32_t group; /* heads of queries for each of keys */
    int32_t seq, kv_seq, head_dim;
    int32_t causal, offset;  /* plain: query i sees keys 0 .. i + offset where causal, else all */
    float scale, scale_log2; /* scale * log2(e) */
    uint64_t *counter;       /* dynamic dispatch, 0 before the launch */
    weft_walk walk;          /* tiles of keys, steps of queries: one slice; general: a band, see weft_reach. Its timetable
                                is for the adds to sums */
    weft_hopper_backward_scores scores;
    weft_hopper_backward_full full;
} weft_hopper_backward_params;

/* What a variant takes. */
typedef enum weft_hopper_backward_form {
    WEFT_HOPPER_BACKWARD_PLAIN = 0,
    WEFT_HOPPER_BACKWARD_GENERAL = 1,
    WEFT_HOPPER_BACKWARD_FULL = 2
} weft_hopper_backward_form;

/* What is compiled: a row of variants.def. */
typedef struct weft_hopper_backward_variant {
    const char *module;             /* the image */
    const char *begin, *main, *end; /* the entry points */
    weft_dtype dtype;
    int32_t depth;         /* head dims up to this one */
    int32_t queries;       /* of a step */
    int32_t form;          /* a weft_hopper_backward_form */
    uint32_t shared_bytes; /* dynamic, of `main` */
} weft_hopper_backward_variant;

/* Threads of `main` and of the others. */
enum { WEFT_HOPPER_BACKWARD_THREADS = 384, WEFT_HOPPER_BACKWARD_QUERY_THREADS = 256 };

/* Keys of a tile. */
enum { WEFT_HOPPER_BACKWARD_KEYS = 128 };

/* Blocks of queries whose Q and dO are in shared memory at a time. */
enum { WEFT_HOPPER_BACKWARD_STAGES = 2 };

/* Bytes of `main`'s shared memory: K and V; stages of Q and dO; two blocks of dS; two blocks of dQ; two numbers for each
 * query of a stage; and what the threads of a CTA tell each other. */
#define WEFT_HOPPER_BACKWARD_BYTES(depth, queries)                                                                         \
    (2 * WEFT_HOPPER_BACKWARD_KEYS * (depth)*2 + WEFT_HOPPER_BACKWARD_STAGES * 2 * (queries) * ((depth)*2 + 4) +           \
     2 * WEFT_HOPPER_BACKWARD_KEYS * (queries)*2 + 2 * (queries) * (depth)*4 + 1024)

#define WEFT_HOPPER_BACKWARD_VARIANT(symbol, module, DTYPE, depth, queries, form)                                          \
    {                                                                                                                      \
#module, #symbol "_begin", #symbol "_main", #symbol "_end", WEFT_##DTYPE, depth, queries, form,                    \
            WEFT_HOPPER_BACKWARD_BYTES(depth, queries)                                                                     \
    }

#endif
