/* SPDX-License-Identifier: Apache-2.0 */
#include "studies/judge.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"

static const study_tolerance_info tolerances[] = {
#define WEFT_TOLERANCE(ID, name, what, allowed, why) {name, what, allowed, why},
#include "studies/tolerances.def"
};

#ifndef WEFT_KNOWN_FAILURES /* a test has a list of its own */
#define WEFT_KNOWN_FAILURES "studies/known_failures.def"
#endif

static const struct {
    const char *study, *section, *label, *because;
} known_failures[] = {
#define WEFT_KNOWN_FAILURE(study, section, label, because) {study, section, label, because},
#include WEFT_KNOWN_FAILURES
    {0, 0, 0, 0}};

static const double count_share = 0.1, scaling_share = 0.2, speed_points = 0.05;

const study_tolerance_info *study_tolerance_describe(study_tolerance tolerance) {
    return tolerance > STUDY_UNJUDGED && tolerance < STUDY_TOLERANCES ? &tolerances[tolerance - 1] : NULL;
}

void study_bounds(study_tolerance tolerance, double published, double *low, double *high) {
    *low = *high = published;
    if (tolerance == STUDY_COUNT || tolerance == STUDY_SCALING) {
        const double share = tolerance == STUDY_COUNT ? count_share : scaling_share;
        *low = published * (1 - share);
        *high = published * (1 + share);
    } else if (tolerance == STUDY_SPEED) {
        const double size = fabs(published - 1);
        const double least = size > speed_points ? fmin(size / 2, size - speed_points) : size / 2;
        const double most = fmax(2 * size, size + speed_points);
        *low = published > 1 ? 1 + least : 1 - most;
        *high = published > 1 ? 1 + most : 1 - least;
        if (size == 0) {
            *high = 1 + speed_points;
        }
    }
}

void study_row_add(study_row *row, double simulated) {
    row->seeds++;
    row->simulated += (simulated - row->simulated) / (double)row->seeds;
    row->least = fmin(row->least, simulated);
    row->largest = fmax(row->largest, simulated);
}

static double judged_value(const study_row *row) {
    return isnan(row->measured) ? row->simulated : row->measured;
}

const char *study_known_failure(const study_row *row) {
    for (size_t i = 0; known_failures[i].study; i++) {
        if (strcmp(known_failures[i].study, row->study) == 0 && strcmp(known_failures[i].section, row->section) == 0 &&
            strcmp(known_failures[i].label, row->label) == 0) {
            return known_failures[i].because;
        }
    }
    return NULL;
}

study_verdict study_judge(const study_row *row) {
    const double value = judged_value(row);
    if (row->tolerance == STUDY_UNJUDGED) {
        return STUDY_SHOWN;
    }
    if (value >= row->low && value <= row->high) {
        return STUDY_OK;
    }
    return study_known_failure(row) ? STUDY_KNOWN : STUDY_OUTSIDE;
}

void study_verdict_text(const study_row *row, char *text, size_t size) {
    const char *known = study_known_failure(row);
    switch (study_judge(row)) {
    case STUDY_SHOWN:
        snprintf(text, size, row->why ? "not judged: %s" : "shown", row->why);
        break;
    case STUDY_OK:
        snprintf(text, size, "ok%s%s%s", row->fitted ? ", fitted: " : "", row->fitted ? row->fitted : "",
                 known ? ", though on the list of known failures" : "");
        break;
    case STUDY_KNOWN:
        snprintf(text, size, "fails, because %s", known);
        break;
    case STUDY_OUTSIDE:
        snprintf(text, size, "FAILS, because it is not between %.4g and %.4g", row->low, row->high);
        break;
    }
}

double study_error(const study_row *row) {
    const double truth = isnan(row->measured) ? row->published : row->measured;
    return truth != 0 ? row->simulated / truth - 1 : 0;
}

static void set_number(json_t **object, const char *key, double value) {
    if (isfinite(value)) {
        weft_json_set(object, key, json_real(value));
    }
}

static void set_text(json_t **object, const char *key, const char *text) {
    if (text) {
        weft_json_set(object, key, json_string(text));
    }
}

json_t *study_row_json(const study_row *row) {
    json_t *object = json_pack("{s:s, s:s}", "section", row->section, "label", row->label);
    const study_verdict verdict = study_judge(row);
    set_number(&object, "simulated", row->simulated);
    set_number(&object, "least", row->least);
    set_number(&object, "largest", row->largest);
    weft_json_set(&object, "seeds", json_integer((json_int_t)row->seeds));
    set_number(&object, "published", row->published);
    set_number(&object, "measured", row->measured);
    set_number(&object, "error", study_error(row));
    set_text(&object, "fitted", row->fitted);
    set_text(&object, "why", row->why);
    if (verdict != STUDY_SHOWN) {
        set_text(&object, "tolerance", study_tolerance_describe(row->tolerance)->name);
        weft_json_set(&object, "low", json_real(row->low));
        weft_json_set(&object, "high", json_real(row->high));
        weft_json_set(&object, "passed", json_boolean(verdict == STUDY_OK));
        set_text(&object, "known_failure", verdict == STUDY_KNOWN ? study_known_failure(row) : NULL);
    }
    return object;
}
