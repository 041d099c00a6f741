/* SPDX-License-Identifier: Apache-2.0 */
/* A pass: the parts of the keys come by, one a step, while the rank computes what its queries see of the last. */
#include "dist/pass.h"

#include <string.h>

#include "base/status.h"
#include "dist/kinds.h"
#include "problem/problem.h"

/* What messages are of, beside their step: they are waited for together. */
enum { RECEIVED, PASSED_ON, ADDS_RECEIVED, ADDS_SENT, ARRIVED, OWN_SENT, GROUPS };

static int64_t group_of(int kind, int64_t step) {
    return step * GROUPS + kind;
}

/* Rounds of messages: the keys of a step go out before the step before it is computed, and the sums of a step after it.
 * Sums that go on are needed a lag later: in the last round before. */
static int64_t keys_round(int64_t step) {
    return 2 * step;
}

static int64_t adds_round(int64_t step) {
    return 2 * step + 3;
}

static size_t rows_of(weft_range range) {
    return (size_t)(range.end - range.begin);
}

/* Keys of a step: the group's own, or where they came to, counted from the first of the piece. */
static weft_dist_pair keys_at(const weft_pass *p, int64_t step) {
    const weft_hop *hop = &p->work->steps[step].hop;
    weft_dist_pair pair;
    if (hop->part == p->work->ring_rank) {
        pair = p->in->own;
        pair.k += (size_t)hop->keys.begin * p->row.k;
        pair.v += (size_t)hop->keys.begin * p->row.v;
        return pair;
    }
    pair = p->work->slot[step % p->work->slots];
    const int64_t first = p->work->dist->adds ? 0 : p->work->dist->steps - 1; /* the step whose part is kept */
    if (p->in->kept && step == first) {
        pair.k = p->in->kept;
        pair.v = p->in->kept + (size_t)p->work->slot_rows * p->row.k;
    }
    return pair;
}

/* Sends or receives ranges of a pair of tensors whose first row is row `before` of the part. */
static weft_status send_ranges(const weft_pass *p, const weft_dist_pair *pair, size_t k_row, size_t v_row,
                               const weft_range *r, size_t count, int64_t before, int64_t to, int tag, int64_t group) {
    weft_io *io = &p->work->io;
    const weft_dist *dist = p->work->dist;
    const int64_t rank = to * dist->ranks.head_ranks + p->work->member;
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < count && !status; i++) {
        const size_t at = (size_t)(r[i].begin - before), rows = rows_of(r[i]);
        status = weft_io_send(io, pair->k + at * k_row, rows * k_row, rank, tag, group, p->message);
        status = status ? status : weft_io_send(io, pair->v + at * v_row, rows * v_row, rank, tag, group, p->message);
    }
    return status;
}

static weft_status receive_ranges(const weft_pass *p, const weft_dist_pair *pair, size_t k_row, size_t v_row,
                                  const weft_range *r, size_t count, int64_t before, int64_t from, int tag, int64_t group) {
    weft_io *io = &p->work->io;
    const weft_dist *dist = p->work->dist;
    const int64_t rank = from * dist->ranks.head_ranks + p->work->member;
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < count && !status; i++) {
        const size_t at = (size_t)(r[i].begin - before), rows = rows_of(r[i]);
        status = weft_io_receive(io, pair->k + at * k_row, rows * k_row, rank, tag, group, p->message);
        status = status ? status : weft_io_receive(io, pair->v + at * v_row, rows * v_row, rank, tag, group, p->message);
    }
    return status;
}

/* A backward pass may begin with what the forward pass kept. */
static int is_kept(const weft_pass *p, int64_t step) {
    return p->work->dist->adds && p->in->kept && step == 0;
}

/* ---- keys ---- */

static weft_status receive_keys(const weft_pass *p, int64_t step) {
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
    return receive_ranges(p, &to, p->row.k, p->row.v, hop->needed, hop->needed_count, hop->keys.begin, hop->source,
                          WEFT_TAG_KEYS, group_of(RECEIVED, step));
}

static weft_status send_keys(const weft_pass *p, int64_t step) {
    const weft_dist_step *s = &p->work->steps[step];
    weft_status status = WEFT_OK;
    weft_io_round(&p->work->io, keys_round(step));
    for (size_t i = 0; i < s->move_count && !status && !is_kept(p, step); i++) {
        const weft_move *move = &s->moves[i];
        if (move->kind == WEFT_MOVE_OWN) {
            status = send_ranges(p, &p->in->own, p->row.k, p->row.v, move->ranges, move->count, 0, move->to, WEFT_TAG_KEYS,
                                 group_of(OWN_SENT, 0));
        } else if (move->kind == WEFT_MOVE_ON) {
            const weft_dist_pair from = keys_at(p, move->step);
            status = send_ranges(p, &from, p->row.k, p->row.v, move->ranges, move->count, move->before, move->to,
                                 WEFT_TAG_KEYS, group_of(PASSED_ON, move->step));
        }
    }
    return status;
}

/* Begins the receives that there is room for, and the sends of steps up to `last`. */
static weft_status begin_moves(weft_pass *p, int64_t step, int64_t last) {
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

static weft_status clear_rows(const weft_pass *p, const weft_dist_pair *sums, size_t row, size_t rows) {
    const weft_dist_memory *m = &p->work->memory;
    const size_t k = p->row.k_sums, v = p->row.v_sums;
    const weft_status status = m->fill(m, sums->k + row * k, 0, rows * k / sizeof(float), p->message);
    return status ? status : m->fill(m, sums->v + row * v, 0, rows * v / sizeof(float), p->message);
}

/* Whether all that a step adds to comes from others, who have added to it before. */
static int all_come(const weft_hop *hop) {
    return hop->adds_from >= 0 && hop->needed_count > 0 && hop->earlier_count == hop->needed_count &&
           memcmp(hop->earlier, hop->needed, hop->needed_count * sizeof *hop->needed) == 0;
}

/* Whether a step's first slice computes all that the step adds to rows of another group, and nothing was added before. */
static int first_begins(const weft_hop *hop) {
    return hop->earlier_count == 0 && hop->needed_count == 1 && hop->slices.list->keys.begin == hop->needed->begin &&
           hop->slices.list->keys.end == hop->needed->end;
}

/* Begins to receive what others have added to a step's sums, or clears them. */
static weft_status begin_adds(const weft_pass *p, int64_t step) {
    weft_dist_work *work = p->work;
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
    for (size_t i = 0; i < hop->needed_count && !all_come(hop) && !first_begins(hop) && !status; i++) {
        const size_t at = (size_t)(hop->needed[i].begin - hop->keys.begin);
        status = clear_rows(p, to, at, rows_of(hop->needed[i]));
    }
    if (status || hop->adds_from < 0) {
        return status;
    }
    weft_io_round(&work->io, adds_round(step - 1));
    return receive_ranges(p, to, p->row.k_sums, p->row.v_sums, hop->earlier, hop->earlier_count, hop->keys.begin,
                          hop->adds_from, WEFT_TAG_ADDS, group_of(ADDS_RECEIVED, step));
}

static weft_status send_adds(const weft_pass *p, int64_t step) {
    const weft_dist_step *s = &p->work->steps[step];
    for (size_t i = 0; i < s->move_count; i++) {
        const weft_move *move = &s->moves[i];
        if (move->kind == WEFT_MOVE_ADDS) {
            const int64_t on = weft_ring_lag(&p->work->dist->ring) - 1;
            weft_io_round(&p->work->io, adds_round(s->hop.adds_end ? step : step + on));
            return send_ranges(p, &p->work->adds[step % p->work->adds_count], p->row.k_sums, p->row.v_sums, move->ranges,
                               move->count, move->before, move->to, s->hop.adds_end ? WEFT_TAG_HOME : WEFT_TAG_ADDS,
                               group_of(ADDS_SENT, step));
        }
    }
    return WEFT_OK;
}

static weft_dist_pair rows_from(const weft_pass *p, const weft_dist_pair *sums, size_t row) {
    weft_dist_pair pair = *sums;
    pair.k += row * p->row.k_sums;
    pair.v += row * p->row.v_sums;
    return pair;
}

/* Sums of own rows that come home from whoever had them at a step: after it. */
static weft_status begin_arrival(const weft_pass *p, int64_t step) {
    const weft_dist_step *s = &p->work->steps[step];
    weft_io_round(&p->work->io, adds_round(step));
    return receive_ranges(p, &p->work->arrivals, p->row.k_sums, p->row.v_sums, s->home, s->home_count, 0, s->home_from,
                          WEFT_TAG_HOME, group_of(ARRIVED, step));
}

static weft_status end_arrival(const weft_pass *p, int64_t step) {
    weft_dist_work *work = p->work;
    const weft_dist_step *s = &work->steps[step];
    weft_status status = weft_io_wait(&work->io, group_of(ARRIVED, step), p->message);
    for (size_t i = 0; i < s->home_count && !status; i++) {
        const weft_dist_pair from = rows_from(p, &work->arrivals, (size_t)s->home[i].begin);
        const weft_dist_pair to = rows_from(p, &work->home, (size_t)s->home[i].begin);
        status = work->dist->kind->add(work, &s->add_home[i], &from, &to, p->message);
    }
    return status;
}

/* ---- a step ---- */

/* Where a slice's rows of a part are added up. */
static weft_dist_pair sums_of(const weft_pass *p, const weft_dist_slice *s, const weft_hop *hop) {
    const weft_dist_work *work = p->work;
    const int own = hop->part == work->ring_rank;
    const weft_dist_pair *to = own ? &work->home : &work->adds[hop->step % work->adds_count];
    return rows_from(p, to, (size_t)(s->keys.begin - (own ? 0 : hop->keys.begin)));
}

int weft_pass_begins(const weft_pass *p, const weft_dist_slice *s, const weft_hop *hop, weft_dist_pair *sums) {
    const int own = hop->part == p->work->ring_rank;
    const int begins = own ? hop->step == 0 && s->keys.begin == 0 && s->keys.end == p->work->keys : first_begins(hop);
    if (s != hop->slices.list || !begins) {
        return 0;
    }
    *sums = sums_of(p, s, hop);
    return 1;
}

weft_status weft_pass_add(const weft_pass *p, const weft_dist_slice *s, const weft_dist_slice_plans *plans,
                          const weft_hop *hop, const weft_dist_pair *computed) {
    weft_dist_work *work = p->work;
    const weft_dist_pair sums = sums_of(p, s, hop);
    const weft_status status =
        hop->part == work->ring_rank ? WEFT_OK : weft_io_wait(&work->io, group_of(ADDS_RECEIVED, hop->step), p->message);
    return status ? status : work->dist->kind->add(work, &plans->add, computed, &sums, p->message);
}

static weft_status take_step(weft_pass *p, int64_t step) {
    weft_dist_work *work = p->work;
    const weft_dist_step *s = &work->steps[step];
    const int64_t next = step + 1;
    weft_status status;
    if ((status = begin_moves(p, step, step)) || (status = weft_io_due(&work->io, keys_round(step), p->message)) ||
        (status = weft_io_wait(&work->io, group_of(RECEIVED, step), p->message)) || (status = begin_moves(p, step, next)) ||
        (status = weft_io_due(&work->io, keys_round(next), p->message)) ||
        (status = work->dist->adds && next < work->dist->steps ? begin_adds(p, next) : WEFT_OK)) {
        return status;
    }
    const weft_dist_pair keys = keys_at(p, step);
    for (size_t i = 0; i < s->hop.slices.count && !status; i++) {
        status = work->dist->kind->slice(p, &s->hop.slices.list[i], &s->plans[i], &s->hop, &keys);
    }
    if (status || !work->dist->adds) {
        return status;
    }
    status = send_adds(p, step);
    status = status || step == 0 ? status : end_arrival(p, step - 1);
    status = status ? status : begin_arrival(p, step); /* others wait until it is taken */
    return status ? status : weft_io_due(&work->io, adds_round(step), p->message);
}

weft_status weft_dist_pass(weft_dist_work *work, const weft_dist_inputs *in, weft_message *message) {
    const weft_dist *dist = work->dist;
    weft_pass p = {.work = work, .in = in, .row = dist->row, .message = message};
    const int64_t steps = dist->steps;
    weft_status status = dist->adds ? clear_rows(&p, &work->home, 0, (size_t)work->keys) : WEFT_OK;
    status = status ? status : dist->kind->clear(&p);
    status = status || !dist->adds ? status : begin_adds(&p, 0);
    for (int64_t step = 0; step < steps && !status; step++) {
        status = take_step(&p, step);
    }
    status = status || !dist->adds ? status : end_arrival(&p, steps - 1);
    status = status ? status : weft_io_wait(&work->io, group_of(OWN_SENT, 0), message);
    for (int64_t step = weft_larger(steps - work->slots, 0); step < steps && !status; step++) {
        status = weft_io_wait(&work->io, group_of(PASSED_ON, step), message);
    }
    for (int64_t step = weft_larger(steps - work->adds_count, 0); step < steps && !status && dist->adds; step++) {
        status = weft_io_wait(&work->io, group_of(ADDS_SENT, step), message);
    }
    weft_io_round(&work->io, 0); /* what follows is due at once */
    return status;
}
