#include "report/view.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/status.h"
#include "cpu/thread/team.h"
#include "plan/describe.h"
#include "report/colour.h"
#include "report/recording_json.h"
#include "report/simulation_json.h"

/* What to call a domain: "die", "side" or "L2". */
static const char *domain_word(const weft_machine *machine) {
    return machine->l2_home == WEFT_HOME_PRIVATE ? "die" : machine->l2_home == WEFT_HOME_SPLIT ? "side" : "L2";
}

/* The grid of a plan, long rows folded so that it is about half as high as it is wide. */
static weft_view_grid grid_of(const weft_plan *plan) {
    const weft_walk *walk = &plan->walk;
    weft_view_grid g;
    g.rows = walk->order.grid.batch * walk->order.grid.rows * walk->cluster_rows;
    g.cols = walk->cols;
    g.fold = g.cols;
    g.lines = 1;
    double best = g.cols > 12 * g.rows ? INFINITY : 0; /* a fold breaks rows: only long ones are worth it */
    for (int64_t fold = g.cols; fold >= 1; fold = fold > 1 ? (fold + 1) / 2 : 0) {
        const int64_t lines = weft_ceil_divide(g.cols, fold);
        const double off = fabs(log((double)fold / (double)(g.rows * lines) / 2.2)); /* wider than high */
        if (off < best) {
            best = off;
            g.fold = fold;
            g.lines = lines;
        }
    }
    return g;
}

static weft_status make_schedule(weft_view_schedule *s, const weft_simulate_options *options, int curves,
                                 weft_message *message) {
    weft_status status = weft_recording_make(&s->recording, s->plan, options, WEFT_VIEW_FRAMES, message);
    if (status == WEFT_OK && curves) {
        /* Two-sided chips are simulated once for each size. */
        s->points = s->plan->machine.l2_home == WEFT_HOME_SPLIT ? WEFT_VIEW_POINTS / 3 : WEFT_VIEW_POINTS;
        status = weft_simulate_curve(s->plan, options, s->curve, s->points, message);
    }
    return status;
}

/* Schedules that are made over threads, and how each went. */
typedef struct making {
    weft_view *view;
    const weft_simulate_options *options;
    int curves;
    weft_status status[WEFT_VIEW_SCHEDULES];
    weft_message message[WEFT_VIEW_SCHEDULES];
} making;

static void make_one(void *context, int64_t i) {
    making *m = context;
    m->status[i] = make_schedule(&m->view->schedule[i], m->options, m->curves, &m->message[i]);
}

static weft_status make(weft_view *view, const weft_simulate_options *options, int curves, weft_message *message) {
    for (size_t i = 0; i < view->count; i++) {
        weft_view_schedule *s = &view->schedule[i];
        s->grid = grid_of(s->plan);
        if (s->grid.rows > WEFT_VIEW_TILES / s->grid.cols) {
            return weft_fail(message, WEFT_UNSUPPORTED,
                             "a grid of %" PRId64 " x %" PRId64 " tiles is too large to look at: at most %d tiles",
                             s->grid.rows, s->grid.cols, WEFT_VIEW_TILES);
        }
    }
    making m = {.view = view, .options = options, .curves = curves};
    weft_cpu_for((int64_t)view->count, make_one, &m);
    for (size_t i = 0; i < view->count; i++) {
        if (m.status[i] != WEFT_OK) {
            return weft_fail(message, m.status[i], "%s", m.message[i].text);
        }
    }
    return WEFT_OK;
}

weft_status weft_view_create(weft_view **view, const weft_plan *const *plans, const char *const *names, size_t count,
                             const weft_simulate_options *options, int32_t curves, weft_message *message) {
    if (!view || !plans || !names || count < 1 || count > WEFT_VIEW_SCHEDULES) {
        return weft_fail(message, WEFT_INVALID, "a view has 1 to %d schedules, not %zu", (int)WEFT_VIEW_SCHEDULES, count);
    }
    weft_view *v = *view = calloc(1, sizeof *v);
    if (!v) {
        return weft_fail(message, WEFT_NO_MEMORY, "out of memory");
    }
    v->count = count;
    for (size_t i = 0; i < count; i++) {
        snprintf(v->schedule[i].name, sizeof v->schedule[i].name, "%s", names[i]);
        v->schedule[i].plan = plans[i];
    }
    const weft_status status = make(v, options, curves, message);
    if (status) {
        weft_view_destroy(v);
        *view = NULL;
    }
    return status;
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

static json_t *grid_json(const weft_view_schedule *s) {
    const weft_walk *walk = &s->plan->walk;
    const int matrix = s->plan->operation->info.grid == WEFT_GRID_MATRIX;
    return json_pack("{s:I, s:I, s:I, s:I, s:s, s:s, s:I, s:[I, I], s:I}", "rows", (json_int_t)s->grid.rows, "cols",
                     (json_int_t)s->grid.cols, "fold", (json_int_t)s->grid.fold, "lines", (json_int_t)s->grid.lines, "row",
                     matrix ? "tile row m" : "head", "col", matrix ? "tile column n" : "query block", "rows_of_batch",
                     (json_int_t)(walk->order.grid.rows * walk->cluster_rows), "cluster", (json_int_t)walk->cluster_rows,
                     (json_int_t)walk->cluster_cols, "positions", (json_int_t)walk->order.count);
}

static json_t *schedule_json(const weft_view_schedule *s) {
    json_t *curve = json_array();
    for (size_t i = 0; i < s->points; i++) {
        weft_json_append(&curve, json_pack("{s:I, s:I}", "l2_bytes", (json_int_t)s->curve[i].l2_bytes, "misses",
                                           (json_int_t)s->curve[i].misses));
    }
    return json_pack("{s:s, s:o, s:o, s:o, s:o}", "name", s->name, "simulation",
                     weft_simulation_object(s->plan, &s->recording.sim, s->recording.totals), "grid", grid_json(s), "trace",
                     weft_recording_json(&s->recording, s->plan), "curve", curve);
}

json_t *weft_view_json(const weft_view *view, const char *command) {
    enum { STOPS = 64 };
    const weft_plan *plan = view->schedule[0].plan;
    char title[192];
    weft_plan_title(plan, title, sizeof title);
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
                     command, "title", title, "machine", machine_json(&plan->machine), "problem",
                     weft_plan_problem_json(plan), "ramp", ramp, "categories", categories, "schedules", schedules);
}
