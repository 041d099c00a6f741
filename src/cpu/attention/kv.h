/* K and V, packed. */
#ifndef WEFT_CPU_ATTENTION_KV_H
#define WEFT_CPU_ATTENTION_KV_H

#include "cpu/thread/walk.h"

/* K and V of all kv heads, packed block by block as left operands: K with keys as lines, V with dims as lines. */
typedef struct weft_cpu_kv {
    int64_t tile_n;          /* keys in a block */
    int64_t keys, dims;      /* tile_n and head_dim_v, padded to whole panels */
    int64_t depth;           /* head_dim, padded to the kernel's depth */
    int64_t blocks;          /* of a kv head */
    size_t k_panel, v_panel; /* bytes */
    size_t k_block, v_block; /* bytes */
    int64_t kv_heads;
    int hides; /* some query may not see a value, or drop it */
    char *k, *v;
    unsigned char *nonfinite; /* for each block, whether V has a non-finite value; meaningful where values may be hidden */
} weft_cpu_kv;

typedef struct weft_cpu_kv_block {
    const char *k, *v;
    int has_nonfinite;
} weft_cpu_kv_block;

/* Fills in the sizes. */
void weft_cpu_kv_lay_out(weft_cpu_kv *kv, const weft_cpu_kernel *kernel, const weft_attention *problem, int64_t tile_n);

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

/* Whether any of `bytes` of packed values is non-finite: an exponent of all ones. */
int weft_cpu_has_nonfinite(const weft_cpu_kernel *kernel, const void *packed, size_t bytes);

/* Those of a query's keys that are in the block of `keys` keys from `begin`, counted from there. */
static inline weft_rows weft_cpu_seen_of_block(weft_rows seen, int64_t begin, int64_t keys) {
    seen.begin = weft_larger(weft_smaller(seen.begin - begin, keys), 0);
    seen.end = weft_larger(weft_smaller(seen.end - begin, keys), 0);
    return seen;
}

#endif
