/* What a rank needs for its passes, made once: the steps, plans for them, and buffers. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "base/struct.h"
#include "dist/staging.h"
#include "dist/work.h"
#include "plan/plan.h"
#include "problem/problem.h"

/* ---- memory ---- */

static weft_status take_pair(weft_dist_work *work, int64_t rows, size_t element, weft_dist_pair *pair,
                             weft_message *message) {
    const weft_attention *p = &work->dist->problem.attention;
    const size_t row = (size_t)(p->batch * work->kv_heads) * element;
    const weft_status status = weft_dist_take(work, (size_t)rows * row * (size_t)p->head_dim, &pair->k, message);
    return status ? status : weft_dist_take(work, (size_t)rows * row * (size_t)p->head_dim_v, &pair->v, message);
}

/* ---- plans ---- */

/* The attention of a slice, with what the caller's tensors say of a bias. */
static weft_status plan_slice(weft_dist_work *work, const weft_dist_slice *s, const weft_plan **plan,
                              weft_message *message) {
    weft_attention p = weft_dist_slice_problem(work->dist, s);
    p.o_dtype = 1 + WEFT_FP32; /* results are rounded once, when all have been added up */
    if (p.extras & WEFT_BIAS) {
        p.bias_type = work->dist->problem.attention.bias_type;
        p.bias_strides = work->local.attention.bias_strides;
        p.bias_key_stride = work->local.attention.bias_key_stride * work->key_stride;
    }
    return weft_dist_plan_of(work, &p, plan, message);
}

static weft_status plan_adding(weft_dist_work *work, const weft_dist_slice *s, weft_dist_slice_plans *plans,
                               weft_message *message) {
    const weft_attention *p = &work->dist->problem.attention;
    const int64_t queries = s->queries.end - s->queries.begin, keys = s->keys.end - s->keys.begin;
    const int back = weft_dist_is_backward(work->dist);
    weft_combine q = weft_dist_adding(work->dist, queries, work->heads, back ? p->head_dim : p->head_dim_v);
    weft_combine k = weft_dist_adding(work->dist, keys, work->kv_heads, p->head_dim);
    weft_combine v = weft_dist_adding(work->dist, keys, work->kv_heads, p->head_dim_v);
    q.sum = back;
    q.lse_stride = back ? 0 : work->queries;
    q.dtype = k.dtype = v.dtype = WEFT_FP32;
    weft_status status = weft_dist_plan_of(work, &q, &plans->add_queries, message);
    status = status || !back ? status : weft_dist_plan_of(work, &k, &plans->add_keys, message);
    return status || !back ? status : weft_dist_plan_of(work, &v, &plans->add_values, message);
}

/* ---- steps ---- */

/* Backward: who brings gradients of this group's keys home from a step. */
static weft_status find_home(const weft_dist_work *work, int64_t number, weft_dist_step *step, weft_message *message) {
    const weft_dist *dist = work->dist;
    const int64_t along = weft_dist_order_step(dist, number / dist->pieces);
    const int64_t from = weft_ring_taker(&dist->ring, work->ring_rank, along);
    weft_hop hop;
    if (from == work->ring_rank) {
        return WEFT_OK;
    }
    const weft_status status = weft_hop_at(dist, from, number, &hop, message);
    if (!status && hop.adds_end && hop.needed_count > 0) {
        step->home = hop.needed;
        step->home_count = hop.needed_count;
        step->home_from = from;
        hop.needed = NULL;
    }
    if (!status) {
        weft_hop_free(&hop);
    }
    return status;
}

/* Plans that add what comes home. */
static weft_status plan_home(weft_dist_work *work, weft_dist_step *step, weft_message *message) {
    const weft_attention *p = &work->dist->problem.attention;
    weft_status status = WEFT_OK;
    step->add_home = calloc(2 * step->home_count + 1, sizeof(weft_plan *));
    if (!step->add_home) {
        return weft_fail(message, WEFT_NO_MEMORY, "no memory for the plans of a step");
    }
    for (size_t i = 0; i < step->home_count && !status; i++) {
        const int64_t rows = step->home[i].end - step->home[i].begin;
        weft_combine k = weft_dist_adding(work->dist, rows, work->kv_heads, p->head_dim);
        weft_combine v = weft_dist_adding(work->dist, rows, work->kv_heads, p->head_dim_v);
        k.dtype = v.dtype = WEFT_FP32;
        status = weft_dist_plan_of(work, &k, &step->add_home[2 * i], message);
        status = status ? status : weft_dist_plan_of(work, &v, &step->add_home[2 * i + 1], message);
    }
    return status;
}

static weft_status make_step(weft_dist_work *work, int64_t number, weft_message *message) {
    weft_dist_step *step = &work->steps[number];
    weft_status status = weft_hop_at(work->dist, work->ring_rank, number, &step->hop, message);
    status = status ? status : weft_moves_at(work->dist, work->ring_rank, number, step->moves, &step->move_count, message);
    if (!status && weft_dist_is_backward(work->dist)) {
        status = find_home(work, number, step, message);
        status = status ? status : plan_home(work, step, message);
    }
    const size_t count = step->hop.slices.count;
    if (!status && count > 0) {
        step->plans = calloc(count, sizeof *step->plans);
        status = step->plans ? WEFT_OK : weft_fail(message, WEFT_NO_MEMORY, "no memory for the plans of a step");
    }
    for (size_t i = 0; i < count && !status; i++) {
        const weft_dist_slice *s = &step->hop.slices.list[i];
        work->most_queries = weft_larger(work->most_queries, s->queries.end - s->queries.begin);
        work->most_keys = weft_larger(work->most_keys, s->keys.end - s->keys.begin);
        status = plan_slice(work, s, &step->plans[i].attention, message);
        status = status ? status : plan_adding(work, s, &step->plans[i], message);
    }
    return status;
}

/* ---- all of it ---- */

/* This rank's tensors as a problem: no mask, since only strides and sizes count. */
static weft_status describe_local(weft_dist_work *work, weft_message *message) {
    const weft_dist *dist = work->dist;
    weft_attention p = dist->given;
    const weft_operation_row *row;
    p.seq = weft_dist_rows(dist, dist->rank, WEFT_QUERY_ROWS);
    p.kv_seq = weft_dist_rows(dist, dist->rank, WEFT_KEY_ROWS);
    p.mask = WEFT_MASK_NONE;
    p.offset = p.chunk = p.prefix = p.sequences = p.q_most = 0;
    p.left = p.right = -1;
    p.lengths = (weft_lengths){NULL, NULL, NULL, NULL, NULL};
    const weft_strides *b = &p.bias_strides;
    if ((p.extras & WEFT_BIAS) && !(b->batch | b->seq | b->head | p.bias_key_stride)) { /* of all keys */
        const int64_t keys = dist->problem.attention.kv_seq;
        p.bias_strides = (weft_strides){.batch = p.heads * p.seq * keys, .seq = keys, .head = p.seq * keys};
        p.bias_key_stride = 1;
    }
    return weft_problem_resolve(&work->local, &row, &p, message);
}

weft_status weft_dist_work_take(weft_dist_work *work, weft_message *message) {
    const weft_dist *dist = work->dist;
    const weft_attention *p = &dist->problem.attention;
    const size_t element = weft_dtype_bytes(p->dtype), batch = (size_t)p->batch, heads = (size_t)work->heads;
    const size_t kv = batch * (size_t)work->kv_heads * sizeof(float), queries = (size_t)work->queries;
    const size_t dim = (size_t)p->head_dim, dim_v = (size_t)p->head_dim_v, rows = (size_t)work->most_queries;
    const int back = weft_dist_is_backward(dist);
    const size_t out = back ? dim : dim_v;
    weft_status status;
    work->slot = calloc((size_t)work->slots, sizeof *work->slot);
    if (!work->slot) {
        return weft_fail(message, WEFT_NO_MEMORY, "no memory for the parts of %" PRId64 " ranks", dist->rings);
    }
    for (int64_t i = 0; i < work->slots; i++) {
        if ((status = take_pair(work, work->slot_rows, element, &work->slot[i], message))) {
            return status;
        }
    }
    if ((status = take_pair(work, work->keys, element, &work->own, message)) ||
        (status = weft_dist_take(work, queries * batch * heads * dim * element, &work->q, message)) ||
        (status =
             weft_dist_take(work, queries * batch * heads * (dim > dim_v ? dim : dim_v) * element, &work->o, message)) ||
        (status = weft_dist_take(work, queries * batch * heads * sizeof(float), &work->lse, message)) ||
        (status = weft_dist_take_memory(work, rows * batch * heads * out * sizeof(float), &work->part_o, message)) ||
        (status = weft_dist_take_memory(work, rows * batch * heads * sizeof(float), &work->part_lse, message)) ||
        (status = weft_dist_take_memory(work, queries * batch * heads * out * sizeof(float), &work->sums, message)) ||
        (status = weft_dist_take_memory(work, queries * batch * heads * sizeof(float), &work->sums_lse, message)) ||
        (status = weft_dist_take_memory(work, work->workspace_bytes, (char **)&work->workspace, message))) {
        return status;
    }
    if (!back) {
        work->host_sinks = calloc(heads, sizeof(float));
        return work->host_sinks ? WEFT_OK : weft_fail(message, WEFT_NO_MEMORY, "no memory for a rank's sinks");
    }
    if ((status = weft_dist_take(work, queries * batch * heads * dim_v * element, &work->grad_o, message)) ||
        (status = weft_dist_take_memory(work, queries * batch * heads * dim_v * sizeof(float), &work->wide_o, message)) ||
        (status = weft_dist_take_memory(work, (size_t)work->most_keys * kv * dim, &work->part_k, message)) ||
        (status = weft_dist_take_memory(work, (size_t)work->most_keys * kv * dim_v, &work->part_v, message)) ||
        (status = take_pair(work, work->keys, sizeof(float), &work->home, message))) {
        return status;
    }
    const size_t sinks = p->extras & WEFT_SINKS ? (size_t)(dist->ranks.ranks * p->heads) * sizeof *work->sinks : 0;
    if (sinks > 0 && (status = weft_dist_take_memory(work, sinks, (char **)&work->sinks, message))) {
        return status;
    }
    work->adds = calloc((size_t)work->adds_count, sizeof *work->adds);
    if (!work->adds) {
        return weft_fail(message, WEFT_NO_MEMORY, "no memory for the gradients of a rank");
    }
    for (int64_t i = 0; i < work->adds_count && !status; i++) {
        status = take_pair(work, work->slot_rows, sizeof(float), &work->adds[i], message);
    }
    return status ? status : take_pair(work, work->keys, sizeof(float), &work->arrivals, message);
}

static weft_status plan_rounding(weft_dist_work *work, weft_message *message) {
    const weft_attention *p = &work->dist->problem.attention;
    const int back = weft_dist_is_backward(work->dist);
    const weft_dist *dist = work->dist;
    const weft_combine q = weft_dist_rounding(dist, work->queries, work->heads, back ? p->head_dim : p->head_dim_v);
    const weft_combine k = weft_dist_rounding(dist, work->keys, work->kv_heads, p->head_dim);
    const weft_combine v = weft_dist_rounding(dist, work->keys, work->kv_heads, p->head_dim_v);
    weft_combine o = weft_dist_adding(dist, work->queries, work->heads, p->head_dim_v);
    o.into = 0;
    weft_status status = weft_dist_plan_of(work, &q, &work->round_queries, message);
    status = status || !back ? status : weft_dist_plan_of(work, &o, &work->widen_o, message);
    status = status || !back ? status : weft_dist_plan_of(work, &k, &work->round_keys, message);
    return status || !back ? status : weft_dist_plan_of(work, &v, &work->round_values, message);
}

/* The transport, for the memory that the rank computes in. */
static weft_status open_io(weft_dist_work *work, const weft_transport *given, double seconds, weft_message *message) {
    weft_transport staged = *given;
    weft_status status = WEFT_OK;
    if (given->on_device == WEFT_DEVICE_MEMORY && !work->memory.on_device) {
        return weft_fail(message, WEFT_INVALID, "the transport sends a GPU's memory, and the rank computes on the CPU");
    }
    if (given->on_device == WEFT_DEVICE_MEMORY && !given->begin) {
        return weft_fail(message, WEFT_INVALID, "a transport of a GPU's memory lacks begin()");
    }
    if (given->on_device != WEFT_DEVICE_MEMORY && work->memory.on_device) {
        status = weft_staging_open(&work->staging, work->device.index, given, 0, &staged, message);
    }
    status = status ? status : weft_io_open(&work->io, &staged, seconds, message);
    work->io.memory = &work->memory;
    return status;
}

static weft_status make(weft_dist_work *work, const weft_dist_options *options, weft_message *message) {
    weft_dist *dist = work->dist;
    const int64_t members = dist->ranks.head_ranks;
    weft_transport transport = WEFT_TRANSPORT_INIT;
    weft_status status = weft_struct_take(&transport, sizeof transport, sizeof(size_t) + sizeof(void *), options->transport,
                                          "WEFT_TRANSPORT_INIT", message);
    if (status) {
        return status;
    }
    if (!transport.send || !transport.receive || !transport.test || !transport.cancel || transport.rank < 0 ||
        transport.rank >= transport.size) {
        return weft_fail(message, WEFT_INVALID, "the transport lacks a function, or its rank %d is not one of %d",
                         (int)transport.rank, (int)transport.size);
    }
    if (!(options->seconds >= 0) || options->seconds > 1e6) {
        return weft_fail(message, WEFT_INVALID, "seconds %g is not between 0 and 1000000", options->seconds);
    }
    const double seconds = options->seconds > 0 ? options->seconds : 60;
    if ((status = weft_schedule_copy(&work->schedule, options->schedule, message)) ||
        (status = weft_device_copy(&work->device, options->device, message)) ||
        (status = weft_dist_memory_of(&work->memory, &work->device, message)) ||
        (status = open_io(work, &transport, seconds, message))) {
        return status;
    }
    work->options = (weft_plan_options)WEFT_PLAN_OPTIONS_INIT;
    work->options.schedule = options->schedule ? &work->schedule : NULL;
    work->options.device = options->device ? &work->device : NULL;
    work->options.brings_workspace = 1;
    weft_chunk chunk = {0, 0, 1};
    dist->rank = transport.rank;
    weft_dist_chunk(dist, dist->rank, WEFT_KEY_ROWS, 0, &chunk);
    work->key_stride = chunk.stride;
    work->ring_rank = dist->rank / members;
    work->member = dist->rank % members;
    work->heads = weft_dist_heads_of(dist);
    work->kv_heads = weft_dist_kv_heads_of(dist);
    work->queries = weft_dist_group_of(dist, work->ring_rank, WEFT_QUERY_ROWS).rows;
    work->keys = weft_dist_group_of(dist, work->ring_rank, WEFT_KEY_ROWS).rows;
    work->slot_rows = weft_dist_slot_rows(dist);
    work->adds_count = weft_ring_lag(&dist->ring) + 1;
    work->slots = weft_dist_slots(dist);
    work->steps = calloc((size_t)dist->steps, sizeof *work->steps);
    if (!work->steps) {
        return weft_fail(message, WEFT_NO_MEMORY, "no memory for %" PRId64 " steps", dist->steps);
    }
    status = describe_local(work, message);
    for (int64_t i = 0; i < dist->steps && !status; i++) {
        status = make_step(work, i, message);
    }
    return status ? status : plan_rounding(work, message);
}

weft_status weft_dist_work_create(weft_dist *dist, const weft_dist_options *options, weft_message *message) {
    dist->work = calloc(1, sizeof *dist->work);
    if (!dist->work) {
        return weft_fail(message, WEFT_NO_MEMORY, "no memory for a rank's work");
    }
    dist->work->dist = dist;
    return make(dist->work, options, message);
}

void weft_dist_work_destroy(weft_dist_work *work) {
    if (!work) {
        return;
    }
    weft_io_close(&work->io);
    weft_staging_close(work->staging);
    for (int64_t i = 0; work->steps && i < work->dist->steps; i++) {
        weft_hop_free(&work->steps[i].hop);
        weft_moves_free(work->steps[i].moves, work->steps[i].move_count);
        free(work->steps[i].plans);
        free(work->steps[i].home);
        free(work->steps[i].add_home);
    }
    for (size_t i = 0; i < work->plan_count; i++) {
        weft_plan_destroy(work->plans[i].plan);
    }
    for (size_t i = 0; i < work->block_count && !work->io.lost; i++) {
        work->memory.give(work->memory.self, work->blocks[i]);
    }
    if (work->memory.close) {
        work->memory.close(work->memory.self);
    }
    free(work->steps);
    free(work->plans);
    free(work->blocks);
    free(work->slot);
    free(work->adds);
    free(work->host_sinks);
    free(work);
}
