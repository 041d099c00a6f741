/* SPDX-License-Identifier: Apache-2.0 */
#include "report/view.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/names.h"
#include "base/status.h"
#include "base/struct.h"
#include "base/tally.h"
#include "cpu/thread/team.h"
#include "machine/machine.h"
#include "plan/describe.h"
#include "report/colour.h"
#include "report/recording_json.h"
#include "report/simulation_json.h"
#include "sim/caller.h"
#include "sim/sources.h"

/* What to call a domain: "die", "side" or "L2". */
static const char *domain_word(const weft_machine *machine) {
    return machine->l2_home == WEFT_HOME_PRIVATE ? "die" : machine->l2_home == WEFT_HOME_SPLIT ? "side" : "L2";
}

static const double SHAPE = 2.2; /* of a picture: wider than high */

/* Folds long rows, and puts many short ones into banks, so that the grid is about half as high as it is wide. */
static void fold(weft_view_grid *g) {
    g->fold = g->cols;
    g->lines = 1;
    g->banks = g->rows > 6 * g->cols ? llround(sqrt(SHAPE * (double)g->rows / (double)g->cols)) : 1;
    g->rows_of_bank = weft_ceil_divide(g->rows, g->banks);
    g->banks = weft_ceil_divide(g->rows, g->rows_of_bank);
    if (g->banks > 1) {
        return;
    }
    double best = g->cols > 12 * g->rows ? INFINITY : 0; /* a fold breaks rows: only long ones are worth it */
    for (int64_t fold = g->cols; fold >= 1; fold = fold > 1 ? (fold + 1) / 2 : 0) {
        const int64_t lines = weft_ceil_divide(g->cols, fold);
        const double off = fabs(log((double)fold / (double)(g->rows * lines) / SHAPE));
        if (off < best) {
            best = off;
            g->fold = fold;
            g->lines = lines;
        }
    }
}

static weft_view_grid grid_of_plan(const weft_plan *plan) {
    const weft_walk *walk = &plan->walk;
    weft_view_grid g;
    memset(&g, 0, sizeof g);
    g.rows = walk->order.grid.batch * walk->order.grid.rows * walk->cluster_rows;
    g.cols = walk->cols;
    g.positions = walk->order.count;
    g.cluster_rows = weft_plan_visit_rows(plan);
    g.cluster_cols = walk->cluster_cols;
    g.rows_of_batch = walk->order.grid.rows * walk->cluster_rows;
    return g;
}

static weft_view_grid grid_of_source(const weft_source *s) {
    weft_view_grid g;
    memset(&g, 0, sizeof g);
    g.rows = g.rows_of_batch = s->rows > 0 && s->cols > 0 ? s->rows : 1;
    g.cols = s->rows > 0 && s->cols > 0 ? s->cols : s->jobs;
    g.positions = s->jobs;
    g.cluster_rows = g.cluster_cols = 1;
    return g;
}

/* Schedules that are made over threads, and how each went. */
typedef struct making {
    weft_view *view;
    weft_simulate_options options;
    int curves;
    weft_tally tally; /* of steps */
    weft_status status[WEFT_VIEW_SCHEDULES];
    weft_message message[WEFT_VIEW_SCHEDULES];
} making;

/* Steps of a recording, which simulates twice, and of a curve, which simulates two-sided chips once for each size. */
static double recording_steps(const weft_view_schedule *s) {
    return 2 * (double)s->subject.steps(s->subject.of);
}

static double curve_steps(const weft_view_schedule *s) {
    return (double)s->subject.steps(s->subject.of) *
           (s->subject.machine->l2_home == WEFT_HOME_SPLIT ? (double)s->points : 1);
}

static void make_one(void *context, int64_t i) {
    making *m = context;
    weft_view_schedule *s = &m->view->schedule[i];
    weft_simulate_options options = m->options;
    weft_tally_part recording = {&m->tally, recording_steps(s), 0}, curve = {&m->tally, curve_steps(s), 0};
    options.progress = options.progress ? weft_tally_told : NULL;
    options.progress_user = &recording;
    m->status[i] = weft_recording_make(&s->recording, &s->subject, &options, WEFT_VIEW_FRAMES, &m->message[i]);
    options.progress_user = &curve;
    s->grid.row = s->recording.tile_row ? s->recording.tile_row : "row";
    s->grid.col = s->recording.tile_column ? s->recording.tile_column : s->grid.rows > 1 ? "column" : "tile";
    if (m->status[i] == WEFT_OK && s->plan) {
        options.progress = NULL;
        m->status[i] = weft_bound_of(s->plan, &options, &s->bound, &m->message[i]);
        options.progress = m->options.progress ? weft_tally_told : NULL;
    }
    if (m->status[i] == WEFT_OK && m->curves) {
        m->status[i] = weft_sim_curve(&s->subject, &options, s->curve, s->points, &m->message[i]);
    }
}

static weft_status make(weft_view *view, const weft_simulate_options *options, int curves, weft_message *message) {
    making m = {view, WEFT_SIMULATE_INIT, curves, WEFT_TALLY(NULL, NULL, 0), {WEFT_OK}, {{""}}};
    const weft_status status =
        weft_struct_take_options(&m.options, sizeof m.options, options, "WEFT_SIMULATE_INIT", message);
    if (status) {
        return status;
    }
    m.tally.progress = m.options.progress;
    m.tally.user = m.options.progress_user;
    for (size_t i = 0; i < view->count; i++) {
        weft_view_schedule *s = &view->schedule[i];
        fold(&s->grid);
        if (s->grid.rows > WEFT_VIEW_TILES / s->grid.cols) {
            return weft_fail(message, WEFT_UNSUPPORTED,
                             "a grid of %" PRId64 " x %" PRId64 " tiles is too large to look at: at most %d tiles",
                             s->grid.rows, s->grid.cols, WEFT_VIEW_TILES);
        }
        const int two_sided = s->subject.machine->l2_home == WEFT_HOME_SPLIT;
        s->points = !curves ? 0 : two_sided ? WEFT_VIEW_POINTS / 3 : WEFT_VIEW_POINTS;
        m.tally.planned += recording_steps(s) + (curves ? curve_steps(s) : 0);
    }
    weft_cpu_for((int64_t)view->count, make_one, &m);
    for (size_t i = 0; i < view->count; i++) {
        if (m.status[i] != WEFT_OK) {
            return weft_fail(message, m.status[i], "%s", m.message[i].text);
        }
    }
    return WEFT_OK;
}

/* A view with names and nothing else in it; null, with a message, when it cannot be. */
static weft_status start(weft_view **view, const void *subjects, const char *const *names, size_t count,
                         weft_message *message) {
    if (!view || !subjects || !names || count < 1 || count > WEFT_VIEW_SCHEDULES) {
        return weft_fail(message, WEFT_INVALID, "a view has 1 to %d schedules, not %zu", (int)WEFT_VIEW_SCHEDULES, count);
    }
    *view = NULL;
    for (size_t i = 0; i < count; i++) {
        if (!names[i] || !weft_is_line(names[i])) {
            return weft_fail(message, WEFT_INVALID, "name %zu of a view is no line of UTF-8", i);
        }
    }
    weft_view *v = *view = calloc(1, sizeof *v);
    if (!v) {
        return weft_fail(message, WEFT_NO_MEMORY, "out of memory");
    }
    v->count = count;
    for (size_t i = 0; i < count; i++) {
        weft_copy_text(v->schedule[i].name, sizeof v->schedule[i].name, names[i]);
    }
    return WEFT_OK;
}

static weft_status finish(weft_view **view, weft_status status) {
    if (status && view) {
        weft_view_destroy(*view);
        *view = NULL;
    }
    return status;
}

weft_status weft_view_create(weft_view **view, const weft_plan *const *plans, const char *const *names, size_t count,
                             const weft_simulate_options *options, int32_t curves, weft_message *message) {
    const weft_status status = start(view, plans, names, count, message);
    if (status) {
        return status;
    }
    weft_view *v = *view;
    for (size_t i = 0; i < count; i++) {
        if (!plans[i]) {
            return finish(view, weft_fail(message, WEFT_INVALID, "plan is null"));
        }
        v->schedule[i].plan = plans[i];
        v->schedule[i].subject = weft_sim_subject_of_plan(plans[i]);
        v->schedule[i].grid = grid_of_plan(plans[i]);
        v->schedule[i].by_step = plans[i]->operation->info.grid == WEFT_GRID_HEADS;
    }
    weft_plan_title(plans[0], v->title, sizeof v->title);
    return finish(view, make(v, options, curves, message));
}

weft_status weft_view_create_sources(weft_view **view, const weft_source *const *sources, const weft_machine *machine,
                                     const char *const *names, size_t count, const weft_simulate_options *options,
                                     int32_t curves, weft_message *message) {
    weft_status status =
        machine ? start(view, sources, names, count, message) : weft_fail(message, WEFT_INVALID, "machine is null");
    if (status) {
        return status;
    }
    weft_view *v = *view;
    status = weft_machine_copy(&v->machine, machine, message);
    for (size_t i = 0; i < count && status == WEFT_OK; i++) {
        weft_view_schedule *s = &v->schedule[i];
        status = weft_source_read(&v->source[i], sources[i], &v->machine, message);
        if (status == WEFT_OK && v->source[i].jobs < 1) {
            status = weft_fail(message, WEFT_INVALID, "a view needs sources that say how many jobs they have");
        }
        s->subject = weft_sim_subject_of_source(&v->source[i], &v->machine);
        s->grid = grid_of_source(&v->source[i]);
    }
    if (status == WEFT_OK) {
        weft_copy_text(v->title, sizeof v->title, v->source[0].name ? v->source[0].name : "a source");
        status = make(v, options, curves, message);
    }
    return finish(view, status);
}

void weft_view_destroy(weft_view *view) {
    for (size_t i = 0; view && i < view->count; i++) {
        weft_recording_release(&view->schedule[i].recording);
    }
    free(view);
}

static json_t *machine_json(const weft_machine *m) {
    return json_pack("{s:s, s:s, s:I, s:I, s:s, s:I, s:f, s:I, s:I, s:f}", "name", m->name, "title", m->title, "workers",
                     (json_int_t)m->workers, "domains", (json_int_t)m->domains, "domain", domain_word(m), "l2_bytes",
                     (json_int_t)m->l2_bytes, "l2_usable", m->l2_usable, "sector", (json_int_t)m->l2_sector, "llc_bytes",
                     (json_int_t)m->llc_bytes, "dram_bandwidth", m->dram_bandwidth);
}

static json_t *grid_json(const weft_view_grid *g) {
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:s, s:I, s:[I, I], s:I}", "rows", (json_int_t)g->rows, "cols",
                     (json_int_t)g->cols, "fold", (json_int_t)g->fold, "lines", (json_int_t)g->lines, "banks",
                     (json_int_t)g->banks, "rows_of_bank", (json_int_t)g->rows_of_bank, "row", g->row, "col", g->col,
                     "rows_of_batch", (json_int_t)g->rows_of_batch, "cluster", (json_int_t)g->cluster_rows,
                     (json_int_t)g->cluster_cols, "positions", (json_int_t)g->positions);
}

static json_t *simulation_of(const weft_view_schedule *s) {
    return s->plan
               ? weft_simulation_object(s->plan, &s->recording.sim, s->recording.totals)
               : weft_source_simulation_object(s->subject.of, s->subject.machine, &s->recording.sim, s->recording.totals);
}

/* What the resources of the machine need for it, if nothing else took time. */
static json_t *bound_json(const weft_view_schedule *s) {
    return s->plan ? json_pack("{s:f, s:f, s:f}", "steps", s->bound.steps, "l2", s->bound.l2, "dram", s->bound.dram)
                   : json_null();
}

static json_t *schedule_json(const weft_view_schedule *s) {
    json_t *curve = json_array();
    for (size_t i = 0; i < s->points; i++) {
        weft_json_append(&curve, json_pack("{s:I, s:I}", "l2_bytes", (json_int_t)s->curve[i].l2_bytes, "misses",
                                           (json_int_t)s->curve[i].misses));
    }
    return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o}", "name", s->name, "simulation", simulation_of(s), "bound",
                     bound_json(s), "grid", grid_json(&s->grid), "trace",
                     weft_recording_json(&s->recording, s->subject.machine->l2_sector), "curve", curve);
}

json_t *weft_view_json(const weft_view *view, const char *command) {
    enum { STOPS = 64 };
    const weft_view_schedule *first = &view->schedule[0];
    json_t *schedules = json_array(), *ramp = json_array(), *categories = json_array();
    for (size_t i = 0; i < view->count; i++) {
        weft_json_append(&schedules, schedule_json(&view->schedule[i]));
    }
    for (int i = 0; i < STOPS; i++) {
        weft_json_append(&ramp, json_integer(weft_colour_ramp((double)i / (STOPS - 1))));
    }
    for (int i = 0; i < WEFT_CATEGORIES; i++) {
        weft_json_append(&categories, json_integer(weft_colour_category(i)));
    }
    return json_pack("{s:s, s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o}", "kind", "view", "weft", weft_version(), "command",
                     command, "title", view->title, "machine", machine_json(first->subject.machine), "problem",
                     first->plan ? weft_plan_problem_json(first->plan) : weft_source_problem_json(first->subject.of),
                     "ramp", ramp, "categories", categories, "schedules", schedules);
}
