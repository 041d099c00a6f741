/* SPDX-License-Identifier: Apache-2.0 */
/* Lines over an axis, as SVG. */
#include <math.h>
#include <stdio.h>

#include "base/file.h"
#include "base/status.h"
#include "base/struct.h"
#include "report/bytes.h"
#include "report/colour.h"

enum {
    WIDTH = 860,
    LEFT = 84, /* of the frame */
    RIGHT = 832,
    TOP = 56,
    BOTTOM = 396,
    LEGEND = 470, /* where the legend begins */
    LINE = 22,    /* height of a line of it */
    COLUMNS = 2
};

static const char style[] =
    "text{font:13px system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;fill:#1c2330}"
    ".name{font-size:17px;font-weight:650}.quiet{fill:#5a6472;font-size:12px}"
    ".paper{fill:#fff}.frame{fill:none;stroke:#c3cad4}.rule{stroke:#e4e8ee}"
    ".line{fill:none;stroke-linejoin:round}"
    "@media(prefers-color-scheme:dark){text{fill:#e6e9ee}.quiet{fill:#9aa5b4}.paper{fill:#12161c}"
    ".frame{stroke:#39424e}.rule{stroke:#232a33}.series{filter:brightness(1.4)}}";

/* An axis, from values to pixels. */
typedef struct scale {
    double low, high; /* logarithms where `log` */
    double from, to;  /* pixels */
    int log;
} scale;

static double place(const scale *s, double value) {
    const double at = s->log ? log10(value) : value;
    return s->from + (s->to - s->from) * (at - s->low) / (s->high - s->low);
}

/* The scale of all values, with some space beside the outermost. */
static scale make_scale(const weft_plot *p, int is_y) {
    const int logarithmic = is_y ? p->y_log : p->x_log;
    scale s = {INFINITY, -INFINITY, is_y ? BOTTOM : LEFT, is_y ? TOP : RIGHT, logarithmic};
    for (size_t i = 0; i < p->line_count; i++) {
        const weft_plot_line *l = &p->lines[i];
        for (size_t k = 0; k < l->count; k++) {
            const double value = is_y ? l->y[k] : l->x[k];
            s.low = fmin(s.low, logarithmic ? log10(value) : value);
            s.high = fmax(s.high, logarithmic ? log10(value) : value);
        }
    }
    if (is_y && !logarithmic) {
        s.low = fmin(0, s.low);
    }
    const double space = s.high > s.low ? (s.high - s.low) * (is_y ? 0.06 : 0.03) : fmax(0.5, 0.1 * fabs(s.high));
    s.low -= is_y && !logarithmic && s.low == 0 ? 0 : space;
    s.high += space;
    return s;
}

/* 1, 2 or 5 times a power of ten: such that about six steps span the range. */
static double nice_step(double range) {
    const double raw = range / 6, power = pow(10, floor(log10(raw))), share = raw / power;
    return power * (share <= 1 ? 1 : share <= 2 ? 2 : share <= 5 ? 5 : 10);
}

static void put_y_tick(weft_bytes *out, const scale *y, double value) {
    const double at = place(y, value);
    weft_bytes_text(out, "<line class=\"rule\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>", (int)LEFT, (int)RIGHT, at,
                    at);
    weft_bytes_text(out, "<text class=\"quiet\" text-anchor=\"end\" x=\"%d\" y=\"%.1f\">%.6g</text>\n", LEFT - 8, at + 4,
                    value);
}

static void put_y_ticks(weft_bytes *out, const scale *y) {
    if (y->log) {
        static const double marks[] = {1, 2, 5};
        const int every = y->high - y->low < 3 ? 3 : 1; /* beyond three decades, only powers of ten */
        for (double power = floor(y->low); power <= y->high; power++) {
            for (int i = 0; i < every; i++) {
                const double value = marks[i] * pow(10, power);
                if (log10(value) >= y->low && log10(value) <= y->high) {
                    put_y_tick(out, y, value);
                }
            }
        }
        return;
    }
    const double step = nice_step(y->high - y->low);
    for (double i = ceil(y->low / step); i * step <= y->high; i++) {
        put_y_tick(out, y, i * step + 0.0);
    }
}

static void put_text(weft_bytes *out, const char *attributes, double x, double y, const char *text) {
    weft_bytes_text(out, "<text %s x=\"%.1f\" y=\"%.1f\">", attributes, x, y);
    weft_bytes_markup(out, text);
    weft_bytes_text(out, "</text>\n");
}

static void put_axes(weft_bytes *out, const weft_plot *p, const scale *x, const scale *y) {
    put_y_ticks(out, y);
    for (size_t i = 0; i < p->tick_count; i++) {
        const double at = place(x, p->ticks[i].at);
        weft_bytes_text(out, "<line class=\"rule\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\"/>", at, at, (int)TOP,
                        (int)BOTTOM);
        put_text(out, "class=\"quiet\" text-anchor=\"middle\"", at, BOTTOM + 18, p->ticks[i].name);
    }
    weft_bytes_text(out, "<rect class=\"frame\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>\n", (int)LEFT, (int)TOP,
                    RIGHT - LEFT, BOTTOM - TOP);
    put_text(out, "text-anchor=\"middle\"", (LEFT + RIGHT) / 2.0, BOTTOM + 42, p->x_name);
    char turned[96];
    snprintf(turned, sizeof turned, "text-anchor=\"middle\" transform=\"rotate(-90 20 %d)\"", (TOP + BOTTOM) / 2);
    put_text(out, turned, 20, (TOP + BOTTOM) / 2.0, p->y_name);
}

/* What all of a line has: its colour, and beyond the colours its dashes. Lines below others are wider, so that a line under
 * another is seen. */
static void put_stroke(weft_bytes *out, const weft_plot *p, size_t number) {
    const size_t above = p->line_count - 1 - number;
    static const char *const dashes[] = {"", " stroke-dasharray=\"8 5\"", " stroke-dasharray=\"2 4\""};
    weft_bytes_text(out, " class=\"line\" stroke=\"#%06x\" stroke-width=\"%g\"%s", weft_colour_category((int64_t)number),
                    2 + 0.8 * (double)(above < 3 ? above : 3), dashes[number / WEFT_CATEGORIES % 3]);
}

static void put_line(weft_bytes *out, const weft_plot *p, size_t number, const scale *x, const scale *y) {
    const weft_plot_line *l = &p->lines[number];
    weft_bytes_text(out, "<g class=\"series\"><polyline");
    put_stroke(out, p, number);
    weft_bytes_text(out, " points=\"");
    for (size_t i = 0; i < l->count; i++) {
        weft_bytes_text(out, "%.1f,%.1f ", place(x, l->x[i]), place(y, l->y[i]));
    }
    weft_bytes_text(out, "\"/>");
    for (size_t i = 0; i < l->count; i++) {
        weft_bytes_text(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.2\" fill=\"#%06x\"><title>", place(x, l->x[i]),
                        place(y, l->y[i]), weft_colour_category((int64_t)number));
        weft_bytes_markup(out, l->name);
        weft_bytes_text(out, ": %.6g</title></circle>", l->y[i]);
    }
    weft_bytes_text(out, "</g>\n");
    const double at = LEFT + (double)(number % COLUMNS) * (RIGHT - LEFT) / COLUMNS;
    const double down = LEGEND + (double)(number / COLUMNS * LINE);
    weft_bytes_text(out, "<g class=\"series\"><line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"", at, at + 28, down - 4,
                    down - 4);
    put_stroke(out, p, number);
    weft_bytes_text(out, "/></g>");
    put_text(out, "class=\"quiet\"", at + 36, down, l->name);
}

static weft_status check(const weft_plot *p, weft_message *message) {
    if (p->line_count < 1 || p->line_count > WEFT_PLOT_LINES) {
        return weft_fail(message, WEFT_INVALID, "a plot of %zu lines: it has 1 to %d", p->line_count, WEFT_PLOT_LINES);
    }
    for (size_t i = 0; i < p->line_count; i++) {
        const weft_plot_line *l = &p->lines[i];
        for (size_t k = 0; k < l->count; k++) {
            if (!isfinite(l->x[k]) || !isfinite(l->y[k]) || (p->x_log && l->x[k] <= 0) || (p->y_log && l->y[k] <= 0)) {
                return weft_fail(message, WEFT_INVALID, "the plot's line \"%.60s\" has a point that no axis shows",
                                 l->name);
            }
        }
        if (l->count == 0) {
            return weft_fail(message, WEFT_INVALID, "the plot's line \"%.60s\" has no point", l->name);
        }
    }
    return WEFT_OK;
}

weft_status weft_plot_write(const weft_plot *plot, const char *path, weft_message *message) {
    weft_plot p = WEFT_PLOT_INIT;
    weft_status status = plot ? weft_struct_take(&p, sizeof p, sizeof p, plot, "WEFT_PLOT_INIT", message)
                              : weft_fail(message, WEFT_INVALID, "plot is null");
    if (status || (status = check(&p, message))) {
        return status;
    }
    const scale x = make_scale(&p, 0), y = make_scale(&p, 1);
    const int height = LEGEND + (int)((p.line_count + COLUMNS - 1) / COLUMNS) * LINE;
    weft_bytes out = {0};
    weft_bytes_text(&out,
                    "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" role=\"img\">\n<style>",
                    (int)WIDTH, height, (int)WIDTH);
    weft_bytes_put(&out, style, sizeof style - 1);
    weft_bytes_text(&out, "</style><rect class=\"paper\" width=\"%d\" height=\"%d\" rx=\"10\"/>\n<title>", (int)WIDTH,
                    height);
    weft_bytes_markup(&out, p.title);
    weft_bytes_text(&out, "</title>\n");
    put_text(&out, "class=\"name\"", LEFT, 34, p.title);
    put_axes(&out, &p, &x, &y);
    for (size_t i = 0; i < p.line_count; i++) {
        put_line(&out, &p, i, &x, &y);
    }
    weft_bytes_text(&out, "</svg>\n");
    status = out.failed ? weft_fail(message, WEFT_NO_MEMORY, "no memory for the plot")
                        : weft_file_write(path, out.data, out.count, message);
    weft_bytes_release(&out);
    return status;
}
