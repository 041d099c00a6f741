/* SPDX-License-Identifier: Apache-2.0 */
/* A problem over ranks and its simulation, in words and as JSON. */
#include "dist/describe.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/struct.h"
#include "dist/kinds.h"
#include "plan/describe.h"

static const char *sweep_name(const weft_ranks *r) {
    return weft_sweep_describe(r->sweep)->name;
}

json_t *weft_ranks_object(const weft_ranks *r) {
    return json_pack("{s:I, s:s, s:s, s:s, s:s, s:I, s:I, s:I}", "ranks", (json_int_t)r->ranks, "cut",
                     weft_rank_cut_name(r->cut), "exchange", weft_exchange_name(r->exchange), "order",
                     weft_rank_order_describe(r->order)->name, "sweep", sweep_name(r), "head_ranks",
                     (json_int_t)r->head_ranks, "columns", (json_int_t)r->columns, "most_keys", (json_int_t)r->most_keys);
}

static json_t *dist_object(const weft_dist *dist) {
    return json_pack("{s:o, s:o, s:I}", "problem", weft_problem_json(&dist->operation->info, &dist->problem), "ranks",
                     weft_ranks_object(&dist->ranks), "steps", (json_int_t)dist->steps);
}

size_t weft_dist_json(const weft_dist *dist, char *text, size_t size) {
    return weft_json_print(dist ? dist_object(dist) : NULL, text, size);
}

/* A caller's choices, all made; null when they are not. */
static const weft_ranks *chosen(weft_ranks *ours, const weft_ranks *theirs) {
    const weft_ranks init = WEFT_RANKS_INIT;
    *ours = init;
    const int whole = weft_struct_take_options(ours, sizeof *ours, theirs, "WEFT_RANKS_INIT", NULL) == WEFT_OK &&
                      weft_rank_cut_name(ours->cut) && weft_exchange_name(ours->exchange) &&
                      weft_rank_order_describe(ours->order) && weft_sweep_describe(ours->sweep);
    return whole ? ours : NULL;
}

size_t weft_ranks_text(const weft_ranks *ranks, char *text, size_t size) {
    char heads[48] = "", columns[48] = "", sweep[32] = "", pieces[48] = "";
    weft_ranks copy;
    const weft_ranks *r = chosen(&copy, ranks);
    if (!r) {
        return 0;
    }
    if (r->head_ranks > 1 && r->exchange != WEFT_EXCHANGE_HEADS) {
        snprintf(heads, sizeof heads, " x heads over %" PRId64, r->head_ranks);
    }
    if (r->order == WEFT_RANK_ORDER_MESH_CYCLE) {
        snprintf(columns, sizeof columns, " of %" PRId64 " columns", r->columns);
    }
    if (r->sweep == WEFT_SWEEP_SAWTOOTH) {
        snprintf(sweep, sizeof sweep, ", sweep sawtooth");
    }
    if (r->most_keys > 0) {
        snprintf(pieces, sizeof pieces, ", at most %" PRId64 " %s a hop", r->most_keys,
                 r->cut < WEFT_CUT_M ? "keys" : "rows");
    }
    const int length =
        snprintf(text, size, "cut %s, exchange %s%s, order %s%s%s%s", weft_rank_cut_name(r->cut),
                 weft_exchange_name(r->exchange), heads, weft_rank_order_describe(r->order)->name, columns, sweep, pieces);
    return length > 0 ? (size_t)length : 0;
}

/* A name as part of a constant's: all-gather as ALL_GATHER. */
static const char *constant(const char *name, char text[32]) {
    size_t i = 0;
    for (; i < 31 && name[i]; i++) {
        text[i] = name[i] == '-' ? '_' : (char)toupper((unsigned char)name[i]);
    }
    text[i] = '\0';
    return text;
}

size_t weft_ranks_c(const weft_ranks *ranks, char *text, size_t size) {
    char cut[32], exchange[32], order[32], heads[48] = "", columns[48] = "", pieces[48] = "";
    weft_ranks copy;
    const weft_ranks *r = chosen(&copy, ranks);
    if (!r) {
        return 0;
    }
    if (r->head_ranks > 1 && r->exchange != WEFT_EXCHANGE_HEADS) {
        snprintf(heads, sizeof heads, " ranks.head_ranks = %" PRId64 ";", r->head_ranks);
    }
    if (r->order == WEFT_RANK_ORDER_MESH_CYCLE) {
        snprintf(columns, sizeof columns, " ranks.columns = %" PRId64 ";", r->columns);
    }
    if (r->most_keys > 0) {
        snprintf(pieces, sizeof pieces, " ranks.most_keys = %" PRId64 ";", r->most_keys);
    }
    const int length = snprintf(
        text, size, "ranks.cut = WEFT_CUT_%s; ranks.exchange = WEFT_EXCHANGE_%s; ranks.order = WEFT_RANK_ORDER_%s;%s%s%s",
        constant(weft_rank_cut_name(r->cut), cut), constant(weft_exchange_name(r->exchange), exchange),
        constant(weft_rank_order_describe(r->order)->name, order), heads, columns, pieces);
    return length > 0 ? (size_t)length : 0;
}

size_t weft_ranks_json(const weft_ranks *ranks, char *text, size_t size) {
    weft_ranks copy;
    const weft_ranks *r = chosen(&copy, ranks);
    return weft_json_print(r ? weft_ranks_object(r) : NULL, text, size);
}

size_t weft_dist_text(const weft_dist *dist, char *text, size_t size) {
    char problem[512], ranks[256], rows[256];
    if (!dist) {
        return 0;
    }
    dist->operation->text(&dist->problem, problem, sizeof problem);
    weft_ranks_text(&dist->ranks, ranks, sizeof ranks);
    dist->kind->rows_text(dist, rows, sizeof rows);
    const int length = snprintf(text, size, "%sranks      %" PRId64 ", %s\n%s; %" PRId64 " steps\n", problem,
                                dist->ranks.ranks, ranks, rows, dist->steps);
    return length > 0 ? (size_t)length : 0;
}

json_t *weft_dist_simulation_object(const weft_dist_simulation *s) {
    return json_pack("{s:f, s:f, s:f, s:f, s:{s:f, s:f}, s:{s:f, s:f}, s:f, s:{s:f, s:I}, s:f, s:I, s:I, s:f}", "seconds",
                     s->seconds, "tflops", s->tflops, "ideal_seconds", s->ideal_seconds, "efficiency", s->efficiency,
                     "computing", "mean", s->computing, "most", s->computing_most, "waiting", "mean", s->waiting, "most",
                     s->waiting_most, "imbalance", s->imbalance, "sent", "mean", s->sent, "most", (json_int_t)s->sent_most,
                     "network", s->network, "memory", (json_int_t)s->memory, "kernels", (json_int_t)s->kernels,
                     "elapsed_seconds", s->elapsed_seconds);
}

size_t weft_dist_simulation_json(const weft_dist *dist, const weft_dist_simulation *simulation, char *text, size_t size) {
    json_t *object = dist && simulation ? dist_object(dist) : NULL;
    if (object) {
        weft_json_set(&object, "predicted", weft_dist_simulation_object(simulation));
    }
    return weft_json_print(object, text, size);
}
