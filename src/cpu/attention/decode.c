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
 * BLOCK: keys of a packed block, which fits the L1. STAGE: keys that are read from short pages together. */
enum { PART = 1536, STRETCH = 768, BLOCK = 96, STAGE = 64 };

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
    weft_cpu_taken *taken; /* (batch, heads): parts */
    float *results;        /* for each batch: (heads, parts, seq, head_dim + 2): output, max, sum */
} decode_job;

/* All queries of a kv head fit one panel. */
static int is_decode(const weft_attention *p) {
    const int64_t group = p->heads / p->kv_heads;
    return !(weft_attention_asks(p) & ~(WEFT_HAS_WINDOW | WEFT_HAS_LENGTHS | WEFT_HAS_CACHE)) && p->sequences == 0 &&
           (group == 1 || p->seq == 1) && group * p->seq <= weft_cpu_choose(WEFT_CPU_ATTENTION, p->dtype)->b.lines &&
           p->kv_seq > PART;
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
        q.extras = 0; /* lengths: is_decode() takes nothing else */
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

/* What a part of the keys is: where it begins and ends, and where its results go. */
typedef struct part {
    int64_t batch, head, begin, end;
    float *results; /* (seq, head_dim + 2) */
} part;

static weft_rows seen_keys(const decode_job *w, const part *part, int64_t row, int64_t begin, int64_t keys) {
    return weft_cpu_seen_of_block(weft_seen_keys(&w->p, part->batch, row), begin, keys);
}

/* The first rows of K or V of some keys: where they lie, or, of short pages, copies in `stage`. */
static weft_cpu_run take_rows(const decode_job *w, const part *part, const void *data, const weft_strides *strides,
                              int64_t begin, int64_t end, char *stage) {
    const size_t row = (size_t)w->p.head_dim * weft_dtype_bytes(w->p.dtype);
    weft_cpu_run run = weft_cpu_kv_run(&w->job.kv, w->p.dtype, data, strides, part->batch, part->head, begin, end);
    if (run.rows >= STAGE || run.rows == end - begin) {
        return run;
    }
    int64_t rows = 0;
    const int64_t most = weft_cpu_min(STAGE, end - begin);
    while (rows < most) {
        run = weft_cpu_kv_run(&w->job.kv, w->p.dtype, data, strides, part->batch, part->head, begin + rows, begin + most);
        for (int64_t i = 0; i < run.rows; i++, rows++) {
            memcpy(stage + (size_t)rows * row, run.at + i * run.step, row);
        }
    }
    return (weft_cpu_run){stage, (int64_t)row, most};
}

/* Scores of all rows with some keys. */
static void multiply_keys(const decode_job *w, const part *part, int64_t begin, int64_t keys, const float *q, float *scores,
                          char *stage) {
    for (int64_t i = 0, count; i < keys; i += count) {
        const weft_cpu_run run = take_rows(w, part, w->data->k, &w->p.k_strides, begin + i, begin + keys, stage);
        count = run.rows;
        w->kernel->decode->dots(w->p.dtype, (int)w->p.seq, count, w->p.head_dim, q, run.at, run.step, scores + i, STRETCH);
    }
}

/* Adds some values, times the weights of `rows` rows. */
static void add_values(const decode_job *w, const part *part, int64_t rows, int64_t begin, int64_t keys,
                       const float *weights, float *out, char *stage) {
    for (int64_t i = 0, count; i < keys; i += count) {
        const weft_cpu_run run = take_rows(w, part, w->data->v, &w->p.v_strides, begin + i, begin + keys, stage);
        count = run.rows;
        w->kernel->decode->sums(w->p.dtype, (int)rows, count, w->p.head_dim, weights + i, STRETCH, run.at, run.step, out);
    }
}

/* K and V unpacked. */
static void visit_unpacked(const decode_job *w, const part *part, float *scratch) {
    const weft_attention *p = &w->p;
    const int64_t dim = p->head_dim;
    float *q = scratch, *scores = q + WEFT_CPU_DECODE_MOST_ROWS * dim, *out = scores + WEFT_CPU_DECODE_MOST_ROWS * STRETCH;
    char *stage = (char *)(out + WEFT_CPU_DECODE_MOST_ROWS * dim);
    for (int64_t row = 0; row < p->seq; row++) {
        weft_cpu_load(p->dtype, w->data->q, weft_row_index(&p->q_strides, part->batch, row, part->head), dim,
                      q + row * dim);
    }
    for (int64_t begin = part->begin; begin < part->end; begin += STRETCH) {
        const int64_t keys = weft_cpu_min(STRETCH, part->end - begin);
        multiply_keys(w, part, begin, keys, q, scores, stage);
        int together = 1; /* all rows see all keys */
        for (int64_t row = 0; row < p->seq; row++) {
            const weft_rows seen = seen_keys(w, part, row, begin, keys);
            float *result = part->results + row * (dim + 2);
            together &= seen.end - seen.begin == keys;
            for (int64_t key = 0; key < seen.begin; key++) {
                scores[row * STRETCH + key] = p->scale < 0 ? INFINITY : -INFINITY;
            }
            if (seen.begin < seen.end) {
                softmax_row(w, scores + row * STRETCH, seen.end, result);
            }
            memcpy(out + row * dim, result, (size_t)dim * sizeof *out);
        }
        if (together) {
            add_values(w, part, p->seq, begin, keys, scores, out, stage);
        }
        for (int64_t row = 0; row < p->seq; row++) {
            const weft_rows seen = seen_keys(w, part, row, begin, keys);
            if (!together && seen.begin < seen.end) { /* a hidden value may be non-finite: each row takes only its keys */
                add_values(w, part, 1, begin + seen.begin, seen.end - seen.begin, scores + row * STRETCH + seen.begin,
                           out + row * dim, stage);
            }
            memcpy(part->results + row * (dim + 2), out + row * dim, (size_t)dim * sizeof *out);
        }
    }
}

/* K and V packed, block by block, for all queries that share them. */
static void visit_packed(const decode_job *w, const part *part, char *scratch) {
    const weft_attention *p = &w->p;
    const weft_cpu_attention_job *job = &w->job;
    const int64_t dim = p->head_dim, dims = job->kv.dims, width = w->kernel->b.lines;
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
    const int64_t begin = step * PART, size = p->seq * (p->head_dim + 2);
    const part part = {batch, head, weft_larger(begin, s->keys.begin), weft_cpu_min(begin + PART, s->keys.end),
                       w->results + (s->before * p->heads + head * s->parts + step - s->first) * size};
    memset(part.results, 0, (size_t)size * sizeof *part.results);
    for (int64_t row = 0; row < p->seq; row++) {
        part.results[row * (p->head_dim + 2) + p->head_dim] = -INFINITY;
    }
    if (w->kernel->decode->takes(p->seq, p->head_dim)) {
        visit_unpacked(w, &part, scratch);
    } else {
        visit_packed(w, &part, scratch);
    }
}

/* The parts of a tile that nobody else has taken. */
static void visit_tile(void *context, void *scratch, const weft_visit *visit) {
    const decode_job *w = context;
    weft_cpu_taken *taken = &w->taken[visit->tile.batch * w->p.heads + visit->tile.head];
    int64_t i;
    while ((i = weft_cpu_take_part(taken, visit->steps)) >= 0) {
        visit_part(w, scratch, visit->tile.batch, visit->tile.head, visit->first + i * visit->direction);
    }
}

/* Merges the parts of one row: exact, up to the rounding of the sums. */
static void merge_row(void *context, void *scratch, int64_t item) {
    const decode_job *w = context;
    const weft_attention *p = &w->p;
    const int64_t row = item % p->seq, head = item / p->seq % p->heads, batch = item / p->seq / p->heads;
    const int64_t dim = p->head_dim, pitch = p->seq * (dim + 2);
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
    weft_cpu_store(p->dtype, w->data->o, weft_row_index(&p->o_strides, batch, row, head), dim, out);
    if (w->data->lse) {
        w->data->lse[item] = weft_cpu_end_row(max, sum, -INFINITY).lse;
    }
}

static size_t scratch_of(const decode_job *w) {
    size_t packed;
    weft_cpu_queries_lay_out(&w->job, NULL, &packed);
    packed += w->job.kv.k_block + w->job.kv.v_block;
    const size_t unpacked =
        (size_t)(WEFT_CPU_DECODE_MOST_ROWS * (2 * w->p.head_dim + STRETCH) + STAGE * w->p.head_dim) * sizeof(float);
    return packed > unpacked ? packed : unpacked;
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
    const double floats = (double)p->heads * (double)parts * (double)(p->seq * (p->head_dim + 2));
    weft_status status = WEFT_OK;
    w.results = w.spans && floats < 0x1p59 ? weft_cpu_alloc((size_t)floats * sizeof *w.results) : NULL;
    w.taken = w.results ? weft_cpu_taken_new(tiles) : NULL;
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
