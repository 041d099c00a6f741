#include "verbs/ranking.h"

#include <stdio.h>
#include <stdlib.h>

#include <weft/report.h>

#include "base/json.h"
#include "cli.h"
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

void ranking_print_header(const weft_ranked *row, int measured) {
    printf("%-50s%9s%10s%10s%10s%s%10s%15s%s\n", "schedule", "hits %", "misses M", "fabric M", "DRAM GB",
           row->simulation.total.added > 0 ? "    adds M  waits %" : "", "ms", "rate",
           measured ? "   measured ms           rate" : "");
}

void ranking_print(const weft_ranked *row, double measured) {
    char name[WEFT_SEARCH_NAME];
    const weft_traffic *t = &row->simulation.total;
    weft_search_name(row, name, sizeof name);
    printf("%-50s%9.2f%10.2f%10.2f%10.3f", name, 100 * weft_hit_rate(t), (double)t->misses / 1e6,
           (double)t->fabric_sectors / 1e6, (double)t->dram_read_bytes / 1e9);
    if (t->added > 0) {
        printf("%10.2f%9.2f", (double)t->added / 1e6, 100 * weft_waiting_share(&row->simulation));
    }
    printf("%10.4f%15s", 1e3 * row->simulation.seconds, weft_rate_text(row->simulation.tflops).text);
    if (measured > 0) {
        printf("%14.4f%15s", 1e3 * measured, weft_rate_text(measured_tflops(row, measured)).text);
    }
    putchar('\n');
}
