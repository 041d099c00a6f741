/* SPDX-License-Identifier: Apache-2.0 */
/* A parameter sweep as a plot: x is the first axis of numbers, or the first axis; a line for every combination of the
 * others. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/report.h>

#include "cli.h"
#include "sweep/rows.h"

/* What --plot names: a name with a unit, and the value in it. */
static const char *const y_names[] = {
    [PLOT_TIME] = "predicted time (ms)", [PLOT_TFLOPS] = "predicted rate (TFLOP/s)",
    [PLOT_DRAM] = "DRAM reads (GB)",     [PLOT_MISSES] = "L2 misses (millions of sectors)",
    [PLOT_HITS] = "L2 hits (%)",         [PLOT_EFFICIENCY] = "predicted share of ideal (%)",
};

static double y_of_ranks(const weft_dist_simulation *sim, int32_t what) {
    return what == PLOT_TFLOPS ? sim->tflops : what == PLOT_EFFICIENCY ? 100 * sim->efficiency : 1e3 * sim->seconds;
}

static double y_value(const weft_simulation *sim, int32_t what) {
    switch (what) {
    case PLOT_TFLOPS:
        return sim->tflops;
    case PLOT_DRAM:
        return (double)sim->total.dram_read_bytes / 1e9;
    case PLOT_MISSES:
        return (double)sim->total.misses / 1e6;
    case PLOT_HITS:
        return 100 * weft_hit_rate(&sim->total);
    default:
        return 1e3 * sim->seconds;
    }
}

static int is_number(const axis *a) {
    return a->option->type == OPTION_INTEGER || a->option->type == OPTION_COUNT || a->option->type == OPTION_REAL;
}

static size_t find_x(const axes *all) {
    for (size_t i = 0; i < all->count; i++) {
        if (is_number(&all->list[i])) {
            return i;
        }
    }
    return 0;
}

/* 131072 as 128K. */
static void shorten(const char *value, char *text, size_t size) {
    static const char units[] = {'\0', 'K', 'M', 'G', '\0'};
    int64_t number = 0;
    size_t unit = 0;
    if (!options_read_integer(value, &number)) {
        snprintf(text, size, "%s", value);
        return;
    }
    for (; number && number % 1024 == 0 && units[unit + 1]; number /= 1024) {
        unit++;
    }
    snprintf(text, size, "%lld%s", (long long)number, (char[]){units[unit], '\0'});
}

/* What is drawn, in memory of its own. */
enum { NAME = 160, TICKS = 16 };
typedef struct drawing {
    const sweep *out;
    size_t x;            /* the axis */
    double *at;          /* (values of the axis) */
    char (*names)[NAME]; /* (WEFT_PLOT_LINES) */
    double *values;      /* (rows) */
    double *xs, *ys;     /* (WEFT_PLOT_LINES, rows) */
    weft_plot_line lines[WEFT_PLOT_LINES];
    size_t count;
    char tick_names[TICKS][NAME];
    weft_plot_tick ticks[TICKS];
    size_t tick_count;
} drawing;

/* The number of a row's value on the x axis. */
static size_t x_index(const drawing *d, const sweep_row *row) {
    const axis *a = &d->out->axes->list[d->x];
    const char *value = axes_value(d->out->axes, d->x, row->point);
    size_t i = 0;
    while (a->values[i] != value) {
        i++;
    }
    return i;
}

/* What tells a row's line from others: the values of the other axes, and the schedule where a point has several. */
static void name_line(const drawing *d, const sweep_row *row, char text[NAME]) {
    const axes *all = d->out->axes;
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < all->count && used < NAME; i++) {
        if (i != d->x) {
            const axis *a = &all->list[i];
            used += (size_t)snprintf(text + used, NAME - used, "%s%s%s%s", used ? ", " : "",
                                     is_number(a) ? a->option->name : "", is_number(a) ? " " : "",
                                     axes_value(all, i, row->point));
        }
    }
    if (d->out->by_schedule && used < NAME) { /* without the tile, which grows with the problem */
        const weft_schedule *s = &row->ranked.schedule;
        snprintf(text + used, NAME - used, "%s%s %s %s", used ? ", " : "", weft_order_describe(s->order)->name,
                 weft_sweep_describe(s->sweep)->name, weft_dispatch_describe(s->dispatch)->name);
    }
}

/* The line of that name, perhaps a new one; null when there are too many. */
static weft_plot_line *find_line(drawing *d, const char *name) {
    for (size_t i = 0; i < d->count; i++) {
        if (strcmp(d->names[i], name) == 0) {
            return &d->lines[i];
        }
    }
    if (d->count == WEFT_PLOT_LINES) {
        return NULL;
    }
    const size_t i = d->count++, rows = d->out->count;
    snprintf(d->names[i], NAME, "%s", name);
    d->lines[i] = (weft_plot_line){d->names[i], d->xs + i * rows, d->ys + i * rows, 0};
    return &d->lines[i];
}

/* Lines run from left to right, however the values were listed. */
static void insert(drawing *d, weft_plot_line *line, double x, double y) {
    double *xs = d->xs + (line->x - d->xs), *ys = d->ys + (line->y - d->ys);
    size_t i = line->count++;
    for (; i > 0 && xs[i - 1] > x; i--) {
        xs[i] = xs[i - 1];
        ys[i] = ys[i - 1];
    }
    xs[i] = x;
    ys[i] = y;
}

static int fill_lines(drawing *d) {
    const sweep *out = d->out;
    for (size_t r = 0; r < out->count; r++) {
        char name[NAME];
        name_line(d, &out->rows[r], name);
        weft_plot_line *line = find_line(d, name);
        if (!line) {
            return complain(EXIT_USAGE, "the plot has more than %d lines, which nobody could tell apart: vary less",
                            WEFT_PLOT_LINES);
        }
        const int over_ranks = out->settings->ranks > 0;
        if (!over_ranks && out->rows[r].ranked.simulation.seconds <= 0) {
            axes_name(out->axes, out->rows[r].point, name, sizeof name);
            return complain(EXIT_USAGE, "%s: the simulator does not take the schedule, so there is nothing to plot", name);
        }
        d->values[r] = over_ranks ? y_of_ranks(&out->rows[r].over.simulation, out->settings->plot)
                                  : y_value(&out->rows[r].ranked.simulation, out->settings->plot);
        insert(d, line, d->at[x_index(d, &out->rows[r])], d->values[r]);
    }
    return EXIT_OK;
}

/* Where the values of the x axis lie, and names at some of them. */
static void fill_ticks(drawing *d) {
    const axis *a = &d->out->axes->list[d->x];
    const size_t every = (a->count + TICKS - 1) / TICKS;
    for (size_t i = 0; i < a->count; i++) {
        int64_t number = 0;
        const int whole = is_number(a) && options_read_integer(a->values[i], &number);
        d->at[i] = whole ? (double)number : is_number(a) ? strtod(a->values[i], NULL) : (double)i;
        if (i % every == 0) {
            shorten(a->values[i], d->tick_names[d->tick_count], NAME);
            d->ticks[d->tick_count] = (weft_plot_tick){d->at[i], d->tick_names[d->tick_count]};
            d->tick_count++;
        }
    }
}

/* Whether values lie so far apart that a logarithmic axis shows more. */
static int spans(const double *values, size_t count, double factor) {
    double least = INFINITY, most = 0;
    for (size_t i = 0; i < count; i++) {
        least = fmin(least, values[i]);
        most = fmax(most, values[i]);
    }
    return least > 0 && most >= factor * least;
}

/* Whether values grow by factors rather than by steps. */
static int widens(const double *values, size_t count) {
    return count > 2 && values[count - 1] - values[count - 2] > 2 * (values[1] - values[0]);
}

static int draw(drawing *d) {
    const sweep *out = d->out;
    const axis *a = &out->axes->list[d->x];
    const int32_t what = out->settings->plot < 0 ? PLOT_TIME : out->settings->plot;
    const int grows = what == PLOT_TIME || what == PLOT_DRAM || what == PLOT_MISSES;
    char title[NAME], x_name[NAME];
    const weft_field *field = option_field(a->option, out->settings->operation);
    weft_message message = {""};
    fill_ticks(d);
    const int code = fill_lines(d);
    if (code) {
        return code;
    }
    snprintf(title, sizeof title, "%s: %s", weft_operation_describe(out->settings->operation)->name, y_names[what]);
    const char *text = field ? field->text : a->option->text, *usual = strstr(text, " (");
    snprintf(x_name, sizeof x_name, "%s: %.*s", a->option->name, (int)(usual ? (size_t)(usual - text) : strlen(text)),
             text);
    weft_plot plot = WEFT_PLOT_INIT;
    plot.title = title;
    plot.x_name = x_name;
    plot.y_name = y_names[what];
    plot.ticks = d->ticks;
    plot.tick_count = d->tick_count;
    plot.lines = d->lines;
    plot.line_count = d->count;
    plot.x_log = is_number(a) && spans(d->at, a->count, 8) && widens(d->at, a->count);
    plot.y_log = grows && spans(d->values, out->count, 50);
    const weft_status status = weft_plot_write(&plot, out->settings->output, &message);
    return status ? complain(status == WEFT_INVALID ? EXIT_USAGE : EXIT_FAILED, "%s", message.text) : EXIT_OK;
}

int sweep_plot(const sweep *out) {
    drawing *d = calloc(1, sizeof *d);
    if (!d) {
        return complain(EXIT_FAILED, "out of memory");
    }
    d->out = out;
    d->x = find_x(out->axes);
    d->at = calloc(out->axes->list[d->x].count, sizeof *d->at);
    d->names = calloc(WEFT_PLOT_LINES, sizeof *d->names);
    d->values = calloc(out->count, sizeof *d->values);
    d->xs = calloc(WEFT_PLOT_LINES * out->count, sizeof *d->xs);
    d->ys = calloc(WEFT_PLOT_LINES * out->count, sizeof *d->ys);
    const int code = d->at && d->names && d->values && d->xs && d->ys ? draw(d) : complain(EXIT_FAILED, "out of memory");
    free(d->at);
    free(d->names);
    free(d->values);
    free(d->xs);
    free(d->ys);
    free(d);
    return code;
}
