/* SPDX-License-Identifier: Apache-2.0 */
/* weft plan: the schedule to take, why, by which rule, and how to get it elsewhere. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/report.h>

#include "base/json.h"
#include "cli.h"
#include "sweep/rows.h"
#include "table.h"
#include "verbs/ranking.h"
#include "verbs/ranks.h"

enum { SHOWN = 5, SENTENCE = 1024 };

/* How many of the schedules are listed. */
static size_t shown_rows(const ranking *r) {
    return r->summary.count < SHOWN ? (size_t)r->summary.count : SHOWN;
}

/* The schedule of a row as `weft simulate` prints it: a new object, or null when memory ran out. */
static json_t *schedule_json(const weft_ranked *row) {
    const size_t length = weft_schedule_json(&row->schedule, NULL, 0);
    char *text = length ? malloc(length + 1) : NULL;
    json_t *object = text && weft_schedule_json(&row->schedule, text, length + 1) == length
                         ? weft_json_read(text, strlen(text), 0, NULL)
                         : NULL;
    free(text);
    return object;
}

/* As ranking_json(), with the schedule itself, and its name beside that. */
static json_t *row_json(const weft_ranked *row) {
    char name[WEFT_SEARCH_NAME];
    json_t *object = ranking_json(row, 0);
    weft_search_name(row, name, sizeof name);
    weft_json_set(&object, "name", json_string(name));
    weft_json_set(&object, "schedule", schedule_json(row));
    if (row->model > 0) {
        weft_json_set(&object, "model", json_real(row->model));
    }
    return object;
}

static json_t *why_json(const weft_search *search) {
    char text[SENTENCE];
    json_t *list = json_array();
    for (size_t i = 0; weft_search_why(search, i, text, sizeof text) > 0; i++) {
        weft_json_append(&list, json_string(text));
    }
    return list;
}

static json_t *elsewhere_json(const weft_search *search) {
    char text[SENTENCE];
    json_t *object = json_object();
    for (size_t i = 0; weft_elsewhere_name(i); i++) {
        weft_search_elsewhere(search, weft_elsewhere_name(i), text, sizeof text);
        weft_json_set(&object, weft_elsewhere_name(i), json_string(text));
    }
    return object;
}

static const char *cost_name(const weft_search_summary *u) {
    return u->cost == WEFT_SEARCH_BY_MODEL ? "model" : "simulator";
}

static json_t *as_json(const settings *s, const ranking *r) {
    const weft_search_summary *u = &r->summary;
    json_t *rows = json_array();
    char reason[SENTENCE];
    weft_search_why(r->search, 0, reason, sizeof reason);
    for (size_t i = 0; i < shown_rows(r); i++) {
        weft_json_append(&rows, row_json(&r->rows[i]));
    }
    return json_pack("{s:s, s:o, s:o, s:s, s:s, s:s, s:o, s:o, s:I, s:I, s:I, s:o}", "machine",
                     s->machine ? s->machine : "host", "recommended", row_json(&r->rows[0]), "baseline",
                     u->has_baseline ? row_json(&r->baseline) : json_null(), "cost", cost_name(u), "rule", u->rule,
                     "reason", reason, "why", why_json(r->search), "elsewhere", elsewhere_json(r->search), "schedules",
                     (json_int_t)u->schedules, "searched", (json_int_t)u->searched, "finalists", (json_int_t)u->last,
                     "best", rows);
}

/* Rows that a model has ranked show its times, each over the least; the simulator's would rank them otherwise. */
static int print_priced(const ranking *r) {
    double least = r->rows[0].model, bytes = 0;
    for (int64_t i = 0; i < r->summary.count; i++) {
        least = r->rows[i].model < least ? r->rows[i].model : least;
    }
    for (size_t i = 0; i < shown_rows(r); i++) {
        const double read = (double)r->rows[i].simulation.total.dram_read_bytes;
        bytes = read > 0 && (bytes <= 0 || read < bytes) ? read : bytes;
    }
    const weft_unit unit = weft_bytes_unit(bytes);
    char dram[16];
    snprintf(dram, sizeof dram, "DRAM %s", unit.name);
    const table_column columns[] = {
        {"schedule", 0, 1}, {"model time", 0, 0}, {"hits %", 2, 0}, {"misses M", 3, 0}, {dram, 1, 0}};
    table t;
    table_begin(&t, columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; i < shown_rows(r); i++) {
        char name[WEFT_SEARCH_NAME];
        const weft_simulation *sim = &r->rows[i].simulation;
        const double values[] = {100 * weft_hit_rate(&sim->total), (double)sim->total.misses / 1e6,
                                 (double)sim->total.dram_read_bytes * unit.factor};
        weft_search_name(&r->rows[i], name, sizeof name);
        table_add(&t, "%s", name);
        table_add(&t, "%.3f", r->rows[i].model / least);
        for (size_t k = 0; k < sizeof values / sizeof *values; k++) {
            sim->seconds > 0 ? table_add(&t, "%.*f", k == 2 ? 3 : 2, values[k]) : table_add(&t, "-");
        }
    }
    return table_end(&t);
}

static int print_as_text(const ranking *r) {
    char name[WEFT_SEARCH_NAME], text[SENTENCE];
    weft_search_name(&r->rows[0], name, sizeof name);
    print_wrapped("recommended: %s\n", name);
    for (size_t i = 0; weft_search_why(r->search, i, text, sizeof text) > 0; i++) {
        print_wrapped("  %s\n", text);
    }
    puts("elsewhere:");
    for (size_t i = 0; weft_elsewhere_name(i); i++) {
        weft_search_elsewhere(r->search, weft_elsewhere_name(i), text, sizeof text);
        print_wrapped("  %-16s %s\n", weft_elsewhere_name(i), text);
    }
    putchar('\n');
    return r->summary.cost == WEFT_SEARCH_BY_MODEL ? print_priced(r) : ranking_print(r, shown_rows(r), 0, NULL);
}

int plan_points(const settings *points, size_t count, sweep *out) {
    int code = EXIT_OK;
    if (ranks_asked(points)) {
        return ranks_plan_points(points, count, out);
    }
    for (size_t i = 0; i < count && code == EXIT_OK; i++) {
        ranking r;
        code = ranking_make(&points[i], WEFT_SEARCH_ALL, &r);
        code = code ? code : sweep_put(out, i, &r.rows[0]);
        if (code == EXIT_OK && out->objects) {
            sweep_put_json(out, i, as_json(&points[i], &r));
        }
        ranking_release(&r);
    }
    return code;
}

int cmd_plan(const settings *s, const char *const *words, size_t count) {
    (void)count;
    if (check_operation(s, "plan", words[0])) {
        return EXIT_USAGE;
    }
    if (ranks_asked(s)) {
        return ranks_plan(s);
    }
    ranking r;
    int code = ranking_make(s, WEFT_SEARCH_ALL, &r);
    if (code == EXIT_OK && s->json) {
        code = print_json(as_json(s, &r));
    } else if (code == EXIT_OK) {
        code = print_as_text(&r);
    }
    ranking_release(&r);
    return code;
}
