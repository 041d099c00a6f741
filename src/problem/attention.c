/* SPDX-License-Identifier: Apache-2.0 */
/* Attention as a problem: its check and defaults, its buffers, its fields. */
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/status.h"
#include "problem/attention.h"
#include "problem/problem.h"
#include "problem/tensor.h"

void weft_attention_init(weft_problem *problem) {
    const weft_attention init = WEFT_ATTENTION_INIT;
    problem->attention = init;
}

/* The strides of Q, K, V and O. */
static weft_status resolve_strides(weft_strides *s, const weft_attention *p, char tensor, weft_message *message) {
    const char name[] = {tensor, 0};
    const int of_queries = tensor == 'q' || tensor == 'o';
    const int64_t batch = of_queries ? p->batch : weft_attention_kv_batches(p, s).length;
    const int64_t seq = of_queries ? p->seq : weft_attention_kv_rows(p, s).length;
    const int64_t heads = of_queries ? p->heads : p->kv_heads;
    const int64_t row = tensor == 'v' || tensor == 'o' ? p->head_dim_v : p->head_dim;
    const weft_status status = weft_resolve_strides(s, name, p->layout, batch, seq, heads, row, message);
    weft_tensor_axis axes[] = {{batch, s->batch}, {seq, s->seq}, {heads, s->head}};
    if (status == WEFT_OK && tensor == 'o' && weft_overlaps_itself(axes, 3, row)) {
        return weft_fail(message, WEFT_INVALID,
                         "o_strides make rows of o overlap: batch %" PRId64 ", seq %" PRId64 ", head %" PRId64, s->batch,
                         s->seq, s->head);
    }
    return status;
}

/* Queries for the values: their strides. */
static weft_status resolve_qv(weft_attention *p, weft_message *message) {
    const weft_strides none = {0, 0, 0};
    if (!(p->extras & WEFT_QV)) {
        p->qv_strides = none;
        return WEFT_OK;
    }
    return weft_resolve_strides(&p->qv_strides, "qv", p->layout, p->batch, p->seq, p->heads, p->head_dim_v, message);
}

static weft_status resolve_o_dtype(weft_attention *p, weft_message *message) {
    const char *name = p->o_dtype > 0 ? weft_dtype_name((weft_dtype)(p->o_dtype - 1)) : NULL;
    p->o_dtype = p->o_dtype == 1 + (int32_t)p->dtype ? 0 : p->o_dtype;
    return p->o_dtype == 0 || p->o_dtype == 1 + WEFT_FP32
               ? WEFT_OK
               : weft_fail(message, WEFT_INVALID, "o_dtype %d (%s) is neither dtype (%s) nor fp32", (int)p->o_dtype,
                           name ? name : "not 1 + a weft_dtype", weft_dtype_name(p->dtype));
}

weft_status weft_attention_complete(weft_problem *problem, weft_message *message) {
    weft_attention *p = &problem->attention;
    weft_status status;
    const weft_dimension fields[] = {{"batch", p->batch}, {"heads", p->heads},   {"kv_heads", p->kv_heads},
                                     {"seq", p->seq},     {"kv_seq", p->kv_seq}, {"head_dim", p->head_dim}};
    status = weft_check_dimensions(fields, sizeof fields / sizeof *fields, message);
    if (status) {
        return status;
    }
    if (p->heads % p->kv_heads != 0) {
        return weft_fail(message, WEFT_INVALID, "kv_heads %" PRId64 " does not divide heads %" PRId64, p->kv_heads,
                         p->heads);
    }
    p->head_dim_v = p->head_dim_v == 0 ? p->head_dim : p->head_dim_v;
    if (p->head_dim > WEFT_MAX_HEAD_DIM || p->head_dim_v < 1 || p->head_dim_v > WEFT_MAX_HEAD_DIM) {
        return weft_fail(message, WEFT_INVALID, "head dims of %" PRId64 " and, for V, %" PRId64 " are not between 1 and %d",
                         p->head_dim, p->head_dim_v, WEFT_MAX_HEAD_DIM);
    }
    if (weft_attention_score_dim(p) > WEFT_MAX_HEAD_DIM) {
        return weft_fail(message, WEFT_INVALID,
                         "head dims of %" PRId64 " and, for V, %" PRId64 " are more than %d together, and there is qv",
                         p->head_dim, p->head_dim_v, WEFT_MAX_HEAD_DIM);
    }
    if (p->layout != WEFT_BSHD && p->layout != WEFT_BHSD) {
        return weft_fail(message, WEFT_INVALID, "layout %d is not WEFT_BSHD or WEFT_BHSD", (int)p->layout);
    }
    if (!isfinite(p->scale)) {
        return weft_fail(message, WEFT_INVALID, "scale %g is not finite", p->scale);
    }
    if (p->scale != 0 && (status = weft_check_factor("scale", p->scale, message))) {
        return status;
    }
    int64_t tiles; /* the smallest tile is one query, so this bounds every grid and the LSE */
    if (!weft_multiply(p->batch * p->heads, p->seq, &tiles)) {
        return weft_fail(message, WEFT_INVALID, "batch %" PRId64 " x heads %" PRId64 " x seq %" PRId64 " exceeds 2^62",
                         p->batch, p->heads, p->seq);
    }
    if (p->scale == 0.0) {
        p->scale = 1.0 / sqrt((double)weft_attention_score_dim(p));
    }
    if ((status = weft_check_dtype("dtype", p->dtype, message)) || (status = resolve_o_dtype(p, message)) ||
        (status = weft_attention_resolve_lengths(p, message)) || (status = weft_attention_resolve_cache(p, message)) ||
        (status = weft_attention_resolve_mask(p, message)) || (status = weft_attention_resolve_pairs(p, message)) ||
        (status = weft_attention_resolve_scores(p, message)) ||
        (status = resolve_strides(&p->q_strides, p, 'q', message)) ||
        (status = resolve_strides(&p->k_strides, p, 'k', message)) ||
        (status = resolve_strides(&p->v_strides, p, 'v', message)) ||
        (status = resolve_strides(&p->o_strides, p, 'o', message)) || (status = resolve_qv(p, message)) ||
        (status = weft_attention_resolve_new_keys(p, message))) {
        return status;
    }
    return WEFT_OK;
}

static size_t query_extent(const weft_attention *p, const weft_strides *s, int64_t row) {
    const weft_tensor_axis axes[] = {{p->batch, s->batch}, {p->seq, s->seq}, {p->heads, s->head}};
    return (size_t)weft_extent(axes, 3, row);
}

static size_t key_extent(const weft_attention *p, const weft_strides *s, int64_t row) {
    const weft_tensor_axis axes[] = {weft_attention_kv_batches(p, s), weft_attention_kv_rows(p, s), {p->kv_heads, s->head}};
    return (size_t)weft_extent(axes, 3, row);
}

weft_attention_extents weft_attention_sizes(const weft_attention *p) {
    return (weft_attention_extents){query_extent(p, &p->q_strides, p->head_dim),
                                    key_extent(p, &p->k_strides, p->head_dim),
                                    key_extent(p, &p->v_strides, p->head_dim_v),
                                    query_extent(p, &p->o_strides, p->head_dim_v),
                                    p->extras & WEFT_QV ? query_extent(p, &p->qv_strides, p->head_dim_v) : 0,
                                    (size_t)(p->batch * p->heads * p->seq)};
}

double weft_attention_forward_flops(const weft_problem *problem) {
    const weft_attention *p = &problem->attention;
    const double pairs = weft_attention_pairs(p) * weft_attention_listed_share(p); /* as if the band's were spread evenly */
    return 2.0 * (double)p->heads * pairs * (double)(weft_attention_score_dim(p) + p->head_dim_v);
}

/* What both passes read beside Q, K and V, from the struct `data`, whose fields have the same names. */
#define INPUT(bit, data, field, dtype, count)                                                                              \
    if ((p->extras & (bit)) && (count) > 0) {                                                                              \
        const weft_buffer buffer = WEFT_BUFFER_OF(data, field, dtype, (size_t)(count), weft_dtype_bytes(dtype), 1, 0);     \
        list[n++] = buffer;                                                                                                \
    }
#define INPUTS(data)                                                                                                       \
    size_t pairs[WEFT_PAIR_ARRAYS];                                                                                        \
    weft_attention_pair_elements(p, pairs);                                                                                \
    const int64_t each = p->sequences > 0 ? p->sequences : p->batch;                                                       \
    INPUT(WEFT_SINKS, data, sinks, WEFT_FP32, p->heads)                                                                    \
    INPUT(WEFT_ALIBI, data, alibi, WEFT_FP32, (each - 1) * p->alibi_stride + p->heads)                                     \
    INPUT(WEFT_BIAS, data, bias, weft_attention_bias_dtype(p), weft_attention_bias_extent(p))                              \
    INPUT(WEFT_STARTS, data, lengths.q_starts, WEFT_INT32, each + 1)                                                       \
    INPUT(WEFT_KV_STARTS, data, lengths.kv_starts, WEFT_INT32, each + 1)                                                   \
    INPUT(WEFT_Q_USED, data, lengths.q_used, WEFT_INT32, each)                                                             \
    INPUT(WEFT_KV_USED, data, lengths.kv_used, WEFT_INT32, each)                                                           \
    INPUT(WEFT_KV_PAD, data, lengths.kv_pad, WEFT_INT32, each)                                                             \
    INPUT(WEFT_BLOCKS, data, pairs.block_starts, WEFT_INT32, pairs[0])                                                     \
    INPUT(WEFT_BLOCKS, data, pairs.block_list, WEFT_INT32, pairs[1])                                                       \
    INPUT(WEFT_BLOCKS, data, pairs.block_bits_at, WEFT_INT32, pairs[2])                                                    \
    INPUT(WEFT_BLOCKS, data, pairs.block_bits, WEFT_INT32, pairs[3])                                                       \
    INPUT(WEFT_TREE, data, pairs.tree, WEFT_INT64, pairs[4])

size_t weft_attention_data_inputs(const weft_attention *p, weft_buffer *list) {
    size_t n = 0;
    INPUTS(weft_attention_data)
    return n;
}

size_t weft_attention_gradient_inputs(const weft_attention *p, weft_buffer *list) {
    size_t n = 0;
    INPUTS(weft_attention_gradients)
    return n;
}

static size_t buffers(const weft_problem *problem, weft_buffer *list) {
    const weft_attention *p = &problem->attention;
    const weft_attention_extents n = weft_attention_sizes(p);
    const int32_t kv = p->cache.append > 0 ? 3 : 1; /* read, and written where keys are appended */
    const weft_buffer all[] = {
        WEFT_BUFFER_OF(weft_attention_data, q, p->dtype, n.q, 16, 1, 0),
        WEFT_BUFFER_OF(weft_attention_data, k, p->dtype, n.k, 16, kv, 0),
        WEFT_BUFFER_OF(weft_attention_data, v, p->dtype, n.v, 16, kv, 0),
        WEFT_BUFFER_OF(weft_attention_data, o, weft_attention_out_dtype(p), n.o, 16, 2, 0),
        WEFT_BUFFER_OF(weft_attention_data, lse, WEFT_FP32, n.lse, sizeof(float), 2, 1),
        WEFT_BUFFER_OF(weft_attention_data, max, WEFT_FP32, n.lse, sizeof(float), 2, 0),
    };
    size_t count = sizeof all / sizeof *all - (p->extras & WEFT_MAX ? 0 : 1);
    memcpy(list, all, count * sizeof *all);
    count += weft_attention_data_inputs(p, list + count);
    count += weft_attention_cache_inputs(p, list + count);
    if (p->extras & WEFT_QV) {
        const weft_buffer qv = WEFT_BUFFER_OF(weft_attention_data, qv, p->dtype, n.qv, 16, 1, 0);
        list[count++] = qv;
    }
    return count;
}

static int text(const weft_problem *problem, char *to, size_t size) {
    return weft_attention_line("attention", &problem->attention, to, size);
}

static int title(const weft_problem *problem, char *to, size_t size) {
    return weft_attention_caption("", &problem->attention, to, size);
}

static size_t key(const weft_problem *problem, int64_t *numbers, char *to, size_t size) {
    return weft_attention_key("attention", &problem->attention, numbers, to, size);
}

/* The dtype of results as a field's choice: 0 is as the others. */
static const char *o_dtype_choice(int32_t value) {
    return value == 0 ? "dtype" : weft_dtype_choice(value - 1);
}

#define AT(field) offsetof(weft_attention, field)
/* clang-format off */
const weft_field weft_attention_fields[WEFT_ATTENTION_FIELDS] = {
    {"batch",    "sequences (1)", WEFT_FIELD_INTEGER, AT(batch), 0, NULL, 1, NULL},
    {"heads",    "query heads (1)", WEFT_FIELD_INTEGER, AT(heads), 0, NULL, 1, NULL},
    {"kv_heads", "key and value heads, dividing heads (as many as heads)", WEFT_FIELD_INTEGER, AT(kv_heads), 0, NULL, 0, "heads"},
    {"seq",      "queries (1024)", WEFT_FIELD_INTEGER, AT(seq), 0, NULL, 1024, NULL},
    {"kv_seq",   "keys (as many as queries)", WEFT_FIELD_INTEGER, AT(kv_seq), 0, NULL, 0, "seq"},
    {"head_dim", "1 to 576 (64)", WEFT_FIELD_INTEGER, AT(head_dim), 0, NULL, 64, NULL},
    {"head_dim_v", "head dim of V and O, 1 to 576 (that of Q and K)", WEFT_FIELD_INTEGER, AT(head_dim_v), 1, NULL, 0, "head_dim"},
    {"causal",   "query i sees keys 0 .. i + offset", WEFT_FIELD_FLAG, AT(mask), WEFT_MASK_CAUSAL, NULL, 0, NULL},
    {"offset",   "causal, window: position of the first query among the keys (0)", WEFT_FIELD_INTEGER, AT(offset), 0, NULL, 0, NULL},
    {"bottom_right", "causal, window: the last query's own position is the last key", WEFT_FIELD_FLAG, AT(mask), WEFT_MASK_CAUSAL_BOTTOM_RIGHT, NULL, 0, NULL},
    {"window",   "keys before and behind a query's own, -1: all; with causal none behind", WEFT_FIELD_PAIR, AT(left), WEFT_MASK_WINDOW, NULL, -1, NULL},
    {"chunk",    "a query sees only keys of its own chunk of so many (0: one chunk)", WEFT_FIELD_INTEGER, AT(chunk), 1, NULL, 0, NULL},
    {"prefix",   "every query sees the first so many keys, too (0)", WEFT_FIELD_INTEGER, AT(prefix), 1, NULL, 0, NULL},
    {"lengths",  "a packed batch: the queries of each sequence, in place of seq", WEFT_FIELD_STARTS, AT(lengths.q_starts), 0, NULL, 0, NULL},
    {"kv_lengths", "the keys of each sequence (packed: as many as queries; else kv_seq)", WEFT_FIELD_STARTS, AT(lengths.kv_starts), 0, NULL, 0, NULL},
    {"page",     "a KV cache in pages of so many keys (0: none)", WEFT_FIELD_INTEGER, AT(cache.page), 1, NULL, 0, NULL},
    {"append",   "new keys of each sequence that are appended to its others (0)", WEFT_FIELD_INTEGER, AT(cache.append), 1, NULL, 0, NULL},
    {"rotary",   "elements of queries and new keys that are rotated by position (0)", WEFT_FIELD_INTEGER, AT(cache.rotary_dim), 1, NULL, 0, NULL},
    {"rotary_interleaved", "rotary: pairs are neighbours, not half of it apart", WEFT_FIELD_BIT, AT(cache.rotary_interleaved), 1, NULL, 0, NULL},
    {"softcap",  "scores become softcap * tanh(score / softcap) (0: as they are)", WEFT_FIELD_REAL, AT(softcap), 1, NULL, 0, NULL},
    {"sinks",    "a score for each head that takes weight and has no value", WEFT_FIELD_BIT, AT(extras), WEFT_SINKS, NULL, 0, NULL},
    {"alibi",    "scores fall with the distance of query and key, by a slope for each head", WEFT_FIELD_BIT, AT(extras), WEFT_ALIBI, NULL, 0, NULL},
    {"qv",       "queries for the values, too: scores are scale * (q k + qv v)", WEFT_FIELD_BIT, AT(extras), WEFT_QV, NULL, 0, NULL},
    {"dropout",  "probability that a weight counts as 0, below 1 (0)", WEFT_FIELD_REAL, AT(dropout), 1, NULL, 0, NULL},
    {"scale",    "softmax scale (1 / sqrt(head dim), with qv of both)", WEFT_FIELD_REAL, AT(scale), 0, NULL, 0, NULL},
    {"layout",   "bshd or bhsd (bshd)", WEFT_FIELD_CHOICE, AT(layout), 0, weft_layout_name, WEFT_BSHD, NULL},
    {"o_dtype",  "of results: fp32, or dtype (dtype)", WEFT_FIELD_CHOICE, AT(o_dtype), 1, o_dtype_choice, 0, NULL},
    {"dtype",    "fp32, fp16, bf16 or, simulated, fp8 (fp32)", WEFT_FIELD_CHOICE, AT(dtype), 0, weft_dtype_choice, WEFT_FP32, NULL},
};
/* clang-format on */

const weft_operation_row weft_operation_attention = {
    .info = {.operation = WEFT_ATTENTION,
             .name = "attention",
             .text = "O = softmax(scale * Q K^T) V",
             .problem_size = sizeof(weft_attention),
             .data_size = sizeof(weft_attention_data),
             .grid = WEFT_GRID_HEADS,
             .fields = weft_attention_fields,
             .field_count = WEFT_ATTENTION_FIELDS},
    .profile = offsetof(weft_machine, attention_profile),
    .init = weft_attention_init,
    .resolve = weft_attention_complete,
    .keep = weft_attention_keep,
    .kept_bytes = weft_attention_kept_bytes,
    .lengths = offsetof(weft_attention_data, lengths),
    .pairs = offsetof(weft_attention_data, pairs),
    .cache = offsetof(weft_attention_data, cache),
    .seed = offsetof(weft_attention_data, dropout_seed),
    .workspace = offsetof(weft_attention_data, workspace),
    .prepared = offsetof(weft_attention_data, prepared),
    .flops = weft_attention_forward_flops,
    .buffers = buffers,
    .apart = weft_attention_kv_apart,
    .sides = weft_attention_sides,
    .choose = weft_attention_choose,
    .lay_out = weft_attention_lay_out,
    .pieces = weft_attention_pieces,
    .reads = weft_attention_reads,
    .place = weft_attention_place,
    .step_bytes = weft_attention_step_bytes,
    .text = text,
    .title = title,
    .key = key,
};
