/* weft reproduce: the published studies, row by row. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "study.h"

static const struct {
    const char *name, *title;
    void (*run)(study *s);
    const char *device_title; /* of the same on a live GPU, or null */
    void (*run_on_device)(study *s);
} studies[] = {
    {"sawtooth", "Sawtooth wavefront reordering on GB10", study_sawtooth, "Sawtooth wavefront reordering on this GPU",
     device_sawtooth},
    {"cutile", "FlashAttention in CUDA Tile on B200", study_cutile,
     "The ladder of FlashAttention in CUDA Tile on this GPU (published: B200)", device_cutile},
    {"tile-scheduling", "Tile scheduling: GEMM on H100", study_tile_scheduling, NULL, NULL},
    {"numa", "NUMA-aware attention on MI300X", study_numa, "Attention by the sides of this GPU's L2", device_numa},
    {"h200", "The two sides of an H200's L2", study_h200, "The simulator against this GPU", device_h200}};
enum { STUDIES = sizeof studies / sizeof *studies };

static int row_passes(const study_row *row) {
    const double value = isnan(row->measured) ? row->simulated : row->measured;
    return !row->judged || (value >= row->low && value <= row->high);
}

/* How far the simulator is from what was measured here, or else from what was published; NaN where there is nothing. */
static double row_error(const study_row *row) {
    const double truth = isnan(row->measured) ? row->published : row->measured;
    return truth != 0 ? row->simulated / truth - 1 : 0;
}

static void set_number(json_t *object, const char *key, double value) {
    if (!isnan(value)) {
        json_object_set_new(object, key, json_real(value));
    }
}

static json_t *row_json(const study_row *row) {
    json_t *object = json_pack("{s:s, s:s}", "section", row->section, "label", row->label);
    set_number(object, "simulated", row->simulated);
    set_number(object, "published", row->published);
    set_number(object, "measured", row->measured);
    set_number(object, "error", row_error(row));
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

/* `seconds` is how long the study took on a GPU. */
static void print_heading(const char *title, int measured, double seconds) {
    if (measured) {
        printf("%s: %.0f s\n  %-58s%16s%16s%16s%11s\n", title, seconds, "", "published", "simulated", "measured", "error");
    } else {
        printf("%s\n  %-58s%16s%16s%11s\n", title, "", "published", "simulated", "error");
    }
}

static void print_rows(const study *s, size_t first, int with_measured) {
    const char *section = "";
    for (size_t i = first; i < s->count; i++) {
        const study_row *row = &s->rows[i];
        char published[32], simulated[32], measured[32];
        if (strcmp(section, row->section) != 0) {
            section = row->section;
            printf("%s\n", section);
        }
        char error[16] = "";
        if (!isnan(row_error(row))) {
            snprintf(error, sizeof error, "%+.2f %%", 100 * row_error(row));
        }
        printf("  %-58s%16s%16s", row->label, number_text(row->published, published, sizeof published),
               number_text(row->simulated, simulated, sizeof simulated));
        if (with_measured) {
            printf("%16s", number_text(row->measured, measured, sizeof measured));
        }
        printf("%11s  %s\n", error, !row->judged ? "shown" : row_passes(row) ? "ok" : "OUTSIDE");
    }
}

static size_t count_outside(const study *s) {
    size_t outside = 0;
    for (size_t i = 0; i < s->count; i++) {
        outside += !row_passes(&s->rows[i]);
    }
    return outside;
}

/* Opens the GPU and the file of raw numbers, as the options ask. */
static int open_device(study *all, const settings *s) {
    if (s->device != WEFT_DEVICE_CUDA) {
        return s->output ? complain(EXIT_USAGE, "--output is for studies on a GPU: --device cuda") : EXIT_OK;
    }
    const int code = device_bench_open(&all->bench, (int32_t)s->gpu);
    if (code || !s->output) {
        return code;
    }
    all->csv = fopen(s->output, "w");
    if (!all->csv) {
        return complain(EXIT_FAILED, "%s cannot be written", s->output);
    }
    device_case_csv_header(all->csv);
    return EXIT_OK;
}

static int close_device(study *all, const settings *s) {
    device_bench_close(all->bench);
    return all->csv && fclose(all->csv) ? complain(EXIT_FAILED, "%s cannot be written", s->output) : EXIT_OK;
}

/* Runs study number i and shows its rows, or adds them to the object. */
static void run_study(study *all, size_t i, const settings *s, json_t *object) {
    const int on_device = all->bench != NULL;
    const size_t first = all->count;
    all->name = studies[i].name;
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    (on_device ? studies[i].run_on_device : studies[i].run)(all);
    clock_gettime(CLOCK_MONOTONIC, &end);
    if (!all->quiet) {
        fputs("\r\033[K", stderr);
    }
    if (s->json) {
        json_t *rows = json_array();
        for (size_t r = first; r < all->count; r++) {
            json_array_append_new(rows, row_json(&all->rows[r]));
        }
        json_object_set_new(object, studies[i].name, rows);
    } else {
        fputs(first ? "\n" : "", stdout);
        print_heading(on_device ? studies[i].device_title : studies[i].title, on_device,
                      (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec));
        print_rows(all, first, on_device);
    }
}

int cmd_reproduce(const settings *s, const char *const *words, size_t count) {
    const char *which = count ? words[0] : "all";
    study all = {.quiet = !isatty(STDERR_FILENO)};
    json_t *object = json_object();
    int known = 0, code = open_device(&all, s);
    for (size_t i = 0; i < STUDIES && !all.failed && code == EXIT_OK; i++) {
        const int asked = strcmp(which, studies[i].name) == 0;
        if (asked || (strcmp(which, "all") == 0 && (!all.bench || studies[i].run_on_device))) {
            known = 1;
            if (all.bench && !studies[i].run_on_device) {
                code = complain(EXIT_USAGE, "study %s has nothing to run on a GPU yet", which);
            } else {
                run_study(&all, i, s, object);
            }
        }
    }
    const size_t outside = count_outside(&all);
    if (code == EXIT_OK && !known) {
        code =
            complain(EXIT_USAGE, "study %s is not known: sawtooth, cutile, tile-scheduling, numa, h200 and all are", which);
    } else if (code == EXIT_OK && all.failed) {
        code = EXIT_FAILED;
    } else if (code == EXIT_OK && s->json) {
        json_object_set_new(object, "outside", json_integer((json_int_t)outside));
        code = print_json(object);
        object = NULL;
    } else if (code == EXIT_OK) {
        printf("\n%zu rows, %zu outside their tolerance\n", all.count, outside);
    }
    const int closed = close_device(&all, s);
    json_decref(object);
    free(all.rows);
    return code ? code : closed ? closed : outside ? EXIT_FAILED : EXIT_OK;
}
