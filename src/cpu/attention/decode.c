/* SPDX-License-Identifier: Apache-2.0 */
/* Decode: attention of a few queries against many keys, as when a model writes one token at a time. Reading K and V takes
 * the time, so all threads share the keys and read them once, unpacked. A tile has all queries that share a kv head; its
 * steps are parts of the keys, of a fixed length (split-K). The walk says which worker begins which tile and in which
 * direction it takes the parts; idle threads steal parts. The parts' results are merged in the order of the keys, so
 * neither the schedule nor the other sequences of a batch, whatever their lengths, change the result of one. */
#include "cpu/attention/decode.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "cpu/attention/queries.h"
#include "cpu/kernel/convert.h"
#include "cpu/memory.h"
#include "problem/problem.h"

/* PART: keys of one part. STRETCH: unpacked keys between two softmax steps, many, so that memory is read in long runs.
 * BLOCK: keys of a packed block, which fits the L1. STAGE: keys that are read from short pages together. HEADS: that a
 * worker reads side by side, at most. */
enum { PART = 1536, STRETCH = 768, BLOCK = 96, STAGE = 64, HEADS = 16 };

/* What the queries of a sequence see, and its parts: the first one, how many, and those of all sequences before it. */
typedef struct span {
    weft_rows keys;
    int64_t first, parts, before;
} span;

typedef struct decode_job {
    weft_attention p; /* each kv head with its queries: see gather() */
    const weft_attention_data *data;
    const weft_cpu_kernel *kernel;
    weft_cpu_attention_job job;
    span *spans;           /* (batch) */
    int64_t together;      /* heads whose keys a worker reads side by side, since they lie so; divides heads */
    weft_cpu_taken *taken; /* (batch, heads / together): parts */
    float *results;        /* for each batch: (heads, parts, seq, head_dim_v + 2): output, max, sum */
} decode_job;

/* All queries of a kv head fit one panel, or with qv, where as many heads as a model has share one, a few. */
static int is_decode(const weft_attention *p) {
    enum {
        LATENT = 128,
        DIMS = WEFT_HAS_ODD_DIM | WEFT_HAS_LARGE_DIM | WEFT_HAS_OTHER_DIM,
        KNOWN = WEFT_HAS_WINDOW | WEFT_HAS_LENGTHS | WEFT_HAS_CACHE | WEFT_HAS_FP32_OUT
    };
    const int64_t group = p->heads / p->kv_heads;
    const int32_t has_qv = p->extras & WEFT_QV;
    const int64_t most = has_qv ? LATENT : weft_cpu_choose(WEFT_CPU_ATTENTION, p->dtype)->b.lines;
    return !(weft_attention_asks(p) & ~(KNOWN | (has_qv ? WEFT_HAS_QV | DIMS : 0))) && p->sequences == 0 &&
           (group == 1 || p->seq == 1) && group * p->seq <= most && p->kv_seq > PART;
}

/* Whether keys and values are multiplied as they lie. */
static int is_unpacked(const weft_cpu_kernel *kernel, const weft_attention *p) {
    return !(p->extras & WEFT_QV) && kernel->decode->takes(p->seq, p->head_dim);
}

int weft_cpu_open_decode(const weft_attention *p, weft_schedule *s, int64_t *heads_in_tile) {
    const int64_t group = p->heads / p->kv_heads, rows = group * p->seq;
    if (!is_decode(p) || (s->tile_m != 0 && s->tile_m != rows) || (s->tile_n != 0 && s->tile_n != PART)) {
        return 0;
    }
    *heads_in_tile = group;
    s->tile_m = rows;
    s->tile_n = PART;
    s->sweep = s->sweep == WEFT_SWEEP_CHOOSE ? WEFT_SWEEP_FORWARD : s->sweep; /* a head has one tile */
    s->dispatch = s->dispatch == WEFT_DISPATCH_CHOOSE ? WEFT_DISPATCH_STATIC : s->dispatch;
    return 1;
}

/* WEFT_CPU may have changed the kernel since the plan was made. Only decode has tiles of several heads. */
int weft_cpu_decodes(const weft_plan *plan) {
    const weft_schedule *s = &plan->schedule;
    return plan->heads_in_tile > 1 ||
           (is_decode(&plan->attention) && s->tile_m == plan->attention.seq && s->tile_n == PART);
}

/* The heads that share a kv head, one query each, as queries of one head: they see the same keys, which are those of the
 * batch's span. */
static weft_attention gather(const weft_attention *p) {
    weft_attention q = *p;
    const int64_t group = p->heads / p->kv_heads;
    if (group > 1) {
        q.heads = p->kv_heads;
        q.seq = group;
        q.mask = WEFT_MASK_NONE;
        memset(&q.lengths, 0, sizeof q.lengths);
        q.extras = p->extras & WEFT_QV; /* without lengths: is_decode() takes nothing else */
        q.qv_strides.seq = p->qv_strides.head;
        q.qv_strides.head = p->qv_strides.head * group;
        q.q_strides.seq = p->q_strides.head;
        q.q_strides.head = p->q_strides.head * group;
        q.o_strides.seq = p->o_strides.head;
        q.o_strides.head = p->o_strides.head * group;
    }
    return q;
}

/* Softmax of `keys` scores of one row; rescales what the row has so far. */
static void softmax_row(const decode_job *w, float *scores, int64_t keys, float *out) {
    const int64_t dim = w->p.head_dim;
    float *max = out + dim, *sum = max + 1;
    const float rescale = w->kernel->decode->softmax(keys, scores, (float)(w->p.scale * 1.44269504088896340736), max, sum);
    for (int64_t d = 0; d < dim && rescale != 1; d++) {
        out[d] *= rescale;
    }
}

/* What a part of the keys is: which heads, where it begins and ends, and where the results of each head go. */
typedef struct part {
    int64_t batch, head, heads, begin, end;
    float *results; /* (seq, head_dim_v + 2) */
    int64_t apart;  /* floats from head to head */
} part;

static weft_rows seen_keys(const decode_job *w, const part *part, int64_t row, int64_t begin, int64_t keys) {
    return weft_cpu_seen_of_block(weft_seen_keys(&w->p, part->batch, row), begin, keys);
}

/* K or V. */
typedef struct tensor {
    const char *data;
    const weft_strides *strides;
} tensor;

/* The first rows of a head's keys or values: where they lie, or, of short pages, copies in `stage`. */
static weft_cpu_run take_rows(const decode_job *w, const part *part, const tensor *t, int64_t head, int64_t begin,
                              int64_t end, char *stage) {
    const size_t row = (size_t)w->p.head_dim * weft_dtype_bytes(w->p.dtype);
    weft_cpu_run run = weft_cpu_kv_run(&w->job.kv, w->p.dtype, t->data, t->strides, part->batch, head, begin, end);
    if (run.rows >= STAGE || run.rows == end - begin) {
        return run;
    }
    int64_t rows = 0;
    const int64_t most = weft_cpu_min(STAGE, end - begin);
    while (rows < most) {
        run = weft_cpu_kv_run(&w->job.kv, w->p.dtype, t->data, t->strides, part->batch, head, begin + rows, begin + most);
        for (int64_t i = 0; i < run.rows; i++, rows++) {
            memcpy(stage + (size_t)rows * row, run.at + i * run.step, row);
        }
    }
    return (weft_cpu_run){stage, (int64_t)row, most};
}

/* Some keys, or values, of every head of a part. */
typedef struct stripe {
    const tensor *t;
    int64_t begin, rows;
} stripe;

/* The rows of a block from `at` on, of those that end at `end`. */
static stripe stripe_of(const decode_job *w, const tensor *t, int64_t at, int64_t end) {
    const int64_t block = w->kernel->decode->block > 0 ? w->kernel->decode->block : STRETCH;
    return (stripe){t, at, weft_cpu_min(block, end - at)};
}

/* What is prefetched while head i goes through a stripe: the next head's rows of it, or the first head's of the next one.
 */
static weft_cpu_ahead ahead_of(const decode_job *w, const part *part, int64_t i, const stripe *now, const stripe *next) {
    const int is_last = i + 1 == part->heads;
    const stripe *s = is_last ? next : now;
    weft_cpu_ahead ahead = {NULL, 0, 0, w->p.head_dim * (int64_t)weft_dtype_bytes(w->p.dtype), 0};
    if (w->kernel->decode->block > 0 && s->rows > 0) {
        const weft_cpu_run run = weft_cpu_kv_run(&w->job.kv, w->p.dtype, s->t->data, s->t->strides, part->batch,
                                                 part->head + (is_last ? 0 : i + 1), s->begin, s->begin + s->rows);
        ahead.at = run.at;
        ahead.rows = run.rows;
        ahead.step = run.step;
    }
    return ahead;
}

/* A head's room: queries and a kernel's form of them, scores, sums. */
typedef struct room {
    float *q, *scores, *out;
} room;

static size_t room_floats(const weft_attention *p) {
    return (size_t)((WEFT_CPU_DECODE_MOST_ROWS + WEFT_CPU_DECODE_FORM_ROWS + WEFT_CPU_DECODE_MOST_ROWS) * p->head_dim +
                    WEFT_CPU_DECODE_MOST_ROWS * STRETCH);
}

static room room_of(const weft_attention *p, float *scratch, int64_t i) {
    room r;
    r.q = scratch + (size_t)i * room_floats(p);
    r.scores = r.q + (WEFT_CPU_DECODE_MOST_ROWS + WEFT_CPU_DECODE_FORM_ROWS) * p->head_dim;
    r.out = r.scores + WEFT_CPU_DECODE_MOST_ROWS * STRETCH;
    return r;
}

/* Scores of all rows of head i with some keys. */
static void multiply_keys(const decode_job *w, const part *part, const tensor *k, int64_t i, int64_t begin, int64_t keys,
                          const float *q, float *scores, char *stage, weft_cpu_ahead *ahead) {
    for (int64_t done = 0, count; done < keys; done += count) {
        const weft_cpu_run run = take_rows(w, part, k, part->head + i, begin + done, begin + keys, stage);
        count = run.rows;
        w->kernel->decode->dots(w->p.dtype, (int)w->p.seq, count, w->p.head_dim, q, run.at, run.step, scores + done,
                                STRETCH, ahead);
    }
}

/* Adds some values of head i, times the weights of `rows` rows. */
static void add_values(const decode_job *w, const part *part, const tensor *v, int64_t i, int64_t rows, int64_t begin,
                       int64_t keys, const float *weights, float *out, char *stage, weft_cpu_ahead *ahead) {
    for (int64_t done = 0, count; done < keys; done += count) {
        const weft_cpu_run run = take_rows(w, part, v, part->head + i, begin + done, begin + keys, stage);
        count = run.rows;
        w->kernel->decode->sums(w->p.dtype, (int)rows, count, w->p.head_dim, weights + done, STRETCH, run.at, run.step, out,
                                ahead);
    }
}

/* Softmax of head i over a stretch of keys. Returns whether all rows see all of them. */
static int soften(const decode_job *w, const part *part, int64_t i, int64_t begin, int64_t keys, const room *r) {
    const weft_attention *p = &w->p;
    const int64_t dim = p->head_dim;
    int together = 1;
    for (int64_t row = 0; row < p->seq; row++) {
        const weft_rows seen = seen_keys(w, part, row, begin, keys);
        float *result = part->results + i * part->apart + row * (dim + 2), *scores = r->scores + row * STRETCH;
        together &= seen.end - seen.begin == keys;
        for (int64_t key = 0; key < seen.begin; key++) {
            scores[key] = p->scale < 0 ? INFINITY : -INFINITY;
        }
        if (seen.begin < seen.end) {
            softmax_row(w, scores, seen.end, result);
        }
        memcpy(r->out + row * dim, result, (size_t)dim * sizeof *r->out);
    }
    return together;
}

/* One row of head i: a hidden value may be non-finite, so that it takes only its keys. */
static void add_seen(const decode_job *w, const part *part, const tensor *v, int64_t i, int64_t row, int64_t begin,
                     int64_t keys, const room *r, char *stage) {
    const weft_rows seen = seen_keys(w, part, row, begin, keys);
    weft_cpu_ahead none = {NULL, 0, 0, 0, 0};
    if (seen.begin < seen.end) {
        add_values(w, part, v, i, 1, begin + seen.begin, seen.end - seen.begin, r->scores + row * STRETCH + seen.begin,
                   r->out + row * w->p.head_dim, stage, &none);
    }
}

/* K and V unpacked: stripe by stripe, of each the keys of every head, so that pages of memory are read from front to back.
 * Meanwhile the next head's rows come. */
static void visit_unpacked(const decode_job *w, const part *part, float *scratch) {
    const weft_attention *p = &w->p;
    const weft_cpu_decode *decode = w->kernel->decode;
    const int64_t dim = p->head_dim;
    const tensor k = {w->data->k, &p->k_strides}, v = {w->data->v, &p->v_strides};
    char *stage = (char *)(scratch + (size_t)part->heads * room_floats(p));
    for (int64_t i = 0; i < part->heads; i++) {
        const room r = room_of(p, scratch, i);
        memset(r.q, 0, (size_t)(WEFT_CPU_DECODE_MOST_ROWS * dim) * sizeof *r.q);
        for (int64_t row = 0; row < p->seq; row++) {
            weft_cpu_load(p->dtype, w->data->q, weft_row_index(&p->q_strides, part->batch, row, part->head + i), dim,
                          r.q + row * dim);
        }
        if (decode->prepare) {
            decode->prepare((int)p->seq, dim, r.q);
        }
    }
    for (int64_t begin = part->begin, end; begin < part->end; begin = end) {
        end = weft_cpu_min(begin + STRETCH, part->end);
        stripe now = stripe_of(w, &k, begin, end), next;
        for (; now.rows > 0; now = next) {
            const int64_t at = now.begin + now.rows;
            next = stripe_of(w, &k, at, end);
            const stripe values = stripe_of(w, &v, begin, end), *coming = next.rows > 0 ? &next : &values;
            for (int64_t i = 0; i < part->heads; i++) {
                const room r = room_of(p, scratch, i);
                weft_cpu_ahead ahead = ahead_of(w, part, i, &now, coming);
                multiply_keys(w, part, &k, i, now.begin, now.rows, r.q, r.scores + (now.begin - begin), stage, &ahead);
            }
        }
        int together = 1; /* all rows see all keys */
        for (int64_t i = 0; i < part->heads; i++) {
            const room r = room_of(p, scratch, i);
            together &= soften(w, part, i, begin, end - begin, &r);
        }
        for (now = stripe_of(w, &v, begin, together ? end : begin); now.rows > 0; now = next) {
            const int64_t at = now.begin + now.rows;
            next = stripe_of(w, &v, at, end);
            const stripe keys = stripe_of(w, &k, end, part->end), *coming = next.rows > 0 ? &next : &keys;
            for (int64_t i = 0; i < part->heads; i++) {
                const room r = room_of(p, scratch, i);
                weft_cpu_ahead ahead = ahead_of(w, part, i, &now, coming);
                add_values(w, part, &v, i, p->seq, now.begin, now.rows, r.scores + (now.begin - begin), r.out, stage,
                           &ahead);
            }
        }
        for (int64_t i = 0; i < part->heads * p->seq; i++) {
            const int64_t head = i / p->seq, row = i % p->seq;
            const room r = room_of(p, scratch, head);
            if (!together) {
                add_seen(w, part, &v, head, row, begin, end - begin, &r, stage);
            }
            memcpy(part->results + head * part->apart + row * (dim + 2), r.out + row * dim, (size_t)dim * sizeof *r.out);
        }
    }
}

/* K and V packed, block by block, for all queries that share them. */
static void visit_packed(const decode_job *w, const part *part, char *scratch) {
    const weft_attention *p = &w->p;
    const weft_cpu_attention_job *job = &w->job;
    const int64_t dim = p->head_dim_v, dims = job->kv.dims, width = w->kernel->b.lines;
    const weft_rows rows = {0, p->seq};
    const weft_cpu_queries q = weft_cpu_queries_of(&job->scores, part->batch, part->head, rows, part->batch);
    char *k = scratch, *v = k + job->kv.k_block;
    size_t unused;
    const weft_cpu_query_tile b = weft_cpu_queries_lay_out(job, v + job->kv.v_block, &unused);
    weft_cpu_queries_load(job, &b, &q);
    for (int64_t begin = part->begin; begin < part->end; begin += BLOCK) {
        const int64_t keys = weft_cpu_min(BLOCK, part->end - begin);
        const weft_cpu_kv_block block = weft_cpu_kv_pack_block(&job->kv, w->kernel, p, w->data->k, w->data->v, part->batch,
                                                               part->head, begin, keys, k, v);
        weft_cpu_queries_visit(job, &b, &q, &block, begin, keys, 0, -1);
    }
    for (int64_t row = 0; row < p->seq; row++) {
        float *result = part->results + row * (dim + 2);
        for (int64_t d = 0; d < dim; d++) {
            result[d] = b.out[(row / width * dims + d) * width + row % width];
        }
        result[dim] = b.max[row];
        result[dim + 1] = b.sum[row];
    }
}

static void visit_part(const decode_job *w, void *scratch, int64_t batch, int64_t head, int64_t step) {
    const weft_attention *p = &w->p;
    const span *s = &w->spans[batch];
    const int64_t begin = step * PART, size = p->seq * (p->head_dim_v + 2);
    const part part = {batch,
                       head,
                       w->together,
                       weft_larger(begin, s->keys.begin),
                       weft_cpu_min(begin + PART, s->keys.end),
                       w->results + (s->before * p->heads + head * s->parts + step - s->first) * size,
                       s->parts * size};
    for (int64_t i = 0; i < part.heads * p->seq; i++) {
        float *result = part.results + i / p->seq * part.apart + i % p->seq * (p->head_dim_v + 2);
        memset(result, 0, (size_t)(p->head_dim_v + 2) * sizeof *result);
        result[p->head_dim_v] = -INFINITY;
    }
    if (is_unpacked(w->kernel, p)) {
        visit_unpacked(w, &part, scratch);
    } else {
        visit_packed(w, &part, scratch);
    }
}

/* The parts of a tile, and of those beside it, that nobody else has taken. */
static void visit_tile(void *context, void *scratch, const weft_visit *visit) {
    const decode_job *w = context;
    const int64_t lot = visit->tile.head / w->together;
    weft_cpu_taken *taken = &w->taken[visit->tile.batch * (w->p.heads / w->together) + lot];
    int64_t i;
    while ((i = weft_cpu_take_part(taken, visit->steps)) >= 0) {
        visit_part(w, scratch, visit->tile.batch, lot * w->together, visit->first + i * visit->direction);
    }
}

/* Merges the parts of one row: exact, up to the rounding of the sums. */
static void merge_row(void *context, void *scratch, int64_t item) {
    const decode_job *w = context;
    const weft_attention *p = &w->p;
    const int64_t row = item % p->seq, head = item / p->seq % p->heads, batch = item / p->seq / p->heads;
    const int64_t dim = p->head_dim_v, pitch = p->seq * (dim + 2);
    const span *s = &w->spans[batch];
    const float *part = w->results + (s->before * p->heads + head * s->parts) * pitch + row * (dim + 2);
    float *out = scratch, max = -INFINITY, sum = 0;
    memset(out, 0, (size_t)dim * sizeof *out);
    for (int64_t i = 0; i < s->parts; i++) {
        max = part[i * pitch + dim] > max ? part[i * pitch + dim] : max;
    }
    for (int64_t i = 0; i < s->parts; i++, part += pitch) {
        const float factor = max == -INFINITY ? 1 : exp2f(part[dim] - max);
        sum += part[dim + 1] * factor;
        for (int64_t d = 0; d < dim; d++) {
            out[d] += part[d] * factor;
        }
    }
    for (int64_t d = 0; d < dim; d++) {
        out[d] = sum == 0 ? 0 : out[d] / sum;
    }
    weft_cpu_store(weft_attention_out_dtype(p), w->data->o, weft_row_index(&p->o_strides, batch, row, head), dim, out);
    if (w->data->lse) {
        w->data->lse[item] = weft_cpu_end_row(max, sum, -INFINITY).lse;
    }
}

static size_t scratch_of(const decode_job *w) {
    size_t packed;
    weft_cpu_queries_lay_out(&w->job, NULL, &packed);
    packed += w->job.kv.k_block + w->job.kv.v_block;
    const size_t unpacked = ((size_t)w->together * room_floats(&w->p) + (size_t)(STAGE * w->p.head_dim)) * sizeof(float);
    return packed > unpacked ? packed : unpacked;
}

/* Whether the rows of a kv head lie beside those of the next. */
static int heads_adjoin(const weft_attention *p) {
    return p->k_strides.head == p->head_dim && p->v_strides.head == p->head_dim_v;
}

/* How many heads a worker reads side by side: as many as leave four parts for each worker. That changes no bits. */
static int64_t heads_together(const decode_job *w, int64_t parts, int64_t workers) {
    const weft_attention *p = &w->p;
    const weft_cpu_decode *decode = w->kernel->decode;
    int64_t heads = 1;
    for (int64_t i = 2; i <= HEADS && decode->block > 0 && is_unpacked(w->kernel, p) && heads_adjoin(p); i++) {
        heads = p->heads % i == 0 && parts * (p->heads / i) >= 4 * workers ? i : heads;
    }
    return heads;
}

/* The spans of all batches; returns how many parts they have together. */
static int64_t find_spans(const weft_attention *problem, span *spans) {
    int64_t parts = 0;
    for (int64_t batch = 0; batch < problem->batch; batch++) {
        const weft_sequences all = weft_attention_sequences(problem);
        const weft_sequence s = weft_sequence_at(&all, batch);
        span *to = &spans[batch];
        to->before = parts;
        if (s.rows.begin < s.used_end) {
            to->keys.begin = weft_seen_keys(problem, batch, s.rows.begin).begin;
            to->keys.end = weft_larger(weft_seen_keys(problem, batch, s.used_end - 1).end, to->keys.begin);
            to->first = to->keys.begin / PART;
            to->parts = to->keys.begin < to->keys.end ? weft_ceil_divide(to->keys.end, PART) - to->first : 0;
        }
        parts += to->parts;
    }
    return parts;
}

weft_status weft_cpu_attention_decode(const weft_plan *plan, const weft_attention_data *data, weft_message *message) {
    const weft_attention *problem = &plan->attention;
    decode_job w = {.p = gather(problem), .data = data, .kernel = weft_cpu_choose(WEFT_CPU_ATTENTION, problem->dtype)};
    const weft_attention *p = &w.p;
    weft_cpu_attention_job_init(&w.job, p, data, p->seq, BLOCK);
    w.spans = calloc((size_t)p->batch, sizeof *w.spans);
    const int64_t parts = w.spans ? find_spans(problem, w.spans) : 0;
    const int64_t tiles = p->batch * p->heads;
    w.together = heads_together(&w, parts, plan->walk.workers);
    const double floats = (double)p->heads * (double)parts * (double)(p->seq * (p->head_dim_v + 2));
    weft_status status = WEFT_OK;
    w.results = w.spans && floats < 0x1p59 ? weft_cpu_alloc((size_t)floats * sizeof *w.results) : NULL;
    w.taken = w.results ? weft_cpu_taken_new(tiles / w.together) : NULL;
    if (!w.taken) {
        status = weft_fail(message, WEFT_NO_MEMORY, "no memory for the parts of %.0f floats", floats);
    }
    const weft_cpu_visitor visitor = {.kernel = w.kernel,
                                      .visit = visit_tile,
                                      .context = &w,
                                      .scratch = scratch_of(&w),
                                      .steals = 1,
                                      .progress = plan->progress,
                                      .progress_user = plan->progress_user};
    if (status == WEFT_OK && (status = weft_cpu_walk(&plan->walk, &visitor, message)) == WEFT_OK) {
        status = weft_cpu_each(tiles * p->seq, w.kernel, visitor.scratch, merge_row, &w, message);
    }
    weft_cpu_free(w.taken);
    weft_cpu_free(w.results);
    free(w.spans);
    return status;
}
