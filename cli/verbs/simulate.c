/* SPDX-License-Identifier: Apache-2.0 */
/* weft simulate: a plan's cache traffic and time, predicted. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/report.h>
#include <weft/trace.h>

#include "base/json.h"
#include "base/names.h"
#include "cli.h"
#include "sweep/rows.h"
#include "table.h"
#include "verbs/ranks.h"
#include "verbs/simulated.h"
#include "verbs/traces.h"

static int simulate_curve(const settings *s, const weft_plan *plan) {
    weft_curve_point points[CURVE_POINTS];
    weft_message message = {""};
    progress_part part = {1, 0};
    const weft_simulate_options options = simulate_options(s, &part);
    const weft_machine *machine = weft_plan_machine(plan);
    progress_begin("simulating every size of the L2", 1);
    const weft_status status = weft_simulate_curve(plan, &options, points, curve_points(machine), &message);
    progress_end();
    return status ? complain_status(status, &message)
                  : print_curve(s, machine, points, s->json ? plan_member(plan, "problem") : NULL,
                                s->json ? plan_member(plan, "schedule") : NULL);
}

static void print_as_text(const weft_plan *plan, const weft_simulation *sim, const weft_traffic *domains) {
    char text[1024];
    weft_plan_outline(plan, text, sizeof text);
    print_wrapped("%s", text);
    print_simulation(weft_plan_machine(plan), sim, domains);
}

/* A simulation as weft_simulation_json() has it: a new object, or null when memory ran out. */
static json_t *as_json(const weft_plan *plan, const weft_simulation *sim, const weft_traffic *domains) {
    const size_t length = weft_simulation_json(plan, sim, domains, NULL, 0);
    char *text = length ? malloc(length + 1) : NULL;
    const int whole = text && weft_simulation_json(plan, sim, domains, text, length + 1) == length;
    json_t *object = whole ? weft_json_read(text, strlen(text), 0, NULL) : NULL;
    free(text);
    return object;
}

static int simulate(const settings *s, const weft_plan *plan) {
    const weft_traffic init = WEFT_TRAFFIC_INIT;
    const size_t count = (size_t)weft_plan_machine(plan)->domains;
    weft_simulation sim = WEFT_SIMULATION_INIT;
    weft_message message = {""};
    progress_part part = {1, 0};
    const weft_simulate_options options = simulate_options(s, &part);
    int code = EXIT_OK;
    progress_begin("simulating", 1);
    weft_traffic *domains = calloc(count, sizeof *domains);
    for (size_t i = 0; domains && i < count; i++) {
        domains[i] = init;
    }
    const weft_status status = domains ? weft_simulate(plan, &options, &sim, domains, &message) : WEFT_NO_MEMORY;
    progress_end();
    if (!domains) {
        code = complain(EXIT_FAILED, "out of memory");
    } else if (status) {
        code = complain_status(status, &message);
    } else if (s->json) {
        code = print_json(as_json(plan, &sim, s->per_domain ? domains : NULL));
    } else {
        print_as_text(plan, &sim, s->per_domain ? domains : NULL);
    }
    free(domains);
    return code;
}

/* ---- many points ---- */

/* Plans that are simulated over threads, and what came out. */
typedef struct batch {
    const settings *points;
    size_t count;
    weft_plan **plans;
    const weft_plan **chosen; /* of the plans, those that are simulated next; null for the others */
    weft_simulation *sims;
} batch;

static int same_options(const settings *a, const settings *b) {
    const weft_simulate_options one = simulate_options(a, NULL), other = simulate_options(b, NULL);
    return one.seed == other.seed && one.drift == other.drift && one.stages == other.stages && one.limit == other.limit;
}

/* Simulates all points that have the same options as the i-th, unless one before it has them. */
static int simulate_alike(batch *b, size_t i) {
    weft_message message = {""};
    progress_part part = {0, 0};
    for (size_t k = 0; k < b->count; k++) {
        const int alike = same_options(&b->points[i], &b->points[k]);
        if (alike && k < i) {
            return EXIT_OK;
        }
        b->chosen[k] = alike ? b->plans[k] : NULL;
        part.units += alike;
    }
    const weft_simulate_options options = simulate_options(&b->points[i], &part);
    const weft_status status = weft_simulate_all(b->chosen, b->count, &options, b->sims, NULL, &message);
    return status ? complain_status(status, &message) : EXIT_OK;
}

static int simulate_batch(batch *b) {
    const weft_simulation init = WEFT_SIMULATION_INIT;
    int code = EXIT_OK;
    for (size_t i = 0; i < b->count && code == EXIT_OK; i++) {
        b->sims[i] = init;
        code = make_plan(&b->points[i], &b->plans[i]);
    }
    progress_begin("simulating", (double)b->count);
    for (size_t i = 0; i < b->count && code == EXIT_OK; i++) {
        code = simulate_alike(b, i);
    }
    progress_end();
    return code;
}

int simulate_points(const settings *points, size_t count, sweep *out) {
    if (ranks_asked(points)) {
        return ranks_simulate_points(points, count, out);
    }
    batch b = {points, count, calloc(count, sizeof *b.plans), calloc(count, sizeof *b.chosen),
               calloc(count, sizeof *b.sims)};
    int code = b.plans && b.chosen && b.sims ? simulate_batch(&b) : complain(EXIT_FAILED, "out of memory");
    for (size_t i = 0; i < count && code == EXIT_OK; i++) {
        weft_ranked row = WEFT_RANKED_INIT;
        row.schedule = weft_plan_schedule(b.plans[i]);
        row.simulation = b.sims[i];
        code = sweep_put(out, i, &row);
        if (out->objects) {
            sweep_put_json(out, i, as_json(b.plans[i], &b.sims[i], NULL));
        }
    }
    for (size_t i = 0; i < count && b.plans; i++) {
        weft_plan_destroy(b.plans[i]);
    }
    free(b.plans);
    free(b.chosen);
    free(b.sims);
    return code;
}

/* The trace of a plan, where --trace-out says: CSV where the name says so, else binary. */
static int write_trace(const settings *s, const weft_plan *plan) {
    const char *path = s->trace_out;
    progress_part part = {1, 0};
    const weft_simulate_options options = simulate_options(s, &part);
    const size_t length = strlen(path);
    const int csv = strcmp(path, "-") == 0 || (length > 4 && strcmp(path + length - 4, ".csv") == 0);
    weft_message message = {""};
    progress_begin("writing the trace", 1);
    const weft_status status = weft_trace_write_plan(plan, &options, csv ? WEFT_TRACE_CSV : WEFT_TRACE_BINARY,
                                                     strcmp(path, "-") == 0 ? NULL : path, &message);
    progress_end();
    return status ? complain_status(status, &message) : EXIT_OK;
}

int cmd_simulate(const settings *s, const char *const *words, size_t count) {
    if (weft_names_agree(words[0], "trace")) {
        return count < 2   ? complain(EXIT_USAGE, "simulate trace needs a FILE, or - for standard input")
               : count > 2 ? complain(EXIT_USAGE, "%.60s: nothing more is expected here", words[2])
                           : simulate_trace(s, words[1]);
    }
    if (check_plan_words(s, "simulate", words, count)) {
        return EXIT_USAGE;
    }
    if (ranks_asked(s)) {
        return ranks_simulate(s);
    }
    weft_plan *plan = NULL;
    int code = make_plan(s, &plan);
    if (code == EXIT_OK && s->trace_out) {
        code = write_trace(s, plan);
    }
    const int printed = !s->trace_out || strcmp(s->trace_out, "-") != 0; /* else the trace stands there */
    if (code == EXIT_OK && printed) {
        code = s->curve ? simulate_curve(s, plan) : simulate(s, plan);
    }
    weft_plan_destroy(plan);
    return code;
}
