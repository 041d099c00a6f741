/* SPDX-License-Identifier: Apache-2.0 */
#include "studies/print.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "table.h"

/* Large counts as integers, small numbers with their digits. */
static const char *number_text(double value, char *text, size_t size) {
    if (isnan(value)) {
        return "-";
    }
    snprintf(text, size, fabs(value) >= 1e5 ? "%.0f" : fabs(value) >= 100 ? "%.1f" : "%.4g", value);
    return text;
}

/* The least and the largest of several seeds; empty when they do not differ. */
static const char *spread_text(const study_row *row, char *text, size_t size) {
    char least[32], largest[32];
    text[0] = '\0';
    if (row->least < row->largest) {
        snprintf(text, size, "%s .. %s", number_text(row->least, least, sizeof least),
                 number_text(row->largest, largest, sizeof largest));
    }
    return text;
}

static void add_row(table *t, const study_row *row, int with_measured) {
    char published[32], simulated[32], other[80], verdict[256];
    table_add(t, "  %s", row->label);
    table_add(t, "%s", number_text(row->published, published, sizeof published));
    table_add(t, "%s", number_text(row->simulated, simulated, sizeof simulated));
    table_add(t, "%s",
              with_measured ? number_text(row->measured, other, sizeof other) : spread_text(row, other, sizeof other));
    isnan(study_error(row)) ? table_add(t, "%s", "") : table_add(t, "%+.2f %%", 100 * study_error(row));
    study_verdict_text(row, verdict, sizeof verdict);
    table_add(t, "%s", verdict);
}

int study_print(const char *title, const study_row *rows, size_t count, int measured, double seconds) {
    const table_column columns[] = {{"", 0, 1},          {"published", 0, 0},
                                    {"simulated", 0, 0}, {measured ? "measured" : "of seeds", 2, 0},
                                    {"error", 0, 0},     {"", 0, TABLE_SPILLS}};
    const char *section = "";
    table t;
    if (measured) {
        print_wrapped("%s: %.0f s\n", title, seconds);
    } else {
        print_wrapped("%s\n", title);
    }
    table_begin(&t, columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(section, rows[i].section) != 0) {
            section = rows[i].section;
            table_heading(&t, section);
        }
        add_row(&t, &rows[i], measured);
    }
    return table_end(&t);
}

size_t study_count(const study_row *rows, size_t count, study_verdict verdict) {
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        found += study_judge(&rows[i]) == verdict;
    }
    return found;
}

void study_print_tolerances(void) {
    puts("How far the mean over seeds may be from what was published:");
    for (study_tolerance i = STUDY_UNJUDGED + 1; i < STUDY_TOLERANCES; i++) {
        const study_tolerance_info *info = study_tolerance_describe(i);
        print_wrapped("  %-8s%s: %s\n          because %s\n", info->name, info->what, info->allowed, info->why);
    }
}
