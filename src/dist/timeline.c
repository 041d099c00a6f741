/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks send each other, and when it arrives. */
#include "dist/timeline.h"

#include <math.h>
#include <stdlib.h>

#include "dist/kinds.h"

/* The rank of another group that a rank exchanges keys with. */
static int64_t rank_in(const weft_timeline *s, int64_t group, int64_t rank) {
    return group * s->members + rank % s->members;
}

static int64_t rows_of(const weft_hop *hop) {
    return weft_ranges_rows(hop->needed, hop->needed_count);
}

static void add(weft_timeline *s, weft_transfer t) {
    s->transfers[s->count++] = t;
}

void weft_timeline_keys(weft_timeline *s, int64_t rank, int64_t step) {
    const int64_t group = rank / s->members;
    const weft_hop *hop = &weft_timeline_step(s, group, step)->hop;
    if (hop->source == group || hop->needed_count == 0 || weft_dist_key_bytes(s->dist) == 0) {
        return;
    }
    const int64_t from = rank_in(s, hop->source, rank);
    const double posted =
        s->all_posted || step == 0 ? s->rank[from].start : weft_timeline_moment(s, from, step - 1)->received;
    const double asked = step < s->ahead ? s->rank[rank].start : s->rank[rank].came;
    add(s, (weft_transfer){fmax(posted, asked), from, rank, step, (uint64_t)rows_of(hop) * weft_dist_key_bytes(s->dist),
                           hop->source == hop->part ? WEFT_SENT_OWN : WEFT_SENT_ON});
}

void weft_timeline_adds(weft_timeline *s, int64_t rank, int64_t step) {
    const weft_hop *hop = &weft_timeline_step(s, rank / s->members, step)->hop;
    const int64_t earlier = step - s->lag;
    if (hop->adds_from < 0) {
        return;
    }
    const int64_t from = rank_in(s, hop->adds_from, rank);
    const uint64_t rows = (uint64_t)rows_of(&weft_timeline_step(s, hop->adds_from, earlier)->hop);
    add(s, (weft_transfer){fmax(weft_timeline_moment(s, from, earlier)->computed, s->rank[rank].begin), from, rank, earlier,
                           rows * weft_dist_add_bytes(s->dist), WEFT_SENT_ADDS});
}

void weft_timeline_home(weft_timeline *s, int64_t rank, int64_t step, double asked) {
    const int64_t group = rank / s->members;
    const int64_t taker = weft_ring_taker(&s->dist->ring, group, weft_dist_order_step(s->dist, step / s->dist->pieces));
    const weft_hop *hop = &weft_timeline_step(s, taker, step)->hop;
    if (taker == group || !hop->adds_end || hop->needed_count == 0) {
        return;
    }
    const int64_t from = rank_in(s, taker, rank);
    s->rank[rank].home_rows = rows_of(hop);
    add(s, (weft_transfer){fmax(weft_timeline_moment(s, from, step)->computed, asked), from, rank, step,
                           (uint64_t)rows_of(hop) * weft_dist_add_bytes(s->dist), WEFT_SENT_HOME});
}

static int earlier(const void *left, const void *right) {
    const weft_transfer *a = left, *b = right;
    return a->ready != b->ready ? (a->ready < b->ready ? -1 : 1)
           : a->to != b->to     ? (a->to < b->to ? -1 : 1)
                                : (int)a->kind - (int)b->kind;
}

void weft_timeline_send(weft_timeline *s) {
    int in_order = 1;
    for (size_t i = 1; i < s->count && in_order; i++) {
        in_order = s->transfers[i - 1].ready <= s->transfers[i].ready;
    }
    if (!in_order) {
        qsort(s->transfers, s->count, sizeof *s->transfers, earlier);
    }
    for (size_t i = 0; i < s->count; i++) {
        const weft_transfer *t = &s->transfers[i];
        weft_rank_times *from = &s->rank[t->from], *to = &s->rank[t->to];
        const double come = weft_links_send(&s->links, t->from, t->to, t->ready, (double)t->bytes);
        from->sent += t->bytes;
        from->left += weft_links_same_node(&s->links, t->from, t->to) ? 0 : t->bytes;
        if (t->kind == WEFT_SENT_OWN || t->kind == WEFT_SENT_ON) {
            to->keys = fmax(to->keys, come);
            from->passed_on = t->kind == WEFT_SENT_ON ? come : from->passed_on;
        } else {
            *(t->kind == WEFT_SENT_ADDS ? &to->adds : &to->home) = come;
            weft_timeline_moment(s, t->from, t->step)->sent_adds = come;
        }
    }
    s->count = 0;
}

/* The k-th of the others that a member sends to. All go to the same node at a time, so that no link waits for a rank that
 * still talks to its own node: messages of an exchange are handed over together, and share links until the last is through.
 */
static int64_t partner(const weft_timeline *s, int64_t rank, int64_t k) {
    const int64_t gpus = s->links.machine->link_gpus, first = rank / s->members * s->members, at = rank - first;
    if (s->members % gpus != 0) { /* in one node, or not in whole ones */
        return first + (at + k) % s->members;
    }
    const int64_t node = (at / gpus + k / gpus) % (s->members / gpus);
    return first + node * gpus + (at + k) % gpus;
}

void weft_timeline_heads(weft_timeline *s, int out) {
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
            const int64_t to = partner(s, i, k), whose = out ? to : i;
            const uint64_t bytes = (uint64_t)weft_dist_rows(s->dist, whose, WEFT_QUERY_ROWS) * query +
                                   (uint64_t)weft_dist_rows(s->dist, whose, WEFT_KEY_ROWS) * key;
            add(s, (weft_transfer){fmax(s->rank[i].end, s->rank[to].end), i, to, 0, bytes, WEFT_SENT_OWN});
        }
        weft_timeline_send(s);
    }
    for (int64_t i = 0; i < s->ranks; i++) {
        const int64_t first = i / s->members * s->members;
        const double latency = weft_links_latency(&s->links, first, first + s->members - 1);
        s->rank[i].end = fmax(s->rank[i].end, s->rank[i].keys) + (double)(tensors - 1) * latency;
    }
}

void weft_timeline_tell(weft_timeline *s) {
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
