/* What the CPU's backward pass packs, and how it is cut: keys in tiles, keys and queries in blocks. */
#ifndef WEFT_CPU_GRADIENTS_H
#define WEFT_CPU_GRADIENTS_H

#include "cpu/attention/attention.h"
#include "cpu/kernel/kernel.h"

/* A tensor of queries, (batch, seq, heads, head_dim), packed in both ways that the products take it: as right operand with
 * queries as columns, as left operand with dims as rows. One item is a block of queries of one head. */
typedef struct weft_cpu_packed_queries {
    char *right, *left;
    size_t right_block, left_block; /* bytes of an item */
    size_t right_panel, left_panel; /* bytes */
} weft_cpu_packed_queries;

typedef struct weft_cpu_gradients {
    const weft_attention *p;
    const weft_attention_gradients *data;
    const weft_cpu_kernel *kernel;
    int64_t dims, depth;          /* head_dim padded to whole rows of blocks, and to the kernel's depth */
    int64_t blocks;               /* of queries in a head */
    size_t query_items;           /* blocks of queries of all heads and batches */
    int64_t tile_n, tiles;        /* keys of a tile, and how many tiles the keys of a head are cut in */
    weft_cpu_packed_queries q, g; /* queries, and the gradient of the output */
    float *lse2, *delta;          /* (batch, heads, blocks, BLOCK): base 2; gradient of the output times output */
    float *sums;                  /* (tiles, batch, heads, blocks, dims, BLOCK): gradients of the queries, in panels */
    int has_nonfinite;            /* some input is non-finite */
} weft_cpu_gradients;

static inline size_t weft_cpu_gradients_item(const weft_cpu_gradients *w, int64_t batch, int64_t head, int64_t block) {
    return (size_t)((batch * w->p->heads + head) * w->blocks + block);
}

/* Fills everything but `sums`, over threads. */
weft_status weft_cpu_gradients_prepare(weft_cpu_gradients *w, weft_message *message);
void weft_cpu_gradients_free(weft_cpu_gradients *w);

#endif
