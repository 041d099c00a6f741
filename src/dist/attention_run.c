/* SPDX-License-Identifier: Apache-2.0 */
/* A run of a rank of a shared attention: the caller's tensors become rows, a pass goes over them, and results go back. */
#include "base/status.h"
#include "dist/heads.h"
#include "dist/kinds.h"
#include "dist/pass.h"
#include "problem/problem.h"

/* One of this rank's tensors. */
static weft_dist_tensor tensor_of(const weft_dist_work *work, const void *at, char name) {
    const weft_attention *p = &work->local.attention;
    const int of_queries = name == 'q' || name == 'o', of_values = name == 'v' || name == 'o';
    const weft_strides *strides = name == 'q'   ? &p->q_strides
                                  : name == 'k' ? &p->k_strides
                                  : name == 'v' ? &p->v_strides
                                                : &p->o_strides;
    return (weft_dist_tensor){at, *strides, of_queries ? p->seq : p->kv_seq, of_values ? p->head_dim_v : p->head_dim,
                              p->dtype};
}

/* Whether a tensor is rows, (rows, batch, heads, dim). */
static int lies_as_rows(const weft_dist_tensor *t, int64_t batch, int64_t heads) {
    return (t->strides.head == t->dim || heads == 1) && t->strides.seq == batch * heads * t->dim &&
           (t->strides.batch == heads * t->dim || batch == 1);
}

/* A tensor as rows: where it is, if it lies so; else a copy, in `buffer`. */
static weft_status as_rows(weft_dist_work *work, const void *at, char name, char *buffer, const char **rows,
                           weft_message *message) {
    const weft_attention *p = &work->dist->problem.attention;
    const weft_dist_tensor t = tensor_of(work, at, name);
    const int of_queries = name == 'q' || name == 'o';
    const int64_t heads = of_queries ? p->heads : p->kv_heads;
    *rows = buffer;
    if (work->exchange) {
        return weft_dist_heads_in(work, of_queries ? WEFT_QUERY_ROWS : WEFT_KEY_ROWS, &t,
                                  of_queries ? work->heads : work->kv_heads, buffer, message);
    }
    if (lies_as_rows(&t, p->batch, heads)) {
        *rows = at;
        return WEFT_OK;
    }
    return weft_dist_pack(work, buffer, &t, 0, heads, message);
}

static weft_status keys_as_rows(weft_dist_work *work, const void *k, const void *v, weft_dist_pair *own,
                                weft_message *message) {
    const char *k_rows, *v_rows;
    weft_status status = as_rows(work, k, 'k', work->own.k, &k_rows, message);
    status = status ? status : as_rows(work, v, 'v', work->own.v, &v_rows, message);
    if (!status) {
        own->k = (char *)(uintptr_t)k_rows;
        own->v = (char *)(uintptr_t)v_rows;
    }
    return status;
}

/* O in fp32, as attentions take it whose results are. */
static weft_status widen(weft_dist_work *work, const void *o, const char **rows, weft_message *message) {
    const char *narrow = NULL;
    weft_combine_data data = WEFT_COMBINE_DATA_INIT;
    const weft_status status = as_rows(work, o, 'o', work->o, &narrow, message);
    data.parts[0] = narrow;
    data.o = work->wide_o;
    *rows = work->wide_o;
    return status ? status : weft_dist_compute(work, work->widen_o, &data, message);
}

/* Rounds sums to the rows of a result, and brings these to where the caller wants them. */
static weft_status give(weft_dist_work *work, const weft_plan *rounding, const char *sums, char *buffer, void *at,
                        char name, weft_message *message) {
    const weft_attention *p = &work->dist->problem.attention;
    const int of_queries = name == 'q' || name == 'o';
    weft_dist_tensor t = tensor_of(work, at, name);
    weft_combine_data data = WEFT_COMBINE_DATA_INIT;
    if (!of_queries && weft_dist_heads_repeat(work)) {
        return weft_dist_heads_add(work, sums, &t, name == 'v', message);
    }
    const int64_t heads = of_queries ? p->heads : p->kv_heads;
    const int lies_so = at && !work->exchange && lies_as_rows(&t, p->batch, heads);
    data.parts[0] = sums;
    data.o = lies_so ? at : buffer;
    const weft_status status = weft_dist_compute(work, rounding, &data, message);
    if (status || lies_so) {
        return status;
    }
    return work->exchange ? weft_dist_heads_out(work, of_queries ? WEFT_QUERY_ROWS : WEFT_KEY_ROWS, buffer, &t,
                                                of_queries ? work->heads : work->kv_heads, message)
                          : weft_dist_unpack(work, &t, buffer, 0, heads, message);
}

static weft_status forward(weft_dist_work *work, const weft_attention_data *data, void *kept, weft_message *message) {
    const int64_t first = work->member * work->heads;
    const weft_attention *p = &work->dist->problem.attention;
    weft_dist_queries queries = {.sinks = data->sinks ? data->sinks + first : NULL,
                                 .alibi = data->alibi ? data->alibi + first : NULL,
                                 .bias = data->bias};
    weft_dist_inputs in = {.kept = kept, .fixed = &queries};
    weft_status status = as_rows(work, data->q, 'q', work->q, &queries.q, message);
    if (!status && queries.sinks && work->memory.on_device) { /* sums begin with them */
        const float *sinks = queries.sinks;
        queries.sinks = work->host_sinks;
        status = work->memory.read(&work->memory, work->host_sinks, sinks, (size_t)work->heads * sizeof *sinks, message);
    }
    status = status ? status : keys_as_rows(work, data->k, data->v, &in.own, message);
    status = status ? status : weft_dist_pass(work, &in, message);
    status = status ? status : give(work, work->round_queries, work->sums, work->o, data->o, 'o', message);
    if (status) {
        return status;
    }
    const float *lse = (const float *)(const void *)work->sums_lse;
    if (work->exchange) {
        return weft_dist_lse_out(work, lse, data->lse ? data->lse : (float *)(void *)work->lse, message);
    }
    const size_t bytes = (size_t)(p->batch * p->heads * work->queries) * sizeof(float);
    return data->lse ? work->memory.copy(&work->memory, data->lse, bytes, lse, bytes, bytes, 1, message) : WEFT_OK;
}

/* What this rank's queries add to the gradients of its heads' sinks. No key is seen, so K and V may be anything, and the
 * gradient of Q is zeros, where sums are to begin with such. */
static weft_status begin_sinks(weft_dist_work *work, const weft_dist_queries *queries, const float *sinks,
                               weft_message *message) {
    const weft_dist_memory *m = &work->memory;
    const int64_t heads = work->dist->problem.attention.heads, first = work->member * work->heads;
    float *mine = work->sinks + work->dist->rank * heads;
    const weft_status status = m->fill(m, mine, 0, (size_t)heads, message);
    if (status || !work->sink_plan) {
        return status;
    }
    weft_attention_gradients data = WEFT_ATTENTION_GRADIENTS_INIT;
    data.q = data.k = queries->q;
    data.v = data.grad_o = queries->grad_o;
    data.o = queries->o;
    data.lse = queries->lse;
    data.sinks = sinks + first;
    data.grad_q = work->sums;
    data.grad_k = work->sink_keys.k;
    data.grad_v = work->sink_keys.v;
    data.grad_sinks = mine + first;
    data.workspace = work->workspace;
    return weft_dist_compute(work, work->sink_plan, &data, message);
}

/* All send all what their queries add to the gradients of sinks, and add up in the order of ranks. */
static weft_status end_sinks(weft_dist_work *work, float *gradients, weft_message *message) {
    const weft_dist_memory *m = &work->memory;
    const int64_t size = work->io.transport.size, heads = work->dist->problem.attention.heads;
    const size_t bytes = (size_t)heads * sizeof *gradients;
    const float *mine = work->sinks + work->dist->rank * heads, *all = work->host_sinks;
    weft_status status = WEFT_OK;
    for (int64_t rank = 0; rank < size && !status; rank++) {
        if (rank != work->dist->rank) {
            status = weft_io_receive(&work->io, work->sinks + rank * heads, bytes, rank, WEFT_TAG_VALUES, -2, message);
            status = status ? status : weft_io_send(&work->io, mine, bytes, rank, WEFT_TAG_VALUES, -2, message);
        }
    }
    status = status ? status : weft_io_wait(&work->io, -2, message);
    status = status ? status : m->read(m, work->host_sinks, work->sinks, (size_t)size * bytes, message);
    for (int64_t head = 0; head < heads && !status; head++) {
        double sum = 0;
        for (int64_t rank = 0; rank < size; rank++) {
            sum += (double)all[rank * heads + head];
        }
        status = m->fill(m, gradients + head, (float)sum, 1, message);
    }
    return status;
}

static weft_status backward(weft_dist_work *work, const weft_attention_gradients *data, void *kept, weft_message *message) {
    const int64_t first = work->member * work->heads;
    weft_dist_queries queries = {.alibi = data->alibi ? data->alibi + first : NULL, .lse = data->lse};
    weft_dist_inputs in = {.kept = kept, .fixed = &queries};
    weft_status status = as_rows(work, data->q, 'q', work->q, &queries.q, message);
    status = status ? status : as_rows(work, data->grad_o, 'o', work->grad_o, &queries.grad_o, message);
    status = status ? status : widen(work, data->o, &queries.o, message);
    status = status ? status : keys_as_rows(work, data->k, data->v, &in.own, message);
    if (!status && work->exchange) {
        queries.lse = (const float *)(const void *)work->lse;
        status = weft_dist_lse_in(work, data->lse, (float *)(void *)work->lse, message);
    }
    const int has_sinks = (work->dist->problem.attention.extras & WEFT_SINKS) && data->grad_sinks;
    status = status || !has_sinks ? status : begin_sinks(work, &queries, data->sinks, message);
    status = status ? status : weft_dist_pass(work, &in, message);
    /* Q, K and V are not needed any more. */
    status = status ? status : give(work, work->round_queries, work->sums, work->o, data->grad_q, 'q', message);
    status = status ? status : give(work, work->round_keys, work->home.k, work->own.k, data->grad_k, 'k', message);
    status = status ? status : give(work, work->round_values, work->home.v, work->own.v, data->grad_v, 'v', message);
    return status || !has_sinks ? status : end_sinks(work, data->grad_sinks, message);
}

weft_status weft_dist_attention_check_data(const weft_dist_work *work, const void *data, weft_data *checked,
                                           weft_message *message) {
    const weft_status status = weft_data_check(checked, work->dist->operation, &work->local, data, message);
    if (!status && weft_dist_is_backward(work->dist) && (!checked->gradients.o || !checked->gradients.lse)) {
        return weft_fail(message, WEFT_INVALID, "over ranks a backward pass takes the o and lse of the forward pass");
    }
    return status;
}

weft_status weft_dist_attention_run(weft_dist_work *work, const weft_data *data, void *kept, weft_message *message) {
    return weft_dist_is_backward(work->dist) ? backward(work, &data->gradients, kept, message)
                                             : forward(work, &data->attention, kept, message);
}
