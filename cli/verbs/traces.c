/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/traces.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/report.h>
#include <weft/trace.h>

#include "base/json.h"
#include "base/names.h"
#include "cli.h"
#include "table.h"
#include "verbs/simulated.h"

/* ---- options ---- */

/* Whether an option has another value than without it. */
static int is_given(const settings *s, const option *o) {
    static const size_t sizes[] = {
        [OPTION_FLAG] = sizeof(int32_t),    [OPTION_INTEGER] = sizeof(int64_t), [OPTION_COUNT] = sizeof(int64_t),
        [OPTION_REAL] = sizeof(double),     [OPTION_WORD] = sizeof(char *),     [OPTION_MACHINE] = sizeof(char *),
        [OPTION_CHOICE] = sizeof(int32_t),  [OPTION_PAIR] = sizeof(int64_t[2]), [OPTION_LENGTHS] = sizeof(char *),
        [OPTION_SHAPE] = sizeof(int64_t[2])};
    const settings none = settings_none();
    return memcmp((const char *)s + o->offset, (const char *)&none + o->offset, sizes[o->type]) != 0;
}

/* A trace has no problem, and of a schedule only what it leaves open. */
static int check_options(const settings *s) {
    if (s->given) {
        return complain(EXIT_USAGE, "a trace takes no options of problems");
    }
    for (const option *o = option_table; o->name; o++) {
        if (!(o->sets & OF_TRACES) && is_given(s, o)) {
            return complain(EXIT_USAGE, "--%s does not apply to a trace", o->name);
        }
    }
    return s->step_seconds < 0 ? complain(EXIT_USAGE, "--step-seconds %g is negative", s->step_seconds) : EXIT_OK;
}

/* ---- traces ---- */

static int open_trace(const settings *s, const char *path, weft_trace **trace) {
    weft_trace_options o = WEFT_TRACE_INIT;
    progress_part part = {1, 0};
    weft_message message = {""};
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    o.name = weft_is_line(name) ? name : "a trace"; /* pages hold it as JSON */
    o.workers = s->workers;
    o.dispatch = s->dispatch;
    o.step_seconds = s->step_seconds;
    o.progress = progress_seen() ? progress_told : NULL;
    o.progress_user = &part;
    progress_begin("reading the trace", 1);
    const weft_status status = weft_trace_read(trace, path, &o, &message);
    progress_end();
    return status ? complain_status(status, &message) : EXIT_OK;
}

static int open_machine(const settings *s, weft_machine *machine) {
    weft_message message = {""};
    const weft_status status =
        s->machine ? weft_machine_load(machine, s->machine, &message) : weft_machine_host(machine, &message);
    return status ? complain_status(status, &message) : EXIT_OK;
}

static void print_head(const weft_trace *trace, const weft_machine *machine) {
    const weft_source *s = weft_trace_source(trace);
    print_wrapped("%-10s%s: %llu records, %lld tiles, %llu steps\n", "trace", s->name,
                  (unsigned long long)weft_trace_records(trace), (long long)s->jobs, (unsigned long long)s->steps);
    for (size_t i = 0; i < s->tensor_count; i++) {
        const weft_source_tensor *t = &s->tensors[i];
        print_wrapped("%-10s%s: %lld blocks, %s\n", i ? "" : "tensors", t->name, (long long)t->blocks,
                      weft_memory_text((double)t->bytes).text);
    }
    print_wrapped("%-10s%s: %s\n", "machine", machine->name, machine->title);
}

/* The object of a simulation, as JSON. */
static json_t *simulation_object(const weft_source *source, const weft_machine *machine, const weft_simulation *sim,
                                 const weft_traffic *domains) {
    const size_t length = weft_source_simulation_json(source, machine, sim, domains, NULL, 0);
    char *text = length ? malloc(length + 1) : NULL;
    json_t *object = NULL;
    if (text && weft_source_simulation_json(source, machine, sim, domains, text, length + 1) == length) {
        object = weft_json_read(text, strlen(text), 0, NULL);
    }
    free(text);
    return object;
}

static int simulate_curve(const settings *s, const weft_source *source, const weft_machine *machine) {
    weft_curve_point points[CURVE_POINTS];
    weft_message message = {""};
    progress_part part = {1, 0};
    const weft_simulate_options options = simulate_options(s, &part);
    progress_begin("simulating every size of the L2", 1);
    const weft_status status =
        weft_simulate_source_curve(source, machine, &options, points, curve_points(machine), &message);
    progress_end();
    if (status) {
        return complain_status(status, &message);
    }
    const weft_simulation none = WEFT_SIMULATION_INIT;
    json_t *object = s->json ? simulation_object(source, machine, &none, NULL) : NULL;
    const int code = print_curve(s, machine, points, json_incref(json_object_get(object, "problem")),
                                 json_incref(json_object_get(object, "schedule")));
    json_decref(object);
    return code;
}

static int simulate_once(const settings *s, const weft_trace *trace, const weft_machine *machine) {
    const weft_traffic init = WEFT_TRAFFIC_INIT;
    const size_t count = (size_t)machine->domains;
    weft_simulation sim = WEFT_SIMULATION_INIT;
    weft_message message = {""};
    progress_part part = {1, 0};
    const weft_simulate_options options = simulate_options(s, &part);
    weft_traffic *domains = calloc(count, sizeof *domains);
    if (!domains) {
        return complain(EXIT_FAILED, "out of memory");
    }
    for (size_t i = 0; i < count; i++) {
        domains[i] = init;
    }
    progress_begin("simulating", 1);
    const weft_status status = weft_simulate_source(weft_trace_source(trace), machine, &options, &sim, domains, &message);
    progress_end();
    int code = EXIT_OK;
    if (status) {
        code = complain_status(status, &message);
    } else if (s->json) {
        code = print_json(simulation_object(weft_trace_source(trace), machine, &sim, s->per_domain ? domains : NULL));
    } else {
        print_head(trace, machine);
        print_simulation(machine, &sim, s->per_domain ? domains : NULL);
    }
    free(domains);
    return code;
}

int simulate_trace(const settings *s, const char *path) {
    weft_machine machine = WEFT_MACHINE_INIT;
    weft_trace *trace = NULL;
    int code = check_options(s);
    code = code ? code : open_machine(s, &machine);
    code = code ? code : open_trace(s, path, &trace);
    if (code == EXIT_OK) {
        code = s->curve ? simulate_curve(s, weft_trace_source(trace), &machine) : simulate_once(s, trace, &machine);
    }
    weft_trace_destroy(trace);
    return code;
}

int view_traces(const settings *s, const char *const *paths, size_t count,
                int (*show)(const settings *s, const weft_view *view)) {
    weft_trace *traces[WEFT_VIEW_SCHEDULES] = {NULL};
    const weft_source *sources[WEFT_VIEW_SCHEDULES];
    const char *names[WEFT_VIEW_SCHEDULES];
    weft_machine machine = WEFT_MACHINE_INIT;
    weft_message message = {""};
    weft_view *view = NULL;
    int code = check_options(s);
    code = code ? code : open_machine(s, &machine);
    for (size_t i = 0; i < count && code == EXIT_OK; i++) {
        code = open_trace(s, paths[i], &traces[i]);
        sources[i] = code ? NULL : weft_trace_source(traces[i]);
        names[i] = code ? NULL : sources[i]->name;
    }
    if (code == EXIT_OK) {
        progress_part part = {1, 0};
        const weft_simulate_options options = simulate_options(s, &part);
        progress_begin("simulating traces", 1);
        const weft_status status =
            weft_view_create_sources(&view, sources, &machine, names, count, &options, !s->text && !s->svg, &message);
        progress_end();
        code = status ? complain_status(status, &message) : show(s, view);
    }
    weft_view_destroy(view);
    for (size_t i = 0; i < count; i++) {
        weft_trace_destroy(traces[i]);
    }
    return code;
}
