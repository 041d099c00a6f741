/* SPDX-License-Identifier: Apache-2.0 */
/* Ways to share a problem among ranks: all that are open, each simulated. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/status.h"
#include "base/struct.h"
#include "dist/simulate.h"

struct weft_dist_search {
    weft_dist_ranked *rows; /* in their order */
    size_t count, room;
    weft_dist_ranked plain; /* contiguous, ring: what is plainest; or, where that is not among them, the last */
};

/* What is simulated, and what came of it. */
typedef struct search_run {
    weft_dist_search *search;
    const void *problem;
    weft_ranks given;
    weft_dist_simulate_options options;
    weft_prices prices;
    weft_status refused; /* why the last way was, of those that were */
    weft_message why;
    weft_progress progress;
    void *progress_user;
    int64_t done, ways;
    int counts; /* the ways, without a simulation */
    weft_message *message;
} search_run;

static weft_status keep(search_run *r, const weft_dist_ranked *row) {
    weft_dist_search *s = r->search;
    if (s->count == s->room) {
        const size_t room = s->room ? 2 * s->room : 32;
        weft_dist_ranked *rows = realloc(s->rows, room * sizeof *rows);
        if (!rows) {
            return weft_fail(r->message, WEFT_NO_MEMORY, "no memory for ways to share a problem");
        }
        s->rows = rows;
        s->room = room;
    }
    s->rows[s->count++] = *row;
    return WEFT_OK;
}

/* Ways that the problem does not allow are passed over. */
static weft_status try_way(search_run *r, const weft_ranks *ranks) {
    weft_dist_options options = WEFT_DIST_OPTIONS_INIT;
    weft_dist_ranked row = WEFT_DIST_RANKED_INIT;
    weft_dist *dist;
    options.ranks = ranks;
    weft_status status = weft_dist_create(&dist, r->problem, &options, &r->why);
    if (status == WEFT_INVALID || status == WEFT_UNSUPPORTED) {
        r->refused = status;
        return WEFT_OK;
    }
    if (status) {
        return weft_fail(r->message, status, "%s", r->why.text);
    }
    if (r->counts) {
        r->ways++;
        weft_dist_destroy(dist);
        return WEFT_OK;
    }
    row.ranks = weft_dist_ranks(dist);
    status = weft_dist_simulate_with(dist, &r->options, &r->prices, &row.simulation, r->message);
    weft_dist_destroy(dist);
    r->done++;
    return status ? status : keep(r, &row);
}

/* Whether an order is worth trying: a mesh's only where there is one. */
static int is_apt(const search_run *r, int32_t order) {
    return order != WEFT_RANK_ORDER_MESH_CYCLE || r->options.machine->link_topology == WEFT_TOPOLOGY_MESH;
}

/* Every order that is open. Keys that all ranks ask for at once come in any. */
static weft_status try_orders(search_run *r, weft_ranks ranks) {
    weft_status status = WEFT_OK;
    for (int32_t order = 1; order <= WEFT_RANK_ORDERS && !status; order++) {
        const int open = ranks.exchange == WEFT_EXCHANGE_RING && ranks.head_ranks < ranks.ranks;
        weft_ranks way = ranks;
        way.order = r->given.order ? r->given.order : order;
        if (r->given.order || !open ? order == 1 : is_apt(r, order)) {
            status = try_way(r, &way);
        }
    }
    return status;
}

/* Every number of ranks that may exchange heads. */
static weft_status try_heads(search_run *r, weft_ranks ranks) {
    weft_status status = WEFT_OK;
    if (ranks.exchange == WEFT_EXCHANGE_HEADS || r->given.head_ranks > 0) {
        return try_orders(r, ranks);
    }
    for (int64_t u = 1; u < ranks.ranks && u <= WEFT_MOST_HEAD_RANKS && !status; u++) {
        ranks.head_ranks = u;
        status = ranks.ranks % u == 0 ? try_orders(r, ranks) : WEFT_OK;
    }
    return status;
}

static weft_status try_all(search_run *r) {
    weft_status status = WEFT_OK;
    for (int32_t cut = 1; weft_rank_cut_name(cut) && !status; cut++) {
        for (int32_t exchange = 1; weft_exchange_name(exchange) && !status; exchange++) {
            weft_ranks ranks = r->given;
            ranks.cut = cut;
            ranks.exchange = exchange;
            if ((!r->given.cut || r->given.cut == cut) && (!r->given.exchange || r->given.exchange == exchange)) {
                status = try_heads(r, ranks);
            }
        }
    }
    if (!status && !r->counts && r->search->count == 0) {
        status = weft_fail(r->message, r->refused, "%s", r->why.text);
    }
    return status;
}

/* A way's steps, as a part of all ways. */
static void tell(void *user, int64_t step, int64_t steps) {
    const search_run *r = user;
    r->progress(r->progress_user, r->done * steps + step, r->ways * steps);
}

static int faster(const void *left, const void *right) {
    const weft_dist_simulation *a = &((const weft_dist_ranked *)left)->simulation;
    const weft_dist_simulation *b = &((const weft_dist_ranked *)right)->simulation;
    return a->seconds != b->seconds ? (a->seconds < b->seconds ? -1 : 1) : a->sent_most < b->sent_most ? -1 : 1;
}

static int leaner(const void *left, const void *right) {
    const weft_dist_simulation *a = &((const weft_dist_ranked *)left)->simulation;
    const weft_dist_simulation *b = &((const weft_dist_ranked *)right)->simulation;
    return a->sent_most != b->sent_most ? (a->sent_most < b->sent_most ? -1 : 1)
           : a->memory != b->memory     ? (a->memory < b->memory ? -1 : 1)
                                        : faster(left, right);
}

static int is_plain(const weft_ranks *r) {
    return r->cut == WEFT_CUT_CONTIGUOUS && r->exchange == WEFT_EXCHANGE_RING && r->order == WEFT_RANK_ORDER_RING &&
           r->head_ranks == 1;
}

/* The fastest first; those within 1 % of it by what they send. */
static void put_in_order(weft_dist_search *s) {
    size_t near = 0;
    qsort(s->rows, s->count, sizeof *s->rows, faster);
    while (near < s->count && s->rows[near].simulation.seconds <= 1.01 * s->rows[0].simulation.seconds) {
        near++;
    }
    s->plain = s->rows[s->count - 1];
    for (size_t i = 0; i < s->count; i++) {
        s->plain = is_plain(&s->rows[i].ranks) ? s->rows[i] : s->plain;
    }
    qsort(s->rows, near, sizeof *s->rows, leaner);
}

weft_status weft_dist_search_run(weft_dist_search **search, const void *problem, const weft_ranks *ranks,
                                 const weft_dist_simulate_options *options, weft_message *message) {
    search_run r = {.problem = problem, .given = WEFT_RANKS_INIT, .message = message};
    weft_machine machine;
    if (!search) {
        return weft_fail(message, WEFT_INVALID, "search is null");
    }
    *search = NULL;
    weft_status status = weft_struct_take_options(&r.given, sizeof r.given, ranks, "WEFT_RANKS_INIT", message);
    status = status ? status : weft_dist_simulate_take(&r.options, &machine, options, message);
    if (status || (status = weft_prices_open(&r.prices, &r.options, message))) {
        return status;
    }
    r.progress = r.options.progress;
    r.progress_user = r.options.progress_user;
    r.options.progress = r.progress ? tell : NULL;
    r.options.progress_user = &r;
    r.options.told = NULL;
    r.search = calloc(1, sizeof *r.search);
    status = r.search ? WEFT_OK : weft_fail(message, WEFT_NO_MEMORY, "no memory for ways to share a problem");
    for (r.counts = r.progress != NULL; r.counts >= 0 && !status; r.counts--) {
        status = try_all(&r);
    }
    weft_prices_close(&r.prices);
    if (status) {
        weft_dist_search_destroy(r.search);
        return status;
    }
    put_in_order(r.search);
    *search = r.search;
    return WEFT_OK;
}

void weft_dist_search_destroy(weft_dist_search *search) {
    if (search) {
        free(search->rows);
        free(search);
    }
}

weft_status weft_dist_search_row(const weft_dist_search *search, size_t index, weft_dist_ranked *row,
                                 weft_message *message) {
    if (!search || index >= search->count) {
        return weft_fail(message, WEFT_NOT_FOUND, "there is no way %zu", index);
    }
    return weft_struct_give(row, &search->rows[index], sizeof search->rows[index], sizeof(size_t), "WEFT_DIST_RANKED_INIT",
                            message);
}

/* ---- why ---- */

/* What it gains over the plain way, or over the next one. */
static int say_gain(const weft_dist_search *s, char *text, size_t size) {
    const weft_dist_simulation *best = &s->rows[0].simulation, *plain = &s->plain.simulation;
    char name[256], other[256];
    weft_ranks_text(&s->rows[0].ranks, name, sizeof name);
    weft_ranks_text(&s->plain.ranks, other, sizeof other);
    if (s->count == 1 || best->seconds == plain->seconds) {
        return snprintf(text, size, "%s: %.4g ms, %.1f %% of ideal", name, 1e3 * best->seconds, 100 * best->efficiency);
    }
    return snprintf(text, size, "%s: %.4g ms, %.1f %% of ideal; %.2f times as fast as %s", name, 1e3 * best->seconds,
                    100 * best->efficiency, plain->seconds / best->seconds, other);
}

/* What keeps it from the ideal. */
static int say_bound(const weft_dist_search *s, char *text, size_t size) {
    const weft_dist_simulation *best = &s->rows[0].simulation;
    return snprintf(text, size,
                    "a rank computes for %.4g ms, %.4g ms at most, and waits for %.4g ms; it sends %.4g MB, %.3g %% of it "
                    "between nodes",
                    1e3 * best->computing, 1e3 * best->computing_most, 1e3 * best->waiting, best->sent / 1e6,
                    100 * best->network);
}

size_t weft_dist_search_why(const weft_dist_search *search, size_t number, char *text, size_t size) {
    int length = 0;
    if (search && number == 0) {
        length = say_gain(search, text, size);
    } else if (search && number == 1) {
        length = say_bound(search, text, size);
    } else if (search && number == 2) {
        length = snprintf(text, size, "rule: of those within 1 %% of the fastest, the one that sends least; then memory");
    } else if (search && number == 3) {
        length = snprintf(text, size, "%zu ways were simulated; scaling is predicted, not measured", search->count);
    }
    return length > 0 ? (size_t)length : 0;
}
