/* weft reproduce: the published studies, row by row. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "study.h"

static const struct {
    const char *name, *title;
    void (*run)(study *s);
} studies[] = {{"sawtooth", "Sawtooth wavefront reordering on GB10", study_sawtooth},
               {"cutile", "FlashAttention in CUDA Tile on B200", study_cutile},
               {"tile-scheduling", "Tile scheduling: GEMM on H100", study_tile_scheduling},
               {"numa", "NUMA-aware attention on MI300X", study_numa},
               {"h200", "The two sides of an H200's L2", study_h200}};
enum { STUDIES = sizeof studies / sizeof *studies };

/* ---- building the rows ---- */

static void add_row(study *s, study_row row, const char *format, va_list arguments) {
    if (s->count == s->room) {
        const size_t room = s->room ? 2 * s->room : 64;
        study_row *rows = realloc(s->rows, room * sizeof *rows);
        if (!rows) {
            s->failed = 1;
            return;
        }
        s->rows = rows;
        s->room = room;
    }
    vsnprintf(row.label, sizeof row.label, format, arguments);
    s->rows[s->count++] = row;
    if (!s->quiet) {
        fprintf(stderr, "\r\033[K%zu rows: %.60s", s->count, row.label);
    }
}

void study_within(study *s, const char *section, double published, double simulated, double share, const char *label, ...) {
    va_list arguments;
    va_start(arguments, label);
    add_row(s, (study_row){section, "", published, simulated, published * (1 - share), published * (1 + share), 1}, label,
            arguments);
    va_end(arguments);
}

void study_between(study *s, const char *section, double published, double simulated, double low, double high,
                   const char *label, ...) {
    va_list arguments;
    va_start(arguments, label);
    add_row(s, (study_row){section, "", published, simulated, low, high, 1}, label, arguments);
    va_end(arguments);
}

void study_show(study *s, const char *section, double published, double simulated, const char *label, ...) {
    va_list arguments;
    va_start(arguments, label);
    add_row(s, (study_row){section, "", published, simulated, 0, 0, 0}, label, arguments);
    va_end(arguments);
}

/* ---- running the simulations ---- */

weft_machine study_machine(study *s, const char *name) {
    weft_machine machine;
    weft_message message = {""};
    if (weft_machine_load(&machine, name, &message) != WEFT_OK) {
        s->failed = complain(1, "%s", message.text);
    }
    return machine;
}

static weft_simulation finish(study *s, weft_status status, weft_plan *plan, const weft_simulate_options *options,
                              weft_message *message) {
    weft_simulation sim;
    memset(&sim, 0, sizeof sim);
    if (status == WEFT_OK) {
        status = weft_simulate(plan, options, &sim, NULL, message);
    }
    if (status != WEFT_OK) {
        s->failed = complain(1, "%s", message->text);
    }
    weft_plan_destroy(plan);
    return sim;
}

weft_simulation study_attention(study *s, const char *machine, const weft_attention *problem, const weft_schedule *schedule,
                                const weft_simulate_options *options) {
    const weft_machine m = study_machine(s, machine);
    weft_plan *plan = NULL;
    weft_message message = {""};
    const weft_status status = weft_plan_attention(&plan, problem, schedule, &m, &message);
    return finish(s, status, plan, options, &message);
}

weft_simulation study_gemm(study *s, const char *machine, const weft_gemm *problem, const weft_schedule *schedule,
                           const weft_simulate_options *options) {
    const weft_machine m = study_machine(s, machine);
    weft_plan *plan = NULL;
    weft_message message = {""};
    const weft_status status = weft_plan_gemm(&plan, problem, schedule, &m, &message);
    return finish(s, status, plan, options, &message);
}

/* ---- showing the rows ---- */

static int row_passes(const study_row *row) {
    return !row->judged || (row->simulated >= row->low && row->simulated <= row->high);
}

static double row_error(const study_row *row) {
    return row->published != 0 ? row->simulated / row->published - 1 : 0;
}

static json_t *row_json(const study_row *row) {
    json_t *object =
        json_pack("{s:s, s:s, s:f}", "section", row->section, "label", row->label, "simulated", row->simulated);
    if (!isnan(row->published)) {
        json_object_set_new(object, "published", json_real(row->published));
        json_object_set_new(object, "error", json_real(row_error(row)));
    }
    if (row->judged) {
        json_object_set_new(object, "low", json_real(row->low));
        json_object_set_new(object, "high", json_real(row->high));
        json_object_set_new(object, "passed", json_boolean(row_passes(row)));
    }
    return object;
}

/* Large counts as integers, small numbers with their digits. */
static const char *number_text(double value, char *text, size_t size) {
    if (isnan(value)) {
        return "-";
    }
    snprintf(text, size, fabs(value) >= 1e5 ? "%.0f" : fabs(value) >= 100 ? "%.1f" : "%.4g", value);
    return text;
}

static void print_rows(const study *s, size_t first) {
    const char *section = "";
    for (size_t i = first; i < s->count; i++) {
        const study_row *row = &s->rows[i];
        char published[32], simulated[32];
        if (strcmp(section, row->section) != 0) {
            section = row->section;
            printf("%s\n", section);
        }
        char error[16] = "";
        if (!isnan(row->published)) {
            snprintf(error, sizeof error, "%+.2f %%", 100 * row_error(row));
        }
        printf("  %-58s%16s%16s%11s  %s\n", row->label, number_text(row->published, published, sizeof published),
               number_text(row->simulated, simulated, sizeof simulated), error,
               !row->judged      ? "shown"
               : row_passes(row) ? "ok"
                                 : "OUTSIDE");
    }
}

static size_t count_outside(const study *s) {
    size_t outside = 0;
    for (size_t i = 0; i < s->count; i++) {
        outside += !row_passes(&s->rows[i]);
    }
    return outside;
}

int cmd_reproduce(const settings *s, const char *const *words, size_t count) {
    const char *which = count ? words[0] : "all";
    study all = {NULL, 0, 0, 0, !isatty(STDERR_FILENO)};
    json_t *object = json_object();
    int known = 0;
    for (size_t i = 0; i < STUDIES && !all.failed; i++) {
        if (strcmp(which, "all") != 0 && strcmp(which, studies[i].name) != 0) {
            continue;
        }
        known = 1;
        const size_t first = all.count;
        studies[i].run(&all);
        if (!all.quiet) {
            fputs("\r\033[K", stderr);
        }
        json_t *rows = json_array();
        for (size_t r = first; r < all.count; r++) {
            json_array_append_new(rows, row_json(&all.rows[r]));
        }
        json_object_set_new(object, studies[i].name, rows);
        if (!s->json) {
            printf("%s%s\n  %-58s%16s%16s%11s\n", first ? "\n" : "", studies[i].title, "", "published", "simulated",
                   "error");
            print_rows(&all, first);
        }
    }
    int code = EXIT_OK;
    const size_t outside = count_outside(&all);
    if (!known) {
        code =
            complain(EXIT_USAGE, "study %s is not known: sawtooth, cutile, tile-scheduling, numa, h200 and all are", which);
    } else if (all.failed) {
        code = EXIT_FAILED;
    } else if (s->json) {
        json_object_set_new(object, "outside", json_integer((json_int_t)outside));
        code = print_json(object);
        object = NULL;
    } else {
        printf("\n%zu rows, %zu outside their tolerance\n", all.count, outside);
    }
    json_decref(object);
    free(all.rows);
    return code ? code : outside ? EXIT_FAILED : EXIT_OK;
}
