/* SPDX-License-Identifier: Apache-2.0 */
#include "report/svg.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/status.h"
#include "report/bytes.h"
#include "report/colour.h"
#include "report/simulation_json.h"
#include "report/still.h"

enum {
    MARGIN = 28,
    PANEL = 380, /* width of a schedule */
    GAP = 36,
    HEAD = 66,   /* height of the line over all */
    TITLE = 80,  /* of the lines above a grid */
    GRID = 292,  /* of a GEMM's grid at most */
    STRIP = 130, /* of an attention's */
    HITS = 104,  /* of the chart of hits */
    HELD = 250,  /* of the map of what is held */
    FOOT = 46,
    SHADES = 32,
    TIMES = 120, /* columns of the map through time */
    STEPS = 48,
    JUST = 2,         /* columns in which something came in just now */
    PATH_TILES = 1024 /* the order is drawn as a line up to here */
};

static const char style[] =
    "text{font:13px system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;fill:#1c2330}"
    ".name{font-size:19px;font-weight:650}.quiet{fill:#5a6472;font-size:12px}"
    ".paper{fill:#fff}.frame{fill:none;stroke:#c3cad4}.held{fill:#7d8b9e}.came{fill:#c2127c}.worker{fill:#1c2330}"
    ".line{fill:none;stroke:#1c2330;stroke-width:1.6;stroke-linejoin:round}"
    ".way{fill:none;stroke:#1c2330;stroke-width:1.2;stroke-linejoin:round}"
    ".order{fill:none;stroke:#fff;stroke-opacity:.75;stroke-linejoin:round}"
    "@media(prefers-color-scheme:dark){text{fill:#e6e9ee}.quiet{fill:#9aa5b4}.paper{fill:#12161c}"
    ".frame{stroke:#39424e}.held{fill:#718197}.came{fill:#ff7ac2}.worker{fill:#e6e9ee}.line,.way{stroke:#e6e9ee}}";

/* The grid, at most so high: a path of runs for each shade, so that large grids stay small. Returns its height. */
static double put_grid(weft_bytes *out, const weft_view_schedule *s, double x, double y, double most) {
    weft_still_grid grid;
    if (!weft_still_grid_make(&grid, s, PANEL / 3, GRID / 2)) {
        out->failed = 1;
        return 0;
    }
    const double cell = fmin((double)PANEL / (double)grid.cols, most / (double)grid.lines);
    const double height = cell * (double)grid.lines;
    weft_bytes_text(out, "<g transform=\"translate(%g %g) scale(%.5g)\" shape-rendering=\"crispEdges\">\n", x, y, cell);
    for (int shade = 0; shade < SHADES; shade++) {
        weft_bytes_text(out, "<path fill=\"#%06x\" d=\"", weft_colour_ramp((double)shade / (SHADES - 1)));
        for (int64_t i = 0; i < grid.cols * grid.lines;) {
            int64_t end = i;
            while (end < (i / grid.cols + 1) * grid.cols && grid.share[end] >= 0 &&
                   (int)(grid.share[end] * (SHADES - 1) + 0.5) == shade) {
                end++;
            }
            if (end > i) {
                weft_bytes_text(out, "M%d %dh%dv1h-%dz", (int)(i % grid.cols), (int)(i / grid.cols), (int)(end - i),
                                (int)(end - i));
            }
            i = end > i ? end : i + 1;
        }
        weft_bytes_text(out, "\"/>\n");
    }
    weft_bytes_text(out, "</g>\n");
    if (s->grid.lines == 1 && s->grid.banks == 1 && s->recording.count <= PATH_TILES &&
        s->grid.cluster_rows * s->grid.cluster_cols == 1) {
        double(*at)[2] = calloc((size_t)s->grid.positions, sizeof *at);
        out->failed |= !at;
        for (size_t i = 0; at && i < s->recording.count; i++) {
            const weft_recording_visit *v = &s->recording.visits[i];
            at[v->position][0] = x + cell * ((double)(v->tile % s->grid.cols) + 0.5);
            at[v->position][1] = y + cell * ((double)(v->tile / s->grid.cols) + 0.5);
        }
        weft_bytes_text(out, "<polyline class=\"order\" stroke-width=\"%.3g\" points=\"", fmin(1.6, cell / 7));
        for (int64_t p = 0; at && p < s->grid.positions; p++) {
            weft_bytes_text(out, "%.1f,%.1f ", at[p][0], at[p][1]);
        }
        weft_bytes_text(out, "\"/>\n");
        free(at);
    }
    free(grid.share);
    return height;
}

/* Hits through time, up to the longest schedule's end. */
static void put_hits(weft_bytes *out, const weft_view_schedule *s, double x, double y, double longest) {
    const double height = HITS - 32, width = PANEL * s->recording.sim.seconds / longest;
    weft_bytes_text(out, "<text class=\"quiet\" x=\"%g\" y=\"%g\">L2 hits through time (0 to 100 %%)</text>\n", x, y + 11);
    weft_bytes_text(
        out, "<rect class=\"frame\" x=\"%g\" y=\"%g\" width=\"%d\" height=\"%g\"/><polyline class=\"line\" points=\"", x,
        y + 20, (int)PANEL, height);
    for (int64_t col = 0; col < TIMES; col++) {
        const double hits = weft_still_hits(&s->recording, col, TIMES);
        if (!isnan(hits)) {
            weft_bytes_text(out, "%.1f,%.1f ", x + width * ((double)col + 0.5) / TIMES, y + 20 + height * (1 - hits));
        }
    }
    weft_bytes_text(out, "\"/>\n");
}

/* Quarters of a share of the steps that are held in a column of time: 0 .. 4; before the first column: 0. */
static int quarters(const weft_recording *t, int64_t col, int64_t step, int64_t steps) {
    return col < 0 ? 0 : (int)ceil(4 * weft_still_held(t, col, TIMES, step, steps));
}

/* Cells that hold `level` quarters, of which more came in just now or not, as one path. */
static void put_level(weft_bytes *out, const weft_recording *t, int64_t steps, int level, int came) {
    weft_bytes_text(out, "<path class=\"%s\" fill-opacity=\"%.2f\" d=\"", came ? "came" : "held", 0.2 + 0.2 * level);
    for (int64_t col = 0; col < TIMES; col++) {
        for (int64_t step = 0; step < steps;) {
            int64_t end = step;
            while (end < steps && quarters(t, col, end, steps) == level &&
                   (quarters(t, col - JUST, end, steps) < level) == came) {
                end++;
            }
            if (end > step) {
                weft_bytes_text(out, "M%d %dh1v%dh-1z", (int)col, (int)step, (int)(end - step));
            }
            step = end > step ? end : step + 1;
        }
    }
    weft_bytes_text(out, "\"/>\n");
}

/* The way of one worker over the steps; it jumps to where a tile begins. */
static void put_way(weft_bytes *out, const weft_recording *t, double x, double y, double width, double height) {
    int32_t before = -1;
    weft_bytes_text(out, "<path class=\"way\" d=\"");
    for (int64_t frame = 0; frame < t->frames; frame++) {
        const int32_t place = t->place[frame * t->workers];
        if (place >= 0) {
            const int jumps = before < 0 || abs(place - before) > 0.4 * (double)t->steps;
            weft_bytes_text(out, "%c%.1f %.1f", jumps ? 'M' : 'L', x + width * ((double)frame + 1) / (double)t->frames,
                            y + height * ((double)place + 0.5) / (double)t->steps);
            before = place;
        }
    }
    weft_bytes_text(out, "\"/>\n");
}

/* What is held through time, what came in, and the way of one worker through it. */
static void put_held(weft_bytes *out, const weft_view_schedule *s, double x, double y, double longest) {
    const weft_recording *t = &s->recording;
    const int64_t steps = t->cols < STEPS ? t->cols : STEPS;
    const double height = HELD - 32, width = PANEL * t->sim.seconds / longest;
    weft_bytes_text(out, "<text class=\"quiet\" x=\"%g\" y=\"%g\">%ss in the L2 through time</text>\n", x, y + 11, t->step);
    weft_bytes_text(out, "<g transform=\"translate(%g %g) scale(%.5g %.5g)\">\n", x, y + 20, width / TIMES,
                    height / (double)steps);
    for (int level = 1; level <= 4; level++) {
        put_level(out, t, steps, level, 0);
        put_level(out, t, steps, level, 1);
    }
    weft_bytes_text(out, "</g>\n");
    put_way(out, t, x, y + 20, width, height);
    weft_bytes_text(out, "<rect class=\"frame\" x=\"%g\" y=\"%g\" width=\"%d\" height=\"%g\"/>\n", x, y + 20, (int)PANEL,
                    height);
}

/* A mark and what it means; returns where the next may stand. */
static double put_key(weft_bytes *out, double x, double y, const char *class, const char *text) {
    weft_bytes_text(out, "<rect class=\"%s\" x=\"%g\" y=\"%g\" width=\"11\" height=\"11\" rx=\"2\"/>", class, x, y);
    weft_bytes_text(out, "<text class=\"quiet\" x=\"%g\" y=\"%g\">%s</text>\n", x + 17, y + 9.5, text);
    return x + 17 + 6.6 * (double)strlen(text) + 16;
}

static void put_legend(weft_bytes *out, int by_step, double y) {
    double x = MARGIN;
    if (by_step) {
        x = put_key(out, x, y, "held", "held");
        x = put_key(out, x, y, "came", "came in just now");
        x = put_key(out, x, y, "worker", "way of one worker");
    }
    weft_bytes_text(out, "<text class=\"quiet\" x=\"%g\" y=\"%g\">tiles: first</text>\n", x, y + 9.5);
    for (int shade = 0; shade < SHADES; shade++) {
        weft_bytes_text(out, "<rect x=\"%g\" y=\"%g\" width=\"5\" height=\"11\" fill=\"#%06x\"/>", x + 66 + 5.0 * shade, y,
                        weft_colour_ramp((double)shade / (SHADES - 1)));
    }
    weft_bytes_text(out, "<text class=\"quiet\" x=\"%g\" y=\"%g\">last</text>\n", x + 66 + 5 * SHADES + 6, y + 9.5);
}

/* One schedule: its name, its numbers, its grid, its chart. Returns where it ends. */
static double put_panel(weft_bytes *out, const weft_view_schedule *s, double x, double longest) {
    const weft_traffic *t = &s->recording.sim.total;
    const double y = HEAD;
    weft_bytes_text(out, "<text class=\"name\" x=\"%g\" y=\"%g\">", x, y + 18);
    weft_bytes_markup(out, s->name);
    weft_bytes_text(out, "</text>\n");
    weft_bytes_text(out, "<text class=\"quiet\" x=\"%g\" y=\"%g\">%.1f %% hits, %.1f M misses</text>\n", x, y + 40,
                    100 * weft_hit_rate(t), (double)t->misses / 1e6);
    weft_bytes_text(out, "<text class=\"quiet\" x=\"%g\" y=\"%g\">%s from DRAM, %.3g ms (predicted)</text>\n", x, y + 57,
                    weft_traffic_text((double)t->dram_read_bytes).text, 1e3 * s->recording.sim.seconds);
    if (s->by_step) {
        put_held(out, s, x, y + TITLE, longest);
        return y + TITLE + HELD + 12 + put_grid(out, s, x, y + TITLE + HELD + 12, STRIP);
    }
    const double grid = put_grid(out, s, x, y + TITLE, GRID) + 20;
    put_hits(out, s, x, y + TITLE + grid, longest);
    return y + TITLE + grid + HITS;
}

weft_status weft_svg_write(const weft_view *view, const char *path, weft_message *message) {
    const int count = (int)view->count, width = 2 * MARGIN + count * PANEL + (count - 1) * GAP;
    double longest = 0, height = 0;
    weft_bytes out = {0}, panels = {0};
    for (size_t i = 0; i < view->count; i++) {
        longest = fmax(longest, view->schedule[i].recording.sim.seconds);
    }
    for (int i = 0; i < count; i++) {
        height = fmax(height, put_panel(&panels, &view->schedule[i], MARGIN + (double)i * (PANEL + GAP), longest));
    }
    put_legend(&panels, view->schedule[0].by_step, height + 12);
    weft_bytes_text(&out,
                    "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %.0f\" width=\"%d\" role=\"img\">\n"
                    "<style>",
                    width, height + FOOT, width);
    weft_bytes_put(&out, style, sizeof style - 1);
    weft_bytes_text(&out, "</style><rect class=\"paper\" width=\"%d\" height=\"%.0f\" rx=\"10\"/>\n", width, height + FOOT);
    weft_bytes_text(&out, "<title>"); /* text from a machine file or a trace may hold anything */
    weft_bytes_markup(&out, view->title);
    weft_bytes_text(&out, ": tiles by position</title>\n<text x=\"%d\" y=\"40\">", (int)MARGIN);
    weft_bytes_markup(&out, view->title);
    weft_bytes_text(&out, ", on ");
    weft_bytes_markup(&out, weft_view_machine(view)->title);
    weft_bytes_text(&out, "</text>\n");
    weft_bytes_put(&out, panels.data, panels.count);
    weft_bytes_text(&out, "</svg>\n");
    const weft_status status = out.failed || panels.failed ? weft_fail(message, WEFT_NO_MEMORY, "no memory for the picture")
                                                           : weft_file_write(path, out.data, out.count, message);
    weft_bytes_release(&out);
    weft_bytes_release(&panels);
    return status;
}
