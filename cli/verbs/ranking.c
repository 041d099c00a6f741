/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/ranking.h"

#include <stdio.h>
#include <stdlib.h>

#include <weft/report.h>

#include "base/json.h"
#include "cli.h"
#include "studies/device_bench.h"
#include "table.h"
#include "verbs/measure.h"
#include "verbs/simulated.h"

static weft_status take_rows(const weft_search *search, ranking *r, weft_message *message) {
    const weft_ranked init = WEFT_RANKED_INIT;
    weft_status status = weft_search_summarize(search, &r->summary, message);
    const size_t count = (size_t)r->summary.count;
    r->rows = calloc(count + 1, sizeof *r->rows);
    r->measured = calloc(count + 1, sizeof *r->measured);
    if (!r->rows || !r->measured) {
        return WEFT_NO_MEMORY;
    }
    for (size_t i = 0; i < count && status == WEFT_OK; i++) {
        r->rows[i] = init;
        status = weft_search_row(search, i, &r->rows[i], message);
    }
    if (status == WEFT_OK && r->summary.has_baseline) {
        status = weft_search_baseline(search, &r->baseline, message);
    }
    return status;
}

int ranking_make(const settings *s, weft_search_space space, ranking *r) {
    const ranking none = {NULL, WEFT_SEARCH_SUMMARY_INIT, NULL, NULL, WEFT_RANKED_INIT};
    const weft_simulate_options simulate = simulate_options(s, NULL);
    weft_search_options options = WEFT_SEARCH_INIT;
    weft_message message = {"out of memory"};
    question q;
    progress_part part = {1, 0};
    *r = none;
    options.space = space;
    options.cost = s->cost > 0 ? (weft_search_cost)s->cost : WEFT_SEARCH_BY_ANY;
    options.simulate = &simulate;
    options.progress = progress_seen() ? progress_told : NULL;
    options.progress_user = &part;
    weft_status status = question_of(s, &q, &message);
    if (status == WEFT_OK) {
        progress_begin("simulating schedules", 1);
        status = weft_search_run(&r->search, &q.problem, &q.options, &options, &message);
        progress_end();
    }
    status = status ? status : take_rows(r->search, r, &message);
    const weft_device device = device_of(s);
    return status ? complain(device_exit_code(&device, status), "%s", message.text) : EXIT_OK;
}

void ranking_release(ranking *r) {
    weft_search_destroy(r->search);
    free(r->rows);
    free(r->measured);
}

int ranking_plan(const settings *s, const weft_ranked *row, weft_plan **plan) {
    weft_message message = {""};
    question q;
    weft_status status = question_of(s, &q, &message);
    q.schedule = row->given;
    status = status ? status : weft_plan_create(plan, &q.problem, &q.options, &message);
    const weft_device device = device_of(s);
    return status ? complain(device_exit_code(&device, status), "%s", message.text) : EXIT_OK;
}

int ranking_measure(const settings *s, ranking *r) {
    const size_t count = (size_t)r->summary.count;
    const int on_gpu = s->device == WEFT_DEVICE_CUDA;
    const size_t rounds = s->repeat > 0 ? (size_t)s->repeat : on_gpu ? 7 : 5;
    weft_plan **plans = calloc(count + 1, sizeof *plans);
    double *times = calloc(count * rounds + 1, sizeof *times);
    weft_check *checks = calloc(count + 1, sizeof *checks);
    int code = plans && times && checks ? EXIT_OK : complain(EXIT_FAILED, "out of memory");
    for (size_t i = 0; i < count && code == EXIT_OK; i++) {
        code = ranking_plan(s, &r->rows[i], &plans[i]);
    }
    if (code == EXIT_OK) {
        code = measure_plans(plans, count, rounds, (uint64_t)s->seed, times, checks);
    }
    for (size_t i = 0; i < count && code == EXIT_OK; i++) {
        r->measured[i] = weft_median(times + i * rounds, rounds);
        if (!checks[i].passed) {
            char name[WEFT_SEARCH_NAME];
            weft_search_name(&r->rows[i], name, sizeof name);
            code = complain(EXIT_FAILED, "%s: the result is wrong: error %.3g, allowed %.3g", name, checks[i].max_error,
                            checks[i].bound);
        }
    }
    for (size_t i = 0; i < count && plans; i++) {
        weft_plan_destroy(plans[i]);
    }
    free(plans);
    free(times);
    free(checks);
    return code;
}

/* The predicted rate and the predicted time give the operations, and so the measured rate. */
static double measured_tflops(const weft_ranked *row, double measured) {
    return row->simulation.tflops * row->simulation.seconds / measured;
}

json_t *ranking_json(const weft_ranked *row, double measured) {
    char name[WEFT_SEARCH_NAME];
    const weft_simulation *sim = &row->simulation;
    const weft_traffic *t = &sim->total;
    weft_search_name(row, name, sizeof name);
    json_t *object =
        json_pack("{s:s, s:I, s:f, s:I, s:I, s:I, s:f, s:f, s:f}", "schedule", name, "sectors", (json_int_t)t->sectors,
                  "hit_rate", weft_hit_rate(t), "misses", (json_int_t)t->misses, "fabric_sectors",
                  (json_int_t)t->fabric_sectors, "dram_read_bytes", (json_int_t)t->dram_read_bytes, "seconds", sim->seconds,
                  "tflops", sim->tflops, "simulated", sim->simulated);
    if (t->added > 0) {
        weft_json_set(&object, "added_sectors", json_integer((json_int_t)t->added));
        weft_json_set(&object, "waited", json_real(weft_waiting_share(sim)));
    }
    if (measured > 0) {
        weft_json_set(&object, "measured",
                      json_pack("{s:f, s:f}", "seconds", measured, "tflops", measured_tflops(row, measured)));
    }
    return object;
}

/* ---- a table ---- */

enum { SCHEDULE, HITS, MISSES, FABRIC, DRAM, ADDS, WAITS, TIME, RATE, MEASURED, MEASURED_RATE, COLUMNS };

/* The least number above 0 of a column, which says in what unit the column is. */
static double least(double least, double value) {
    return value > 0 && (least <= 0 || value < least) ? value : least;
}

/* The columns that a table has of the list, and their units. */
typedef struct shown {
    table_column list[COLUMNS];
    int which[COLUMNS];
    size_t count;
    weft_unit bytes, rate;
    char bytes_head[16];
} shown;

static void choose_columns(const ranking *r, size_t count, int measured, shown *c) {
    double bytes = 0, rate = 0;
    const int adds = r->rows[0].simulation.total.added > 0;
    for (size_t i = 0; i < count; i++) {
        bytes = least(bytes, (double)r->rows[i].simulation.total.dram_read_bytes);
        rate = least(rate, r->rows[i].simulation.tflops);
    }
    c->bytes = weft_bytes_unit(bytes);
    c->rate = weft_rate_unit(rate);
    snprintf(c->bytes_head, sizeof c->bytes_head, "DRAM %s", c->bytes.name);
    const table_column all[COLUMNS] = {[SCHEDULE] = {"schedule", 0, 1},       [HITS] = {"hits %", 3, 0},
                                       [MISSES] = {"misses M", 4, 0},         [FABRIC] = {"fabric M", 6, 0},
                                       [DRAM] = {c->bytes_head, 2, 0},        [ADDS] = {"adds M", 7, 0},
                                       [WAITS] = {"waits %", 5, 0},           [TIME] = {"ms", 0, 0},
                                       [RATE] = {c->rate.name, 1, 0},         [MEASURED] = {"measured ms", 0, 0},
                                       [MEASURED_RATE] = {c->rate.name, 1, 0}};
    c->count = 0;
    for (int i = 0; i < COLUMNS; i++) {
        if ((i != ADDS && i != WAITS) || adds) {
            if (i < MEASURED || measured) {
                c->which[c->count] = i;
                c->list[c->count++] = all[i];
            }
        }
    }
}

static void add_row(table *t, const shown *c, const weft_ranked *row, double measured) {
    char name[WEFT_SEARCH_NAME];
    const weft_traffic *traffic = &row->simulation.total;
    const double values[COLUMNS] = {[HITS] = 100 * weft_hit_rate(traffic),
                                    [MISSES] = (double)traffic->misses / 1e6,
                                    [FABRIC] = (double)traffic->fabric_sectors / 1e6,
                                    [DRAM] = (double)traffic->dram_read_bytes * c->bytes.factor,
                                    [ADDS] = (double)traffic->added / 1e6,
                                    [WAITS] = 100 * weft_waiting_share(&row->simulation),
                                    [TIME] = 1e3 * row->simulation.seconds,
                                    [RATE] = row->simulation.tflops * c->rate.factor,
                                    [MEASURED] = 1e3 * measured,
                                    [MEASURED_RATE] = measured > 0 ? measured_tflops(row, measured) * c->rate.factor : 0};
    static const int digits[COLUMNS] = {[HITS] = 2,  [MISSES] = 2, [FABRIC] = 2, [DRAM] = 3,     [ADDS] = 2,
                                        [WAITS] = 2, [TIME] = 4,   [RATE] = 2,   [MEASURED] = 4, [MEASURED_RATE] = 2};
    weft_search_name(row, name, sizeof name);
    for (size_t i = 0; i < c->count; i++) {
        const int column = c->which[i];
        column == SCHEDULE ? table_add(t, "%s", name) : table_add(t, "%.*f", digits[column], values[column]);
    }
}

/* In the same columns: what was counted in place of what was simulated. */
static void add_counted(table *t, const shown *c, const device_case *counted) {
    const double *v = counted->values;
    const double hits = v[WEFT_COUNTER_L2_HITS], misses = v[WEFT_COUNTER_L2_MISSES];
    const double values[COLUMNS] = {[HITS] = 100 * hits / (hits + misses),
                                    [MISSES] = misses / 1e6,
                                    [FABRIC] = v[WEFT_COUNTER_FABRIC_SECTORS] / 1e6,
                                    [DRAM] = v[WEFT_COUNTER_DRAM_READ_BYTES] * c->bytes.factor};
    for (size_t i = 0; i < c->count; i++) {
        const int column = c->which[i];
        column == SCHEDULE ? table_add(t, "  counted")
        : column <= DRAM   ? table_add(t, "%.*f", column == DRAM ? 3 : 2, values[column])
                           : table_add(t, "%s", "");
    }
}

int ranking_print(const ranking *r, size_t count, int measured, const device_case *counted) {
    shown columns;
    table t;
    choose_columns(r, count, measured, &columns);
    table_begin(&t, columns.list, columns.count);
    for (size_t i = 0; i < count; i++) {
        add_row(&t, &columns, &r->rows[i], r->measured[i]);
        if (counted) {
            add_counted(&t, &columns, &counted[i]);
        }
    }
    return table_end(&t);
}
