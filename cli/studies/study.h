/* SPDX-License-Identifier: Apache-2.0 */
/* Studies: published numbers beside simulated ones, and beside those of a live GPU. */
#ifndef WEFT_CLI_STUDY_H
#define WEFT_CLI_STUDY_H

#include <weft/dist.h>

#include "studies/device_bench.h"
#include "studies/judge.h"
#include "studies/simulations.h"

/* The sum of |simulated / measured - 1|, and over how many. */
typedef struct study_deviation {
    double sum;
    int count;
} study_deviation;

typedef struct study {
    const struct study_info *info;
    study_row *rows;
    size_t count, room;
    int failed; /* a simulation could not be run; the message was printed */

    /* A simulated study is walked once to gather what it simulates, and then once for each seed to make its rows. */
    simulations simulations;
    int gathering;
    size_t seed_number, request, row; /* of the walk: its seed, and how many requests and rows it has come to */

    /* On a GPU: while counting nothing is run and no row is made, only the units of work add up. Then what runs there,
     * where raw numbers go (or nulls), and how far the simulator is off. */
    int counting;
    double units;
    device_bench *bench;
    const char *sizes;    /* of products; null: the study's */
    size_t repeat;        /* how often energy is measured; 0: the study says */
    const char *csv_path; /* of the file that is made with the first row */
    FILE *csv;
    int32_t headed; /* the operation of the columns that the file has; 0: none yet */
    study_deviation misses, dram;
} study;

/* A row of the table of studies, ended by a null name. */
typedef struct study_info {
    const char *name, *title;
    const char *beside, *source; /* what the simulated numbers stand beside, "published" or "measured", and by whom */
    void (*run)(study *s);       /* null: there is nothing to simulate without a GPU */
    const char *device_title;    /* of the same on a live GPU, or null */
    void (*run_on_device)(study *s);
    int is_long; /* takes minutes: only where it is named, or all are */
} study_info;

extern const study_info study_table[];

enum { STUDY_SEEDS = 5 }; /* where nobody says how many */

/* The names of all studies, or of those that need no GPU, for messages: "sawtooth, cutile, ... and all". */
const char *study_names(int simulated);

/* Gathers the simulations of a study; study_run() runs them for each seed and makes the rows. Both return 0 when the study
 * has failed. */
int study_gather(study *s, const study_info *info, uint64_t seed, size_t seeds);
int study_run(study *s);
void study_release(study *s);

/* Adds a row that is judged by a tolerance, that must lie between what the document gives, or that cannot be judged. */
void study_add(study *s, study_tolerance tolerance, const char *section, double published, double simulated,
               const char *label, ...) __attribute__((format(printf, 6, 7)));
void study_between(study *s, const char *section, double published, double simulated, double low, double high,
                   const char *label, ...) __attribute__((format(printf, 7, 8)));
void study_unjudged(study *s, const char *why, const char *section, double published, double simulated, const char *label,
                    ...) __attribute__((format(printf, 6, 7)));

/* Says of the last row what was fitted to it; null: nothing. */
void study_fitted(study *s, const char *what);

/* The same with a measured number. Only what lies between two bounds is judged. */
void study_measured(study *s, const char *section, double published, double simulated, double measured, const char *label,
                    ...) __attribute__((format(printf, 6, 7)));
void study_measured_between(study *s, const char *section, double published, double simulated, double measured, double low,
                            double high, const char *label, ...) __attribute__((format(printf, 8, 9)));

/* Writes down the raw numbers of a case. */
void study_write_case(study *s, const device_case *c);

/* Closes the file of raw numbers, if there is one, and puts it in its place. Returns an exit code, with the message
 * printed. */
int study_end_csv(study *s);

/* Runs cases on the GPU, all of them timed, counted and simulated, and writes their raw numbers. Returns 0 when the study
 * has failed. `skip` as in device_bench_run(). */
int study_run_cases(study *s, device_case *cases, size_t count, int skip);

/* Adds how far the simulator was off, in the mean, over everything that ran on the GPU so far. */
void study_show_errors(study *s);

/* One simulation, of a kernel by the name of its profile or of a stream (whose distinct sectors are its compulsory misses);
 * all zeros while gathering. A launch `in_part` is simulated until it has settled. */
weft_simulation study_simulate(study *s, const char *machine, const char *profile, const void *problem,
                               const weft_schedule *schedule, int in_part);
weft_simulation study_stream(study *s, const weft_machine *machine, const weft_stream *stream, double drift);
weft_machine study_machine(study *s, const char *name);

/* A problem over ranks; all zeros while gathering. The options' machine and profile are those of the names. */
weft_dist_simulation study_ranks(study *s, const char *machine, const char *profile, const void *problem,
                                 const weft_ranks *ranks, weft_dist_simulate_options options);

void study_sawtooth(study *s);
void study_cutile(study *s);
void study_tile_scheduling(study *s);
void study_spark_gemm(study *s);
void study_numa(study *s);
void study_h200(study *s);
void study_context_parallel(study *s);

/* The same studies on a live GPU. */
void device_sawtooth(study *s);
void device_cutile(study *s);
void device_numa(study *s);
void device_tile_scheduling(study *s);
void device_h200(study *s);
void device_energy(study *s);

#endif
