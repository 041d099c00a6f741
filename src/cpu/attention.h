/* What the CPU's attention kernels share: packed K and V, and the job of a forward pass. */
#ifndef WEFT_CPU_ATTENTION_H
#define WEFT_CPU_ATTENTION_H

#include "cpu/cpu.h"

/* K and V of all kv heads, packed block by block as left operands: K with keys as lines, V with dims as lines. */
typedef struct weft_cpu_kv {
    int64_t tile;            /* keys in a block */
    int64_t keys, dims;      /* tile and head_dim, padded to whole panels */
    int64_t depth;           /* head_dim, padded to the kernel's depth */
    int64_t blocks;          /* of a kv head */
    size_t k_panel, v_panel; /* bytes */
    size_t k_block, v_block; /* bytes */
    int64_t kv_heads;
    char *k, *v;
    unsigned char *odd; /* for each block, whether V has a value that is infinite or NaN; null without a mask */
} weft_cpu_kv;

typedef struct weft_cpu_kv_block {
    const char *k, *v;
    int is_odd;
} weft_cpu_kv_block;

/* Packs K and V over threads. On failure nothing is held; weft_cpu_kv_free() may be called all the same. */
weft_status weft_cpu_kv_pack(weft_cpu_kv *kv, const weft_cpu_kernel *kernel, const weft_attention *problem, const void *k,
                             const void *v, int64_t tile, weft_message *message);
weft_cpu_kv_block weft_cpu_kv_at(const weft_cpu_kv *kv, int64_t batch, int64_t kv_head, int64_t block);
void weft_cpu_kv_free(weft_cpu_kv *kv);

typedef struct weft_cpu_attention_job {
    const weft_plan *plan;
    const weft_attention_data *data;
    const weft_cpu_kernel *kernel;
    weft_cpu_kv kv;
    size_t q_panel; /* bytes */
    float factor;   /* scale times log2(e), made positive: a negative scale turns the queries around */
} weft_cpu_attention_job;

/* Turns the sign of every value in `bytes` of packed operand. */
void weft_cpu_negate(const weft_cpu_kernel *kernel, void *packed, size_t bytes);

/* The natural logarithm of sum times 2^max; -inf where no key was seen. */
float weft_cpu_lse(float max, float sum);

#endif
