/* SPDX-License-Identifier: Apache-2.0 */
/* Problems on a live GPU, timed and counted: what `--counters` and the studies on a device share. */
#ifndef WEFT_CLI_DEVICE_BENCH_H
#define WEFT_CLI_DEVICE_BENCH_H

#include <stdio.h>

#include <jansson.h>

#include <weft/sim.h>
#include <weft/study.h>

#include "cli.h"

/* The GPU in use. */
typedef weft_study device_bench;

/* One schedule of one problem on the GPU, and what came out. */
typedef struct device_case {
    problem problem;
    weft_schedule schedule; /* in: choices may be open. out: every choice made */
    weft_device device;     /* its kind is set by device_bench_run() */
    kernel_options options; /* of a study's kernel */
    char specification[64]; /* what device.kernel of a study is */
    int by_side;            /* 1: even workers run on one side of the L2, odd ones on the other (static dispatch) */
    int no_simulation;      /* 1: what the simulator supposes is not so here */
    int may_be_unknown;     /* 1: alone, it is left without a simulation where the simulator has no such thing */

    char kernel[96];
    double seconds, tflops;       /* median of the runs */
    double values[WEFT_COUNTERS]; /* counters of one run that begins with an empty L2; NaN where there are none */
    weft_simulation sim;          /* of the same plan on the machine that the GPU is */
    weft_energy energy;           /* of the runs that device_bench_energy() measured; 0 J: none */
} device_case;

/* Opens GPU `index`. Returns an exit code; what is wrong has been printed. */
int device_bench_open(device_bench **bench, int32_t index);
void device_bench_close(device_bench *bench);

/* The GPU's name. */
const char *device_bench_name(const device_bench *bench);

/* What to do with each case. Counting the traffic alone, without rates, stalls and duration, takes fewer launches. */
enum device_task { DEVICE_TIME = 1, DEVICE_COUNT = 2, DEVICE_COUNT_TRAFFIC = 4, DEVICE_SIMULATE = 8 };

/* Runs cases of one study: first all of them timed in turns (1 2 3 1 2 3 ...), then each counted and simulated. Returns an
 * exit code; what is wrong has been printed, with the command that would read the counters where CUPTI cannot. A case whose
 * plan the GPU refuses is left with an empty kernel name when `skip` is set. */
int device_bench_run(device_bench *bench, device_case *cases, size_t count, int tasks, int skip);

/* Measures the energy of cases in turns, `rounds` times each: the median by joules stays, and the case's time becomes that
 * of its runs. Returns an exit code; what is wrong has been printed, before anything runs where the GPU tells no energy. */
int device_bench_energy(device_bench *bench, device_case *cases, size_t count, size_t rounds);

/* Whether the GPU tells its energy; else an exit code, with the reason printed. */
int device_bench_check_energy(device_bench *bench);

/* Energy as JSON and as a line of text; `flops` are of a run. */
json_t *device_energy_json(const weft_energy *energy, double flops);
void device_energy_print(const weft_energy *energy, double flops);

/* The columns of a case as CSV: the header, which differs by operation, and a line. */
void device_case_csv_header(FILE *file, int32_t operation);
void device_case_csv(FILE *file, const char *study, const char *gpu, const device_case *c);

/* Counters and, where it was simulated, what the simulator says of them, as text; the counters alone as JSON. */
void device_case_print(const device_case *c);
json_t *device_case_json(const device_case *c);

/* The command line of this process without --counters, as one would type it: what ncu is to run instead. */
void device_command(char *text, size_t size);

#endif
