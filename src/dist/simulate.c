/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of all ranks, in time. All ranks go through a step before any goes through the next: every time in it follows
 * from times of this step and of earlier ones. What waits for what is as in pass.c. */
#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/status.h"
#include "base/struct.h"
#include "dist/kinds.h"
#include "dist/simulate.h"
#include "dist/timeline.h"
#include "machine/machine.h"
#include "problem/problem.h"

/* ---- what is computed ---- */

/* What all groups need at a step, and how long they compute. */
static weft_status look_up(weft_timeline *s, int64_t step) {
    weft_status status = WEFT_OK;
    for (int64_t g = 0; g < s->dist->rings && !status; g++) {
        weft_group_step *now = weft_timeline_step(s, g, step);
        weft_group_size *group = &s->group[g];
        status = weft_hop_needs(s->dist, g, step, &now->hop, s->message);
        now->seconds = 0;
        for (size_t i = 0; i < now->hop.slices.count && !status; i++) {
            const weft_dist_slice *slice = &now->hop.slices.list[i];
            double seconds = 0;
            status = weft_price_slice(s->prices, slice, &seconds, s->message);
            now->seconds += seconds;
            group->pairs += slice->pairs;
            group->most_queries = weft_larger(group->most_queries, slice->queries.end - slice->queries.begin);
            group->most_keys = weft_larger(group->most_keys, slice->keys.end - slice->keys.begin);
        }
    }
    return status;
}

/* Who sends what for a step. */
static weft_status join(weft_timeline *s, int64_t step) {
    const int64_t last = weft_smaller(step + s->lag, s->dist->steps - 1);
    weft_status status = WEFT_OK;
    for (; s->known <= last && !status; s->known++) {
        status = look_up(s, s->known);
    }
    for (int64_t g = 0; g < s->dist->rings && !status; g++) {
        weft_hop *hop = &weft_timeline_step(s, g, step)->hop;
        const int64_t before = weft_hop_before(s->dist, hop), after = weft_hop_after(s->dist, hop);
        weft_hop_join(s->dist, g, hop, before >= 0 ? &weft_timeline_step(s, before, step - s->lag)->hop : NULL,
                      after >= 0 ? &weft_timeline_step(s, after, step + s->lag)->hop : NULL);
    }
    return status;
}

/* ---- a step ---- */

/* Adds gradients that have come home. */
static weft_status end_home(weft_timeline *s, weft_rank_times *r) {
    double seconds = 0;
    weft_status status = WEFT_OK;
    if (r->home_rows > 0) {
        status = weft_price_home(s->prices, r->home_rows, &seconds, s->message);
        r->end = fmax(r->end, r->home) + seconds;
        r->computing += seconds;
        r->home_rows = 0;
    }
    return status;
}

static weft_status compute(weft_timeline *s, int64_t rank, int64_t step) {
    weft_rank_times *r = &s->rank[rank];
    weft_moment *now = weft_timeline_moment(s, rank, step);
    const double seconds = weft_timeline_step(s, rank / s->members, step)->seconds;
    r->begin = now->received;
    if (s->back && step >= s->lag) { /* what was sent a lag ago leaves its buffer to this step */
        r->begin = fmax(r->begin, weft_timeline_moment(s, rank, step - s->lag)->sent_adds);
    }
    r->end = now->computed = fmax(r->begin + seconds, r->adds);
    r->computing += seconds;
    return end_home(s, r);
}

static weft_status take_step(weft_timeline *s, int64_t step) {
    weft_status status = join(s, step);
    for (int64_t i = 0; i < s->ranks && !status; i++) {
        s->rank[i].keys = s->rank[i].passed_on = s->rank[i].adds = 0;
        weft_timeline_keys(s, i, step);
        if (s->back) {
            weft_timeline_adds(s, i, step);
        }
    }
    weft_timeline_send(s);
    for (int64_t i = 0; i < s->ranks && !status; i++) {
        weft_rank_times *r = &s->rank[i];
        r->came = fmax(r->end, r->passed_on);
        *weft_timeline_moment(s, i, step) = (weft_moment){fmax(r->came, r->keys), 0, 0};
        if (s->back && step > 0) {
            weft_timeline_home(s, i, step - 1, weft_timeline_moment(s, i, step)->received);
        }
    }
    weft_timeline_send(s);
    for (int64_t i = 0; i < s->ranks && !status; i++) {
        status = compute(s, i, step);
    }
    return status;
}

/* ---- before and after the steps ---- */

static weft_status finish(weft_timeline *s) {
    const weft_dist *dist = s->dist;
    weft_status status = WEFT_OK;
    for (int64_t i = 0; i < s->ranks && s->back; i++) {
        weft_timeline_home(s, i, dist->steps - 1, s->rank[i].end);
    }
    weft_timeline_send(s);
    for (int64_t i = 0; i < s->ranks && !status; i++) {
        const int64_t group = i / s->members;
        double seconds = 0;
        status = end_home(s, &s->rank[i]);
        status = status ? status
                        : weft_price_rounding(s->prices, weft_dist_group_of(dist, group, WEFT_QUERY_ROWS).rows,
                                              weft_dist_group_of(dist, group, WEFT_KEY_ROWS).rows, &seconds, s->message);
        s->rank[i].end += seconds;
        s->rank[i].computing += seconds;
    }
    weft_timeline_heads(s, 1);
    weft_timeline_tell(s);
    return status;
}

static weft_status run(weft_timeline *s, const weft_dist_simulate_options *o) {
    weft_status status = WEFT_OK;
    weft_timeline_heads(s, 0);
    for (int64_t i = 0; i < s->ranks; i++) {
        s->rank[i].start = s->rank[i].end;
    }
    for (int64_t step = 0; step < s->dist->steps && !status; step++) {
        status = take_step(s, step);
        for (int64_t i = 0; i < s->ranks && o->told && !status; i++) {
            const weft_rank_step told = {.rank = i,
                                         .step = step,
                                         .part = weft_timeline_step(s, i / s->members, step)->hop.part * s->members,
                                         .begin = s->rank[i].begin,
                                         .end = weft_timeline_moment(s, i, step)->computed};
            o->told(o->told_user, &told);
        }
        if (o->progress) {
            o->progress(o->progress_user, step + 1, s->dist->steps);
        }
    }
    return status ? status : finish(s);
}

/* ---- all of it ---- */

static weft_status open(weft_timeline *s, const weft_dist *dist, const weft_machine *machine, weft_prices *prices,
                        weft_message *message) {
    const int passes_on = dist->ranks.exchange == WEFT_EXCHANGE_RING && dist->pieces == 1;
    const int64_t slots = weft_dist_slots(dist);
    *s = (weft_timeline){.dist = dist,
                         .ranks = dist->ranks.ranks,
                         .members = dist->ranks.head_ranks,
                         .lag = weft_ring_lag(&dist->ring),
                         .ahead = passes_on ? 2 : slots,
                         .all_posted = slots == dist->steps,
                         .back = dist->adds,
                         .prices = prices,
                         .known_kernels = prices->count,
                         .message = message};
    prices->dist = dist;
    s->steps = calloc((size_t)(WEFT_TIMELINE_WINDOW * dist->rings), sizeof *s->steps);
    s->moments = calloc((size_t)(WEFT_TIMELINE_WINDOW * s->ranks), sizeof *s->moments);
    s->rank = calloc((size_t)s->ranks, sizeof *s->rank);
    s->group = calloc((size_t)dist->rings, sizeof *s->group);
    s->transfers = calloc((size_t)(2 * s->ranks), sizeof *s->transfers);
    if (!s->steps || !s->moments || !s->rank || !s->group || !s->transfers) {
        return weft_fail(message, WEFT_NO_MEMORY, "no memory for %lld ranks", (long long)s->ranks);
    }
    return weft_links_open(&s->links, machine, s->ranks, message);
}

static void close(weft_timeline *s) {
    for (int64_t i = 0; s->steps && i < WEFT_TIMELINE_WINDOW * s->dist->rings; i++) {
        weft_hop_free(&s->steps[i].hop);
    }
    weft_links_close(&s->links);
    free(s->steps);
    free(s->moments);
    free(s->rank);
    free(s->group);
    free(s->transfers);
}

static void sum_up(const weft_timeline *s, double whole, weft_dist_simulation *out) {
    const double ranks = (double)s->ranks, groups = (double)s->dist->rings;
    uint64_t sent = 0, left = 0;
    double pairs = 0, most_pairs = 0;
    for (int64_t i = 0; i < s->ranks; i++) {
        const weft_rank_times *r = &s->rank[i];
        out->seconds = fmax(out->seconds, r->end);
        out->computing += r->computing / ranks;
        out->computing_most = fmax(out->computing_most, r->computing);
        out->waiting += (r->end - r->computing) / ranks;
        out->waiting_most = fmax(out->waiting_most, r->end - r->computing);
        out->sent_most = r->sent > out->sent_most ? r->sent : out->sent_most;
        sent += r->sent;
        left += r->left;
    }
    for (int64_t g = 0; g < s->dist->rings; g++) {
        const weft_group_size *group = &s->group[g];
        const uint64_t bytes = s->dist->kind->memory(s->dist, g * s->members, group->most_queries, group->most_keys);
        pairs += group->pairs;
        most_pairs = fmax(most_pairs, group->pairs);
        out->memory = bytes > out->memory ? bytes : out->memory;
    }
    out->sent = (double)sent / ranks;
    out->network = sent > 0 ? (double)left / (double)sent : 0;
    out->imbalance = pairs > 0 ? most_pairs * groups / pairs : 1;
    out->ideal_seconds = whole / ranks;
    out->efficiency = out->ideal_seconds / out->seconds;
    out->tflops = s->dist->operation->flops(&s->dist->problem) / out->seconds / ranks / 1e12;
    out->kernels = s->prices->count - s->known_kernels;
}

weft_status weft_dist_simulate_with(const weft_dist *dist, const weft_dist_simulate_options *o, weft_prices *prices,
                                    weft_dist_simulation *out, weft_message *message) {
    const weft_dist_simulation none = WEFT_DIST_SIMULATION_INIT;
    const double begin = weft_now();
    weft_timeline s;
    double whole = 0;
    *out = none;
    weft_status status = open(&s, dist, o->machine, prices, message);
    status = status ? status : weft_price_whole(prices, &whole, message);
    status = status ? status : run(&s, o);
    if (!status) {
        sum_up(&s, whole, out);
        out->elapsed_seconds = weft_now() - begin;
    }
    close(&s);
    return status;
}

weft_status weft_dist_simulate_take(weft_dist_simulate_options *ours, weft_machine *machine,
                                    const weft_dist_simulate_options *theirs, weft_message *message) {
    const weft_dist_simulate_options init = WEFT_DIST_SIMULATE_INIT;
    *ours = init;
    weft_status status = weft_struct_take_options(ours, sizeof *ours, theirs, "WEFT_DIST_SIMULATE_INIT", message);
    if (!status && !ours->machine) {
        status = weft_fail(message, WEFT_INVALID, "machine is null");
    } else if (!status && !(ours->adding >= 0 && ours->adding <= 1000)) {
        status = weft_fail(message, WEFT_INVALID, "adding %g is not between 0 and 1000", ours->adding);
    }
    status = status ? status : weft_machine_copy(machine, ours->machine, message);
    ours->machine = machine;
    return status;
}

weft_status weft_dist_simulate(const weft_dist *dist, const weft_dist_simulate_options *options,
                               weft_dist_simulation *simulation, weft_message *message) {
    weft_dist_simulate_options o;
    weft_dist_simulation result = WEFT_DIST_SIMULATION_INIT;
    weft_machine machine;
    weft_prices prices;
    if (!dist || !simulation) {
        return weft_fail(message, WEFT_INVALID, !dist ? "dist is null" : "simulation is null");
    }
    weft_status status = weft_dist_simulate_take(&o, &machine, options, message);
    if (status || (status = weft_prices_open(&prices, &o, message))) {
        return status;
    }
    status = weft_dist_simulate_with(dist, &o, &prices, &result, message);
    weft_prices_close(&prices);
    return status
               ? status
               : weft_struct_give(simulation, &result, sizeof result, sizeof(size_t), "WEFT_DIST_SIMULATION_INIT", message);
}
