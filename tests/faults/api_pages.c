/* SPDX-License-Identifier: Apache-2.0 */
/* Views, pages, plots. */
#include "api.h"

static weft_status view(weft_message *m) {
    const weft_plan *const plans[] = {api.plan, api.attention_plan};
    const char *const names[] = {"one", "other"};
    return weft_view_create((weft_view **)&api_made, plans, names, 1, NULL, 1, m);
}

static void tell_view(char *text, size_t size) {
    (void)weft_view_write(api_made, WEFT_VIEW_TEXT, api.path, "weft", NULL);
    weft_view_destroy(api_made);
    api_tell_file(text, size);
}

static weft_status view_sources(weft_message *m) {
    const weft_source *const sources[] = {weft_trace_source(api.trace)};
    const char *const names[] = {"a trace"};
    return weft_view_create_sources((weft_view **)&api_made, sources, &api.machine, names, 1, NULL, 0, m);
}

static weft_status write_page(weft_message *m) {
    return weft_view_write(api.view, WEFT_VIEW_PAGE, api.path, "weft view", m);
}

static weft_status write_json(weft_message *m) {
    return weft_view_write(api.view, WEFT_VIEW_JSON, api.path, "weft view", m);
}

static weft_status write_svg(weft_message *m) {
    return weft_view_write(api.view, WEFT_VIEW_SVG, api.path, "weft view", m);
}

static weft_status write_text(weft_message *m) {
    return weft_view_write(api.view, WEFT_VIEW_TEXT, api.path, "weft view", m);
}

static weft_status page(weft_message *m) {
    return weft_page_write("{\"kind\": \"report\", \"title\": \"none\"}", api.path, m);
}

static weft_status plot(weft_message *m) {
    static const double x[] = {1, 2, 3}, y[] = {3, 1, 2};
    static const weft_plot_line line = {"a line", x, y, 3};
    weft_plot p = WEFT_PLOT_INIT;
    p.lines = &line;
    p.line_count = 1;
    return weft_plot_write(&p, api.path, m);
}

const api_case api_pages[] = {
    {"weft_view_create", view, tell_view, 0},
    {"weft_view_create_sources", view_sources, tell_view, 0},
    {"weft_view_write (page)", write_page, api_tell_file, 0},
    {"weft_view_write (JSON)", write_json, api_tell_file, 0},
    {"weft_view_write (SVG)", write_svg, api_tell_file, 0},
    {"weft_view_write (text)", write_text, api_tell_file, 0},
    {"weft_page_write", page, api_tell_file, 0},
    {"weft_plot_write", plot, api_tell_file, 0},
    {NULL, NULL, NULL, 0},
};
