/* SPDX-License-Identifier: Apache-2.0 */
/* A replay of a plan, sector by sector, through the plainest LRU there is: what the simulator is held to. */
#ifndef WEFT_TESTS_SIM_REPLAY_H
#define WEFT_TESTS_SIM_REPLAY_H

#include <stdlib.h>

#include "../plans.h"
#include "problems.h"

/* A strict LRU of single sectors: a ring in order of age, with sector `count` as its end. */
typedef struct sectors {
    int64_t *prev, *next; /* towards younger and older; next -1: not here */
    int64_t count, resident, capacity, size;
    uint64_t asked, misses;
    const int32_t *table; /* (batch, pages of each) where keys lie in pages */
} sectors;

static inline void unlink_sector(sectors *l, int64_t s) {
    l->next[l->prev[s]] = l->next[s];
    l->prev[l->next[s]] = l->prev[s];
    l->next[s] = -1;
}

/* Reads or writes a sector. A write is counted as a miss wherever it goes. */
static inline void touch_sector(sectors *l, int64_t s, int write) {
    assert_in_range(s, 0, l->count - 1);
    l->asked++;
    l->misses += write || l->next[s] < 0;
    if (l->next[s] >= 0) {
        unlink_sector(l, s);
    } else {
        l->resident++;
    }
    l->prev[s] = l->count;
    l->next[s] = l->next[l->count];
    l->prev[l->next[l->count]] = s;
    l->next[l->count] = s;
    if (l->resident > l->capacity) {
        unlink_sector(l, l->prev[l->count]);
        l->resident--;
    }
}

static inline sectors sectors_new(int64_t bytes, const weft_machine *m) {
    sectors l = {NULL, NULL, bytes / m->l2_sector, 0, m->l2_bytes / m->l2_sector, m->l2_sector, 0, 0, NULL};
    l.prev = malloc((size_t)(l.count + 1) * sizeof *l.prev);
    l.next = malloc((size_t)(l.count + 1) * sizeof *l.next);
    assert_true(l.prev && l.next);
    for (int64_t i = 0; i < l.count; i++) {
        l.next[i] = -1;
    }
    l.prev[l.count] = l.next[l.count] = l.count;
    return l;
}

/* Rows of `run` bytes, `pitch` apart. Addresses are those of the tensors, one behind the other. */
static inline void touch_rows(sectors *l, int64_t from, int64_t rows, int64_t run, int64_t pitch, int write) {
    for (int64_t row = 0; row < rows; row++) {
        for (int64_t at = from + row * pitch; at < from + row * pitch + run; at += l->size) {
            touch_sector(l, at / l->size, write);
        }
    }
}

static inline int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Rows of K or V of some keys of a kv head, by the list of pages where there is one. */
static inline void touch_keys(sectors *l, const weft_attention *p, int64_t base, const weft_strides *s, int64_t batch,
                              int64_t kv_head, int64_t key, int64_t keys) {
    const int64_t bytes = (int64_t)weft_dtype_bytes(p->dtype), page = p->cache.page;
    for (int64_t i = key; i < key + keys; i++) {
        const int64_t first = page ? l->table[batch * (p->kv_seq / page) + i / page] : batch, row = page ? i % page : i;
        touch_rows(l, (base + first * s->batch + row * s->seq + kv_head * s->head) * bytes, 1, p->head_dim * bytes, 0, 0);
    }
}

/* What a worker does next with its tile: -1 is to begin it, 0 and more are its steps, `visit->steps` is to end it. */
static inline void attention_event(sectors *l, const weft_plan *plan, const weft_visit *visit, int64_t event) {
    const weft_attention *p = &plan->attention;
    const weft_schedule *s = &plan->schedule;
    const weft_attention_extents size = attention_sizes(p);
    const int64_t k_at = (int64_t)size.q, v_at = k_at + (int64_t)size.k, o_at = v_at + (int64_t)size.v;
    const weft_tile t = visit->tile;
    if (event < 0 || event == visit->steps) {
        const weft_strides *st = event < 0 ? &p->q_strides : &p->o_strides;
        const int64_t in = (int64_t)weft_dtype_bytes(p->dtype), bytes = event < 0 || !p->o_dtype ? in : 4;
        const int64_t row = t.block * s->tile_m, at = event < 0 ? 0 : o_at * in;
        touch_rows(l, at + (t.batch * st->batch + t.head * st->head + row * st->seq) * bytes,
                   least(s->tile_m, p->seq - row), p->head_dim * bytes, st->seq * bytes, event >= 0);
        return;
    }
    const int64_t key = (visit->first + event * visit->direction) * s->tile_n;
    const int64_t end = p->cache.page && p->lengths.kv_used ? p->lengths.kv_used[t.batch] : p->kv_seq;
    const int64_t keys = least(s->tile_n, end - key), kv_head = t.head / (p->heads / p->kv_heads);
    touch_keys(l, p, k_at, &p->k_strides, t.batch, kv_head, key, keys);
    touch_keys(l, p, v_at, &p->v_strides, t.batch, kv_head, key, keys);
}

static inline void touch_part(sectors *l, int64_t base, weft_major major, int64_t ld, int64_t bytes, int64_t row,
                              int64_t rows, int64_t col, int64_t cols, int write) {
    const int by_rows = major == WEFT_ROW_MAJOR;
    touch_rows(l, base + (by_rows ? row * ld + col : col * ld + row) * bytes, by_rows ? rows : cols,
               (by_rows ? cols : rows) * bytes, ld * bytes, write);
}

static inline void gemm_event(sectors *l, const weft_plan *plan, const weft_visit *visit, int64_t event) {
    const weft_gemm *p = &plan->gemm;
    const weft_schedule *s = &plan->schedule;
    const weft_gemm_extents size = gemm_sizes(p);
    const int64_t bytes = (int64_t)weft_dtype_bytes(p->dtype);
    const int64_t b_at = (int64_t)size.a * bytes, c_at = b_at + (int64_t)size.b * bytes;
    const int64_t m = visit->tile.m * s->tile_m, rows = least(s->tile_m, p->m - m);
    const int64_t n = visit->tile.n * s->tile_n, cols = least(s->tile_n, p->n - n);
    if (event < 0 || event == visit->steps) {
        if (event >= 0 || p->beta != 0) {
            touch_part(l, c_at, p->c_major, p->ldc, (int64_t)weft_dtype_bytes(p->c_dtype), m, rows, n, cols, event >= 0);
        }
        return;
    }
    const int64_t k = (visit->first + event * visit->direction) * s->tile_k, depth = least(s->tile_k, p->k - k);
    touch_part(l, 0, p->a_major, p->lda, bytes, m, rows, k, depth, 0);
    touch_part(l, b_at, p->b_major, p->ldb, bytes, k, depth, n, cols, 0);
}

static inline void event_of(sectors *l, const weft_plan *plan, const weft_visit *visit, int64_t event) {
    (plan->problem.operation == WEFT_ATTENTION ? attention_event : gemm_event)(l, plan, visit, event);
}

enum { MOST_WORKERS = 48 };

/* All workers in step, nothing requested ahead: in each round every worker does one thing, in the order of their numbers. A
 * worker that ends a tile begins its next one in the same round. */
static inline void replay(sectors *l, const weft_plan *plan) {
    const weft_walk *walk = &plan->walk;
    const int64_t workers = least(walk->workers, walk->order.count);
    weft_worker worker[MOST_WORKERS];
    weft_visit visit[MOST_WORKERS];
    int64_t event[MOST_WORKERS], active = workers;
    uint64_t counter = 0;
    assert_true(workers <= MOST_WORKERS);
    for (int64_t w = 0; w < workers; w++) {
        worker[w] = weft_worker_start(walk, w, &counter);
    }
    for (int64_t w = 0; w < workers; w++) {
        assert_true(weft_worker_next(walk, &worker[w], &visit[w]));
        event_of(l, plan, &visit[w], -1);
        event[w] = 0;
    }
    while (active > 0) {
        for (int64_t w = 0; w < workers; w++) {
            if (event[w] < 0) { /* has nothing left to do */
                continue;
            }
            event_of(l, plan, &visit[w], event[w]);
            if (event[w]++ < visit[w].steps) {
                continue;
            }
            event[w] = weft_worker_next(walk, &worker[w], &visit[w]) ? 0 : -1;
            if (event[w] == 0) {
                event_of(l, plan, &visit[w], -1);
            } else {
                active--;
            }
        }
    }
}

static inline int64_t bytes_of(const subject *s) {
    const weft_attention_extents a = attention_sizes(&s->attention);
    const weft_gemm_extents g = gemm_sizes(&s->gemm);
    return s->kind == WEFT_ATTENTION
               ? (int64_t)((a.q + a.k + a.v) * weft_dtype_bytes(s->attention.dtype) +
                           a.o * weft_dtype_bytes(s->attention.o_dtype ? WEFT_FP32 : s->attention.dtype))
               : (int64_t)((g.a + g.b) * weft_dtype_bytes(s->gemm.dtype) + g.c * weft_dtype_bytes(s->gemm.c_dtype));
}

/* Keys in pages, in any order. One worker may meet any lengths; sequences of one length may share what they begin with, in
 * whole blocks. */
static inline void put_in_pages(uint64_t *seed, subject *s, int64_t workers, int32_t *used, int32_t **table) {
    weft_attention *p = &s->attention;
    p->cache.page = random_between(seed, 1, 20);
    p->kv_seq = weft_ceil_divide(p->kv_seq, p->cache.page) * p->cache.page;
    const int64_t each = p->kv_seq / p->cache.page;
    uint32_t *order = random_table(seed, p->batch * each);
    *table = malloc((size_t)(p->batch * each) * sizeof **table);
    assert_true(order && *table);
    for (int64_t i = 0; i < p->batch * each; i++) {
        (*table)[i] = (int32_t)order[i];
    }
    free(order);
    for (int64_t i = 0; i < p->batch; i++) {
        used[i] = (int32_t)random_between(seed, 1, p->kv_seq);
    }
    if (workers == 1 && random_between(seed, 0, 1)) {
        p->lengths.kv_used = used;
    } else if (p->batch > 1 && random_between(seed, 0, 1)) {
        int64_t shared = random_between(seed, 0, each);
        while (shared * p->cache.page % s->schedule.tile_n != 0) {
            shared--;
        }
        memcpy(*table + each, *table, (size_t)shared * sizeof **table);
    }
}

/* The simulator caches whole pieces, the replay single sectors, and still they miss alike, to the sector. A piece is always
 * read from its first sector to its last; between two reads of one of its sectors lie the other sectors of the piece and
 * all other pieces touched since. So every sector of the piece has the reuse distance of the piece, and strict LRU of any
 * size keeps all of them or none. No tolerance is needed. */
/* One plan, drawn at random; `i` chooses its kind. */
static inline void replay_one(uint64_t *seed, int i) {
    weft_machine m = machine_in_step();
    subject s = random_subject(seed, SHAPE_ALIGNED, 0);
    s.schedule.dispatch = i % 2 ? WEFT_DISPATCH_STATIC : WEFT_DISPATCH_DYNAMIC; /* grid has no workers to ask */
    if (i % 3 == 0) {
        s.schedule.workers = 1;
    } else if (s.attention.mask != WEFT_MASK_NONE) { /* tiles must be equally long for workers to stay in step */
        s.attention.mask = WEFT_MASK_NONE;
        s.attention.offset = s.attention.left = s.attention.right = 0;
    }
    int32_t used[2], *table = NULL;
    if (s.kind == WEFT_ATTENTION && random_between(seed, 0, 1)) {
        put_in_pages(seed, &s, s.schedule.workers, used, &table);
    }
    const int64_t bytes = bytes_of(&s);
    m.l2_bytes = m.l2_line * random_between(seed, 1, 1 + bytes / m.l2_line);
    weft_simulate_options o = WEFT_SIMULATE_INIT;
    const weft_profile plain = WEFT_PROFILE_INIT; /* nothing ahead, no time of its own, nothing varies */
    o.profile = &plain;
    o.page_table = table;
    sectors l = sectors_new(bytes, &m);
    l.table = table;
    weft_plan *plan = plan_of(&s, &m);
    replay(&l, plan);
    const weft_simulation r = simulate(plan, &o, NULL);
    assert_int_equal(r.total.sectors, l.asked);
    assert_int_equal(r.total.misses, l.misses);
    free(l.prev);
    free(l.next);
    free(table);
}

#endif
