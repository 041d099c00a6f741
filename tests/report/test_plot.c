/* SPDX-License-Identifier: Apache-2.0 */
/* Plots: what is drawn, and what is refused. */
#include "../cmocka_all.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weft/report.h>

static const double xs[] = {1024, 2048, 4096};
static const weft_plot_tick ticks[] = {{1024, "1K"}, {4096, "4K"}};

/* Draws to a file; the caller frees the text. */
static char *draw(const weft_plot *plot) {
    char path[] = "/tmp/weft-plot-XXXXXX";
    const int file = mkstemp(path);
    char *text = calloc(1, 65536);
    weft_message message = {""};
    assert_true(file >= 0 && text);
    assert_int_equal(weft_plot_write(plot, path, &message), WEFT_OK);
    assert_string_equal(message.text, "");
    FILE *written = fopen(path, "r");
    assert_non_null(written);
    assert_in_range(fread(text, 1, 65535, written), 1, 65534);
    fclose(written);
    close(file);
    unlink(path);
    return text;
}

static weft_plot make(const weft_plot_line *lines, size_t count) {
    weft_plot plot = WEFT_PLOT_INIT;
    plot.title = "a < b & c";
    plot.x_name = "length";
    plot.y_name = "time (ms)";
    plot.ticks = ticks;
    plot.tick_count = 2;
    plot.lines = lines;
    plot.line_count = count;
    return plot;
}

/* How often a text has another in it. */
static int count_of(const char *text, const char *part) {
    int count = 0;
    for (; (text = strstr(text, part)); text++) {
        count++;
    }
    return count;
}

static void a_line_has_its_points(void **state) {
    (void)state;
    const double flat[] = {5, 5, 5}, zero[] = {0, 0, 0}, up[] = {1, 10, 1000};
    const weft_plot_line lines[] = {{"one", xs, flat, 3}, {"<two>", xs, zero, 3}, {"three", xs, up, 3}};
    for (int log = 0; log < 4; log++) {
        weft_plot plot = make(log & 2 ? &lines[2] : lines, log & 2 ? 1 : 3);
        plot.x_log = log & 1;
        plot.y_log = log >> 1;
        char *text = draw(&plot);
        assert_int_equal(count_of(text, "<circle"), 3 * (int)plot.line_count);
        assert_int_equal(count_of(text, "<polyline"), (int)plot.line_count);
        assert_int_equal(count_of(text, "prefers-color-scheme:dark"), 1);
        for (const char *const *word = (const char *const[]){">1K<", ">4K<", ">length<", ">time (ms)<", ">three<",
                                                             "a &lt; b &amp; c", "xmlns=", NULL};
             *word; word++) {
            assert_non_null(strstr(text, *word));
        }
        assert_null(strstr(text, "nan"));
        assert_null(strstr(text, "inf"));
        assert_int_equal(count_of(text, "<two>"), 0);
        free(text);
    }
    /* One point: no range to scale by. */
    const weft_plot one = make(&(weft_plot_line){"one", xs, zero, 1}, 1);
    char *text = draw(&one);
    assert_null(strstr(text, "nan"));
    free(text);
}

static void what_no_axis_shows_is_refused(void **state) {
    (void)state;
    const double bad[] = {1, NAN, 2}, zero[] = {0, 1, 2}, good[] = {1, 2, 3};
    weft_plot_line lines[WEFT_PLOT_LINES + 1];
    weft_message message;
    weft_plot plot = make(&(weft_plot_line){"bad", xs, bad, 3}, 1);
    assert_int_equal(weft_plot_write(&plot, "/nonexistent/x", &message), WEFT_INVALID);
    assert_string_equal(message.text, "the plot's line \"bad\" has a point that no axis shows");
    plot = make(&(weft_plot_line){"zero", xs, zero, 3}, 1);
    plot.y_log = 1;
    assert_int_equal(weft_plot_write(&plot, "/nonexistent/x", &message), WEFT_INVALID);
    plot = make(&(weft_plot_line){"none", xs, good, 0}, 1);
    assert_int_equal(weft_plot_write(&plot, "/nonexistent/x", &message), WEFT_INVALID);
    assert_string_equal(message.text, "the plot's line \"none\" has no point");
    for (size_t i = 0; i <= WEFT_PLOT_LINES; i++) {
        lines[i] = (weft_plot_line){"x", xs, good, 3};
    }
    plot = make(lines, WEFT_PLOT_LINES + 1);
    assert_int_equal(weft_plot_write(&plot, "/nonexistent/x", &message), WEFT_INVALID);
    plot = make(lines, 0);
    assert_int_equal(weft_plot_write(&plot, "/nonexistent/x", &message), WEFT_INVALID);
    plot = make(lines, WEFT_PLOT_LINES);
    assert_int_equal(weft_plot_write(&plot, "/nonexistent/x", &message), WEFT_IO);
    assert_int_equal(weft_plot_write(NULL, "/nonexistent/x", &message), WEFT_INVALID);
    plot.struct_size = 3;
    assert_int_equal(weft_plot_write(&plot, "/nonexistent/x", &message), WEFT_INVALID);
}

/* Text that XML cannot hold becomes characters that say so; what else is there stays. */
static void any_text_is_xml(void **state) {
    (void)state;
    weft_plot plot = make(&(weft_plot_line){"\xc3\xa9 \xf0\x9f\x98\x80", xs, xs, 3}, 1);
    plot.title = "a\x01 \xff \xef\xbf\xbf & \xe2\x82";
    char *text = draw(&plot);
    assert_non_null(strstr(text, "a\xef\xbf\xbd \xef\xbf\xbd \xef\xbf\xbd &amp; \xef\xbf\xbd\xef\xbf\xbd<"));
    assert_non_null(strstr(text, "\xc3\xa9 \xf0\x9f\x98\x80"));
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_line_has_its_points), cmocka_unit_test(any_text_is_xml),
                                       cmocka_unit_test(what_no_axis_shows_is_refused)};
    return cmocka_run_group_tests_name("plot", tests, NULL, NULL);
}
