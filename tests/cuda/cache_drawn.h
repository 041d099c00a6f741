/* SPDX-License-Identifier: Apache-2.0 */
/* Attentions over a KV cache on a GPU: drawn problems and their data.
 *
 * What nobody may read is NaN: pages that no list names, rows behind a sequence's last key, gaps between rows. */
#ifndef WEFT_TESTS_CUDA_CACHE_DRAWN_H
#define WEFT_TESTS_CUDA_CACHE_DRAWN_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../features.h"
#include "../plans.h"
#include "../random.h"
#include "cuda/plan/backend.h"
#include "problem/attention.h"
#include "ref/ref.h"
#include "trial_checks.h"

static int runs;
static int few;      /* 1: problems are of the kind that the decode kernel takes, if it has what else they ask for */
static int wide;     /* 1: likewise, the Hopper kernel */
static int latent;   /* 1: likewise, the kernel for multi-head latent attention: all have qv */
static int left_out; /* those that it has not */
static double worst; /* error to what is allowed */

/* Memory here and on the GPU. */
typedef struct buffer {
    size_t bytes;
    void *host;
    uint64_t device;
} buffer;

enum { Q, QV, K, V, O, LSE, MAX, SINKS, ALIBI, BIAS, TABLE, K_NEW, V_NEW, NEW_STARTS, COS, SIN, POSITIONS, BUFFERS };

typedef struct cache_trial {
    weft_attention asked; /* as a plan is asked for: lengths may come with the data */
    weft_attention p;     /* resolved, with all its lengths here */
    drawn_lengths lengths;
    weft_sequences sequences; /* here, with new_starts */
    weft_pages pages;         /* likewise */
    buffer b[BUFFERS];
    uint64_t there[5], pairs[WEFT_PAIR_ARRAYS]; /* lengths and masks, on the GPU */
    int64_t bad;                                /* entries of the lists that are no pages */
} cache_trial;

static inline double random_normal(uint64_t *random) {
    const double u = 1 - weft_random_real(random), angle = 6.283185307179586 * weft_random_real(random);
    return sqrt(-2 * log(u)) * cos(angle);
}

static inline int64_t count_sequences(const weft_attention *p) {
    return p->sequences > 0 ? p->sequences : p->batch;
}

/* Room for some bytes, all of them 0xff: NaN in every dtype. */
static inline void *buffer_new(cache_trial *x, int which, size_t bytes) {
    buffer *b = &x->b[which];
    b->bytes = bytes;
    b->host = malloc(bytes + 1);
    DEMAND(!b->host);
    memset(b->host, 0xff, bytes);
    DEMAND(bytes > 0 ? driver->memory_new(&b->device, bytes) : 0);
    return b->host;
}

static inline void buffer_send(const buffer *b) {
    DEMAND(b->bytes > 0 ? driver->copy_in(b->device, b->host, b->bytes) : 0);
}

static inline const void *buffer_there(const cache_trial *x, int which) {
    return (const void *)(uintptr_t)x->b[which].device;
}

static inline void fill_row(uint64_t *random, const weft_attention *p, void *data, const weft_strides *s, int64_t batch,
                            int64_t row, int64_t heads, int64_t dim) {
    for (int64_t head = 0; head < heads; head++) {
        for (int64_t d = 0; d < dim; d++) {
            weft_ref_store(p->dtype, data, weft_row_index(s, batch, row, head) + (size_t)d, random_normal(random));
        }
    }
}

/* ---- problems ---- */

/* Strides in either layout with gaps of multiples of `unit` elements. */
static inline weft_strides draw_strides(uint64_t *random, int64_t seq, int64_t heads, int64_t dim, int64_t unit) {
    const int64_t row = dim + unit * random_between(random, 0, 2), gap = unit * random_between(random, 0, 2);
    if (random_between(random, 0, 1)) {
        return (weft_strides){.batch = seq * (heads * row + gap), .seq = heads * row + gap, .head = row};
    }
    return (weft_strides){.batch = heads * (seq * row + gap), .seq = row, .head = seq * row + gap};
}

/* Lengths: kv_used, and at times q_used and padding; in a packed batch where queries begin. */
static inline void draw_cache_lengths(uint64_t *random, weft_attention *p, drawn_lengths *to) {
    const int64_t count = count_sequences(p), kinds = random_between(random, 0, 7);
    if (p->sequences > 0) {
        draw_starts(random, p->sequences, p->seq, to->q_starts);
        place_lengths(random, p, WEFT_STARTS, &p->lengths.q_starts, &to->all.q_starts, to->q_starts);
    } else if (kinds == 0) {
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        const int64_t queries = p->sequences > 0 ? to->q_starts[i + 1] - to->q_starts[i] : p->seq;
        to->q_used[i] = draw_part(random, queries);
        to->kv_used[i] = draw_part(random, p->kv_seq);
        to->kv_pad[i] = draw_part(random, p->kv_seq) / 3;
    }
    place_lengths(random, p, WEFT_KV_USED, &p->lengths.kv_used, &to->all.kv_used, to->kv_used);
    if (kinds & 2) {
        place_lengths(random, p, WEFT_Q_USED, &p->lengths.q_used, &to->all.q_used, to->q_used);
    }
    if (kinds == 4) {
        place_lengths(random, p, WEFT_KV_PAD, &p->lengths.kv_pad, &to->all.kv_pad, to->kv_pad);
    }
}

/* What the cache is: WEFT_HAS_PAGES, WEFT_HAS_APPEND and WEFT_HAS_ROTARY, and the other features of `bits`. */
static inline weft_attention draw_cache(uint64_t *random, weft_dtype dtype, int32_t bits, int packed, int64_t page,
                                        int64_t most, drawn_lengths *lengths) {
    static const int64_t dims[] = {16, 40, 64, 64, 96, 128, 184, 248};
    weft_attention p = WEFT_ATTENTION_INIT;
    memset(&lengths->all, 0, sizeof lengths->all);
    memset(&lengths->pairs, 0, sizeof lengths->pairs);
    p.dtype = dtype;
    p.batch = packed ? 1 : random_between(random, 1, 3);
    p.sequences = packed ? random_between(random, 1, 6) : 0;
    p.kv_heads = random_between(random, 1, 2);
    p.heads = p.kv_heads * random_between(random, 1, 3);
    p.head_dim = dims[random_between(random, 0, 7)] + (bits & WEFT_HAS_ODD_DIM ? random_between(random, 1, 7) : 0);
    p.head_dim = bits & WEFT_HAS_LARGE_DIM ? WEFT_MAX_HEAD_DIM - p.head_dim / 2 : p.head_dim;
    p.head_dim_v = bits & WEFT_HAS_OTHER_DIM ? random_between(random, 1, p.head_dim) : bits & WEFT_HAS_LARGE_DIM ? 512 : 0;
    p.head_dim_v = p.head_dim_v > 512 ? 512 : p.head_dim_v;
    p.seq = random_between(random, 0, 2) ? random_between(random, 1, 7) : random_between(random, 1, most);
    p.seq = few ? (p.seq - 1) % (packed ? 16 : 8) + 1 : p.seq;
    if (latent) {
        static const int64_t latent_dims[] = {64, 64, 40, 8}, latent_dims_v[] = {512, 512, 256, 392, 64, 8};
        p.heads = p.kv_heads * (random_between(random, 0, 1)   ? INT64_C(1) << random_between(random, 0, 7)
                                : random_between(random, 0, 1) ? random_between(random, 1, 40)
                                                               : random_between(random, 1, 128));
        p.seq = packed ? (p.seq - 1) % 12 + 1 : p.heads > 80 ? 1 : (p.seq - 1) % 4 + 1;
        p.head_dim = latent_dims[random_between(random, 0, 3)];
        p.head_dim_v = latent_dims_v[random_between(random, 0, 5)];
    }
    p.seq = bits & WEFT_HAS_TREE ? (p.seq - 1) % 64 + 1 : p.seq;
    p.kv_seq = page * random_between(random, 1, most / page > 0 ? most / page : 1);
    p.scale = random_between(random, 0, 1) ? 0 : 0.3 * random_normal(random);
    p.scale = wide ? fabs(p.scale) : p.scale;
    draw_mask(random, &p);
    if (few && bits & WEFT_HAS_APPEND && random_between(random, 0, 7)) { /* the decode kernel has no other masks then */
        p.mask += p.mask == WEFT_MASK_CAUSAL || p.mask == WEFT_MASK_WINDOW;
        p.offset = 0;
    }
    if (bits & WEFT_HAS_CHUNK) {
        draw_chunk(random, &p);
    } else if (bits & WEFT_HAS_PREFIX) {
        draw_prefix(random, &p);
    }
    p.softcap = bits & WEFT_HAS_SOFTCAP ? (double)random_between(random, 1, 60) / 4 : 0;
    p.dropout = bits & WEFT_HAS_DROPOUT ? 0.4 : 0;
    p.extras = (bits & WEFT_HAS_SINKS ? WEFT_SINKS : 0) | (bits & WEFT_HAS_MAX ? WEFT_MAX : 0) |
               (bits & WEFT_HAS_ALIBI ? WEFT_ALIBI : 0) | (latent ? WEFT_QV : 0);
    p.alibi_stride = bits & WEFT_HAS_ALIBI ? random_between(random, 0, 1) * p.heads : 0;
    draw_cache_lengths(random, &p, lengths);
    const int tells = few || (latent && random_between(random, 0, 1));
    for (int64_t i = 0; tells && i < p.sequences; i++) { /* the most, or more */
        p.q_most = weft_larger(p.q_most, lengths->q_starts[i + 1] - lengths->q_starts[i]);
    }
    p.q_most += p.q_most > 0 ? random_between(random, 0, 2) : 0;
    if (bits & WEFT_HAS_BIAS && !packed) {
        draw_bias(random, &p);
    }
    if (bits & WEFT_HAS_BLOCKS && !packed) {
        draw_blocks(random, &p, 64, lengths);
    }
    if (bits & WEFT_HAS_TREE) {
        draw_tree(random, &p, lengths);
    }
    if (bits & WEFT_HAS_PAGES) {
        p.cache.page = page;
        p.cache.table_stride = random_between(random, 0, 1) ? 0 : p.kv_seq / page + random_between(random, 0, 2);
        p.cache.pages = count_sequences(&p) * (p.kv_seq / page) + random_between(random, 0, 3);
    }
    if (bits & WEFT_HAS_APPEND) {
        const int is_step = few && random_between(random, 0, 1); /* no more new keys than queries */
        p.cache.append = packed ? p.seq : random_between(random, 1, is_step ? weft_smaller(p.seq, p.kv_seq) : p.kv_seq);
    }
    if (bits & WEFT_HAS_ROTARY) {
        p.cache.rotary_dim =
            random_between(random, 0, 1) ? p.head_dim / 16 * 16 : 2 * random_between(random, 1, p.head_dim / 2);
        p.cache.rotary_rows = random_between(random, 1, 2 * p.kv_seq + p.seq);
        p.cache.rotary_interleaved = (int32_t)random_between(random, 0, 1);
    }
    const int64_t unit = few || wide || latent || random_between(random, 0, 2) ? 8 : random_between(random, 1, 2);
    const int64_t dim_v = p.head_dim_v ? p.head_dim_v : p.head_dim, rows = p.cache.page ? page : p.kv_seq;
    p.q_strides = draw_strides(random, p.seq, p.heads, p.head_dim, unit);
    p.o_strides = draw_strides(random, p.seq, p.heads, dim_v, unit);
    p.qv_strides = latent ? draw_strides(random, p.seq, p.heads, dim_v, unit) : p.qv_strides;
    p.k_strides = draw_strides(random, rows, p.kv_heads, p.head_dim, unit);
    p.v_strides = draw_strides(random, rows, p.kv_heads, dim_v, unit);
    if (p.cache.append > 0) {
        p.cache.k_new_strides = draw_strides(random, p.cache.append, p.kv_heads, p.head_dim, unit);
        p.cache.v_new_strides = draw_strides(random, p.cache.append, p.kv_heads, dim_v, unit);
    }
    return p;
}

/* ---- data ---- */

/* Lists that name every page once; some entries are no pages where `bad`. */
static inline void make_table(uint64_t *random, cache_trial *x, int bad) {
    static const int32_t none[] = {-1, INT32_MIN, INT32_MAX, 0};
    const weft_kv_cache *c = &x->p.cache;
    const int64_t entries = c->page > 0 ? count_sequences(&x->p) * c->table_stride : 0,
                  each = c->page > 0 ? x->p.kv_seq / c->page : 0;
    int32_t *table = buffer_new(x, TABLE, (size_t)entries * sizeof *table);
    uint32_t *numbers = random_table(random, c->pages + 1);
    int64_t next = 0;
    for (int64_t i = 0; i < entries; i++) {
        if (i % c->table_stride >= each) {
            continue; /* nobody looks there */
        }
        next += numbers[next] == c->pages; /* as many pages as there are, and one more */
        table[i] = (int32_t)numbers[next++];
        if (bad && random_between(random, 0, 3) == 0) {
            const int32_t pick = none[random_between(random, 0, 3)];
            table[i] = pick ? pick : (int32_t)c->pages;
            x->bad++;
        }
    }
    free(numbers);
    x->pages = (weft_pages){.table = table,
                            .page = c->page,
                            .pages = c->pages,
                            .stride = c->table_stride,
                            .by_page = weft_divisor_make((uint64_t)(c->page > 0 ? c->page : 1))};
}

/* The keys of a sequence before the run, and how many new ones there is room for. */
static inline int64_t keys_before(const cache_trial *x, int64_t number) {
    const weft_attention *p = &x->p;
    return p->lengths.kv_used ? p->lengths.kv_used[number] : p->kv_seq - p->cache.append;
}

static inline int64_t keys_new(const cache_trial *x, int64_t number) {
    const weft_attention *p = &x->p;
    const int32_t *starts = x->b[NEW_STARTS].bytes ? x->b[NEW_STARTS].host : p->lengths.q_starts;
    const int64_t given = p->sequences > 0 && p->cache.append > 0 ? starts[number + 1] - starts[number] : p->cache.append;
    const int64_t room = p->kv_seq - keys_before(x, number);
    return given < room ? given : room;
}

static inline int64_t new_row(const cache_trial *x, int64_t number, int64_t i) {
    const int32_t *starts = x->b[NEW_STARTS].bytes ? x->b[NEW_STARTS].host : x->p.lengths.q_starts;
    return x->p.sequences > 0 ? starts[number] + i : i;
}

/* Where key i of a sequence is: see weft_page_of(). */
static inline weft_page_row place_of(const cache_trial *x, int64_t number, int64_t i) {
    const weft_kv_cache *c = &x->p.cache;
    if (c->page == 0) {
        return (weft_page_row){number, i};
    }
    const int32_t page = x->pages.table[number * c->table_stride + i / c->page];
    return (weft_page_row){page < 0 || page >= c->pages ? -1 : page, i % c->page};
}

static inline void make_new_starts(uint64_t *random, cache_trial *x) {
    const weft_attention *p = &x->p;
    const int own = p->sequences > 0 && p->cache.append > 0 && random_between(random, 0, 1);
    int32_t *starts = buffer_new(x, NEW_STARTS, own ? (size_t)(p->sequences + 1) * sizeof *starts : 0);
    if (own) {
        draw_starts(random, p->sequences, p->cache.append, starts);
    }
}

static inline void make_rotation(uint64_t *random, cache_trial *x) {
    const weft_kv_cache *c = &x->p.cache;
    const int64_t half = c->rotary_dim / 2, count = count_sequences(&x->p);
    const size_t elements = (size_t)(c->rotary_rows * half);
    void *cosines = buffer_new(x, COS, elements * 2), *sines = buffer_new(x, SIN, elements * 2);
    int32_t *positions =
        buffer_new(x, POSITIONS, c->rotary_dim > 0 && random_between(random, 0, 2) == 0 ? (size_t)count * 4 : 0);
    for (size_t i = 0; i < elements; i++) {
        const double angle = (double)(i / (size_t)half) * pow(100, -(double)(i % (size_t)half) / (double)half);
        weft_ref_store(x->p.dtype, cosines, i, cos(angle));
        weft_ref_store(x->p.dtype, sines, i, sin(angle));
    }
    for (int64_t i = 0; i < count && x->b[POSITIONS].bytes; i++) {
        positions[i] = (int32_t)random_between(random, 0, c->rotary_rows + 2);
    }
}

static inline void make_extras(uint64_t *random, cache_trial *x) {
    const weft_attention *p = &x->p;
    const size_t slopes = (size_t)((count_sequences(p) - 1) * p->alibi_stride + p->heads);
    const size_t lines = weft_attention_sizes(p).lse * sizeof(float);
    float *sinks = buffer_new(x, SINKS, p->extras & WEFT_SINKS ? (size_t)p->heads * 4 : 0);
    float *alibi = buffer_new(x, ALIBI, p->extras & WEFT_ALIBI ? slopes * 4 : 0);
    const weft_dtype dtype = weft_attention_bias_dtype(p);
    const size_t biases = p->extras & WEFT_BIAS ? weft_attention_bias_extent(p) : 0;
    void *bias = buffer_new(x, BIAS, biases * weft_dtype_bytes(dtype));
    buffer_new(x, LSE, lines);
    buffer_new(x, MAX, p->extras & WEFT_MAX ? lines : 0);
    for (size_t i = 0; i < x->b[SINKS].bytes / 4; i++) {
        sinks[i] = (float)random_normal(random);
    }
    for (size_t i = 0; i < x->b[ALIBI].bytes / 4; i++) {
        alibi[i] = (float)(0.1 * random_normal(random));
    }
    for (size_t i = 0; i < biases; i++) {
        if (dtype == WEFT_BOOL) {
            ((unsigned char *)bias)[i] = random_between(random, 0, 3) != 0;
        } else {
            weft_ref_store(dtype, bias, i, random_normal(random));
        }
    }
}

/* K, V, the new ones and Q: rows that count, and NaN elsewhere. */
static inline void make_tensors(uint64_t *random, cache_trial *x) {
    const weft_attention *p = &x->p;
    const weft_kv_cache *c = &p->cache;
    const weft_attention_extents size = weft_attention_sizes(p);
    const size_t added = (size_t)(p->batch * (c->append > 0 ? c->append : 0));
    void *q = buffer_new(x, Q, size.q * 2), *k = buffer_new(x, K, size.k * 2), *v = buffer_new(x, V, size.v * 2);
    const size_t new_k = added ? (size_t)(p->batch * c->k_new_strides.batch) * 2 : 0;
    const size_t new_v = added ? (size_t)(p->batch * c->v_new_strides.batch) * 2 : 0;
    void *k_new = buffer_new(x, K_NEW, new_k), *v_new = buffer_new(x, V_NEW, new_v);
    void *qv = buffer_new(x, QV, size.qv * 2);
    buffer_new(x, O, size.o * 2);
    for (int64_t i = 0; i < p->batch * p->seq; i++) {
        fill_row(random, p, q, &p->q_strides, i / p->seq, i % p->seq, p->heads, p->head_dim);
        if (p->extras & WEFT_QV) {
            fill_row(random, p, qv, &p->qv_strides, i / p->seq, i % p->seq, p->heads, p->head_dim_v);
        }
    }
    for (int64_t number = 0; number < count_sequences(p); number++) {
        for (int64_t i = 0; i < keys_before(x, number); i++) {
            const weft_page_row at = place_of(x, number, i);
            if (at.page >= 0) {
                fill_row(random, p, k, &p->k_strides, at.page, at.row, p->kv_heads, p->head_dim);
                fill_row(random, p, v, &p->v_strides, at.page, at.row, p->kv_heads, p->head_dim_v);
            }
        }
        for (int64_t i = 0; i < keys_new(x, number); i++) {
            const int64_t row = new_row(x, number, i), batch = p->sequences > 0 ? 0 : number;
            fill_row(random, p, k_new, &c->k_new_strides, batch, row, p->kv_heads, p->head_dim);
            fill_row(random, p, v_new, &c->v_new_strides, batch, row, p->kv_heads, p->head_dim_v);
        }
    }
}

static inline void send_lengths(cache_trial *x) {
    const weft_lengths *l = &x->p.lengths;
    const int32_t *from[] = {l->q_starts, l->kv_starts, l->q_used, l->kv_used, l->kv_pad};
    for (int i = 0; i < 5; i++) {
        const size_t bytes = (size_t)(count_sequences(&x->p) + (i < 2)) * sizeof(int32_t);
        DEMAND(from[i] ? driver->memory_new(&x->there[i], bytes) : 0);
        DEMAND(from[i] ? driver->copy_in(x->there[i], from[i], bytes) : 0);
    }
    const weft_pairs *m = &x->p.pairs;
    const void *masks[] = {m->block_starts, m->block_list, m->block_bits_at, m->block_bits, m->tree};
    size_t elements[WEFT_PAIR_ARRAYS];
    weft_attention_pair_elements(&x->p, elements);
    for (int i = 0; i < WEFT_PAIR_ARRAYS; i++) {
        const size_t bytes = elements[i] * (i == 4 ? sizeof(uint64_t) : sizeof(uint32_t));
        DEMAND(masks[i] ? driver->memory_new(&x->pairs[i], bytes + 1) : 0);
        DEMAND(masks[i] && bytes > 0 ? driver->copy_in(x->pairs[i], masks[i], bytes) : 0);
    }
}

static inline cache_trial *cache_trial_new(uint64_t *random, weft_dtype dtype, int32_t bits, int packed, int64_t page,
                                           int64_t most, int bad) {
    cache_trial *x = calloc(1, sizeof *x);
    weft_message message = {""};
    DEMAND(!x);
    x->asked = draw_cache(random, dtype, bits, packed, page, most, &x->lengths);
    weft_attention known = x->asked;
    known.lengths = x->lengths.all;
    known.pairs = x->lengths.pairs;
    known.extras &= ~(WEFT_STARTS | WEFT_Q_USED | WEFT_KV_USED | WEFT_KV_PAD | WEFT_BLOCKS | WEFT_TREE);
    if (resolve_attention(&x->p, &known, &message)) {
        fprintf(stderr, "%s\n", message.text);
        exit(1);
    }
    make_table(random, x, bad);
    make_new_starts(random, x);
    if (x->b[NEW_STARTS].bytes && random_between(random, 0, 1)) {
        x->asked.cache.new_starts = x->b[NEW_STARTS].host;
    }
    make_rotation(random, x);
    make_extras(random, x);
    make_tensors(random, x);
    send_lengths(x);
    return x;
}

static inline void cache_trial_free(cache_trial *x) {
    for (int i = 0; i < BUFFERS; i++) {
        free(x->b[i].host);
        DEMAND(x->b[i].device ? driver->memory_free(x->b[i].device) : 0);
    }
    for (int i = 0; i < 5; i++) {
        DEMAND(x->there[i] ? driver->memory_free(x->there[i]) : 0);
    }
    for (int i = 0; i < WEFT_PAIR_ARRAYS; i++) {
        DEMAND(x->pairs[i] ? driver->memory_free(x->pairs[i]) : 0);
    }
    free(x);
}

#endif
