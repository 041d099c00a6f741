/* weft reproduce: the published studies, row by row. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "cli.h"
#include "progress.h"
#include "studies/study.h"

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
        if (!isnan(study_error(row))) {
            snprintf(error, sizeof error, "%+.2f %%", 100 * study_error(row));
        }
        printf("  %-58s%16s%16s", row->label, number_text(row->published, published, sizeof published),
               number_text(row->simulated, simulated, sizeof simulated));
        if (with_measured) {
            printf("%16s", number_text(row->measured, measured, sizeof measured));
        }
        printf("%11s  %s\n", error, !row->judged ? "shown" : study_passes(row) ? "ok" : "OUTSIDE");
    }
}

static size_t count_outside(const study *s) {
    size_t outside = 0;
    for (size_t i = 0; i < s->count; i++) {
        outside += !study_passes(&s->rows[i]);
    }
    return outside;
}

/* Opens the GPU, as the options ask. */
static int open_device(study *all, const settings *s) {
    if (s->device != WEFT_DEVICE_CUDA) {
        return s->output ? complain(EXIT_USAGE, "--output is for studies on a GPU: --device cuda") : EXIT_OK;
    }
    all->csv_path = s->output;
    return device_bench_open(&all->bench, (int32_t)s->gpu);
}

static int close_device(study *all, const settings *s) {
    device_bench_close(all->bench);
    return all->csv && fclose(all->csv) ? complain(EXIT_FAILED, "%s cannot be written", s->output) : EXIT_OK;
}

/* The word is a study's name, or stands for all that there are on this device. */
static int is_asked(const study *all, const study_info *info, const char *which) {
    return strcmp(which, info->name) == 0 || (strcmp(which, "all") == 0 && (!all->bench || info->run_on_device));
}

static void (*runner(const study *all, const study_info *info))(study *s) {
    return all->bench ? info->run_on_device : info->run;
}

/* Runs a study and shows its rows, or adds them to the object. */
static void run_study(study *all, const study_info *info, const settings *s, json_t **object) {
    const int on_device = all->bench != NULL;
    const size_t first = all->count;
    all->name = info->name;
    const double begin = weft_now();
    runner(all, info)(all);
    const double seconds = weft_now() - begin;
    progress_wipe();
    if (s->json) {
        json_t *rows = json_array();
        for (size_t r = first; r < all->count; r++) {
            weft_json_append(&rows, study_row_json(&all->rows[r]));
        }
        weft_json_set(object, info->name, rows);
    } else {
        fputs(first ? "\n" : "", stdout);
        print_heading(on_device ? info->device_title : info->title, on_device, seconds);
        print_rows(all, first, on_device);
    }
}

int cmd_reproduce(const settings *s, const char *const *words, size_t count) {
    const char *which = count ? words[0] : "all";
    study all = {.brief = 0}, counter = {.counting = 1};
    json_t *object = json_object();
    int known = 0, code = open_device(&all, s);
    for (const study_info *info = study_table; info->name && progress_seen() && code == EXIT_OK; info++) {
        if (is_asked(&all, info, which) && runner(&all, info)) {
            runner(&all, info)(&counter);
        }
    }
    progress_begin("reproducing", counter.units);
    for (const study_info *info = study_table; info->name && !all.failed && code == EXIT_OK; info++) {
        if (is_asked(&all, info, which)) {
            known = 1;
            if (all.bench && !info->run_on_device) {
                code = complain(EXIT_USAGE, "study %s has nothing to run on a GPU yet", which);
            } else {
                run_study(&all, info, s, &object);
            }
        }
    }
    progress_end();
    const size_t outside = count_outside(&all);
    if (code == EXIT_OK && !known) {
        code =
            complain(EXIT_USAGE, "study %s is not known: sawtooth, cutile, tile-scheduling, numa, h200 and all are", which);
    } else if (code == EXIT_OK && all.failed) {
        code = EXIT_FAILED;
    } else if (code == EXIT_OK && s->json) {
        weft_json_set(&object, "outside", json_integer((json_int_t)outside));
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
