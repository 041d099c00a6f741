/* SPDX-License-Identifier: Apache-2.0 */
/* Random KV caches, and what attentions over them must give: each sequence by itself, as a plain attention. */
#ifndef TESTS_CACHES_H
#define TESTS_CACHES_H

#include "ref/tensors.h"

enum { MOST_SEQUENCES = 4 };

typedef struct cache_case {
    weft_attention p; /* resolved */
    weft_attention_data data;
    weft_attention_extents size;
    int64_t sequences;
    size_t entries; /* of the table */
    int32_t q_starts[MOST_SEQUENCES + 1], kv_starts[MOST_SEQUENCES + 1], new_starts[MOST_SEQUENCES + 1];
    int32_t used[MOST_SEQUENCES], pad[MOST_SEQUENCES], positions[MOST_SEQUENCES];
    int32_t *table;
    void *q, *qv, *kv, *v_own, *k_new, *v_new, *cos, *sin; /* kv: K, or K and V in one tensor */
    void *kv_before, *v_before;                            /* copies */
    size_t kv_bytes, v_bytes;
    float *sinks, *alibi;
} cache_case;

/* ---- what a sequence is, told in another way than the library does ---- */

static inline int64_t case_queries(const cache_case *c, int64_t s) {
    return c->p.sequences ? c->q_starts[s + 1] - c->q_starts[s] : c->p.seq;
}

static inline int64_t case_room(const cache_case *c, int64_t s) {
    return c->p.sequences && c->p.cache.page == 0 ? c->kv_starts[s + 1] - c->kv_starts[s] : c->p.kv_seq;
}

static inline int64_t case_new(const cache_case *c, int64_t s) {
    const int64_t given = c->p.cache.append == 0 ? 0
                          : c->p.sequences       ? c->new_starts[s + 1] - c->new_starts[s]
                                                 : c->p.cache.append;
    const int64_t room = case_room(c, s) - c->used[s];
    return given < room ? given : room;
}

static inline int64_t case_keys(const cache_case *c, int64_t s) {
    return c->used[s] + case_new(c, s);
}

static inline size_t case_row(const cache_case *c, const weft_strides *strides, int64_t s, int64_t key, int64_t head) {
    int64_t batch = c->p.sequences ? 0 : s, row = key;
    if (c->p.cache.page > 0) {
        batch = c->table[s * c->p.cache.table_stride + key / c->p.cache.page];
        row = key % c->p.cache.page;
    } else if (c->p.sequences) {
        row = c->kv_starts[s] + key;
    }
    return (size_t)(batch * strides->batch + row * strides->seq + head * strides->head);
}

/* A row as floats, rotated for a position and rounded where one is given. */
static inline void case_rotate(const cache_case *c, const void *data, size_t at, int64_t count, int64_t position,
                               double *row) {
    const weft_kv_cache *k = &c->p.cache;
    const int64_t half = k->rotary_dim / 2;
    for (int64_t d = 0; d < count; d++) {
        row[d] = weft_ref_load(c->p.dtype, data, at + (size_t)d);
    }
    if (k->rotary_dim == 0 || position < 0) {
        return;
    }
    const int64_t last = k->rotary_rows - 1, angles = (position < last ? position : last) * half;
    for (int64_t i = 0; i < half; i++) {
        const int64_t a = k->rotary_interleaved ? 2 * i : i, b = k->rotary_interleaved ? 2 * i + 1 : half + i;
        const double co = weft_ref_load(c->p.dtype, c->cos, (size_t)(angles + i));
        const double si = weft_ref_load(c->p.dtype, c->sin, (size_t)(angles + i));
        const double x = row[a], y = row[b];
        row[a] = weft_ref_round(c->p.dtype, co * x - si * y);
        row[b] = weft_ref_round(c->p.dtype, co * y + si * x);
    }
}

/* ---- making one ---- */

static inline void draw_cache_shape(uint64_t *random, int round, weft_attention *p) {
    static const int64_t pages[] = {0, 1, 3, 16, 64, -1};
    const weft_attention init = WEFT_ATTENTION_INIT;
    *p = init;
    p->dtype = (weft_dtype)(round % 3);
    p->cache.page = pages[random_between(random, 0, 5)];
    p->kv_seq = p->cache.page > 0 ? p->cache.page * random_between(random, 1, 1 + 150 / p->cache.page)
                                  : random_between(random, 1, 150);
    p->cache.page = p->cache.page < 0 ? p->kv_seq : p->cache.page;
    p->kv_heads = random_between(random, 1, 2);
    p->heads = p->kv_heads * random_between(random, 1, 3);
    p->head_dim = 4 * random_between(random, 1, 16);
    p->head_dim_v = random_between(random, 0, 3) ? 0 : 4 * random_between(random, 1, 16);
    p->seq = random_between(random, 0, 2) ? random_between(random, 1, 4) : random_between(random, 1, 40);
    p->layout = (weft_layout)random_between(random, 0, 1);
    p->softcap = random_between(random, 0, 3) ? 0 : 2;
    p->extras = (random_between(random, 0, 3) ? 0 : WEFT_SINKS) | (random_between(random, 0, 3) ? 0 : WEFT_ALIBI);
    p->extras |= random_between(random, 0, 3) ? 0 : WEFT_QV;
    p->cache.rotary_dim = random_between(random, 0, 1) ? 0 : 2 * random_between(random, 1, p->head_dim / 2);
    p->cache.rotary_rows = p->cache.rotary_dim ? random_between(random, 1, 170) : 0;
    p->cache.rotary_interleaved = p->cache.rotary_dim ? (int32_t)random_between(random, 0, 1) : 0;
    p->mask = (weft_mask)random_between(random, 0, 4);
    if (p->mask == WEFT_MASK_WINDOW || p->mask == WEFT_MASK_WINDOW_BOTTOM_RIGHT) {
        p->left = random_between(random, -1, 60);
        p->right = random_between(random, -1, 10);
    }
    if (p->mask == WEFT_MASK_CAUSAL || p->mask == WEFT_MASK_WINDOW) {
        p->offset = random_between(random, -2, 80);
    }
    p->chunk = random_between(random, 0, 5) ? 0 : random_between(random, 1, 70);
}

/* Random starts of `count` parts, some of which are empty. */
static inline int32_t draw_starts(uint64_t *random, int64_t count, int64_t most, int32_t *starts) {
    starts[0] = 0;
    for (int64_t i = 0; i < count; i++) {
        starts[i + 1] = starts[i] + (int32_t)(random_between(random, 0, 4) ? random_between(random, 0, most) : 0);
    }
    return starts[count];
}

static inline void draw_lengths(uint64_t *random, cache_case *c) {
    weft_attention *p = &c->p;
    const int in_data = (int)random_between(random, 0, 1);
    c->sequences = random_between(random, 1, MOST_SEQUENCES);
    p->batch = c->sequences;
    const int packed = random_between(random, 0, 1) != 0;
    if (packed) {
        p->batch = 1;
        p->sequences = c->sequences;
        p->seq = draw_starts(random, c->sequences, p->seq, c->q_starts) + random_between(random, 0, 1);
        p->seq += p->seq == 0;
        if (p->cache.page == 0) {
            p->kv_seq = draw_starts(random, c->sequences, p->kv_seq, c->kv_starts) + 1;
            p->lengths.kv_starts = c->kv_starts;
        }
        p->lengths.q_starts = c->q_starts;
    }
    p->cache.append = random_between(random, 0, 1) ? random_between(random, 0, 5) : 0;
    p->cache.append = !packed && p->cache.append > p->kv_seq ? p->kv_seq : p->cache.append;
    if (packed && p->cache.append) {
        p->cache.append = draw_starts(random, c->sequences, 5, c->new_starts) + random_between(random, 0, 1);
    }
    const int uses = packed || random_between(random, 0, 3), pads = !random_between(random, 0, 3);
    for (int64_t s = 0; s < c->sequences; s++) {
        const int64_t room = case_room(c, s);
        c->used[s] = (int32_t)(uses ? random_between(random, 0, room) : room - p->cache.append);
        c->pad[s] = (int32_t)(pads ? random_between(random, 0, room / 2) : 0);
        c->positions[s] = (int32_t)random_between(random, 0, 180);
    }
    p->extras |= uses && in_data ? WEFT_KV_USED : 0;
    p->extras |= pads && in_data ? WEFT_KV_PAD : 0;
    p->lengths.kv_used = uses && !in_data ? c->used : NULL;
    p->lengths.kv_pad = pads && !in_data ? c->pad : NULL;
    c->data.lengths.kv_used = uses && in_data ? c->used : NULL;
    c->data.lengths.kv_pad = pads && in_data ? c->pad : NULL;
}

/* Pages in a random order; entries behind what a sequence has are no pages. */
static inline void draw_table(uint64_t *random, cache_case *c) {
    weft_attention *p = &c->p;
    const int64_t each = p->kv_seq / p->cache.page, more = random_between(random, 0, 2);
    p->cache.table_stride = each + random_between(random, 0, 2);
    p->cache.pages = c->sequences * each + more;
    uint32_t *order = random_table(random, p->cache.pages);
    c->entries = (size_t)((c->sequences - 1) * p->cache.table_stride + each);
    c->table = malloc(c->entries * sizeof *c->table);
    assert_true(order && c->table);
    for (size_t i = 0; i < c->entries; i++) {
        c->table[i] = random_between(random, 0, 1) ? -1 : INT32_MAX;
    }
    for (int64_t s = 0; s < c->sequences; s++) {
        for (int64_t i = 0; i * p->cache.page < case_keys(c, s); i++) {
            c->table[s * p->cache.table_stride + i] = (int32_t)order[s * each + i];
        }
    }
    free(order);
}

/* Strides of K and V: none, with gaps, or both in one tensor whose rows are K's and then V's, or V's and then K's. */
enum { APART, K_AND_V, V_AND_K };
static inline int draw_strides(uint64_t *random, weft_attention *p) {
    const int kind = (int)random_between(random, 0, 3);
    const int64_t rows = p->cache.page ? p->cache.page : p->kv_seq, dim_v = p->head_dim_v ? p->head_dim_v : p->head_dim;
    if (kind == 1) {
        p->k_strides = padded_strides(p->layout, rows, p->kv_heads, p->head_dim, 3);
        p->v_strides = padded_strides(p->layout, rows, p->kv_heads, dim_v, 1);
    } else if (kind >= 2) {
        p->k_strides = p->v_strides = padded_strides(p->layout, rows, p->kv_heads, p->head_dim + dim_v, 0);
    }
    return kind == 2 ? K_AND_V : kind == 3 ? V_AND_K : APART;
}

static inline void *case_copy(const void *data, size_t bytes) {
    void *copy = malloc(bytes + 1);
    assert_non_null(copy);
    memcpy(copy, data, bytes);
    return copy;
}

static inline void fill_cache(uint64_t *random, cache_case *c, int in_one) {
    const weft_attention *p = &c->p;
    const size_t bytes = weft_dtype_bytes(p->dtype);
    c->kv_bytes = (c->size.k + (in_one != APART ? (size_t)p->head_dim_v : 0)) * bytes;
    c->v_bytes = in_one != APART ? 0 : c->size.v * bytes;
    c->kv = guarded_new(c->kv_bytes);
    c->v_own = guarded_new(c->v_bytes);
    c->data.k = (char *)c->kv + (in_one == V_AND_K ? (size_t)p->head_dim_v * bytes : 0);
    c->data.v = in_one == APART ? c->v_own : in_one == V_AND_K ? c->kv : (char *)c->kv + (size_t)p->head_dim * bytes;
    for (int64_t s = 0; s < c->sequences; s++) { /* all else is NaN */
        for (int64_t key = c->pad[s]; key < c->used[s]; key++) {
            for (int64_t head = 0; head < p->kv_heads; head++) {
                for (int64_t d = 0; d < p->head_dim; d++) {
                    weft_ref_store(p->dtype, (void *)c->data.k, case_row(c, &p->k_strides, s, key, head) + (size_t)d,
                                   random_even(random));
                }
                for (int64_t d = 0; d < p->head_dim_v; d++) {
                    weft_ref_store(p->dtype, (void *)c->data.v, case_row(c, &p->v_strides, s, key, head) + (size_t)d,
                                   random_even(random));
                }
            }
        }
    }
    c->kv_before = case_copy(c->kv, c->kv_bytes);
    c->v_before = case_copy(c->v_own, c->v_bytes);
}

static inline void fill_rotation(uint64_t *random, cache_case *c) {
    const weft_attention *p = &c->p;
    const size_t count = (size_t)(p->cache.rotary_rows * p->cache.rotary_dim / 2);
    c->cos = guarded_new(count * sizeof(float));
    c->sin = guarded_new(count * sizeof(float));
    for (size_t i = 0; i < count; i++) {
        const double angle = 3.2 * random_even(random);
        weft_ref_store(p->dtype, c->cos, i, cos(angle));
        weft_ref_store(p->dtype, c->sin, i, sin(angle));
    }
    c->data.cache.cos = c->cos;
    c->data.cache.sin = c->sin;
    c->data.cache.positions = count && random_between(random, 0, 1) ? c->positions : NULL;
}

/* Everything but the shape of `c`, whose p and data are those of a caller's. */
static inline void fill_case(uint64_t *random, cache_case *c) {
    weft_message message = {""};
    const weft_attention given = c->p;
    const int in_one = draw_strides(random, &c->p);
    if (given.cache.page > 0) {
        draw_table(random, c);
    }
    weft_attention resolved;
    if (resolve_attention(&resolved, &c->p, &message)) {
        fail_msg("%s", message.text);
    }
    c->p = resolved;
    const weft_attention *p = &c->p;
    c->size = weft_attention_sizes(p);
    c->q = random_buffer(random, p->dtype, c->size.q);
    c->qv = random_buffer(random, p->dtype, c->size.qv);
    const size_t rows = (size_t)(p->batch * p->cache.append * p->kv_heads);
    c->k_new = random_buffer(random, p->dtype, rows * (size_t)p->head_dim);
    c->v_new = random_buffer(random, p->dtype, rows * (size_t)p->head_dim_v);
    c->sinks = random_buffer(random, WEFT_FP32, (size_t)p->heads);
    c->alibi = random_buffer(random, WEFT_FP32, (size_t)p->heads);
    for (int64_t i = 0; i < p->heads; i++) {
        c->alibi[i] = fabsf(c->alibi[i]) * 0.1f;
    }
    c->data.q = c->q;
    c->data.qv = p->extras & WEFT_QV ? c->qv : NULL;
    c->data.o = guarded_new(c->size.o * weft_dtype_bytes(p->dtype));
    c->data.lse = guarded_new(c->size.lse * sizeof(float));
    c->data.sinks = p->extras & WEFT_SINKS ? c->sinks : NULL;
    c->data.alibi = p->extras & WEFT_ALIBI ? c->alibi : NULL;
    c->data.cache.table = c->table;
    c->data.cache.k_new = p->cache.append ? c->k_new : NULL;
    c->data.cache.v_new = p->cache.append ? c->v_new : NULL;
    c->data.cache.new_starts = p->cache.append && p->sequences ? c->new_starts : NULL;
    fill_rotation(random, c);
    fill_cache(random, c, in_one);
}

static inline void case_new_random(uint64_t *random, int round, cache_case *c) {
    const weft_attention_data none = WEFT_ATTENTION_DATA_INIT;
    memset(c, 0, sizeof *c);
    c->data = none;
    draw_cache_shape(random, round, &c->p);
    draw_lengths(random, c);
    fill_case(random, c);
}

static inline void case_free(cache_case *c) {
    void *guarded[] = {c->q,   c->qv,  c->kv,    c->v_own, c->k_new,  c->v_new,
                       c->cos, c->sin, c->sinks, c->alibi, c->data.o, c->data.lse};
    for (size_t i = 0; i < sizeof guarded / sizeof *guarded; i++) {
        guarded_free(guarded[i]);
    }
    free(c->table);
    free(c->kv_before);
    free(c->v_before);
}

/* ---- what must come out ---- */

/* What the cache has when the run has ended, as doubles: one row of K or of V. */
static inline void case_key(const cache_case *c, int64_t s, int64_t key, int64_t head, int of_v, double *row) {
    const weft_attention *p = &c->p;
    const int64_t count = of_v ? p->head_dim_v : p->head_dim, i = key - c->used[s];
    if (i < 0) {
        case_rotate(c, of_v ? c->data.v : c->data.k, case_row(c, of_v ? &p->v_strides : &p->k_strides, s, key, head), count,
                    -1, row);
        return;
    }
    const weft_strides *strides = of_v ? &p->cache.v_new_strides : &p->cache.k_new_strides;
    const int64_t batch = p->sequences ? 0 : s, first = p->sequences ? c->new_starts[s] : 0;
    const size_t at = (size_t)(batch * strides->batch + (first + i) * strides->seq + head * strides->head);
    const int64_t from = c->data.cache.positions ? c->positions[s] : c->used[s];
    case_rotate(c, of_v ? c->v_new : c->k_new, at, count, of_v ? -1 : from + i, row);
}

/* Sequence s as an attention of its own, whose tensors are the caller's to free by tensors_free(). With qv, its rows of Q
 * are those of q and qv, and its keys those of K and V. */
static inline tensors case_alone(uint64_t *random, const cache_case *c, int64_t s) {
    weft_attention p = c->p;
    const weft_attention init = WEFT_ATTENTION_INIT;
    const weft_strides packed = {0, 0, 0};
    double row[WEFT_MAX_HEAD_DIM];
    p.batch = 1;
    p.sequences = 0;
    p.seq = case_queries(c, s);
    p.kv_seq = case_keys(c, s) - c->pad[s];
    p.lengths = init.lengths;
    p.cache = init.cache;
    p.extras &= WEFT_SINKS | WEFT_ALIBI;
    p.layout = WEFT_BSHD;
    p.q_strides = p.k_strides = p.v_strides = p.o_strides = packed;
    p.head_dim = weft_attention_score_dim(&c->p);
    tensors t = tensors_new(random, &p);
    for (int64_t i = 0; i < p.seq * p.heads; i++) {
        const int64_t query = i / p.heads, head = i % p.heads;
        const int64_t at = c->p.sequences ? c->q_starts[s] + query : query;
        const int64_t from = c->data.cache.positions ? c->positions[s] : c->used[s];
        case_rotate(c, c->q, weft_row_index(&c->p.q_strides, c->p.sequences ? 0 : s, at, head), c->p.head_dim,
                    from + (c->p.mask == WEFT_MASK_NONE ? 0 : query), row);
        if (c->p.extras & WEFT_QV) {
            case_rotate(c, c->qv, weft_row_index(&c->p.qv_strides, c->p.sequences ? 0 : s, at, head), p.head_dim_v, -1,
                        row + c->p.head_dim);
        }
        for (int64_t d = 0; d < p.head_dim; d++) {
            weft_ref_store(p.dtype, t.q, (size_t)(i * p.head_dim + d), row[d]);
        }
    }
    for (int64_t i = 0; i < p.kv_seq * p.kv_heads; i++) {
        case_key(c, s, c->pad[s] + i / p.kv_heads, i % p.kv_heads, 0, row);
        if (c->p.extras & WEFT_QV) {
            case_key(c, s, c->pad[s] + i / p.kv_heads, i % p.kv_heads, 1, row + c->p.head_dim);
        }
        for (int64_t d = 0; d < p.head_dim; d++) {
            weft_ref_store(p.dtype, t.k, (size_t)(i * p.head_dim + d), row[d]);
        }
        case_key(c, s, c->pad[s] + i / p.kv_heads, i % p.kv_heads, 1, row);
        for (int64_t d = 0; d < p.head_dim_v; d++) {
            weft_ref_store(p.dtype, t.v, (size_t)(i * p.head_dim_v + d), row[d]);
        }
    }
    t.data.sinks = c->data.sinks;
    t.data.alibi = c->data.alibi;
    return t;
}

static inline double case_rounding(weft_dtype dtype) {
    return dtype == WEFT_FP32 ? 0x1p-21 : dtype == WEFT_FP16 ? 0x1p-10 : 0x1p-7;
}

/* The rows of one sequence against those of the same sequence alone. */
static inline void check_sequence(uint64_t *random, const cache_case *c, int64_t s) {
    const weft_attention *p = &c->p;
    const int64_t queries = case_queries(c, s), keys = case_keys(c, s) - c->pad[s];
    double *weights = malloc((size_t)(keys > 0 ? keys : 1) * sizeof *weights), exact[WEFT_MAX_HEAD_DIM];
    assert_non_null(weights);
    tensors t = {.sinks = NULL};
    if (queries > 0 && keys > 0) {
        t = case_alone(random, c, s);
    }
    for (int64_t i = 0; i < queries * p->heads; i++) {
        const int64_t row = (p->sequences ? c->q_starts[s] : 0) + i / p->heads, head = i % p->heads;
        const int64_t batch = p->sequences ? 0 : s;
        const float lse = c->data.lse[(batch * p->heads + head) * p->seq + row];
        weft_ref_row want = {p->extras & WEFT_SINKS ? (double)c->sinks[head] : -INFINITY, -INFINITY};
        memset(exact, 0, sizeof exact);
        if (keys > 0) {
            want = weft_ref_attention_row(&t.p, &t.data, 0, head, i / p->heads, weights, exact);
        }
        for (int64_t d = 0; d < p->head_dim_v; d++) {
            const double got =
                weft_ref_load(p->dtype, c->data.o, weft_row_index(&p->o_strides, batch, row, head) + (size_t)d);
            assert_near(got, exact[d], 3 * case_rounding(p->dtype));
        }
        if (want.lse == -INFINITY) {
            assert_true(lse == -INFINITY);
        } else {
            assert_near((double)lse, want.lse,
                        (p->cache.rotary_dim ? 0.5 : 0.02) * case_rounding(p->dtype) + 4e-6 * fmax(1, fabs(want.lse)));
        }
    }
    if (queries > 0 && keys > 0) {
        tensors_free(&t);
    }
    free(weights);
}

/* The cache's new rows; everything else in it is as before. */
static inline void check_cache(const cache_case *c) {
    const weft_attention *p = &c->p;
    const size_t bytes = weft_dtype_bytes(p->dtype);
    double row[WEFT_MAX_HEAD_DIM];
    const size_t v_at = (size_t)((const char *)c->data.v - (const char *)(c->v_bytes ? c->v_own : c->kv));
    const size_t k_at = (size_t)((const char *)c->data.k - (const char *)c->kv);
    for (int64_t s = 0; s < c->sequences; s++) {
        for (int64_t i = 0; i < 2 * p->kv_heads * case_new(c, s); i++) {
            const int of_v = (int)(i % 2);
            const int64_t head = i / 2 % p->kv_heads, key = c->used[s] + i / 2 / p->kv_heads;
            const int64_t dims = of_v ? p->head_dim_v : p->head_dim;
            const size_t at = case_row(c, of_v ? &p->v_strides : &p->k_strides, s, key, head);
            case_key(c, s, key, head, of_v, row);
            for (int64_t d = 0; d < dims; d++) {
                assert_near(weft_ref_load(p->dtype, of_v ? c->data.v : c->data.k, at + (size_t)d), row[d],
                            of_v || !p->cache.rotary_dim ? 0 : 2 * case_rounding(p->dtype) * fabs(row[d]) + 0x1p-22);
            }
            char *before =
                of_v && c->v_bytes ? c->v_before : c->kv_before; /* so that what is left is what must not change */
            const char *now = of_v && c->v_bytes ? c->v_own : c->kv;
            const size_t from = at * bytes + (of_v ? v_at : k_at);
            memcpy(before + from, now + from, (size_t)dims * bytes);
        }
    }
    assert_memory_equal(c->kv, c->kv_before, c->kv_bytes);
    assert_memory_equal(c->v_own, c->v_before, c->v_bytes);
    guarded_check(c->kv, c->kv_bytes, NULL);
    guarded_check(c->v_own, c->v_bytes, NULL);
}

/* Any schedule for a case. */
static inline weft_schedule case_schedule(uint64_t *random, const cache_case *c) {
    weft_schedule s = WEFT_SCHEDULE_INIT;
    s.workers = random_between(random, 0, 4);
    s.tile_m = random_between(random, 0, 1) ? 0 : random_between(random, 1, c->p.seq);
    s.tile_n = random_between(random, 0, 1) ? 0 : random_between(random, 1, c->p.kv_seq);
    s.dispatch = (int32_t)random_between(random, 0, WEFT_DISPATCHES);
    return s;
}

/* Runs a case on the CPU under a schedule. */
static inline weft_status case_run(const cache_case *c, const weft_schedule *s, weft_message *message) {
    weft_plan *plan;
    weft_status status = plan_for(&plan, &c->p, s, NULL, message);
    status = status ? status : weft_plan_run(plan, &c->data, message);
    weft_plan_destroy(plan);
    return status;
}

static inline void check_case(uint64_t *random, const cache_case *c) {
    for (int64_t s = 0; s < c->sequences; s++) {
        check_sequence(random, c, s);
    }
    check_cache(c);
    const int64_t rows = c->p.sequences ? c->q_starts[c->sequences] : c->p.seq;
    char *owned = owned_bytes(&c->p, &c->p.o_strides, rows, c->p.heads, c->size.o);
    guarded_check(c->data.o, c->size.o * weft_dtype_bytes(c->p.dtype), owned);
    free(owned);
}

#endif
