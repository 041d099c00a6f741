/* A pass: the parts of the keys come by, one a step, while the rank computes what its queries see of the last. */
#include <math.h>

#include "base/status.h"
#include "dist/work.h"
#include "problem/problem.h"

/* What messages are of, beside their step: they are waited for together. */
enum { RECEIVED, PASSED_ON, ADDS_RECEIVED, ADDS_SENT, ARRIVED, OWN_SENT, GROUPS };

static int64_t group_of(int kind, int64_t step) {
    return step * GROUPS + kind;
}

/* Rounds of messages: the keys of a step go out before the step before it is computed, and the gradients of a step after
 * it. Sums that go on are needed a lag later: in the last round before. */
static int64_t keys_round(int64_t step) {
    return 2 * step;
}

static int64_t adds_round(int64_t step) {
    return 2 * step + 3;
}

typedef struct pass {
    weft_dist_work *work;
    const weft_dist_inputs *in;
    int back;
    size_t k_row, v_row;    /* bytes of a row of K and of V */
    size_t k_sums, v_sums;  /* of their gradients */
    size_t q_row, o_row;    /* of Q, and of O */
    int64_t received, sent; /* steps whose receives, and whose sends, have begun */
    weft_message *message;
} pass;

static size_t rows_of(weft_range range) {
    return (size_t)(range.end - range.begin);
}

/* Keys of a step: the group's own, or where they came to, counted from the first of the piece. */
static weft_dist_pair keys_at(const pass *p, int64_t step) {
    const weft_hop *hop = &p->work->steps[step].hop;
    weft_dist_pair pair;
    if (hop->part == p->work->ring_rank) {
        pair = p->in->own;
        pair.k.at += (size_t)hop->keys.begin * p->k_row;
        pair.v.at += (size_t)hop->keys.begin * p->v_row;
        return pair;
    }
    pair = p->work->slot[step % p->work->slots];
    const int64_t first = p->back ? 0 : p->work->dist->steps - 1; /* the step whose part is kept */
    if (p->in->kept && step == first) {
        pair.k.at = pair.k.wire = p->in->kept;
        pair.v.at = pair.v.wire = p->in->kept + (size_t)p->work->slot_rows * p->k_row;
    }
    return pair;
}

/* Sends or receives ranges of a pair of tensors whose first row is row `before` of the part. */
static weft_status send_ranges(const pass *p, const weft_dist_pair *pair, size_t k_row, size_t v_row, const weft_range *r,
                               size_t count, int64_t before, int64_t to, int tag, int64_t group) {
    weft_io *io = &p->work->io;
    const weft_dist *dist = p->work->dist;
    const int64_t rank = to * dist->ranks.head_ranks + p->work->member;
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < count && !status; i++) {
        const size_t at = (size_t)(r[i].begin - before), rows = rows_of(r[i]);
        status = weft_io_send(io, pair->k.wire + at * k_row, rows * k_row, rank, tag, group, p->message);
        status = status ? status : weft_io_send(io, pair->v.wire + at * v_row, rows * v_row, rank, tag, group, p->message);
    }
    return status;
}

static weft_status receive_ranges(const pass *p, const weft_dist_pair *pair, size_t k_row, size_t v_row,
                                  const weft_range *r, size_t count, int64_t before, int64_t from, int tag, int64_t group) {
    weft_io *io = &p->work->io;
    const weft_dist *dist = p->work->dist;
    const int64_t rank = from * dist->ranks.head_ranks + p->work->member;
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < count && !status; i++) {
        const size_t at = (size_t)(r[i].begin - before), rows = rows_of(r[i]);
        status = weft_io_receive(io, pair->k.wire + at * k_row, rows * k_row, rank, tag, group, p->message);
        status =
            status ? status : weft_io_receive(io, pair->v.wire + at * v_row, rows * v_row, rank, tag, group, p->message);
    }
    return status;
}

/* A backward pass may begin with what the forward pass kept. */
static int is_kept(const pass *p, int64_t step) {
    return p->back && p->in->kept && step == 0;
}

/* ---- keys ---- */

static weft_status receive_keys(const pass *p, int64_t step) {
    weft_dist_work *work = p->work;
    const weft_hop *hop = &work->steps[step].hop;
    weft_status status = WEFT_OK;
    if (step >= work->slots) { /* where they come to, an earlier step's were passed on from */
        status = weft_io_wait(&work->io, group_of(PASSED_ON, step - work->slots), p->message);
    }
    if (status || hop->source == work->ring_rank || hop->needed_count == 0 || is_kept(p, step)) {
        return status;
    }
    const weft_dist_pair to = keys_at(p, step);
    weft_io_round(&work->io, keys_round(step));
    return receive_ranges(p, &to, p->k_row, p->v_row, hop->needed, hop->needed_count, hop->keys.begin, hop->source,
                          WEFT_TAG_KEYS, group_of(RECEIVED, step));
}

static weft_status send_keys(const pass *p, int64_t step) {
    const weft_dist_step *s = &p->work->steps[step];
    weft_status status = WEFT_OK;
    weft_io_round(&p->work->io, keys_round(step));
    for (size_t i = 0; i < s->move_count && !status && !is_kept(p, step); i++) {
        const weft_move *move = &s->moves[i];
        if (move->kind == WEFT_MOVE_OWN) {
            status = send_ranges(p, &p->in->own, p->k_row, p->v_row, move->ranges, move->count, 0, move->to, WEFT_TAG_KEYS,
                                 group_of(OWN_SENT, 0));
        } else if (move->kind == WEFT_MOVE_ON) {
            const weft_dist_pair from = keys_at(p, move->step);
            status = send_ranges(p, &from, p->k_row, p->v_row, move->ranges, move->count, move->before, move->to,
                                 WEFT_TAG_KEYS, group_of(PASSED_ON, move->step));
        }
    }
    return status;
}

/* Begins the receives that there is room for, and the sends of steps up to `last`. */
static weft_status begin_moves(pass *p, int64_t step, int64_t last) {
    const weft_dist *dist = p->work->dist;
    const int passes_on = dist->ranks.exchange == WEFT_EXCHANGE_RING && dist->pieces == 1;
    const int64_t ahead = passes_on ? 2 : p->work->slots;
    weft_status status = WEFT_OK;
    last = p->work->slots == dist->steps ? dist->steps - 1 : weft_smaller(last, dist->steps - 1);
    for (; p->received < weft_smaller(step + ahead, dist->steps) && !status; p->received++) {
        status = receive_keys(p, p->received);
    }
    for (; p->sent <= last && !status; p->sent++) {
        status = send_keys(p, p->sent);
    }
    return status;
}

/* ---- gradients of keys ---- */

/* Clears what a step adds to, and begins to receive what others have added. */
static weft_status begin_adds(const pass *p, int64_t step) {
    weft_dist_work *work = p->work;
    const weft_attention *a = &work->dist->problem.attention;
    const weft_hop *hop = &work->steps[step].hop;
    const weft_dist_pair *to = &work->adds[step % work->adds_count];
    weft_status status = WEFT_OK;
    const int64_t before = step - work->adds_count;
    if (before >= 0) { /* whoever takes that has begun to receive it: it is `lag` steps ahead */
        status = weft_io_wait(&work->io, group_of(ADDS_SENT, before), p->message);
    }
    if (hop->part == work->ring_rank) {
        return status;
    }
    const size_t heads = (size_t)(a->batch * work->kv_heads);
    for (size_t i = 0; i < hop->needed_count && !status; i++) {
        const size_t at = (size_t)(hop->needed[i].begin - hop->keys.begin), rows = rows_of(hop->needed[i]);
        status =
            work->memory.fill(&work->memory, to->k.at + at * p->k_sums, 0, rows * heads * (size_t)a->head_dim, p->message);
        status = status ? status
                        : work->memory.fill(&work->memory, to->v.at + at * p->v_sums, 0,
                                            rows * heads * (size_t)a->head_dim_v, p->message);
    }
    if (status || hop->adds_from < 0) {
        return status;
    }
    weft_io_round(&work->io, adds_round(step - 1));
    return receive_ranges(p, to, p->k_sums, p->v_sums, hop->earlier, hop->earlier_count, hop->keys.begin, hop->adds_from,
                          WEFT_TAG_ADDS, group_of(ADDS_RECEIVED, step));
}

static weft_status send_adds(const pass *p, int64_t step) {
    const weft_dist_step *s = &p->work->steps[step];
    for (size_t i = 0; i < s->move_count; i++) {
        const weft_move *move = &s->moves[i];
        if (move->kind == WEFT_MOVE_ADDS) {
            const int64_t on = weft_ring_lag(&p->work->dist->ring) - 1;
            weft_io_round(&p->work->io, adds_round(s->hop.adds_end ? step : step + on));
            return send_ranges(p, &p->work->adds[step % p->work->adds_count], p->k_sums, p->v_sums, move->ranges,
                               move->count, move->before, move->to, s->hop.adds_end ? WEFT_TAG_HOME : WEFT_TAG_ADDS,
                               group_of(ADDS_SENT, step));
        }
    }
    return WEFT_OK;
}

/* Gradients of own keys that come home from whoever had them at a step: after it. */
static weft_status begin_arrival(const pass *p, int64_t step) {
    const weft_dist_step *s = &p->work->steps[step];
    weft_io_round(&p->work->io, adds_round(step));
    return receive_ranges(p, &p->work->arrivals, p->k_sums, p->v_sums, s->home, s->home_count, 0, s->home_from,
                          WEFT_TAG_HOME, group_of(ARRIVED, step));
}

static weft_status end_arrival(const pass *p, int64_t step) {
    weft_dist_work *work = p->work;
    const weft_dist_step *s = &work->steps[step];
    weft_combine_data data = WEFT_COMBINE_DATA_INIT;
    weft_status status = weft_io_wait(&work->io, group_of(ARRIVED, step), p->message);
    for (size_t i = 0; i < s->home_count && !status; i++) {
        const size_t k_at = (size_t)s->home[i].begin * p->k_sums, v_at = (size_t)s->home[i].begin * p->v_sums;
        data.parts[0] = work->arrivals.k.at + k_at;
        data.o = work->home.k.at + k_at;
        status = weft_dist_compute(work, s->add_home[2 * i], &data, p->message);
        data.parts[0] = work->arrivals.v.at + v_at;
        data.o = work->home.v.at + v_at;
        status = status ? status : weft_dist_compute(work, s->add_home[2 * i + 1], &data, p->message);
    }
    return status;
}

/* ---- a step ---- */

/* Where the bias of a slice begins. */
static const char *bias_at(const pass *p, const weft_dist_slice *s, int64_t part) {
    const weft_dist *dist = p->work->dist;
    const weft_attention *mine = &p->work->local.attention;
    if (!p->in->bias) {
        return NULL;
    }
    const weft_dist_group group = weft_dist_group_of(dist, part, WEFT_KEY_ROWS);
    int64_t key = 0;
    for (int64_t i = group.first; i < group.end; i++) {
        int64_t before;
        const weft_chunk chunk = weft_dist_group_chunk(&group, i, &before);
        if (s->keys.begin >= before && s->keys.begin < before + chunk.count) {
            key = chunk.begin + (s->keys.begin - before) * chunk.stride;
        }
    }
    const size_t bytes = mine->bias_type == WEFT_BIAS_BOOL   ? 1
                         : mine->bias_type == WEFT_BIAS_FP32 ? sizeof(float)
                                                             : weft_dtype_bytes(mine->dtype);
    return p->in->bias + (size_t)(s->queries.begin * mine->bias_strides.seq + key * mine->bias_key_stride) * bytes;
}

static const float *alibi_at(const pass *p, const weft_dist_slice *s) {
    const weft_attention *a = &p->work->dist->problem.attention;
    return p->in->alibi ? p->in->alibi + (a->sequences > 0 ? s->sequence * a->alibi_stride : 0) : NULL;
}

static weft_status forward_slice(const pass *p, const weft_dist_slice *s, const weft_dist_slice_plans *plans,
                                 const weft_hop *hop, const weft_dist_pair *keys) {
    weft_dist_work *work = p->work;
    const size_t query = (size_t)s->queries.begin, key = (size_t)(s->keys.begin - hop->keys.begin);
    weft_attention_data data = WEFT_ATTENTION_DATA_INIT;
    data.q = p->in->q + query * p->q_row;
    data.k = keys->k.at + key * p->k_row;
    data.v = keys->v.at + key * p->v_row;
    data.o = work->part_o;
    data.lse = (float *)(void *)work->part_lse;
    data.alibi = alibi_at(p, s);
    data.bias = bias_at(p, s, hop->part);
    data.workspace = work->workspace;
    const weft_status status = weft_dist_compute(work, plans->attention, &data, p->message);
    weft_combine_data add = WEFT_COMBINE_DATA_INIT;
    add.parts[0] = work->part_o;
    add.lses[0] = data.lse;
    add.o = work->sums + query * p->o_row / weft_dtype_bytes(work->dist->problem.attention.dtype) * sizeof(float);
    add.lse = (float *)(void *)work->sums_lse + query;
    return status ? status : weft_dist_compute(work, plans->add_queries, &add, p->message);
}

static weft_status backward_slice(const pass *p, const weft_dist_slice *s, const weft_dist_slice_plans *plans,
                                  const weft_hop *hop, const weft_dist_pair *keys) {
    weft_dist_work *work = p->work;
    const weft_attention *a = &work->dist->problem.attention;
    const size_t query = (size_t)s->queries.begin, key = (size_t)(s->keys.begin - hop->keys.begin);
    const size_t lines = (size_t)(a->batch * work->heads), rows = rows_of(s->queries), all = (size_t)work->queries;
    const float *lse = p->in->lse + query;
    weft_status status = WEFT_OK;
    if (rows != all) { /* a plan takes LSEs of all its queries, head by head */
        status = work->memory.copy(&work->memory, work->part_lse, rows * sizeof(float), lse, all * sizeof(float),
                                   rows * sizeof(float), lines, p->message);
        lse = (const float *)(const void *)work->part_lse;
    }
    weft_attention_gradients data = WEFT_ATTENTION_GRADIENTS_INIT;
    data.q = p->in->q + query * p->q_row;
    data.k = keys->k.at + key * p->k_row;
    data.v = keys->v.at + key * p->v_row;
    data.grad_o = p->in->grad_o + query * p->o_row;
    data.o = p->in->o + query * p->o_row / weft_dtype_bytes(a->dtype) * sizeof(float);
    data.lse = lse;
    data.grad_q = work->part_o;
    data.grad_k = work->part_k;
    data.grad_v = work->part_v;
    data.alibi = alibi_at(p, s);
    data.workspace = work->workspace;
    status = status ? status : weft_dist_compute(work, plans->attention, &data, p->message);

    weft_combine_data add = WEFT_COMBINE_DATA_INIT;
    const size_t element = weft_dtype_bytes(a->dtype);
    add.parts[0] = work->part_o;
    add.o = work->sums + query * p->q_row / element * sizeof(float);
    status = status ? status : weft_dist_compute(work, plans->add_queries, &add, p->message);
    const int own = hop->part == work->ring_rank;
    const weft_dist_pair *to = own ? &work->home : &work->adds[hop->step % p->work->adds_count];
    const size_t at = (size_t)(s->keys.begin - (own ? 0 : hop->keys.begin));
    if (!own && !status) {
        status = weft_io_wait(&work->io, group_of(ADDS_RECEIVED, hop->step), p->message);
    }
    add.parts[0] = work->part_k;
    add.o = to->k.at + at * p->k_sums;
    status = status ? status : weft_dist_compute(work, plans->add_keys, &add, p->message);
    add.parts[0] = work->part_v;
    add.o = to->v.at + at * p->v_sums;
    return status ? status : weft_dist_compute(work, plans->add_values, &add, p->message);
}

static weft_status take_step(pass *p, int64_t step) {
    weft_dist_work *work = p->work;
    const weft_dist_step *s = &work->steps[step];
    const int64_t next = step + 1;
    weft_status status;
    if ((status = begin_moves(p, step, step)) || (status = weft_io_due(&work->io, keys_round(step), p->message)) ||
        (status = weft_io_wait(&work->io, group_of(RECEIVED, step), p->message)) || (status = begin_moves(p, step, next)) ||
        (status = weft_io_due(&work->io, keys_round(next), p->message)) ||
        (status = p->back && next < work->dist->steps ? begin_adds(p, next) : WEFT_OK)) {
        return status;
    }
    const weft_dist_pair keys = keys_at(p, step);
    for (size_t i = 0; i < s->hop.slices.count && !status; i++) {
        status = (p->back ? backward_slice : forward_slice)(p, &s->hop.slices.list[i], &s->plans[i], &s->hop, &keys);
    }
    if (status || !p->back) {
        return status;
    }
    status = send_adds(p, step);
    status = status || step == 0 ? status : end_arrival(p, step - 1);
    status = status ? status : begin_arrival(p, step); /* others wait until it is taken */
    return status ? status : weft_io_due(&work->io, adds_round(step), p->message);
}

/* Sums are 0, and forward their LSE is what a sink adds, or nothing. */
static weft_status clear(const pass *p) {
    weft_dist_work *work = p->work;
    const weft_attention *a = &work->dist->problem.attention;
    const size_t rows = (size_t)(work->queries * a->batch * work->heads), all = (size_t)work->queries;
    const weft_dist_memory *m = &work->memory;
    weft_status status = m->fill(m, work->sums, 0, rows * (size_t)(p->back ? a->head_dim : a->head_dim_v), p->message);
    float *lse = (float *)(void *)work->sums_lse;
    for (int64_t i = 0; i < a->batch * work->heads && !p->back && !status; i++) {
        const float sink = p->in->sinks ? p->in->sinks[i % work->heads] : -INFINITY;
        status = m->fill(m, lse + (size_t)i * all, sink, all, p->message);
    }
    if (p->back && !status) {
        const size_t keys = (size_t)(work->keys * a->batch * work->kv_heads);
        status = m->fill(m, work->home.k.at, 0, keys * (size_t)a->head_dim, p->message);
        status = status ? status : m->fill(m, work->home.v.at, 0, keys * (size_t)a->head_dim_v, p->message);
    }
    return status;
}

weft_status weft_dist_pass(weft_dist_work *work, const weft_dist_inputs *in, weft_message *message) {
    const weft_attention *a = &work->dist->problem.attention;
    const size_t element = weft_dtype_bytes(a->dtype), kv = (size_t)(a->batch * work->kv_heads);
    const size_t heads = (size_t)(a->batch * work->heads), dim = (size_t)a->head_dim, dim_v = (size_t)a->head_dim_v;
    pass p = {.work = work,
              .in = in,
              .back = weft_dist_is_backward(work->dist),
              .k_row = kv * dim * element,
              .v_row = kv * dim_v * element,
              .k_sums = kv * dim * sizeof(float),
              .v_sums = kv * dim_v * sizeof(float),
              .q_row = heads * dim * element,
              .o_row = heads * dim_v * element,
              .message = message};
    const int64_t steps = work->dist->steps;
    weft_status status = clear(&p);
    status = status || !p.back ? status : begin_adds(&p, 0);
    for (int64_t step = 0; step < steps && !status; step++) {
        status = take_step(&p, step);
    }
    status = status || !p.back ? status : end_arrival(&p, steps - 1);
    status = status ? status : weft_io_wait(&work->io, group_of(OWN_SENT, 0), message);
    for (int64_t step = weft_larger(steps - work->slots, 0); step < steps && !status; step++) {
        status = weft_io_wait(&work->io, group_of(PASSED_ON, step), message);
    }
    for (int64_t step = weft_larger(steps - work->adds_count, 0); step < steps && !status && p.back; step++) {
        status = weft_io_wait(&work->io, group_of(ADDS_SENT, step), message);
    }
    weft_io_round(&work->io, 0); /* what follows is due at once */
    return status;
}
