/* SPDX-License-Identifier: Apache-2.0 */
/* Simulations, searches, traces. */
#include "api.h"

static const weft_simulation no_simulation = WEFT_SIMULATION_INIT;

static void tell(const weft_simulation *s) {
    snprintf(api_text, sizeof api_text, "%llu %llu %.17g", (unsigned long long)s->total.sectors,
             (unsigned long long)s->total.misses, s->seconds);
}

static weft_status simulate(weft_message *m) {
    weft_simulation s = no_simulation;
    const weft_status status = weft_simulate(api.attention_plan, NULL, &s, NULL, m);
    tell(&s);
    return status;
}

static weft_status settled(weft_message *m) {
    weft_simulation s = no_simulation;
    const weft_status status = weft_simulate_settled(api.attention_plan, NULL, &s, m);
    tell(&s);
    return status;
}

static weft_status bounds(weft_message *m) {
    weft_bounds b = WEFT_BOUNDS_INIT;
    const weft_status status = weft_simulate_bounds(api.attention_plan, NULL, &b, m);
    snprintf(api_text, sizeof api_text, "%g %g %g", b.products, b.steps, b.dram);
    return status;
}

static weft_status all(weft_message *m) {
    const weft_plan *const plans[] = {api.plan, api.attention_plan};
    weft_simulation s[2] = {no_simulation, no_simulation};
    const weft_status status = weft_simulate_all(plans, 2, NULL, s, NULL, m);
    tell(&s[1]);
    return status;
}

static void tell_curve(const weft_curve_point *points) {
    snprintf(api_text, sizeof api_text, "%llu %llu", (unsigned long long)points[0].misses,
             (unsigned long long)points[3].misses);
}

static weft_status curve(weft_message *m) {
    weft_curve_point points[4];
    const weft_status status = weft_simulate_curve(api.plan, NULL, points, 4, m);
    tell_curve(points);
    return status;
}

static weft_status as_json(weft_message *m) {
    return api_length(weft_simulation_json(api.plan, &api.simulation, NULL, api_text, sizeof api_text), m);
}

static weft_status source(weft_message *m) {
    weft_simulation s = no_simulation;
    const weft_status status = weft_simulate_source(weft_trace_source(api.trace), &api.machine, NULL, &s, NULL, m);
    tell(&s);
    return status;
}

static weft_status source_curve(weft_message *m) {
    weft_curve_point points[4];
    const weft_status status = weft_simulate_source_curve(weft_trace_source(api.trace), &api.machine, NULL, points, 4, m);
    tell_curve(points);
    return status;
}

static weft_status source_json(weft_message *m) {
    return api_length(weft_source_simulation_json(weft_trace_source(api.trace), &api.machine, &api.simulation, NULL,
                                                  api_text, sizeof api_text),
                      m);
}

static weft_status stream(weft_message *m) {
    weft_stream s = WEFT_STREAM_INIT;
    weft_traffic traffic = WEFT_TRAFFIC_INIT;
    uint64_t distinct = 0;
    s.buffer_bytes = 1 << 20;
    const weft_status status = weft_simulate_stream(&api.machine, &s, NULL, &traffic, &distinct, m);
    snprintf(api_text, sizeof api_text, "%llu %llu %llu", (unsigned long long)traffic.misses, (unsigned long long)distinct,
             (unsigned long long)weft_stream_steps(&api.machine, &s));
    return status;
}

/* ---- searches ---- */

static weft_status search(weft_message *m) {
    weft_plan_options options = WEFT_PLAN_OPTIONS_INIT;
    options.machine = &api.machine;
    return weft_search_run((weft_search **)&api_made, &api.gemm, &options, NULL, m);
}

static void tell_search(char *text, size_t size) {
    size_t used = 0;
    for (size_t i = 0; used < size; i++) {
        const size_t length = weft_search_why(api_made, i, text + used, size - used);
        if (length == 0) {
            break;
        }
        used += length;
    }
    weft_search_destroy(api_made);
}

static weft_status summarize(weft_message *m) {
    weft_search_summary summary = WEFT_SEARCH_SUMMARY_INIT;
    const weft_status status = weft_search_summarize(api.search, &summary, m);
    snprintf(api_text, sizeof api_text, "%lld", (long long)summary.schedules);
    return status;
}

static weft_status row(weft_message *m) {
    weft_ranked ranked = WEFT_RANKED_INIT;
    const weft_status status = weft_search_row(api.search, 0, &ranked, m);
    weft_search_name(&ranked, api_text, sizeof api_text);
    return status;
}

static weft_status baseline(weft_message *m) {
    weft_ranked ranked = WEFT_RANKED_INIT;
    (void)weft_search_baseline(api.search, &ranked, m);
    return WEFT_OK;
}

static weft_status elsewhere(weft_message *m) {
    return api_length(weft_search_elsewhere(api.search, weft_elsewhere_name(0), api_text, sizeof api_text), m);
}

/* ---- traces ---- */

static char *trace_text(void) {
    static char text[1 << 14];
    char path[128];
    snprintf(path, sizeof path, "%s/trace.csv", api.folder);
    FILE *file = text[0] ? NULL : fopen(path, "r");
    if (file) {
        text[fread(text, 1, sizeof text - 1, file)] = '\0';
        fclose(file);
    }
    return text;
}

static void tell_trace(char *text, size_t size) {
    const weft_source *s = weft_trace_source(api_made);
    snprintf(text, size, "%s %llu %lld", s->name, (unsigned long long)weft_trace_records(api_made), (long long)s->jobs);
    weft_trace_destroy(api_made);
}

static weft_status parse(weft_message *m) {
    weft_trace_options options = WEFT_TRACE_INIT;
    return weft_trace_parse((weft_trace **)&api_made, trace_text(), strlen(trace_text()), "a text", &options, m);
}

static weft_status read_trace(weft_message *m) {
    char path[128];
    weft_trace_options options = WEFT_TRACE_INIT;
    snprintf(path, sizeof path, "%s/trace.csv", api.folder);
    return weft_trace_read((weft_trace **)&api_made, path, &options, m);
}

static weft_status create(weft_message *m) {
    static const int64_t tile[] = {0, 0, 1}, step[] = {0, 1, 0}, tensor[] = {0, 1, 0}, block[] = {0, 0, 1},
                         bytes[] = {4096, 4096, 4096};
    static const char *const names[] = {"A", "B"};
    weft_trace_columns columns = WEFT_TRACE_COLUMNS_INIT;
    weft_trace_options options = WEFT_TRACE_INIT;
    columns.count = 3;
    columns.tile = tile;
    columns.step = step;
    columns.tensor = tensor;
    columns.block = block;
    columns.bytes = bytes;
    columns.names = names;
    columns.name_count = 2;
    options.workers = 2;
    options.name = "columns";
    options.step_seconds = 1e-6;
    return weft_trace_create((weft_trace **)&api_made, &columns, &options, m);
}

static weft_status write_trace(weft_message *m) {
    return weft_trace_write_plan(api.plan, NULL, WEFT_TRACE_CSV, api.path, m);
}

const api_case api_simulations[] = {
    {"weft_simulate", simulate, NULL, 0},
    {"weft_simulate_settled", settled, NULL, 0},
    {"weft_simulate_bounds", bounds, NULL, 0},
    {"weft_simulate_all", all, NULL, 0},
    {"weft_simulate_curve", curve, NULL, 0},
    {"weft_simulation_json", as_json, NULL, 0},
    {"weft_simulate_source", source, NULL, 0},
    {"weft_simulate_source_curve", source_curve, NULL, 0},
    {"weft_source_simulation_json", source_json, NULL, 0},
    {"weft_simulate_stream", stream, NULL, 0},
    {"weft_search_run", search, tell_search, 0},
    {"weft_search_summarize", summarize, NULL, 0},
    {"weft_search_row", row, NULL, 0},
    {"weft_search_baseline", baseline, NULL, 0},
    {"weft_search_elsewhere", elsewhere, NULL, 0},
    {"weft_trace_parse", parse, tell_trace, 0},
    {"weft_trace_read", read_trace, tell_trace, 0},
    {"weft_trace_create", create, tell_trace, 0},
    {"weft_trace_write_plan", write_trace, api_tell_file, 0},
    {NULL, NULL, NULL, 0},
};
