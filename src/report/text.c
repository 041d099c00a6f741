/* SPDX-License-Identifier: Apache-2.0 */
#include "report/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/environment.h"
#include "base/file.h"
#include "base/status.h"
#include "report/bytes.h"
#include "report/colour.h"
#include "report/simulation_json.h"
#include "report/still.h"
#include <weft/report.h>

enum { WIDTH = 64, HEIGHT = 24, STEPS = 8, FRAME_MS = 33 };

static const char *const bars[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
static const char *const shades[] = {" ", "░", "▒", "▓", "█"};

/* `share` of a list of glyphs, 0 .. 1. */
static const char *glyph(const char *const *list, int count, double share) {
    const int i = (int)(share * (count - 1) + 0.5);
    return list[i < 0 ? 0 : i >= count ? count - 1 : i];
}

/* `before_end` is what a terminal needs in order to clear what is left of a longer line. */
static void put_headline(weft_bytes *out, const weft_view_schedule *s, const weft_traffic *t, const char *before_end) {
    weft_bytes_text(out, "%s: %.2f %% hits, %.2f M misses, %s from DRAM%s\n", s->name, 100 * weft_hit_rate(t),
                    (double)t->misses / 1e6, weft_traffic_text((double)t->dram_read_bytes).text, before_end);
    weft_bytes_text(out, "predicted %.4f ms%s%s%s\n", 1e3 * s->recording.sim.seconds, s->subject.flops > 0 ? ", " : "",
                    s->subject.flops > 0 ? weft_rate_text(s->recording.sim.tflops).text : "", before_end);
    if (t->added > 0) {
        weft_bytes_text(out, "          %.2f M sectors added to sums, %.2f %% of the time waiting for turns\n",
                        (double)t->added / 1e6, 100 * weft_waiting_share(&s->recording.sim));
    }
}

/* Hits, and what is held of the steps, through time up to `frame`. */
static void put_history(weft_bytes *out, const weft_view_schedule *s, int64_t frame, int64_t most) {
    const weft_recording *t = &s->recording;
    const int64_t reached = (frame + 1) * WIDTH / t->frames;
    weft_bytes_text(out, "hits      ");
    for (int64_t col = 0; col < reached; col++) {
        const double hits = weft_still_hits(t, col, WIDTH);
        weft_bytes_text(out, "%s", isnan(hits) ? " " : glyph(bars, 8, hits));
    }
    const int64_t steps = t->cols < most ? t->cols : most;
    for (int64_t step = 0; step < steps; step++) {
        weft_bytes_text(out, "\n%s", step == 0 ? "held      " : "          ");
        for (int64_t col = 0; col < reached; col++) {
            weft_bytes_text(out, "%s", glyph(shades, 5, weft_still_held(t, col, WIDTH, step, steps)));
        }
    }
    weft_bytes_text(out, "\n");
}

static void put_explanation(weft_bytes *out, const weft_view *view) {
    weft_bytes_text(out, "%s,\non %s\n", view->title, weft_view_machine(view)->title);
    weft_bytes_text(out,
                    "tiles by position, 0 first to 9 last; hits: share of the L2's lookups, low to\n"
                    "high; held: %s in the L2, first above last;\ntime goes right\n",
                    view->schedule[0].recording.read);
}

weft_status weft_text_write(const weft_view *view, const char *path, weft_message *message) {
    weft_bytes out = {0};
    put_explanation(&out, view);
    for (size_t i = 0; i < view->count; i++) {
        const weft_view_schedule *s = &view->schedule[i];
        weft_still_grid grid;
        if (!weft_still_grid_make(&grid, s, WIDTH, HEIGHT)) {
            out.failed = 1;
            break;
        }
        weft_bytes_text(&out, "\n");
        put_headline(&out, s, &s->recording.sim.total, "");
        for (int64_t line = 0; line < grid.lines; line++) {
            weft_bytes_text(&out, "%s", line == 0 ? "tiles     " : "          ");
            for (int64_t col = 0; col < grid.cols; col++) {
                const double share = grid.share[line * grid.cols + col];
                weft_bytes_text(&out, "%c", share < 0 ? ' ' : '0' + (int)fmin(9, 10 * share));
            }
            weft_bytes_text(&out, "\n");
        }
        put_history(&out, s, s->recording.frames - 1, STEPS);
        free(grid.share);
    }
    const weft_status status = out.failed ? weft_fail(message, WEFT_NO_MEMORY, "no memory for the text")
                                          : weft_file_write(path, out.data, out.count, message);
    weft_bytes_release(&out);
    return status;
}

/* ---- the animation ---- */

/* One schedule at a moment: tiles that were begun in their colour, those being worked on in white. */
static void put_moment(weft_bytes *out, const weft_view_schedule *s, const weft_still_grid *grid, int8_t *state, double now,
                       int64_t frame, int64_t steps) {
    const int64_t cells = grid->cols * grid->lines;
    memset(state, 0, (size_t)cells);
    for (size_t i = 0; i < s->recording.count && s->recording.visits[i].begin <= now; i++) {
        int64_t col, line;
        weft_still_place(grid, s, s->recording.visits[i].tile, &col, &line);
        int8_t *cell = &state[line * grid->cols + col];
        *cell = (int8_t)(*cell | (s->recording.visits[i].end > now ? 2 : 1));
    }
    const weft_traffic traffic = weft_still_traffic(&s->recording, frame);
    put_headline(out, s, &traffic, "\033[K");
    for (int64_t i = 0; i < cells; i++) {
        const uint32_t c = state[i] & 2 ? 0xffffff : weft_colour_ramp(grid->share[i]);
        weft_bytes_text(out, "%s", i % grid->cols == 0 ? "\033[K" : "");
        if (state[i] == 0 || grid->share[i] < 0) {
            weft_bytes_text(out, "\033[0m %s", grid->share[i] < 0 ? " " : "·");
        } else {
            weft_bytes_text(out, "\033[48;2;%d;%d;%dm  ", (int)(c >> 16), (int)(c >> 8 & 255), (int)(c & 255));
        }
        weft_bytes_text(out, "%s", (i + 1) % grid->cols == 0 ? "\033[0m\n" : "");
    }
    weft_bytes_text(out, "\033[K");
    put_history(out, s, frame, steps);
}

static weft_status play(const weft_view *view, weft_still_grid *grids, int8_t **states, int64_t steps) {
    double longest = 0;
    for (size_t i = 0; i < view->count; i++) {
        longest = fmax(longest, view->schedule[i].recording.sim.seconds);
    }
    weft_bytes out = {0};
    const struct timespec pause = {0, FRAME_MS * 1000000L};
    for (int64_t frame = 0; frame < WEFT_VIEW_FRAMES && !out.failed; frame++) {
        const double now = longest * (double)(frame + 1) / WEFT_VIEW_FRAMES;
        out.count = 0;
        weft_bytes_text(&out, "\033[H");
        for (size_t i = 0; i < view->count; i++) {
            const weft_recording *t = &view->schedule[i].recording;
            const int64_t reached = (int64_t)(now / t->sim.seconds * (double)t->frames) - 1;
            put_moment(&out, &view->schedule[i], &grids[i], states[i], now,
                       reached < 0           ? 0
                       : reached < t->frames ? reached
                                             : t->frames - 1,
                       steps);
            weft_bytes_text(&out, "\033[K\n");
        }
        weft_bytes_text(&out, "\033[J");
        if (fwrite(out.data, 1, out.count, stdout) != out.count || fflush(stdout) != 0) {
            break; /* the terminal is gone */
        }
        nanosleep(&pause, NULL);
    }
    const weft_status status = out.failed ? WEFT_NO_MEMORY : WEFT_OK;
    weft_bytes_release(&out);
    return status;
}

weft_status weft_text_play(const weft_view *view) {
    const char *terminal = weft_environment(WEFT_VARIABLE_TERM);
    struct winsize size = {24, 80, 0, 0};
    if (!terminal || strcmp(terminal, "dumb") == 0 || weft_environment(WEFT_VARIABLE_NO_COLOR)) {
        return weft_text_write(view, NULL, NULL);
    }
    ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
    /* For each schedule: two lines of numbers, at least three of tiles, one of hits, the steps, and a blank one. */
    const int64_t room = ((size.ws_row ? size.ws_row : 24) - 1) / (int64_t)view->count - 4;
    const int64_t steps = room - 3 > STEPS ? STEPS : room > 4 ? room - 3 : 1, lines = room - steps;
    const int64_t cols = (size.ws_col ? size.ws_col : 80) / 2 - 1;
    weft_still_grid grids[WEFT_VIEW_SCHEDULES] = {{0}};
    int8_t *states[WEFT_VIEW_SCHEDULES] = {NULL};
    int fine = 1;
    for (size_t i = 0; i < view->count && fine; i++) {
        fine = weft_still_grid_make(&grids[i], &view->schedule[i], cols > 1 ? cols : 1, lines > 3 ? lines : 3);
        states[i] = fine ? malloc((size_t)(grids[i].cols * grids[i].lines)) : NULL;
        fine = states[i] != NULL;
    }
    fputs("\033[2J", stdout);
    const weft_status status = fine ? play(view, grids, states, steps) : WEFT_NO_MEMORY;
    for (size_t i = 0; i < view->count; i++) {
        free(grids[i].share);
        free(states[i]);
    }
    return status;
}
