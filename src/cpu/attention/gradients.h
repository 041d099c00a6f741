/* SPDX-License-Identifier: Apache-2.0 */
/* What the CPU's backward pass packs, and how it is cut: keys in tiles, keys and queries in blocks. */
#ifndef WEFT_CPU_GRADIENTS_H
#define WEFT_CPU_GRADIENTS_H

#include "cpu/attention/attention.h"
#include "cpu/attention/scores.h"

/* A tensor of queries, (batch, seq, heads, dim), packed in both ways that the products take it: as right operand with
 * queries as columns, as left operand with dims as rows. One item is a block of queries of one head. */
typedef struct weft_cpu_packed_queries {
    char *right, *left;
    int64_t dim, dims, depth;       /* and padded to whole rows of blocks, and to the kernel's depth */
    size_t right_block, left_block; /* bytes of an item */
    size_t right_panel, left_panel; /* bytes */
} weft_cpu_packed_queries;

typedef struct weft_cpu_gradients {
    const weft_attention *p;
    const weft_attention_gradients *data;
    const weft_cpu_kernel *kernel;
    const weft_walk *walk;
    weft_cpu_scores scores;
    weft_reach cuts;              /* how queries are cut into blocks, each of one sequence */
    int64_t blocks;               /* of queries in a head */
    size_t query_items;           /* blocks of queries of all heads and batches */
    int64_t tile_n, tiles;        /* keys of a tile, and how many tiles the keys of a sequence are cut in, at most */
    weft_cpu_packed_queries q, g; /* queries, and the gradient of the output */
    float *lse2, *delta;          /* (batch, heads, blocks, BLOCK): base 2; gradient of the output times output */
    float *sums;                  /* (tiles, batch, heads, blocks, q.dims, BLOCK): gradients of the queries, in panels */
    double *sinks;                /* (batch, heads, blocks): gradients of the sinks; null without */
    float *grad_bias;             /* the caller's, or null: it is not asked for */
    int has_nonfinite;            /* some input is non-finite */
} weft_cpu_gradients;

static inline size_t weft_cpu_gradients_item(const weft_cpu_gradients *w, int64_t batch, int64_t head, int64_t block) {
    return (size_t)((batch * w->p->heads + head) * w->blocks + block);
}

/* The queries of an item that count; those from rows.end to the end of its block see nothing. */
static inline weft_cpu_queries weft_cpu_gradients_queries(const weft_cpu_gradients *w, int64_t batch, int64_t head,
                                                          int64_t block) {
    const weft_cut cut = weft_reach_cut(&w->cuts, batch, block, 1);
    weft_cpu_queries q = weft_cpu_queries_of(&w->scores, batch, head, cut.rows, cut.sequence);
    q.rows.end = weft_larger(weft_smaller(q.rows.end, q.sequence.used_end), q.rows.begin);
    return q;
}

/* The first block of a sequence, or the first tile of its keys. */
static inline int64_t weft_cpu_gradients_first(const weft_reach *cuts, int64_t sequence) {
    const int32_t *starts = weft_reach_starts(cuts);
    return starts ? weft_divide(starts[sequence], &cuts->by_tile_rows) + sequence : 0;
}

/* Fills everything but `sums`, over threads. */
weft_status weft_cpu_gradients_prepare(weft_cpu_gradients *w, weft_message *message);

/* Packs a block of keys and values: K and V with keys as rows, K with dims as rows. Returns whether any is non-finite. */
int weft_cpu_gradients_pack_keys(const weft_cpu_gradients *w, int64_t batch, int64_t kv_head, int64_t begin, int64_t keys,
                                 char *k_rows, char *v_rows, char *k_dims);

/* Adds up `sums` and `sinks`, over threads. */
weft_status weft_cpu_gradients_store_queries(weft_cpu_gradients *w, weft_message *message);
void weft_cpu_gradients_free(weft_cpu_gradients *w);

#endif
