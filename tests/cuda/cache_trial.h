/* SPDX-License-Identifier: Apache-2.0 */
/* Attentions over a KV cache on a GPU, and what is right: the cache's keys gathered into plain tensors, for which the
 * reference knows no cache. After a run the cache has the new keys, and all else in it is as it was. */
#ifndef WEFT_TESTS_CUDA_CACHE_TRIAL_H
#define WEFT_TESTS_CUDA_CACHE_TRIAL_H

#include "cache_drawn.h"

/* A row of Q or of new keys, rotated as position `at` says and rounded; `row` is its first element. */
static inline void rotate_row(const cache_trial *x, void *data, size_t row, int64_t at) {
    const weft_kv_cache *c = &x->p.cache;
    const weft_dtype dtype = x->p.dtype;
    const int64_t half = c->rotary_dim / 2, position = weft_between(at, 0, c->rotary_rows - 1);
    for (int64_t i = 0; i < half; i++) {
        const size_t angle = (size_t)(position * half + i);
        const size_t first = row + (size_t)(c->rotary_interleaved ? 2 * i : i);
        const size_t second = row + (size_t)(c->rotary_interleaved ? 2 * i + 1 : i + half);
        const float cosine = (float)weft_ref_load(dtype, x->b[COS].host, angle);
        const float sine = (float)weft_ref_load(dtype, x->b[SIN].host, angle);
        const float a = (float)weft_ref_load(dtype, data, first), b = (float)weft_ref_load(dtype, data, second);
        weft_ref_store(dtype, data, first, (double)(a * cosine - b * sine));
        weft_ref_store(dtype, data, second, (double)(a * sine + b * cosine));
    }
}

static inline int64_t first_position(const cache_trial *x, int64_t number) {
    return x->b[POSITIONS].bytes ? ((const int32_t *)x->b[POSITIONS].host)[number] : keys_before(x, number);
}

/* The cache with the new keys, in copies. */
static inline void append_here(const cache_trial *x, void *k, void *v) {
    const weft_attention *p = &x->p;
    for (int64_t number = 0; number < count_sequences(p); number++) {
        for (int64_t i = 0; i < keys_new(x, number); i++) {
            const weft_page_row at = place_of(x, number, keys_before(x, number) + i);
            const int64_t row = new_row(x, number, i), batch = p->sequences > 0 ? 0 : number;
            for (int64_t head = 0; head < p->kv_heads && at.page >= 0; head++) {
                const size_t to_k = weft_row_index(&p->k_strides, at.page, at.row, head);
                const size_t to_v = weft_row_index(&p->v_strides, at.page, at.row, head);
                memcpy((uint16_t *)k + to_k,
                       (const uint16_t *)x->b[K_NEW].host + weft_row_index(&p->cache.k_new_strides, batch, row, head),
                       (size_t)p->head_dim * 2);
                memcpy((uint16_t *)v + to_v,
                       (const uint16_t *)x->b[V_NEW].host + weft_row_index(&p->cache.v_new_strides, batch, row, head),
                       (size_t)p->head_dim_v * 2);
                rotate_row(x, k, to_k, first_position(x, number) + i);
            }
        }
    }
}

/* Whether two elements are the same, or next to each other where a row was rotated: a rounding may go either way. */
static inline int is_near(weft_dtype dtype, uint16_t a, uint16_t b) {
    const double difference = weft_ref_load(dtype, &a, 0) - weft_ref_load(dtype, &b, 0);
    const double size = fabs(weft_ref_load(dtype, &a, 0));
    return a == b || fabs(difference) <= (dtype == WEFT_FP16 ? 0x1p-10 * size + 0x1p-22 : 0x1p-7 * size + 0x1p-22);
}

static inline void check_cache(const cache_trial *x, int which, const void *want, const char *what) {
    const buffer *b = &x->b[which];
    uint16_t *got = malloc(b->bytes);
    DEMAND(!got);
    DEMAND(driver->copy_out(got, b->device, b->bytes));
    size_t wrong = 0, first = 0;
    for (size_t i = 0; i < b->bytes / 2; i++) {
        const uint16_t is = got[i], was = ((const uint16_t *)want)[i];
        const int near = which == K && x->p.cache.rotary_dim > 0 ? is_near(x->p.dtype, was, is) : is == was;
        first = wrong == 0 && !near ? i : first;
        wrong += !near;
    }
    CHECK(wrong == 0, "%s: %zu elements are not as they should be, the first is %zu: %04x, not %04x", what, wrong, first,
          got[first], ((const uint16_t *)want)[first]);
    memcpy(b->host, got, b->bytes); /* a rounding is no error of what comes from it */
    free(got);
}

/* The same attention over plain tensors. */
typedef struct gathered {
    weft_attention p;
    weft_attention_data data;
    int32_t kv_starts[MOST_SEQUENCES + 1], kv_used[MOST_SEQUENCES];
    char *bad; /* (batch, columns): keys that are in no page */
} gathered;

static inline void gather_keys(const cache_trial *x, gathered *g, uint16_t *k, uint16_t *v) {
    const weft_attention *p = &x->p;
    const int64_t each = p->sequences > 0 ? g->kv_starts[1] : p->kv_seq;
    for (int64_t number = 0; number < count_sequences(p); number++) {
        for (int64_t i = 0; i < keys_before(x, number) + keys_new(x, number); i++) {
            const weft_page_row at = place_of(x, number, i);
            const int64_t batch = p->sequences > 0 ? 0 : number, column = p->sequences > 0 ? number * each + i : i;
            g->bad[number * each + i] = at.page < 0;
            for (int64_t head = 0; head < p->kv_heads && at.page >= 0; head++) {
                memcpy(k + weft_row_index(&g->p.k_strides, batch, column, head),
                       (const uint16_t *)x->b[K].host + weft_row_index(&p->k_strides, at.page, at.row, head),
                       (size_t)p->head_dim * 2);
                memcpy(v + weft_row_index(&g->p.v_strides, batch, column, head),
                       (const uint16_t *)x->b[V].host + weft_row_index(&p->v_strides, at.page, at.row, head),
                       (size_t)p->head_dim_v * 2);
            }
        }
    }
}

static inline void rotate_queries(const cache_trial *x, void *q) {
    const weft_attention *p = &x->p;
    for (int64_t number = 0; number < count_sequences(p) && p->cache.rotary_dim > 0; number++) {
        const int64_t begin = p->sequences > 0 ? p->lengths.q_starts[number] : 0;
        const int64_t end = p->sequences > 0 ? p->lengths.q_starts[number + 1] : p->seq;
        for (int64_t row = begin; row < end; row++) {
            const int64_t i = p->mask == WEFT_MASK_NONE ? 0 : row - begin;
            for (int64_t head = 0; head < p->heads; head++) {
                rotate_row(x, q, weft_row_index(&p->q_strides, p->sequences > 0 ? 0 : number, row, head),
                           first_position(x, number) + i);
            }
        }
    }
}

static inline gathered *gather(const cache_trial *x) {
    const weft_attention *p = &x->p;
    gathered *g = calloc(1, sizeof *g);
    weft_attention plain = *p;
    weft_message message = {""};
    DEMAND(!g);
    memset(&plain.cache, 0, sizeof plain.cache);
    memset(&plain.k_strides, 0, sizeof plain.k_strides);
    memset(&plain.v_strides, 0, sizeof plain.v_strides);
    const int64_t each = p->sequences > 0 ? p->cache.table_stride * p->cache.page : p->kv_seq; /* columns of a sequence */
    plain.kv_seq = p->sequences > 0 ? p->sequences * each : each;
    for (int64_t i = 0; i < count_sequences(p); i++) {
        g->kv_starts[i + 1] = (int32_t)((i + 1) * each);
        g->kv_used[i] = (int32_t)(keys_before(x, i) + keys_new(x, i));
    }
    plain.lengths.kv_starts = p->sequences > 0 ? g->kv_starts : NULL;
    plain.lengths.kv_used = p->lengths.kv_used ? g->kv_used : NULL;
    if (resolve_attention(&g->p, &plain, &message)) {
        fprintf(stderr, "%s\n", message.text);
        exit(1);
    }
    const weft_attention_extents size = weft_attention_sizes(&g->p);
    uint16_t *k = calloc(size.k, 2), *v = calloc(size.v, 2), *q = malloc(x->b[Q].bytes);
    g->bad = calloc((size_t)(g->p.batch * g->p.kv_seq), 1);
    DEMAND(!k || !v || !q || !g->bad);
    memcpy(q, x->b[Q].host, x->b[Q].bytes);
    rotate_queries(x, q);
    gather_keys(x, g, k, v);
    g->data = (weft_attention_data){.struct_size = sizeof g->data,
                                    .operation = WEFT_ATTENTION,
                                    .q = q,
                                    .qv = x->b[QV].host,
                                    .k = k,
                                    .v = v,
                                    .sinks = x->b[SINKS].host,
                                    .alibi = x->b[ALIBI].host,
                                    .bias = x->b[BIAS].host,
                                    .dropout_seed = 5};
    return g;
}

static inline void gathered_free(gathered *g) {
    free((void *)(uintptr_t)g->data.q);
    free((void *)(uintptr_t)g->data.k);
    free((void *)(uintptr_t)g->data.v);
    free(g->bad);
    free(g);
}

static inline int sees_bad(const gathered *g, int64_t batch, int64_t row) {
    const weft_rows seen = weft_seen_keys(&g->p, batch, row);
    int bad = 0;
    for (int64_t key = seen.begin; key < seen.end; key++) {
        bad |= g->bad[batch * g->p.kv_seq + key];
    }
    return bad;
}

/* What a kernel may be wrong by that rounds every weight once, and then the result. */
static inline double rounding_of(const gathered *g, int64_t batch, int64_t head, int64_t row, const double *weights,
                                 const double *exact) {
    const weft_attention *p = &g->p;
    const weft_rows keys = weft_seen_keys(p, batch, row);
    double most = 0, sums[WEFT_MAX_HEAD_DIM] = {0};
    for (int64_t key = keys.begin; key < keys.end; key++) {
        const double kept = weft_ref_kept(p, g->data.dropout_seed, batch * p->heads + head, row, key);
        const size_t v = weft_row_index(&p->v_strides, batch, key, head / (p->heads / p->kv_heads));
        for (int64_t d = 0; d < p->head_dim_v && kept > 0; d++) {
            sums[d] += kept * weights[key] * fabs(weft_ref_load(p->dtype, g->data.v, v + (size_t)d));
        }
    }
    for (int64_t d = 0; d < p->head_dim_v; d++) {
        most = fmax(most, sums[d] + fabs(exact[d]));
    }
    return most * (p->dtype == WEFT_FP16 ? 0x1p-11 : 0x1p-8);
}

/* A row of the output: 0 where it is wrong whatever is allowed. Its error, and what a plain kernel's error allows. */
static inline int compare_row(const cache_trial *x, const gathered *g, int64_t i, double *weights, float *plain,
                              double *error, double *allowed) {
    const weft_attention *p = &g->p;
    const int64_t row = i % p->seq, head = i / p->seq % p->heads, batch = i / p->seq / p->heads;
    const size_t at = weft_row_index(&p->o_strides, batch, row, head);
    const float lse = ((const float *)x->b[LSE].host)[i];
    double exact[WEFT_MAX_HEAD_DIM], naive[WEFT_MAX_HEAD_DIM];
    const int is_query = row < weft_attention_rows(p), bad = is_query && sees_bad(g, batch, row);
    weft_ref_row right = {0, 0};
    if (is_query && !bad) {
        right = weft_ref_attention_row(p, &g->data, batch, head, row, weights, exact);
        weft_ref_attention_row_naive(p, &g->data, batch, head, row, plain, naive);
    }
    for (int64_t d = 0; d < p->head_dim_v; d++) {
        const double got = weft_ref_load(p->dtype, x->b[O].host, at + (size_t)d);
        if (!is_query || bad) {
            if (!isnan(got)) {
                return 0;
            }
            continue;
        }
        if (!isfinite(got)) {
            return 0;
        }
        *error = fmax(*error, fabs(got - exact[d]));
        *allowed = fmax(*allowed, 2 * fabs(naive[d] - exact[d]));
    }
    if (!is_query || bad) {
        return isnan(lse);
    }
    *allowed = fmax(*allowed, rounding_of(g, batch, head, row, weights, exact));
    const double near = x->p.cache.rotary_dim > 0 ? 2e-3 : 1e-4; /* a rotated query may be rounded the other way */
    if (!(right.lse == -INFINITY ? lse == -INFINITY : fabs((double)lse - right.lse) <= near * fmax(1, fabs(right.lse)))) {
        return 0;
    }
    const float *max = x->b[MAX].bytes ? x->b[MAX].host : NULL;
    return !max || (right.max == -INFINITY ? max[i] == -INFINITY
                                           : fabs((double)max[i] - right.max) <= near * fmax(1, fabs(right.max)));
}

static inline void compare_output(const cache_trial *x, const char *what) {
    gathered *g = gather(x);
    double *weights = malloc((size_t)g->p.kv_seq * sizeof *weights);
    float *plain = malloc((size_t)g->p.kv_seq * sizeof *plain);
    int64_t wrong = 0, first = -1;
    double error = 0, allowed = 0;
    for (int64_t i = 0; i < g->p.batch * g->p.heads * g->p.seq; i++) {
        const int right = compare_row(x, g, i, weights, plain, &error, &allowed);
        first = wrong == 0 && !right ? i : first;
        wrong += !right;
    }
    worst = fmax(worst, error > 0 ? error / allowed : 0);
    CHECK(wrong == 0 && error <= allowed, "%s: %lld rows are wrong, the first is %lld; error %g, allowed %g", what,
          (long long)wrong, (long long)first, error, allowed);
    free(weights);
    free(plain);
    gathered_free(g);
}

/* ---- runs ---- */

static inline weft_attention_data data_of(const cache_trial *x) {
    const weft_attention *a = &x->asked;
    const int32_t bits[] = {WEFT_STARTS, WEFT_KV_STARTS, WEFT_Q_USED, WEFT_KV_USED, WEFT_KV_PAD};
    const int32_t *brought[5];
    for (int i = 0; i < 5; i++) {
        brought[i] = a->extras & bits[i] ? (const int32_t *)(uintptr_t)x->there[i] : NULL;
    }
    weft_pairs pairs = {0, 0, 0, 0, 0};
    for (int i = 0; i < WEFT_PAIR_ARRAYS; i++) {
        const void *mask = a->extras & (i == 4 ? WEFT_TREE : WEFT_BLOCKS) ? (const void *)(uintptr_t)x->pairs[i] : NULL;
        memcpy((const void **)(void *)&pairs + i, &mask, sizeof mask);
    }
    return (weft_attention_data){.struct_size = sizeof(weft_attention_data),
                                 .operation = WEFT_ATTENTION,
                                 .q = buffer_there(x, Q),
                                 .qv = buffer_there(x, QV),
                                 .k = buffer_there(x, K),
                                 .v = buffer_there(x, V),
                                 .o = (void *)(uintptr_t)x->b[O].device,
                                 .lse = (float *)(uintptr_t)x->b[LSE].device,
                                 .sinks = buffer_there(x, SINKS),
                                 .alibi = buffer_there(x, ALIBI),
                                 .bias = buffer_there(x, BIAS),
                                 .max = (float *)(uintptr_t)x->b[MAX].device,
                                 .lengths = {brought[0], brought[1], brought[2], brought[3], brought[4]},
                                 .dropout_seed = 5,
                                 .pairs = pairs,
                                 .cache = {.table = buffer_there(x, TABLE),
                                           .k_new = buffer_there(x, K_NEW),
                                           .v_new = buffer_there(x, V_NEW),
                                           .new_starts = a->cache.new_starts ? NULL : buffer_there(x, NEW_STARTS),
                                           .cos = buffer_there(x, COS),
                                           .sin = buffer_there(x, SIN),
                                           .positions = buffer_there(x, POSITIONS)}};
}

/* Whether a kernel is among those that were compiled for a test: the emulator may have fewer. */
static inline int is_there(const char *kernel) {
    static const char *const variants[] = {
#define WEFT_STUDY(symbol, ...)         #symbol,
#define WEFT_STUDY_GENERAL(symbol, ...) #symbol,
#include "cuda/study/variants.def"
#define WEFT_DECODE(symbol, ...) #symbol "_main", #symbol "_alike", #symbol "_append",
#include "cuda/decode/variants.def"
#define WEFT_MLA(symbol, ...) #symbol "_main",
#include "cuda/sm90/mla/variants.def"
#define WEFT_HOPPER_ATTENTION(symbol, ...) #symbol,
#include "cuda/sm90/attention/variants.def"
    };
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
        if (strcmp(kernel, variants[i]) == 0) {
            return 1;
        }
    }
    return 0;
}

/* A batch's sequence by itself, as data of a plan for one. */
static inline weft_attention_data data_alone(const cache_trial *x, int64_t batch) {
    const weft_attention *p = &x->p;
    weft_attention_data data = data_of(x);
    const int32_t **lengths = (const int32_t **)(void *)&data.lengths;
    data.q = (const uint16_t *)data.q + batch * p->q_strides.batch;
    data.qv = (const uint16_t *)data.qv + batch * p->qv_strides.batch;
    data.o = (uint16_t *)data.o + batch * p->o_strides.batch;
    data.lse += batch * p->heads * p->seq;
    data.k = (const uint16_t *)data.k + (p->cache.page > 0 ? 0 : batch * p->k_strides.batch);
    data.v = (const uint16_t *)data.v + (p->cache.page > 0 ? 0 : batch * p->v_strides.batch);
    data.cache.table += p->cache.page > 0 ? batch * p->cache.table_stride : 0;
    for (int i = 2; i < 5; i++) {
        lengths[i] += lengths[i] ? batch : 0;
    }
    return data;
}

/* Nothing of the results stays. */
static inline void forget_results(const cache_trial *x) {
    for (int i = O; i <= LSE; i++) {
        void *none = malloc(x->b[i].bytes);
        DEMAND(!none);
        memset(none, 0xff, x->b[i].bytes);
        DEMAND(driver->copy_in(x->b[i].device, none, x->b[i].bytes));
        free(none);
    }
}

/* Whether they are the same bits as before. */
static inline int are_same_results(const cache_trial *x) {
    int same = 1;
    for (int i = O; i <= LSE; i++) {
        void *got = malloc(x->b[i].bytes);
        DEMAND(!got);
        DEMAND(driver->copy_out(got, x->b[i].device, x->b[i].bytes));
        same &= memcmp(got, x->b[i].host, x->b[i].bytes) == 0;
        free(got);
    }
    return same;
}

/* Every sequence again, alone and by another number of workers: the bits are the same. */
static inline void check_batches_alone(const cache_trial *x, const char *kernel, const char *what) {
    weft_message message = {""};
    weft_device gpu = WEFT_DEVICE_INIT;
    weft_schedule s = WEFT_SCHEDULE_INIT;
    gpu.kind = WEFT_DEVICE_CUDA;
    gpu.kernel = kernel;
    s.workers = 3;
    forget_results(x);
    for (int64_t batch = 0; batch < x->p.batch; batch++) {
        weft_attention one = x->asked;
        const int32_t **lengths = (const int32_t **)(void *)&one.lengths;
        weft_plan *plan;
        one.batch = 1;
        one.cache.table_stride = x->p.cache.table_stride;
        for (int i = 2; i < 5; i++) {
            lengths[i] += lengths[i] ? batch : 0;
        }
        const weft_status status = plan_on(&plan, &one, &s, NULL, &gpu, &message);
        CHECK(status == WEFT_OK, "%s: sequence %lld alone: %s", what, (long long)batch, message.text);
        if (status == WEFT_OK) {
            const weft_attention_data data = data_alone(x, batch);
            weft_plan_run(plan, &data, &message); /* what is wrong with its list is known */
        }
        weft_plan_destroy(plan);
    }
    CHECK(are_same_results(x), "%s: alone, sequences have other bits", what);
}

/* Runs that are prepared, once for two of them, give the bits of the run before; and of a workspace that never was, only
 * the caller's memory is touched. */
static inline void check_prepared(const cache_trial *x, const weft_plan *plan, weft_status wrong, const char *what) {
    const size_t bytes = weft_plan_workspace(plan);
    weft_attention_data data = data_of(x), lengths = WEFT_ATTENTION_DATA_INIT;
    weft_message message = {""};
    uint64_t workspace = 0, random = (uint64_t)runs;
    int32_t *any = malloc(bytes + 1);
    DEMAND(!any);
    for (size_t i = 0; i < bytes / 4; i++) {
        any[i] = (int32_t)random_between(&random, -1, 1 << random_between(&random, 0, 30));
    }
    DEMAND(bytes ? driver->memory_new(&workspace, bytes) || driver->copy_in(workspace, any, bytes) : 0);
    lengths.lengths = data.lengths;
    lengths.cache.new_starts = data.cache.new_starts;
    lengths.workspace = data.workspace = (void *)(uintptr_t)workspace;
    data.prepared = 1;
    weft_plan_run(plan, &data, &message);
    weft_plan_check(plan, &message);
    weft_status status = weft_plan_prepare(plan, &lengths, NULL, &message);
    CHECK(status == WEFT_OK, "%s: prepare gives %d, \"%s\"", what, status, message.text);
    for (int i = 0; i < 2; i++) {
        forget_results(x);
        status = weft_plan_run(plan, &data, &message);
        CHECK(status == wrong, "%s: prepared, run gives %d, \"%s\", and before %d", what, status, message.text, wrong);
        CHECK(are_same_results(x), "%s: prepared, run %d gives other bits", what, i);
    }
    DEMAND(bytes ? driver->memory_free(workspace) : 0);
    free(any);
}

/* Runs a plan of the problem, and looks at all that it left. */
static inline void cache_trial_run(cache_trial *x, const weft_schedule *s, const char *kernel, const char *what) {
    weft_message message = {""};
    weft_device gpu = WEFT_DEVICE_INIT;
    weft_plan *plan;
    gpu.kind = WEFT_DEVICE_CUDA;
    gpu.kernel = kernel;
    const weft_status status = plan_on(&plan, &x->asked, s, NULL, &gpu, &message);
    if ((few || wide || latent) && status == WEFT_UNSUPPORTED) {
        left_out++;
        return;
    }
    CHECK(status == WEFT_OK, "%s: %s", what, message.text);
    if (status || !is_there(weft_plan_kernel(plan))) {
        weft_plan_destroy(plan);
        return;
    }
    weft_attention_data data = data_of(x);
    for (int i = 0; i < BUFFERS; i++) {
        buffer_send(&x->b[i]);
    }
    void *k = malloc(x->b[K].bytes), *v = malloc(x->b[V].bytes);
    DEMAND(!k || !v);
    memcpy(k, x->b[K].host, x->b[K].bytes);
    memcpy(v, x->b[V].host, x->b[V].bytes);
    append_here(x, k, v);
    /* A GPU tells of what a CPU refuses. */
    weft_attention known = x->p;
    weft_message refused = {""};
    const weft_kv_cache_data here = {.table = x->b[TABLE].host,
                                     .new_starts = x->b[NEW_STARTS].bytes ? x->b[NEW_STARTS].host : NULL};
    const weft_status wrong = weft_attention_take_cache(&known, &here, &refused);
    const weft_status got = weft_plan_run(plan, &data, &message);
    CHECK(got == wrong, "%s: run gives %d, \"%s\", and a CPU %d, \"%s\"", what, got, message.text, wrong, refused.text);
    CHECK(weft_plan_check(plan, &message) == WEFT_OK, "%s: it is told twice: %s", what, message.text);
    check_cache(x, K, k, what);
    check_cache(x, V, v, what);
    for (int i = O; i <= MAX; i++) {
        DEMAND(x->b[i].bytes ? driver->copy_out(x->b[i].host, x->b[i].device, x->b[i].bytes) : 0);
    }
    compare_output(x, what);
    if (few || runs % 8 == 0) {
        check_prepared(x, plan, wrong, what);
    }
    if (latent && x->p.sequences == 0) {
        check_batches_alone(x, kernel, what);
    }
    runs++;
    free(k);
    free(v);
    weft_plan_destroy(plan);
}

#endif
