/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Pages, pictures and texts that show what schedules do.
 */
#ifndef WEFT_REPORT_H
#define WEFT_REPORT_H

#include "source.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Schedules of one problem on one machine, simulated and recorded, ready to be shown. */
typedef struct weft_view weft_view;

/** How many schedules stand side by side at most. */
enum { WEFT_VIEW_SCHEDULES = 8 };

/** Simulates and records plans, over threads.
 *
 * @param view     what came out; the caller destroys it
 * @param plans    of one problem; they must outlive the view
 * @param names    what each is called, a line of UTF-8; copied
 * @param count    at most WEFT_VIEW_SCHEDULES
 * @param options  null: the defaults
 * @param curves   1: also the misses for every size of the L2, which pages show
 * @param message  null, or where to say what is wrong
 *
 * WEFT_UNSUPPORTED when a grid is too large to be looked at, WEFT_INVALID when a name is no line of UTF-8. On failure *view
 * is null. */
WEFT_API weft_status weft_view_create(weft_view **view, const weft_plan *const *plans, const char *const *names,
                                      size_t count, const weft_simulate_options *options, int32_t curves,
                                      weft_message *message);

/** The same of sources on a machine. Each says how many jobs it has, and its tensors outlive the view. */
WEFT_API weft_status weft_view_create_sources(weft_view **view, const weft_source *const *sources,
                                              const weft_machine *machine, const char *const *names, size_t count,
                                              const weft_simulate_options *options, int32_t curves, weft_message *message);

/** Releases it; null is fine. */
WEFT_API void weft_view_destroy(weft_view *view);

/** How to show a view. */
typedef enum weft_view_format {
    WEFT_VIEW_PAGE = 0, /**< one HTML file that plays it */
    WEFT_VIEW_JSON = 1, /**< what is in that file, as one line */
    WEFT_VIEW_SVG = 2,  /**< a still picture */
    WEFT_VIEW_TEXT = 3  /**< characters, as it ends */
} weft_view_format;

/** Writes a view to a file, or with a null path to standard output. A file that is there is replaced once the new one is
 * whole.
 * @param view     from weft_view_create()
 * @param format   what to write
 * @param path     the file; null: standard output
 * @param command  what made it, for the page: "weft view gemm"
 * @param message  null, or where to say what is wrong
 */
WEFT_API weft_status weft_view_write(const weft_view *view, weft_view_format format, const char *path, const char *command,
                                     weft_message *message);

/** Plays it on standard output, which must be a terminal. */
WEFT_API weft_status weft_view_play(const weft_view *view, weft_message *message);

/** Writes a page to a file: of an object of kind "report", or "ranks", as JSON text, as the command makes them. */
WEFT_API weft_status weft_page_write(const char *json, const char *path, weft_message *message);

/** The measurements that travel inside the library, by number: the text of a CSV file, and its name. Null past the last. */
WEFT_API const char *weft_recorded(size_t number, const char **name);

/** A place on the x axis of a plot, and what stands there: two values, and never more. */
typedef struct weft_plot_tick {
    double at;
    const char *name;
} weft_plot_tick;

/** A line of a plot, with a mark at each of its points: never more than these. */
typedef struct weft_plot_line {
    const char *name;    /**< in the legend */
    const double *x, *y; /**< `count` of each, finite; above 0 where their axis is logarithmic */
    size_t count;
} weft_plot_line;

/** Lines over one axis. */
typedef struct weft_plot {
    size_t struct_size;                  /**< set by WEFT_PLOT_INIT */
    const char *title, *x_name, *y_name; /**< with units */
    const weft_plot_tick *ticks;         /**< of the x axis */
    size_t tick_count;
    const weft_plot_line *lines;
    size_t line_count;    /**< 1 to WEFT_PLOT_LINES */
    int32_t x_log, y_log; /**< 1: logarithmic; without, y begins at 0 */
} weft_plot;

#define WEFT_PLOT_INIT                                                                                                     \
    { sizeof(weft_plot), "", "", "", NULL, 0, NULL, 0, 0, 0 }

/** How many lines can be told apart: eight colours, solid, dashed and dotted. */
enum { WEFT_PLOT_LINES = 24 };

/** Draws a plot as an SVG file for light and dark pages that needs no other file; with a null path to standard output. A
 * file that is there is replaced once the new one is whole. What XML cannot hold of its texts becomes U+FFFD. */
WEFT_API weft_status weft_plot_write(const weft_plot *plot, const char *path, weft_message *message);

/** A colour, red, green and blue in the lowest 24 bits, on a ramp that grows evenly in lightness; `share` is 0 to 1. */
WEFT_API uint32_t weft_colour_ramp(double share);

/** A unit that suits a number's size: the number times `factor` is in it. Columns of a table have that of their least. */
typedef struct weft_unit {
    double factor;
    const char *name;
} weft_unit;
WEFT_API weft_unit weft_rate_unit(double tflops); /**< TFLOP/s, GFLOP/s or MFLOP/s */
WEFT_API weft_unit weft_bytes_unit(double bytes); /**< TB, GB, MB, kB (1000 bytes) or bytes */

/** A number with a unit that suits its size. */
typedef struct weft_rate {
    char text[32];
} weft_rate;
WEFT_API weft_rate weft_rate_text(double tflops);   /**< "812.3 TFLOP/s", "5.90 GFLOP/s" */
WEFT_API weft_rate weft_traffic_text(double bytes); /**< "14.30 GB", "5.903 MB" */
WEFT_API weft_rate weft_memory_text(double bytes);  /**< "30 MiB", "1.5 GiB" */

#ifdef __cplusplus
}
#endif

#endif
