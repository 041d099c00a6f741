/* K and V, packed once for all queries and all heads that share them. */
#include "cpu/attention/kv.h"

#include <stdlib.h>

#include "base/status.h"
#include "cpu/memory.h"
#include "problem/problem.h"

int weft_cpu_has_nonfinite(const weft_cpu_kernel *kernel, const void *packed, size_t bytes) {
    const uint32_t *words = packed; /* one fp32, or two halves: operands come in whole words */
    const uint32_t half = kernel->dtype == WEFT_FP16 ? 0x7c00u : 0x7f80u; /* an exponent of ones */
    const uint32_t upper = kernel->dtype == WEFT_FP32 ? 0x7f800000u : half << 16;
    uint32_t found = 0;
    for (size_t i = 0; i < bytes / sizeof *words; i++) {
        const uint32_t low = kernel->dtype == WEFT_FP32 ? 0 : words[i] & half;
        found |= (uint32_t)((words[i] & upper) == upper) | (uint32_t)(low == half);
    }
    return found != 0;
}

static void pack_keys(const weft_cpu_kv *kv, const weft_cpu_kernel *kernel, const weft_attention *p, const void *k,
                      int64_t batch, int64_t kv_head, int64_t begin, int64_t keys, char *to) {
    const int64_t lines = kernel->a.lines;
    for (int64_t key = 0; key < keys; key += lines, to += kv->k_panel) {
        const weft_cpu_source source = {p->dtype,         k, weft_row_index(&p->k_strides, batch, begin + key, kv_head),
                                        p->k_strides.seq, 1, weft_cpu_min(lines, keys - key),
                                        p->head_dim};
        kernel->pack_a(&source, to);
    }
}

/* Where values may be hidden, returns whether one is non-finite. */
static int pack_values(const weft_cpu_kv *kv, const weft_cpu_kernel *kernel, const weft_attention *p, const void *v,
                       int64_t batch, int64_t kv_head, int64_t begin, int64_t keys, char *to) {
    const int64_t lines = kernel->a.lines;
    int has_nonfinite = 0;
    for (int64_t d = 0; d < p->head_dim_v; d += lines, to += kv->v_panel) {
        const weft_cpu_source source = {p->dtype,
                                        v,
                                        weft_row_index(&p->v_strides, batch, begin, kv_head) + (size_t)d,
                                        1,
                                        p->v_strides.seq,
                                        weft_cpu_min(lines, p->head_dim_v - d),
                                        keys};
        kernel->pack_a(&source, to);
        if (kv->hides) {
            has_nonfinite |= weft_cpu_has_nonfinite(kernel, to, weft_cpu_panel_bytes(kernel, kernel->a, keys));
        }
    }
    return has_nonfinite;
}

weft_cpu_kv_block weft_cpu_kv_pack_block(const weft_cpu_kv *kv, const weft_cpu_kernel *kernel, const weft_attention *p,
                                         const void *k, const void *v, int64_t batch, int64_t kv_head, int64_t begin,
                                         int64_t keys, char *k_to, char *v_to) {
    pack_keys(kv, kernel, p, k, batch, kv_head, begin, keys, k_to);
    return (weft_cpu_kv_block){k_to, v_to, pack_values(kv, kernel, p, v, batch, kv_head, begin, keys, v_to)};
}

/* Whether a query of a kv head's can see one of `keys` keys from `begin`: others need not be packed. */
static int counts(const weft_attention *p, int64_t batch, int64_t kv_head, int64_t begin, int64_t keys) {
    const weft_sequences all = weft_attention_sequences(p);
    const weft_blocks blocks = weft_attention_blocks(p);
    const weft_rows queries = {0, p->seq}, here = {begin, begin + keys};
    const int64_t group = p->heads / p->kv_heads, heads = blocks.head_stride > 0 ? group : 1; /* that differ */
    int named = !blocks.pairs.block_starts;
    for (int64_t head = kv_head * group; head < kv_head * group + heads && !named; head++) {
        named = weft_blocks_name(&blocks, batch, head, queries, here);
    }
    if (!named) {
        return 0;
    }
    if (p->lengths.q_starts) {
        return begin < weft_attention_keys(p);
    }
    const weft_sequence s = weft_sequence_at(&all, batch);
    return begin < s.columns.end && begin + keys > s.columns.begin;
}

enum { HELD_HEADER = 64 }; /* which head is held, counted from 1 */

size_t weft_cpu_kv_held_bytes(const weft_cpu_kv *kv) {
    return HELD_HEADER + ((size_t)kv->blocks * (kv->k_block + kv->v_block + 1) + 63) / 64 * 64;
}

weft_cpu_kv weft_cpu_kv_hold(const weft_cpu_kv_packing *packing, int64_t batch, int64_t kv_head, char *scratch) {
    weft_cpu_kv kv = *packing->kv;
    int64_t *held = (int64_t *)(void *)scratch;
    const int64_t head = batch * kv.kv_heads + kv_head + 1;
    kv.kv_heads = 1;
    kv.k = scratch + HELD_HEADER;
    kv.v = kv.k + (size_t)kv.blocks * kv.k_block;
    kv.nonfinite = (unsigned char *)kv.v + (size_t)kv.blocks * kv.v_block;
    for (int64_t i = 0; *held != head && i < kv.blocks; i++) {
        const int64_t begin = i * kv.tile_n, keys = weft_cpu_min(packing->problem->kv_seq - begin, kv.tile_n);
        if (!counts(packing->problem, batch, kv_head, begin, keys)) {
            continue;
        }
        kv.nonfinite[i] = (unsigned char)weft_cpu_kv_pack_block(
                              &kv, packing->kernel, packing->problem, packing->k, packing->v, batch, kv_head, begin, keys,
                              kv.k + (size_t)i * kv.k_block, kv.v + (size_t)i * kv.v_block)
                              .has_nonfinite;
    }
    *held = head;
    return kv;
}

/* The keys of a block, or its values: more items balance better. */
static void pack_item(void *context, void *scratch, int64_t item) {
    const weft_cpu_kv_packing *pack = context;
    const weft_attention *p = pack->problem;
    weft_cpu_kv *kv = pack->kv;
    const int64_t block = item / 2, head = block / kv->blocks % kv->kv_heads, batch = block / kv->blocks / kv->kv_heads;
    const int64_t begin = block % kv->blocks * kv->tile_n, keys = weft_cpu_min(p->kv_seq - begin, kv->tile_n);
    (void)scratch;
    if (!counts(p, batch, head, begin, keys)) {
        return;
    }
    if (item % 2 == 0) {
        pack_keys(kv, pack->kernel, p, pack->k, batch, head, begin, keys, kv->k + (size_t)block * kv->k_block);
    } else {
        kv->nonfinite[block] = (unsigned char)pack_values(kv, pack->kernel, p, pack->v, batch, head, begin, keys,
                                                          kv->v + (size_t)block * kv->v_block);
    }
}

void weft_cpu_kv_lay_out(weft_cpu_kv *kv, const weft_cpu_kernel *kernel, const weft_attention *problem, int64_t tile_n) {
    const int64_t lines = kernel->a.lines;
    *kv = (weft_cpu_kv){.tile_n = tile_n, .kv_heads = problem->kv_heads};
    kv->keys = weft_cpu_pad(tile_n, lines);
    kv->hides = problem->mask != WEFT_MASK_NONE || weft_attention_has_band(problem) || problem->dropout > 0;
    kv->dims = weft_cpu_pad(problem->head_dim_v, lines);
    kv->depth = weft_cpu_pad(problem->head_dim, kernel->depth);
    kv->blocks = (problem->kv_seq + tile_n - 1) / tile_n;
    kv->k_panel = weft_cpu_panel_bytes(kernel, kernel->a, problem->head_dim);
    kv->v_panel = weft_cpu_panel_bytes(kernel, kernel->a, tile_n);
    kv->k_block = kv->k_panel * (size_t)(kv->keys / lines);
    kv->v_block = kv->v_panel * (size_t)(kv->dims / lines);
}

weft_status weft_cpu_kv_alloc(weft_cpu_kv *kv, const weft_attention *problem, weft_message *message) {
    const double items = (double)problem->batch * (double)problem->kv_heads * (double)kv->blocks;
    const double bytes = items * ((double)kv->k_block + (double)kv->v_block);
    const size_t count = bytes < 0x1p62 ? (size_t)(problem->batch * problem->kv_heads * kv->blocks) : 0;
    kv->k = count ? weft_cpu_alloc(count * kv->k_block) : NULL;
    kv->v = kv->k ? weft_cpu_alloc(count * kv->v_block) : NULL;
    kv->nonfinite = kv->v ? malloc(count) : NULL;
    if (!kv->nonfinite) {
        weft_cpu_kv_free(kv);
        return weft_fail(message, WEFT_NO_MEMORY, "no memory for %.0f bytes of packed keys and values", bytes);
    }
    return WEFT_OK;
}

weft_cpu_stage weft_cpu_kv_stage(weft_cpu_kv_packing *packing) {
    return (weft_cpu_stage){2 * packing->problem->batch * packing->kv->kv_heads * packing->kv->blocks, pack_item, packing};
}

weft_cpu_kv_block weft_cpu_kv_at(const weft_cpu_kv *kv, int64_t batch, int64_t kv_head, int64_t block) {
    const size_t item = (size_t)((batch * kv->kv_heads + kv_head) * kv->blocks + block);
    return (weft_cpu_kv_block){kv->k + item * kv->k_block, kv->v + item * kv->v_block, kv->nonfinite[item]};
}

void weft_cpu_kv_free(weft_cpu_kv *kv) {
    weft_cpu_free(kv->k);
    weft_cpu_free(kv->v);
    free(kv->nonfinite);
    kv->k = kv->v = NULL;
    kv->nonfinite = NULL;
}
