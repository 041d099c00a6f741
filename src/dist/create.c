/* SPDX-License-Identifier: Apache-2.0 */
/* Sharing a problem among ranks: its check, and what is chosen where nobody did. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "base/struct.h"
#include "dist/heads.h"
#include "dist/kinds.h"
#include "problem/problem.h"

enum { MOST_RANKS = 65536, RUNS = 8 }; /* runs of a balanced cut: more even out more, and make more slices */

static weft_status check_between(const char *name, int64_t value, int64_t least, int64_t most, weft_message *message) {
    return value >= least && value <= most
               ? WEFT_OK
               : weft_fail(message, WEFT_INVALID, "%s %" PRId64 " is not between %" PRId64 " and %" PRId64, name, value,
                           least, most);
}

static weft_status check_ranks(const weft_ranks *r, weft_message *message) {
    weft_status status;
    if ((status = check_between("ranks", r->ranks, 1, MOST_RANKS, message)) ||
        (status = check_between("cut", r->cut, 0, WEFT_CUT_K, message)) ||
        (status = check_between("exchange", r->exchange, 0, WEFT_EXCHANGE_HEADS, message)) ||
        (status = check_between("order", r->order, 0, WEFT_RANK_ORDERS, message)) ||
        (status = check_between("head_ranks", r->head_ranks, 0, r->ranks, message)) ||
        (status = check_between("head_ranks", r->exchange == WEFT_EXCHANGE_HEADS ? r->ranks : r->head_ranks, 0,
                                WEFT_MOST_HEAD_RANKS, message)) ||
        (status = check_between("columns", r->columns, 0, r->ranks, message)) ||
        (status = check_between("most_keys", r->most_keys, 0, WEFT_MAX_DIMENSION, message))) {
        return status;
    }
    if (r->sweep != WEFT_SWEEP_CHOOSE && r->sweep != WEFT_SWEEP_FORWARD && r->sweep != WEFT_SWEEP_SAWTOOTH) {
        return weft_fail(message, WEFT_INVALID, "sweep %d across ranks is neither forward nor sawtooth", (int)r->sweep);
    }
    if (r->head_ranks > 0 && r->ranks % r->head_ranks != 0) {
        return weft_fail(message, WEFT_INVALID, "head_ranks %" PRId64 " does not divide ranks %" PRId64, r->head_ranks,
                         r->ranks);
    }
    if (r->exchange == WEFT_EXCHANGE_HEADS && r->head_ranks > 0 && r->head_ranks != r->ranks) {
        return weft_fail(message, WEFT_INVALID,
                         "head_ranks %" PRId64 " of %" PRId64 " ranks: exchange heads is between all of them; ring x heads "
                         "is exchange ring",
                         r->head_ranks, r->ranks);
    }
    return WEFT_OK;
}

/* The most columns of a mesh that is as square as may be. */
static int64_t usual_columns(int64_t ranks) {
    int64_t columns = (int64_t)sqrt((double)ranks);
    while (columns > 1 && ranks % columns != 0) {
        columns--;
    }
    return weft_larger(columns, 1);
}

/* What is chosen alike for all kinds. */
static void choose(weft_ranks *r) {
    r->exchange = r->exchange ? r->exchange : WEFT_EXCHANGE_RING;
    r->order = r->order ? r->order : WEFT_RANK_ORDER_RING;
    r->head_ranks = r->exchange == WEFT_EXCHANGE_HEADS ? r->ranks : weft_larger(r->head_ranks, 1);
    r->columns = r->columns ? r->columns : usual_columns(r->ranks / r->head_ranks);
}

static weft_status share(weft_dist *dist, const weft_dist_options *options, weft_message *message) {
    const weft_ranks init = WEFT_RANKS_INIT;
    weft_ranks *r = &dist->ranks;
    weft_status status = WEFT_OK;
    *r = init;
    if (options->ranks) {
        status = weft_struct_take_options(r, sizeof *r, options->ranks, "WEFT_RANKS_INIT", message);
    }
    const int64_t here = options->transport ? options->transport->size : r->ranks;
    if (!status && r->ranks != 0 && r->ranks != here) {
        return weft_fail(message, WEFT_INVALID, "ranks %" PRId64 " are not the %" PRId64 " of the transport", r->ranks,
                         here);
    }
    r->ranks = here;
    status = status ? status : check_ranks(r, message);
    if (status) {
        return status;
    }
    choose(r);
    dist->kind->choose(dist);
    if ((status = dist->kind->check(dist, message))) {
        return status;
    }
    dist->kind->describe_rows(dist);
    dist->runs = weft_between(weft_smaller(dist->rows[0].total, dist->rows[1].total) / r->ranks, 1, RUNS);
    dist->rings = r->ranks / r->head_ranks;
    dist->ring = (weft_ring){r->order, dist->rings, weft_smaller(r->columns, dist->rings)};
    if ((status = weft_dist_deal(dist, message))) {
        return status;
    }
    int64_t most = 0; /* keys of a part */
    for (int64_t i = 0; i < dist->rings; i++) {
        most = weft_larger(most, weft_dist_group_of(dist, i, WEFT_KEY_ROWS).rows);
    }
    dist->pieces = r->most_keys > 0 ? weft_ceil_divide(most, r->most_keys) : 1;
    dist->steps = dist->rings * dist->pieces;
    return WEFT_OK;
}

weft_status weft_dist_create(weft_dist **dist, const void *problem, const weft_dist_options *options,
                             weft_message *message) {
    weft_dist_options ours = WEFT_DIST_OPTIONS_INIT;
    if (!dist) {
        return weft_fail(message, WEFT_INVALID, "dist is null");
    }
    *dist = NULL;
    weft_status status = weft_struct_take_options(&ours, sizeof ours, options, "WEFT_DIST_OPTIONS_INIT", message);
    if (status) {
        return status;
    }
    weft_dist *d = calloc(1, sizeof *d);
    if (!d) {
        return weft_fail(message, WEFT_NO_MEMORY, "no memory for a problem over ranks");
    }
    d->rank = -1;
    d->kind = weft_dist_kind_of(problem, message);
    status = d->kind ? d->kind->resolve(d, problem, message) : problem ? WEFT_UNSUPPORTED : WEFT_INVALID;
    status = status ? status : share(d, &ours, message);
    if (!status && ours.transport) {
        status = weft_dist_work_create(d, &ours, message);
        status = status ? status : weft_dist_heads_create(d->work, message);
        status = status ? status : weft_dist_work_take(d->work, message);
    }
    if (status) {
        weft_dist_destroy(d);
        return status;
    }
    *dist = d;
    return WEFT_OK;
}

void weft_dist_destroy(weft_dist *dist) {
    if (!dist) {
        return;
    }
    weft_dist_heads_destroy(dist->work ? dist->work->exchange : NULL);
    weft_dist_work_destroy(dist->work);
    weft_dist_rows_free(&dist->rows[WEFT_QUERY_ROWS]);
    weft_dist_rows_free(&dist->rows[WEFT_KEY_ROWS]);
    free(dist->memory);
    free(dist);
}

weft_ranks weft_dist_ranks(const weft_dist *dist) {
    const weft_ranks none = WEFT_RANKS_INIT;
    return dist ? dist->ranks : none;
}
