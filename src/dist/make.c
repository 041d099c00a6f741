/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank needs for its passes, made once: the steps, plans for them, and buffers. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "base/struct.h"
#include "dist/kinds.h"
#include "dist/staging.h"
#include "plan/plan.h"
#include "problem/problem.h"

/* ---- memory ---- */

weft_status weft_dist_take_pair(weft_dist_work *work, int64_t rows, size_t first, size_t second, weft_dist_pair *pair,
                                weft_message *message) {
    const weft_status status = weft_dist_take(work, (size_t)rows * first, &pair->k, message);
    return status ? status : weft_dist_take(work, (size_t)rows * second, &pair->v, message);
}

/* What is added up: of parts on their way, of what comes home, of own rows, and of a slice. */
static weft_status take_sums(weft_dist_work *work, weft_message *message) {
    const size_t k = work->dist->row.k_sums, v = work->dist->row.v_sums;
    weft_status status = WEFT_OK;
    work->adds = calloc((size_t)work->adds_count, sizeof *work->adds);
    if (!work->adds) {
        return weft_fail(message, WEFT_NO_MEMORY, "no memory for the sums of a rank");
    }
    for (int64_t i = 0; i < work->adds_count && !status; i++) {
        status = weft_dist_take_pair(work, work->slot_rows, k, v, &work->adds[i], message);
    }
    status = status ? status : weft_dist_take_pair(work, work->keys, k, v, &work->home, message);
    status = status ? status : weft_dist_take_pair(work, work->keys, k, v, &work->arrivals, message);
    status = status ? status : weft_dist_take(work, (size_t)work->most_keys * k, &work->part_k, message);
    return status ? status : weft_dist_take(work, (size_t)work->most_keys * v, &work->part_v, message);
}

weft_status weft_dist_work_take(weft_dist_work *work, weft_message *message) {
    const weft_dist *dist = work->dist;
    const size_t k = dist->row.k, v = dist->row.v;
    weft_status status = WEFT_OK;
    work->slot = calloc((size_t)work->slots, sizeof *work->slot);
    if (!work->slot) {
        return weft_fail(message, WEFT_NO_MEMORY, "no memory for the parts of %" PRId64 " ranks", dist->rings);
    }
    for (int64_t i = 0; i < work->slots && !status; i++) {
        status = weft_dist_take_pair(work, work->slot_rows, k, v, &work->slot[i], message);
    }
    status = status ? status : weft_dist_take_pair(work, work->keys, k, v, &work->own, message);
    status = status ? status : weft_dist_take(work, work->workspace_bytes, (char **)&work->workspace, message);
    status = status || !dist->adds ? status : take_sums(work, message);
    return status ? status : dist->kind->take(work, message);
}

/* ---- steps ---- */

/* Who brings sums of this group's rows home from a step. */
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

static weft_status make_step(weft_dist_work *work, int64_t number, weft_message *message) {
    const weft_dist_kind *kind = work->dist->kind;
    weft_dist_step *step = &work->steps[number];
    weft_status status = weft_hop_at(work->dist, work->ring_rank, number, &step->hop, message);
    status = status ? status : weft_moves_at(work->dist, work->ring_rank, number, step->moves, &step->move_count, message);
    if (!status && work->dist->adds) {
        status = find_home(work, number, step, message);
        step->add_home = status ? NULL : calloc(step->home_count + 1, sizeof *step->add_home);
        status =
            status || step->add_home ? status : weft_fail(message, WEFT_NO_MEMORY, "no memory for the plans of a step");
        for (size_t i = 0; i < step->home_count && !status; i++) {
            status = kind->plan_sum(work, step->home[i].end - step->home[i].begin, &step->add_home[i], message);
        }
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
        status = kind->plan_slice(work, s, &step->plans[i], message);
        status = status || !work->dist->adds
                     ? status
                     : kind->plan_sum(work, s->keys.end - s->keys.begin, &step->plans[i].add, message);
    }
    return status;
}

/* ---- all of it ---- */

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
    work->queries = weft_dist_group_of(dist, work->ring_rank, WEFT_QUERY_ROWS).rows;
    work->keys = weft_dist_group_of(dist, work->ring_rank, WEFT_KEY_ROWS).rows;
    work->slot_rows = weft_dist_slot_rows(dist);
    work->adds_count = weft_ring_lag(&dist->ring) + 1;
    work->slots = weft_dist_slots(dist);
    work->steps = calloc((size_t)dist->steps, sizeof *work->steps);
    if (!work->steps) {
        return weft_fail(message, WEFT_NO_MEMORY, "no memory for %" PRId64 " steps", dist->steps);
    }
    status = dist->kind->begin(work, message);
    for (int64_t i = 0; i < dist->steps && !status; i++) {
        status = make_step(work, i, message);
    }
    return status ? status : dist->kind->plan_end(work, message);
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
    free(work->product);
    free(work);
}
