/* SPDX-License-Identifier: Apache-2.0 */
/* Problems and schedules filled with anything, from a fuzzer's input. */
#ifndef WEFT_TESTS_FUZZ_TAKE_H
#define WEFT_TESTS_FUZZ_TAKE_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <weft/weft.h>

/* Takes numbers from the input; half of them small, so that problems are often valid. */
typedef struct input {
    const uint8_t *data;
    size_t left;
} input;

static inline int64_t take(input *in) {
    if (in->left < 2) {
        return 1;
    }
    const uint8_t how = in->data[0];
    size_t bytes = how & 1 ? 1 : 1 + (size_t)(how >> 1) % 8;
    bytes = bytes > in->left - 1 ? in->left - 1 : bytes;
    uint64_t value = 0;
    memcpy(&value, in->data + 1, bytes);
    in->data += bytes + 1;
    in->left -= bytes + 1;
    return (int64_t)value;
}

/* Anything, at times; else the usual value. */
static inline int64_t take_or(input *in, int64_t usual) {
    return take(in) % 3 == 0 ? take(in) : usual;
}

static inline double take_real(input *in) {
    const int64_t bits = take(in);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline weft_strides take_strides(input *in) {
    weft_strides s = {0, 0, 0};
    if (take(in) % 4 == 0) {
        s.batch = take(in);
        s.seq = take(in);
        s.head = take(in);
    }
    return s;
}

static inline weft_schedule take_schedule(input *in) {
    weft_schedule s = WEFT_SCHEDULE_INIT;
    s.tile_m = take(in);
    s.tile_n = take(in);
    s.tile_k = take_or(in, 0);
    s.order = (int32_t)take(in) % 16 - 1;
    s.sweep = (int32_t)take(in) % (WEFT_SWEEPS + 2) - 1;
    s.dispatch = (int32_t)take(in) % 5 - 1;
    s.workers = take(in);
    s.group = take(in);
    s.axis = (weft_axis)(take(in) % 3);
    s.domains = take(in);
    s.cluster_m = take(in) % 20;
    s.cluster_n = take(in) % 20;
    if (take(in) % 64 == 1) { /* shorter, or that of no struct; one that is longer would have to be there */
        const size_t size = (size_t)take(in);
        s.struct_size = size < sizeof s || size > 4096 ? size : sizeof s;
    }
    return s;
}

/* Sequences of a packed batch, at times, whose starts may be wrong; they stay until the next call. */
static inline void take_lengths(input *in, weft_attention *p) {
    enum { MOST = 7 };
    static int32_t q_starts[MOST + 1], kv_starts[MOST + 1], used[MOST];
    const int64_t kind = take(in);
    if (kind % 4 != 0) {
        p->sequences = take_or(in, 0);
        p->sequences = p->extras & WEFT_STARTS ? p->sequences : p->sequences % 2;
        return;
    }
    p->sequences = (int64_t)((uint64_t)take(in) % MOST) + 1;
    q_starts[0] = kv_starts[0] = 0;
    for (int64_t i = 0; i < p->sequences; i++) {
        q_starts[i + 1] = (int32_t)((uint32_t)q_starts[i] + (uint32_t)take(in));
        kv_starts[i + 1] = (int32_t)((uint32_t)kv_starts[i] + (uint32_t)take(in));
        used[i] = (int32_t)take(in);
    }
    p->batch = 1;
    p->lengths.q_starts = q_starts;
    p->lengths.kv_starts = kind & 4 ? kv_starts : NULL;
    p->lengths.q_used = kind & 8 ? used : NULL;
    p->lengths.kv_used = kind & 16 ? used : NULL;
    p->lengths.kv_pad = kind & 32 ? used : NULL;
    if (take(in) % 2) { /* tensors that hold them */
        p->seq = q_starts[p->sequences];
        p->kv_seq = p->lengths.kv_starts ? kv_starts[p->sequences] : p->seq;
    }
}

/* A block mask and a tree mask, which may be wrong; they stay until the next call. */
static inline void take_pairs(input *in, weft_attention *p) {
    enum { MOST = 1024 };
    static int32_t starts[MOST + 1], list[MOST], bits_at[MOST];
    static uint32_t bits[MOST];
    static uint64_t tree[MOST];
    p->block_rows = take_or(in, 16);
    p->block_columns = take_or(in, 32);
    p->block_batch_stride = take_or(in, 0);
    p->block_head_stride = take_or(in, 0);
    p->block_entries = take_or(in, 4);
    p->block_bitmaps = take_or(in, 1);
    for (int64_t i = 0; i < 8; i++) {
        starts[i + 1] = (int32_t)take_or(in, i);
        list[i] = (int32_t)take_or(in, i % 2);
        bits_at[i] = (int32_t)take_or(in, -1);
        tree[i] = (uint64_t)take(in);
    }
    /* Arrays are as long as the sizes say, or else the fuzzer, not the library, is wrong. */
    const int small = p->block_rows == 16 && p->block_columns == 32 && p->seq > 0 && p->seq <= 1600 && p->batch > 0 &&
                      p->batch <= 4 && p->heads > 0 && p->heads <= 4 && p->block_batch_stride >= 0 &&
                      p->block_batch_stride <= 100 && p->block_head_stride >= 0 && p->block_head_stride <= 100 &&
                      p->block_entries <= MOST && p->block_bitmaps <= MOST / 16;
    const weft_pairs given = {starts, list, bits_at, bits,
                              small && p->seq * p->batch <= MOST && take(in) % 2 ? tree : NULL};
    const weft_pairs none = {0, 0, 0, 0, 0};
    p->pairs = small ? given : none;
}

/* A KV cache whose sizes may be wrong. */
static inline void take_cache(input *in, weft_attention *p) {
    p->cache.page = take_or(in, p->kv_seq);
    p->cache.pages = take_or(in, 0);
    p->cache.table_stride = take_or(in, 0);
    p->cache.append = take_or(in, 1);
    p->cache.k_new_strides = take_strides(in);
    p->cache.v_new_strides = take_strides(in);
    p->cache.rotary_dim = take_or(in, 0);
    p->cache.rotary_rows = take_or(in, 16);
    p->cache.rotary_interleaved = (int32_t)take_or(in, 0);
    p->cache.dtype = (int32_t)take_or(in, 0);
    p->cache.new_starts = p->sequences > 0 && p->sequences <= 7 && take(in) % 2 ? p->lengths.q_starts : NULL;
}

static inline weft_attention take_attention(input *in) {
    weft_attention p = WEFT_ATTENTION_INIT;
    p.batch = take(in);
    p.heads = take(in);
    p.kv_heads = take(in);
    p.seq = take(in);
    p.kv_seq = take(in);
    p.head_dim = take(in) % 2 ? 64 : take(in);
    p.dtype = (weft_dtype)(take(in) % 4);
    p.mask = (weft_mask)(take(in) % 6);
    p.offset = take(in);
    p.layout = (weft_layout)(take(in) % 3);
    p.scale = take_real(in);
    p.q_strides = take_strides(in);
    p.k_strides = take_strides(in);
    p.v_strides = take_strides(in);
    p.o_strides = take_strides(in);
    p.left = take(in);
    p.right = take(in);
    p.chunk = take_or(in, 0);
    p.prefix = take_or(in, 0);
    p.head_dim_v = take_or(in, 0);
    p.softcap = take(in) % 3 == 0 ? take_real(in) : 0;
    p.dropout = take(in) % 3 == 0 ? take_real(in) : 0;
    p.extras = (int32_t)take_or(in, 0);
    p.bias_type = (int32_t)(take(in) % 4);
    p.bias_strides = take_strides(in);
    p.bias_key_stride = take_or(in, 0);
    p.alibi_stride = take_or(in, 0);
    take_lengths(in, &p);
    if (take(in) % 3 == 0) {
        take_pairs(in, &p);
    }
    if (take(in) % 3 == 2) {
        take_cache(in, &p);
    }
    p.qv_strides = take_strides(in);
    p.q_most = take_or(in, 0);
    p.o_dtype = (int32_t)take_or(in, 0);
    return p;
}

static inline weft_gemm take_gemm(input *in) {
    weft_gemm p = WEFT_GEMM_INIT;
    p.m = take(in);
    p.n = take(in);
    p.k = take(in);
    p.dtype = (weft_dtype)(take(in) % 4);
    p.a_major = (weft_major)(take(in) % 3);
    p.lda = take_or(in, 0);
    p.ldc = take_or(in, 0);
    p.c_dtype = (weft_dtype)take_or(in, p.dtype);
    p.b_major = (weft_major)take_or(in, WEFT_COL_MAJOR);
    p.c_major = (weft_major)take_or(in, WEFT_ROW_MAJOR);
    p.ldb = take_or(in, 0);
    p.batch = take_or(in, 1);
    p.a_stride = take_or(in, 0);
    p.b_stride = take_or(in, 0);
    p.c_stride = take_or(in, 0);
    p.alpha = take(in) % 3 == 0 ? take_real(in) : 1;
    p.beta = take(in) % 3 == 0 ? take_real(in) : 0;
    p.extras = (int32_t)take_or(in, 0);
    p.activation = (int32_t)take_or(in, 0);
    p.gated = (int32_t)take_or(in, 0);
    p.bias_dtype = (weft_dtype)take_or(in, WEFT_FP32);
    p.ld_residual = take_or(in, 0);
    p.residual_stride = take_or(in, 0);
    p.precision = (int32_t)take_or(in, 0);
    return p;
}

static inline weft_combine take_combine(input *in) {
    weft_combine p = WEFT_COMBINE_INIT;
    p.parts = take(in) % (WEFT_MOST_PARTS + 2);
    p.batch = take_or(in, 1);
    p.heads = take_or(in, 3);
    p.seq = take(in);
    p.head_dim = take(in);
    p.dtype = (weft_dtype)(take(in) % 4);
    p.o_dtype = (weft_dtype)take_or(in, p.dtype);
    p.layout = (weft_layout)take_or(in, WEFT_BSHD);
    p.part_strides = take_strides(in);
    p.o_strides = take_strides(in);
    p.into = (int32_t)take_or(in, 0);
    p.sum = (int32_t)take_or(in, 0);
    p.lse_stride = take_or(in, 0);
    return p;
}

/* A plan comes with WEFT_OK, and only then; a message has its end. */
static inline void expect(weft_status status, const weft_message *message, const weft_plan *plan) {
    if ((status == WEFT_OK) != (plan != NULL) ||
        (status != WEFT_OK && !memchr(message->text, '\0', sizeof message->text))) {
        abort();
    }
}

#endif
