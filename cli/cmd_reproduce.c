/* weft reproduce: the published studies, row by row. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "study.h"

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
            snprintf(error, sizeof error, "%+.2f %%", 100 * study_error(row));
        }
        printf("  %-58s%16s%16s%11s  %s\n", row->label, number_text(row->published, published, sizeof published),
               number_text(row->simulated, simulated, sizeof simulated), error,
               !row->judged        ? "shown"
               : study_passes(row) ? "ok"
                                   : "OUTSIDE");
    }
}

static size_t count_outside(const study *s) {
    size_t outside = 0;
    for (size_t i = 0; i < s->count; i++) {
        outside += !study_passes(&s->rows[i]);
    }
    return outside;
}

int cmd_reproduce(const settings *s, const char *const *words, size_t count) {
    const char *which = count ? words[0] : "all";
    study all = {NULL, 0, 0, 0, !isatty(STDERR_FILENO), 0};
    json_t *object = json_object();
    int known = 0;
    for (const study_info *info = study_table; info->name && !all.failed; info++) {
        if (strcmp(which, "all") != 0 && strcmp(which, info->name) != 0) {
            continue;
        }
        known = 1;
        const size_t first = all.count;
        info->run(&all);
        if (!all.quiet) {
            fputs("\r\033[K", stderr);
        }
        json_t *rows = json_array();
        for (size_t r = first; r < all.count; r++) {
            json_array_append_new(rows, study_row_json(&all.rows[r]));
        }
        json_object_set_new(object, info->name, rows);
        if (!s->json) {
            printf("%s%s\n  %-58s%16s%16s%11s\n", first ? "\n" : "", info->title, "", "published", "simulated", "error");
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
