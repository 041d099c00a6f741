/* Studies: published numbers beside simulated ones, and beside those of a live GPU. */
#ifndef WEFT_CLI_STUDY_H
#define WEFT_CLI_STUDY_H

#include <jansson.h>

#include "progress.h"
#include "studies/device_bench.h"

/* One number. */
typedef struct study_row {
    const char *section; /* where it was published */
    char label[96];
    double published, simulated, measured; /* NaN where there is none */
    double low, high;                      /* what the simulated value may be, or the measured one where there is one */
    int judged;                            /* 0: shown, not judged */
} study_row;

/* The sum of |simulated / measured - 1|, and over how many. */
typedef struct study_deviation {
    double sum;
    int count;
} study_deviation;

typedef struct study {
    study_row *rows;
    size_t count, room;
    int failed; /* a simulation could not be run; the message was printed */
    int brief;  /* leave out rows, costly ones, that nothing published stands beside */

    /* While counting nothing is run and no row is made: only the units of work, as progress shows them, add up. */
    int counting;
    double units;

    /* On a GPU: what runs there, where raw numbers go (or nulls), under which name, and how far the simulator is off. */
    device_bench *bench;
    const char *csv_path; /* of the file that is made with the first row */
    FILE *csv;
    const char *name;
    int32_t headed; /* the operation of the columns that the file has; 0: none yet */
    study_deviation misses, dram;
} study;

/* A row of the table of studies, ended by a null name. */
typedef struct study_info {
    const char *name, *title;
    const char *beside, *source; /* what the simulated numbers stand beside, "published" or "measured", and by whom */
    void (*run)(study *s);
    const char *device_title; /* of the same on a live GPU, or null */
    void (*run_on_device)(study *s);
} study_info;

extern const study_info study_table[];

/* Adds a row that must lie within a share of the published value, within an interval, or that is only shown. */
void study_within(study *s, const char *section, double published, double simulated, double share, const char *label, ...)
    __attribute__((format(printf, 6, 7)));
void study_between(study *s, const char *section, double published, double simulated, double low, double high,
                   const char *label, ...) __attribute__((format(printf, 7, 8)));
void study_show(study *s, const char *section, double published, double simulated, const char *label, ...)
    __attribute__((format(printf, 5, 6)));

/* The same with a measured number. Only what lies between two bounds is judged. */
void study_measured(study *s, const char *section, double published, double simulated, double measured, const char *label,
                    ...) __attribute__((format(printf, 6, 7)));
void study_measured_between(study *s, const char *section, double published, double simulated, double measured, double low,
                            double high, const char *label, ...) __attribute__((format(printf, 8, 9)));

/* A part of the study, of so many steps of the simulator. Returns 0 while they are only counted. */
int study_part(study *s, progress_part *part, uint64_t steps);

/* Runs cases on the GPU, all of them timed, counted and simulated, and writes their raw numbers. Returns 0 when the study
 * has failed. `skip` as in device_bench_run(). */
int study_run_cases(study *s, device_case *cases, size_t count, int skip);

/* Adds how far the simulator was off, in the mean, over everything that ran on the GPU so far. */
void study_show_errors(study *s);

/* Runs one simulation; an all-zero result when the study has failed. */
weft_simulation study_simulate(study *s, const char *machine, const void *problem, const weft_schedule *schedule,
                               const weft_simulate_options *options);
weft_machine study_machine(study *s, const char *name);

/* A row that is only shown always passes. Where there is a measured number, that is judged. */
int study_passes(const study_row *row);

/* How far the simulator is from what was measured here, or else from what was published: 0 where that is 0, NaN where there
 * is nothing. */
double study_error(const study_row *row);
json_t *study_row_json(const study_row *row);

void study_sawtooth(study *s);
void study_cutile(study *s);
void study_tile_scheduling(study *s);
void study_numa(study *s);
void study_h200(study *s);

/* The same studies on a live GPU. */
void device_sawtooth(study *s);
void device_cutile(study *s);
void device_numa(study *s);
void device_tile_scheduling(study *s);
void device_h200(study *s);

#endif
