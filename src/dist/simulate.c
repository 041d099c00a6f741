/* The steps of all ranks, in time. All ranks go through a step before any goes through the next: every time in it follows
 * from times of this step and of earlier ones. What waits for what is as in pass.c. */
#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/status.h"
#include "base/struct.h"
#include "dist/kinds.h"
#include "dist/links.h"
#include "dist/simulate.h"
#include "machine/machine.h"
#include "problem/problem.h"

/* What is sent: keys by whose they are, or by who passes them on; gradients to who goes on with them, or to whose they are.
 */
typedef enum kind { OWN, ON, ADDS, HOME } kind;

typedef struct transfer {
    double ready;
    int64_t from, to, step; /* gradients: of which step they are */
    uint64_t bytes;
    kind kind;
} transfer;

enum { WINDOW = 8 }; /* steps that are remembered: two lags and this one are needed */

typedef struct group_step {
    weft_hop hop;
    double seconds; /* that it computes */
} group_step;

/* Times of a rank at a step. */
typedef struct moment {
    double received; /* what it computes with is there, and what the next step needs is asked for */
    double computed;
    double sent_adds; /* the gradients of the step have left */
} moment;

typedef struct rank_state {
    double start; /* of the pass */
    double came;  /* to the step: the one before is done, and what it had a lag ago is passed on */
    double begin; /* of computing */
    double end;
    double keys, passed_on, adds, home; /* when messages of the step have come, or gone */
    int64_t home_rows;
    double computing;
    uint64_t sent, left; /* bytes, and of these what left the node */
} rank_state;

typedef struct group_state {
    double pairs;
    int64_t most_queries, most_keys; /* of a slice */
} group_state;

typedef struct simulation {
    const weft_dist *dist;
    weft_prices *prices;
    weft_links links;
    int64_t ranks, members, lag, ahead; /* ahead: steps that a rank receives for at a time */
    int back, all_posted;               /* all_posted: every send is handed over at the start */
    group_step *steps;                  /* (WINDOW, groups) */
    int64_t known;                      /* steps that have been looked up */
    moment *moments;                    /* (WINDOW, ranks) */
    rank_state *rank;
    group_state *group;
    transfer *transfers;
    size_t count;
    size_t known_kernels; /* from before */
    weft_message *message;
} simulation;

static group_step *step_of(const simulation *s, int64_t group, int64_t step) {
    return &s->steps[(step % WINDOW) * s->dist->rings + group];
}

static moment *moment_of(const simulation *s, int64_t rank, int64_t step) {
    return &s->moments[(step % WINDOW) * s->ranks + rank];
}

/* The rank of another group that a rank exchanges keys with. */
static int64_t rank_in(const simulation *s, int64_t group, int64_t rank) {
    return group * s->members + rank % s->members;
}

/* ---- what is computed ---- */

/* What all groups need at a step, and how long they compute. */
static weft_status look_up(simulation *s, int64_t step) {
    weft_status status = WEFT_OK;
    for (int64_t g = 0; g < s->dist->rings && !status; g++) {
        group_step *now = step_of(s, g, step);
        group_state *group = &s->group[g];
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
static weft_status join(simulation *s, int64_t step) {
    const int64_t last = weft_smaller(step + s->lag, s->dist->steps - 1);
    weft_status status = WEFT_OK;
    for (; s->known <= last && !status; s->known++) {
        status = look_up(s, s->known);
    }
    for (int64_t g = 0; g < s->dist->rings && !status; g++) {
        weft_hop *hop = &step_of(s, g, step)->hop;
        const int64_t before = weft_hop_before(s->dist, hop), after = weft_hop_after(s->dist, hop);
        weft_hop_join(s->dist, g, hop, before >= 0 ? &step_of(s, before, step - s->lag)->hop : NULL,
                      after >= 0 ? &step_of(s, after, step + s->lag)->hop : NULL);
    }
    return status;
}

/* ---- what is sent ---- */

static int64_t rows_of(const weft_hop *hop) {
    return weft_ranges_rows(hop->needed, hop->needed_count);
}

static void add(simulation *s, transfer t) {
    s->transfers[s->count++] = t;
}

/* The keys of a step, when the sender has handed them over and the receiver has asked for them. */
static void add_keys(simulation *s, int64_t rank, int64_t step) {
    const int64_t group = rank / s->members;
    const weft_hop *hop = &step_of(s, group, step)->hop;
    if (hop->source == group || hop->needed_count == 0 || weft_dist_key_bytes(s->dist) == 0) {
        return;
    }
    const int64_t from = rank_in(s, hop->source, rank);
    const double posted = s->all_posted || step == 0 ? s->rank[from].start : moment_of(s, from, step - 1)->received;
    const double asked = step < s->ahead ? s->rank[rank].start : s->rank[rank].came;
    add(s, (transfer){fmax(posted, asked), from, rank, step, (uint64_t)rows_of(hop) * weft_dist_key_bytes(s->dist),
                      hop->source == hop->part ? OWN : ON});
}

/* The gradients that a rank goes on with at a step. It asked for them when it began the step before. */
static void add_adds(simulation *s, int64_t rank, int64_t step) {
    const weft_hop *hop = &step_of(s, rank / s->members, step)->hop;
    const int64_t earlier = step - s->lag;
    if (hop->adds_from < 0) {
        return;
    }
    const int64_t from = rank_in(s, hop->adds_from, rank);
    const uint64_t rows = (uint64_t)rows_of(&step_of(s, hop->adds_from, earlier)->hop);
    add(s, (transfer){fmax(moment_of(s, from, earlier)->computed, s->rank[rank].begin), from, rank, earlier,
                      rows * weft_dist_add_bytes(s->dist), ADDS});
}

/* The gradients of a rank's own keys that come home from a step. */
static void add_home(simulation *s, int64_t rank, int64_t step, double asked) {
    const int64_t group = rank / s->members;
    const int64_t taker = weft_ring_taker(&s->dist->ring, group, weft_dist_order_step(s->dist, step / s->dist->pieces));
    const weft_hop *hop = &step_of(s, taker, step)->hop;
    if (taker == group || !hop->adds_end || hop->needed_count == 0) {
        return;
    }
    const int64_t from = rank_in(s, taker, rank);
    s->rank[rank].home_rows = rows_of(hop);
    add(s, (transfer){fmax(moment_of(s, from, step)->computed, asked), from, rank, step,
                      (uint64_t)rows_of(hop) * weft_dist_add_bytes(s->dist), HOME});
}

static int earlier(const void *left, const void *right) {
    const transfer *a = left, *b = right;
    return a->ready != b->ready ? (a->ready < b->ready ? -1 : 1)
           : a->to != b->to     ? (a->to < b->to ? -1 : 1)
                                : (int)a->kind - (int)b->kind;
}

/* Links serve messages in the order of steps, and within a step as they are ready. */
static void send_all(simulation *s) {
    int in_order = 1;
    for (size_t i = 1; i < s->count && in_order; i++) {
        in_order = s->transfers[i - 1].ready <= s->transfers[i].ready;
    }
    if (!in_order) {
        qsort(s->transfers, s->count, sizeof *s->transfers, earlier);
    }
    for (size_t i = 0; i < s->count; i++) {
        const transfer *t = &s->transfers[i];
        rank_state *from = &s->rank[t->from], *to = &s->rank[t->to];
        const double come = weft_links_send(&s->links, t->from, t->to, t->ready, (double)t->bytes);
        from->sent += t->bytes;
        from->left += weft_links_same_node(&s->links, t->from, t->to) ? 0 : t->bytes;
        if (t->kind == OWN || t->kind == ON) {
            to->keys = fmax(to->keys, come);
            from->passed_on = t->kind == ON ? come : from->passed_on;
        } else {
            *(t->kind == ADDS ? &to->adds : &to->home) = come;
            moment_of(s, t->from, t->step)->sent_adds = come;
        }
    }
    s->count = 0;
}

/* ---- a step ---- */

/* Adds gradients that have come home. */
static weft_status end_home(simulation *s, rank_state *r) {
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

static weft_status compute(simulation *s, int64_t rank, int64_t step) {
    rank_state *r = &s->rank[rank];
    moment *now = moment_of(s, rank, step);
    const double seconds = step_of(s, rank / s->members, step)->seconds;
    r->begin = now->received;
    if (s->back && step >= s->lag) { /* what was sent a lag ago leaves its buffer to this step */
        r->begin = fmax(r->begin, moment_of(s, rank, step - s->lag)->sent_adds);
    }
    r->end = now->computed = fmax(r->begin + seconds, r->adds);
    r->computing += seconds;
    return end_home(s, r);
}

static weft_status take_step(simulation *s, int64_t step) {
    weft_status status = join(s, step);
    for (int64_t i = 0; i < s->ranks && !status; i++) {
        s->rank[i].keys = s->rank[i].passed_on = s->rank[i].adds = 0;
        add_keys(s, i, step);
        if (s->back) {
            add_adds(s, i, step);
        }
    }
    send_all(s);
    for (int64_t i = 0; i < s->ranks && !status; i++) {
        rank_state *r = &s->rank[i];
        r->came = fmax(r->end, r->passed_on);
        *moment_of(s, i, step) = (moment){fmax(r->came, r->keys), 0, 0};
        if (s->back && step > 0) {
            add_home(s, i, step - 1, moment_of(s, i, step)->received);
        }
    }
    send_all(s);
    for (int64_t i = 0; i < s->ranks && !status; i++) {
        status = compute(s, i, step);
    }
    return status;
}

/* ---- before and after the steps ---- */

/* The exchange of heads within groups, tensor by tensor. */
static void exchange_heads(simulation *s, int out) {
    if (s->members == 1) {
        return;
    }
    const weft_dist_heads_row row = weft_dist_heads_row_bytes(s->dist);
    const uint64_t query = out ? row.query_out : row.query_in, key = out ? row.key_out : row.key_in;
    const int64_t tensors = out ? row.tensors_out : row.tensors_in;
    for (int64_t i = 0; i < s->ranks; i++) {
        s->rank[i].keys = 0;
    }
    for (int64_t k = 1; k < s->members; k++) {
        for (int64_t i = 0; i < s->ranks; i++) {
            const int64_t to = i / s->members * s->members + (i + k) % s->members, whose = out ? to : i;
            const uint64_t bytes = (uint64_t)weft_dist_rows(s->dist, whose, WEFT_QUERY_ROWS) * query +
                                   (uint64_t)weft_dist_rows(s->dist, whose, WEFT_KEY_ROWS) * key;
            add(s, (transfer){fmax(s->rank[i].end, s->rank[to].end), i, to, 0, bytes, OWN});
        }
        send_all(s);
    }
    for (int64_t i = 0; i < s->ranks; i++) {
        const int64_t first = i / s->members * s->members;
        const double latency = weft_links_latency(&s->links, first, first + s->members - 1);
        s->rank[i].end = fmax(s->rank[i].end, s->rank[i].keys) + (double)(tensors - 1) * latency;
    }
}

/* All ranks tell all others a few words. */
static void tell_all(simulation *s) {
    const uint64_t others = (uint64_t)s->ranks - 1;
    const uint64_t bytes = others * (uint64_t)s->dist->kind->told(s->dist);
    double last = 0;
    for (int64_t i = 0; i < s->ranks; i++) {
        last = fmax(last, s->rank[i].end);
    }
    for (int64_t i = 0; i < s->ranks && bytes > 0; i++) {
        s->rank[i].sent += bytes;
        s->rank[i].end = last + weft_links_latency(&s->links, 0, s->ranks - 1);
    }
}

static weft_status finish(simulation *s) {
    const weft_dist *dist = s->dist;
    weft_status status = WEFT_OK;
    for (int64_t i = 0; i < s->ranks && s->back; i++) {
        add_home(s, i, dist->steps - 1, s->rank[i].end);
    }
    send_all(s);
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
    exchange_heads(s, 1);
    tell_all(s);
    return status;
}

static weft_status run(simulation *s, const weft_dist_simulate_options *o) {
    weft_status status = WEFT_OK;
    exchange_heads(s, 0);
    for (int64_t i = 0; i < s->ranks; i++) {
        s->rank[i].start = s->rank[i].end;
    }
    for (int64_t step = 0; step < s->dist->steps && !status; step++) {
        status = take_step(s, step);
        for (int64_t i = 0; i < s->ranks && o->told && !status; i++) {
            const weft_rank_step told = {.rank = i,
                                         .step = step,
                                         .part = step_of(s, i / s->members, step)->hop.part * s->members,
                                         .begin = s->rank[i].begin,
                                         .end = moment_of(s, i, step)->computed};
            o->told(o->told_user, &told);
        }
        if (o->progress) {
            o->progress(o->progress_user, step + 1, s->dist->steps);
        }
    }
    return status ? status : finish(s);
}

/* ---- all of it ---- */

static weft_status open(simulation *s, const weft_dist *dist, const weft_machine *machine, weft_prices *prices,
                        weft_message *message) {
    const int passes_on = dist->ranks.exchange == WEFT_EXCHANGE_RING && dist->pieces == 1;
    const int64_t slots = weft_dist_slots(dist);
    *s = (simulation){.dist = dist,
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
    s->steps = calloc((size_t)(WINDOW * dist->rings), sizeof *s->steps);
    s->moments = calloc((size_t)(WINDOW * s->ranks), sizeof *s->moments);
    s->rank = calloc((size_t)s->ranks, sizeof *s->rank);
    s->group = calloc((size_t)dist->rings, sizeof *s->group);
    s->transfers = calloc((size_t)(2 * s->ranks), sizeof *s->transfers);
    if (!s->steps || !s->moments || !s->rank || !s->group || !s->transfers) {
        return weft_fail(message, WEFT_NO_MEMORY, "no memory for %lld ranks", (long long)s->ranks);
    }
    return weft_links_open(&s->links, machine, s->ranks, message);
}

static void close(simulation *s) {
    for (int64_t i = 0; s->steps && i < WINDOW * s->dist->rings; i++) {
        weft_hop_free(&s->steps[i].hop);
    }
    weft_links_close(&s->links);
    free(s->steps);
    free(s->moments);
    free(s->rank);
    free(s->group);
    free(s->transfers);
}

static void sum_up(const simulation *s, double whole, weft_dist_simulation *out) {
    const double ranks = (double)s->ranks, groups = (double)s->dist->rings;
    uint64_t sent = 0, left = 0;
    double pairs = 0, most_pairs = 0;
    for (int64_t i = 0; i < s->ranks; i++) {
        const rank_state *r = &s->rank[i];
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
        const group_state *group = &s->group[g];
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
    simulation s;
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
