/* SPDX-License-Identifier: Apache-2.0 */
/* Judging: what a study's number may be, and what is said of it. */
#ifndef WEFT_CLI_JUDGE_H
#define WEFT_CLI_JUDGE_H

#include <jansson.h>

/* How a row is judged: a row of tolerances.def, or not at all. */
typedef enum study_tolerance {
    STUDY_UNJUDGED,
#define WEFT_TOLERANCE(ID, name, what, allowed, why) STUDY_##ID,
#include "studies/tolerances.def"
    STUDY_TOLERANCES
} study_tolerance;

typedef struct study_tolerance_info {
    const char *name, *what, *allowed, *why;
} study_tolerance_info;

/* Of a tolerance that judges. */
const study_tolerance_info *study_tolerance_describe(study_tolerance tolerance);

/* One number. */
typedef struct study_row {
    const char *study;   /* its name */
    const char *section; /* where it was published */
    char label[96];
    double published, measured; /* NaN where there is none */

    /* What the simulator says: the mean over seeds, the least and the largest of them. NaN where nothing was simulated. */
    double simulated, least, largest;
    int64_t seeds;

    study_tolerance tolerance;
    double low, high;   /* what the simulated value may be, or the measured one where there is one */
    const char *fitted; /* what of a machine or a kernel profile was fitted to this number; null: nothing */
    const char *why;    /* why it cannot be judged; null: it is judged, or stands beside what was measured */
} study_row;

/* What is said of a row. */
typedef enum study_verdict {
    STUDY_SHOWN,
    STUDY_OK,
    STUDY_KNOWN, /* outside, and on the list of known failures */
    STUDY_OUTSIDE
} study_verdict;

/* What a tolerance other than STUDY_RANGE allows beside a published number. A speed is a ratio: 1 is no effect. */
void study_bounds(study_tolerance tolerance, double published, double *low, double *high);

/* Another seed's value of the same row. */
void study_row_add(study_row *row, double simulated);

/* The verdict on a row. Where there is a measured number, that is judged. */
study_verdict study_judge(const study_row *row);

/* Why a row is on the list of known failures; null: it is not. */
const char *study_known_failure(const study_row *row);

/* The verdict in words: "ok", "ok, fitted: ...", "fails, because ...", "not judged: ...". */
void study_verdict_text(const study_row *row, char *text, size_t size);

/* How far the simulator is from what was measured here, or else from what was published: 0 where that is 0, NaN where there
 * is nothing. */
double study_error(const study_row *row);

json_t *study_row_json(const study_row *row);

#endif
