/* SPDX-License-Identifier: Apache-2.0 */
#include "sweep/ranks.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- a table ---- */

/* A way to share a problem, a column for each choice, and then its numbers. */
enum { CUT, EXCHANGE, HEADS, ORDER, MESH, SWEEP, MOST, TIME, RATE, IDEAL, WAITING, SENT, NETWORK, IMBALANCE, MEMORY };

/* The number above 0 that is less, which says in what unit a column is. */
static double least(double least, double value) {
    return value > 0 && (least <= 0 || value < least) ? value : least;
}

void sweep_ranks_look(sweep_ranks *c, const weft_dist_ranked *row) {
    const weft_ranks *r = &row->ranks;
    c->has_heads |= r->head_ranks > 1 && r->exchange != WEFT_EXCHANGE_HEADS;
    c->has_mesh |= r->order == WEFT_RANK_ORDER_MESH_CYCLE;
    c->has_sweep |= r->sweep != WEFT_SWEEP_FORWARD;
    c->has_most |= r->most_keys > 0;
    c->least_rate = least(c->least_rate, row->simulation.tflops);
    c->least_sent = least(c->least_sent, row->simulation.sent);
    c->least_memory = least(c->least_memory, (double)row->simulation.memory);
}

size_t sweep_ranks_columns(sweep_ranks *c, table_column *columns) {
    c->rate = weft_rate_unit(c->least_rate);
    c->sent = weft_bytes_unit(c->least_sent);
    c->memory = weft_bytes_unit(c->least_memory);
    snprintf(c->heads[0], sizeof c->heads[0], "%s/GPU", c->rate.name);
    snprintf(c->heads[1], sizeof c->heads[1], "sent %s", c->sent.name);
    snprintf(c->heads[2], sizeof c->heads[2], "memory %s", c->memory.name);
    const table_column all[] = {[CUT] = {"cut", 0, 1},         [EXCHANGE] = {"exchange", 0, 1},
                                [HEADS] = {"heads", 0, 1},     [ORDER] = {"order", 0, 1},
                                [MESH] = {"mesh", 0, 1},       [SWEEP] = {"sweep", 0, 1},
                                [MOST] = {"a hop", 0, 0},      [TIME] = {"ms", 0, 0},
                                [RATE] = {c->heads[0], 1, 0},  [IDEAL] = {"ideal %", 0, 0},
                                [WAITING] = {"wait ms", 2, 0}, [SENT] = {c->heads[1], 3, 0},
                                [NETWORK] = {"net %", 5, 0},   [IMBALANCE] = {"imbalance", 6, 0},
                                [MEMORY] = {c->heads[2], 4, 0}};
    const int left_out[sizeof all / sizeof *all] = {
        [HEADS] = !c->has_heads, [MESH] = !c->has_mesh, [SWEEP] = !c->has_sweep, [MOST] = !c->has_most};
    c->count = 0;
    for (int i = 0; i <= MEMORY; i++) {
        if (!left_out[i]) {
            columns[c->count] = all[i];
            c->which[c->count++] = i;
        }
    }
    return c->count;
}

/* A choice in words; "-" where the way has none. */
static const char *choice(const weft_ranks *r, int which, char *text, size_t size) {
    switch (which) {
    case CUT:
        return weft_rank_cut_name(r->cut);
    case EXCHANGE:
        return weft_exchange_name(r->exchange);
    case HEADS:
        snprintf(text, size, "over %" PRId64, r->head_ranks);
        return r->head_ranks > 1 && r->exchange != WEFT_EXCHANGE_HEADS ? text : "-";
    case ORDER:
        return weft_rank_order_describe(r->order)->name;
    case MESH:
        snprintf(text, size, "%" PRId64 " wide", r->columns);
        return r->order == WEFT_RANK_ORDER_MESH_CYCLE ? text : "-";
    case SWEEP:
        return weft_sweep_describe(r->sweep)->name;
    default:
        snprintf(text, size, "%" PRId64, r->most_keys);
        return r->most_keys > 0 ? text : "-";
    }
}

void sweep_ranks_add(const sweep_ranks *c, table *t, const weft_dist_ranked *row) {
    const weft_dist_simulation *s = &row->simulation;
    const double values[] = {[TIME] = 1e3 * s->seconds,         [RATE] = s->tflops * c->rate.factor,
                             [IDEAL] = 100 * s->efficiency,     [WAITING] = 1e3 * s->waiting,
                             [SENT] = s->sent * c->sent.factor, [NETWORK] = 100 * s->network,
                             [IMBALANCE] = s->imbalance,        [MEMORY] = (double)s->memory * c->memory.factor};
    static const int digits[] = {
        [TIME] = 4, [RATE] = 1, [IDEAL] = 1, [WAITING] = 4, [SENT] = 2, [NETWORK] = 1, [IMBALANCE] = 3, [MEMORY] = 2};
    for (size_t i = 0; i < c->count; i++) {
        const int which = c->which[i];
        char text[32];
        which < TIME ? table_add(t, "%s", choice(&row->ranks, which, text, sizeof text))
                     : table_add(t, "%.*f", digits[which], values[which]);
    }
}

/* ---- CSV ---- */

void sweep_ranks_csv_heads(void) {
    puts("cut,exchange,order,sweep,head_ranks,columns,most_keys,seconds,tflops,efficiency,ideal_seconds,computing,"
         "computing_most,"
         "waiting,waiting_most,imbalance,sent,sent_most,network,memory");
}

void sweep_ranks_csv(const weft_dist_ranked *row) {
    const weft_dist_simulation *s = &row->simulation;
    const weft_ranks *r = &row->ranks;
    printf("%s,%s,%s,%s,%" PRId64 ",%" PRId64 ",%" PRId64, weft_rank_cut_name(r->cut), weft_exchange_name(r->exchange),
           weft_rank_order_describe(r->order)->name, weft_sweep_describe(r->sweep)->name, r->head_ranks, r->columns,
           r->most_keys);
    printf(",%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%" PRIu64 ",%.9g,%" PRIu64 "\n", s->seconds, s->tflops,
           s->efficiency, s->ideal_seconds, s->computing, s->computing_most, s->waiting, s->waiting_most, s->imbalance,
           s->sent, s->sent_most, s->network, s->memory);
}
