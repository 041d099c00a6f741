/* SPDX-License-Identifier: Apache-2.0 */
/* Names of anything, in what is drawn and written: a plot, and a view of a source in all four forms. It is refused, or a
 * picture is XML, JSON can be read, and nothing in a page ends its script. */
#include <stdio.h>
#include <unistd.h>

#include <jansson.h>

#include <weft/report.h>

#include "markup.h"
#include "require.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);

static char path[64], text[1 << 20];

static void at_exit(void) {
    unlink(path);
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc;
    (void)argv;
    snprintf(path, sizeof path, "%s/weft-fuzz-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    const int file = mkstemp(path);
    require(file >= 0 && close(file) == 0);
    atexit(at_exit);
    return 0;
}

/* A name up to a zero byte, in memory of the caller's. */
enum { LONGEST = 80 };
static const char *next_name(bytes *in, char name[LONGEST]) {
    size_t length = 0;
    for (uint8_t byte = 1; byte && length + 1 < LONGEST; length += byte != 0) {
        byte = next_byte(in);
        name[length] = (char)byte;
    }
    name[length] = '\0';
    return name;
}

static const char *written(void) {
    FILE *file = fopen(path, "rb");
    const size_t size = file ? fread(text, 1, sizeof text - 1, file) : 0;
    require(file && fclose(file) == 0 && size > 0 && memchr(text, '\0', size) == NULL);
    text[size] = '\0';
    return text;
}

static void draw_plot(bytes *in) {
    char names[4][LONGEST];
    const double x[] = {1, 2, 4}, y[] = {3, 1, 2};
    weft_plot plot = WEFT_PLOT_INIT;
    weft_message message = {""};
    plot.title = next_name(in, names[0]);
    plot.x_name = plot.y_name = next_name(in, names[1]);
    const weft_plot_tick tick = {2, next_name(in, names[2])};
    const weft_plot_line line = {next_name(in, names[3]), x, y, 3};
    plot.ticks = &tick;
    plot.lines = &line;
    plot.tick_count = plot.line_count = 1;
    require(weft_plot_write(&plot, path, &message) == WEFT_OK && markup_is_right(written()));
}

/* A source of few jobs of few steps. */
static int next_job(void *user, int64_t worker, int64_t domain, weft_job *job) {
    int64_t *taken = user;
    (void)worker;
    (void)domain;
    job->tile = job->number = *taken;
    job->steps = 2;
    return (*taken)++ < 4;
}

static void next_step(void *user, int64_t worker, const weft_job *job, int64_t step, weft_step *out) {
    static weft_access access;
    (void)user;
    (void)worker;
    access.block = (job->number + (step > 0)) % 4;
    access.bytes = 128;
    out->accesses = &access;
    out->count = 1;
    out->seconds = 1e-6;
}

static int begin(void *user, const weft_machine *machine, int64_t workers) {
    (void)machine;
    (void)workers;
    *(int64_t *)user = 0;
    return 1;
}

static void draw_view(bytes *in, weft_view_format format) {
    char names[3][LONGEST], command[LONGEST];
    int64_t taken = 0;
    const weft_source_tensor tensor = {next_name(in, names[0]), 4, 128, 0};
    weft_source source = WEFT_SOURCE_INIT;
    weft_machine machine = WEFT_MACHINE_INIT;
    weft_message message = {""};
    weft_view *view = NULL;
    source.name = next_name(in, names[1]);
    source.tensors = &tensor;
    source.tensor_count = 1;
    source.workers = 2;
    source.jobs = 4;
    source.user = &taken;
    source.begin = begin;
    source.next = next_job;
    source.step = next_step;
    const weft_source *const sources[] = {&source};
    const char *const schedules[] = {next_name(in, names[2])};
    next_name(in, command);
    require(weft_machine_load(&machine, "gb10", NULL) == WEFT_OK);
    int is_right = format == WEFT_VIEW_SVG || format == WEFT_VIEW_TEXT || weft_is_text(command);
    for (int i = 0; i < 3; i++) { /* nothing that moves a terminal's cursor */
        is_right &= weft_is_line(names[i]);
    }
    weft_status status = weft_view_create_sources(&view, sources, &machine, schedules, 1, NULL, 0, &message);
    status = status ? status : weft_view_write(view, format, path, command, &message);
    require(status == (is_right ? WEFT_OK : WEFT_INVALID) && (is_right || message.text[0]));
    if (is_right) {
        const char *page = written();
        if (format == WEFT_VIEW_JSON) {
            json_t *value = json_loads(page, 0, NULL);
            require(value != NULL);
            json_decref(value);
        } else if (format == WEFT_VIEW_SVG) {
            require(markup_is_right(page));
        } else if (format == WEFT_VIEW_PAGE) {
            const char *data = strstr(page, "type=\"application/json\"");
            const char *end = data ? strstr(data, "</script") : NULL;
            data = data ? strchr(data, '>') : NULL;
            json_t *value = data && end ? json_loadb(data + 1, (size_t)(end - data - 1), 0, NULL) : NULL;
            require(value != NULL);
            json_decref(value);
        }
    }
    weft_view_destroy(view);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    bytes in = {data, size};
    const uint8_t kind = next_byte(&in);
    if (kind % 8 < 4) {
        draw_plot(&in);
    } else {
        draw_view(&in, (weft_view_format)(kind % 4));
    }
    return 0;
}
