/* SPDX-License-Identifier: Apache-2.0 */
/* K and V, packed. */
#ifndef WEFT_CPU_ATTENTION_KV_H
#define WEFT_CPU_ATTENTION_KV_H

#include "cpu/thread/walk.h"

/* Keys in pages: what the queries of a sequence see, and the blocks that it takes. Blocks have the numbers of steps. */
typedef struct weft_cpu_kv_line {
    weft_rows keys;        /* columns */
    int64_t first, blocks; /* its first block, and how many */
    int64_t before;        /* blocks of the sequences before it */
} weft_cpu_kv_line;

/* K and V of all kv heads, packed block by block as left operands: K with keys as lines, V with dims as lines. */
typedef struct weft_cpu_kv {
    int64_t tile_n;          /* keys in a block */
    int64_t keys, dims;      /* tile_n and head_dim_v, padded to whole panels */
    int64_t depth;           /* head_dim, padded to the kernel's depth; for qv, head_dim_v, padded likewise, behind it */
    int64_t blocks;          /* of a kv head */
    size_t k_panel, v_panel; /* bytes */
    size_t k_block, v_block; /* bytes */
    int64_t kv_heads;
    int hides; /* some query may not see a value, or drop it */
    char *k, *v;
    weft_pages pages;
    weft_cpu_kv_line *lines;  /* pages: (sequences), for weft_cpu_kv_at(); null: every batch has all blocks */
    int64_t sequences;        /* of lines */
    unsigned char *nonfinite; /* for each block, whether V has a non-finite value; meaningful where values may be hidden */
} weft_cpu_kv;

typedef struct weft_cpu_kv_block {
    const char *k, *v;
    int has_nonfinite;
} weft_cpu_kv_block;

/* Fills in the sizes. */
void weft_cpu_kv_lay_out(weft_cpu_kv *kv, const weft_cpu_kernel *kernel, const weft_attention *problem, int64_t tile_n);

/* Where keys lie in pages: finds what each sequence takes, so that memory and packing are for that alone. */
weft_status weft_cpu_kv_find_lines(weft_cpu_kv *kv, const weft_attention *problem, weft_message *message);

/* Memory for all of K and V. On failure nothing is held; weft_cpu_kv_free() may be called all the same. */
weft_status weft_cpu_kv_alloc(weft_cpu_kv *kv, const weft_attention *problem, weft_message *message);

/* Packing all of K and V as items for threads; `packing` is kept until they are done. */
typedef struct weft_cpu_kv_packing {
    weft_cpu_kv *kv;
    const weft_cpu_kernel *kernel;
    const weft_attention *problem;
    const void *k, *v;
} weft_cpu_kv_packing;
weft_cpu_stage weft_cpu_kv_stage(weft_cpu_kv_packing *packing);

/* A block of a batch or, with lines, of a sequence. */
weft_cpu_kv_block weft_cpu_kv_at(const weft_cpu_kv *kv, int64_t batch, int64_t kv_head, int64_t block);
void weft_cpu_kv_free(weft_cpu_kv *kv);

/* The same for one kv head in a thread's own memory of weft_cpu_kv_held_bytes(), packed unless it is there since the last
 * call; weft_cpu_kv_at() finds it as the only one. */
size_t weft_cpu_kv_held_bytes(const weft_cpu_kv *kv);
weft_cpu_kv weft_cpu_kv_hold(const weft_cpu_kv_packing *packing, int64_t batch, int64_t kv_head, char *scratch);

/* Packs one block, of `keys` keys from `begin`, into memory of the caller: k_block and v_block bytes. */
weft_cpu_kv_block weft_cpu_kv_pack_block(const weft_cpu_kv *kv, const weft_cpu_kernel *kernel,
                                         const weft_attention *problem, const void *k, const void *v, int64_t batch,
                                         int64_t kv_head, int64_t begin, int64_t keys, char *k_to, char *v_to);

/* Rows of K or V that lie `step` bytes apart. */
typedef struct weft_cpu_run {
    const char *at;
    int64_t step, rows;
} weft_cpu_run;

/* The first rows of columns begin .. end - 1 of a batch that lie so; none where a page is missing. */
weft_cpu_run weft_cpu_kv_run(const weft_cpu_kv *kv, weft_dtype dtype, const void *data, const weft_strides *strides,
                             int64_t batch, int64_t kv_head, int64_t begin, int64_t end);

/* Whether any of `bytes` of packed values is non-finite: an exponent of all ones. */
int weft_cpu_has_nonfinite(const weft_cpu_kernel *kernel, const void *packed, size_t bytes);

/* Those of a query's keys that are in the block of `keys` keys from `begin`, counted from there. */
static inline weft_rows weft_cpu_seen_of_block(weft_rows seen, int64_t begin, int64_t keys) {
    seen.begin = weft_larger(weft_smaller(seen.begin - begin, keys), 0);
    seen.end = weft_larger(weft_smaller(seen.end - begin, keys), 0);
    return seen;
}

#endif
