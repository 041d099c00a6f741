/* SPDX-License-Identifier: Apache-2.0 */
#include "studies/study.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "progress.h"

const study_info study_table[] = {
    {"sawtooth", "Sawtooth wavefront reordering on GB10", "published", "Zhu, Pan, Ding", study_sawtooth,
     "Sawtooth wavefront reordering on this GPU", device_sawtooth, 0},
    {"cutile", "FlashAttention in CUDA Tile on B200", "published", "NVIDIA", study_cutile,
     "The ladder of FlashAttention in CUDA Tile on this GPU (published: B200)", device_cutile, 0},
    {"tile-scheduling", "Tile scheduling: GEMM on H100", "published", "Jonah", study_tile_scheduling,
     "Tile scheduling: GEMM on this GPU (published: H100)", device_tile_scheduling, 0},
    {"spark-gemm", "fp8 GEMM on GB10", "published", "vLLM, pull request 55180", study_spark_gemm, NULL, NULL, 0},
    {"numa", "NUMA-aware attention on MI300X", "published", "Choudhary et al.", study_numa,
     "Attention by the sides of this GPU's L2", device_numa, 1},
    {"h200", "The two sides of an H200's L2", "measured", "by us, with Nsight Compute", study_h200,
     "The simulator against this GPU", device_h200, 0},
    {"context-parallel", "Context parallelism on 8 to 64 GPUs", "published", "zhuzilin, MagiAttention",
     study_context_parallel, NULL, NULL, 0},
    {"energy", NULL, NULL, NULL, NULL, "Energy of products by their order on this GPU", device_energy, 0},
    {0, 0, 0, 0, 0, 0, 0, 0},
};

const char *study_names(int simulated) {
    static char text[256];
    size_t used = 0;
    for (const study_info *info = study_table; info->name; info++) {
        if (info->run || !simulated) {
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", used ? ", " : "", info->name);
        }
    }
    snprintf(text + used, sizeof text - used, " and all");
    return text;
}

/* ---- building the rows ---- */

/* The walk of the first seed makes the rows; those that follow come to the same rows again. */
static void add_row(study *s, study_row row, const char *format, va_list arguments) {
    if (s->counting || s->gathering || s->failed) {
        return;
    }
    if (s->seed_number > 0) {
        study_row_add(&s->rows[s->row++], row.simulated);
        return;
    }
    if (s->count == s->room) {
        const size_t room = s->room ? 2 * s->room : 64;
        study_row *rows = realloc(s->rows, room * sizeof *rows);
        if (!rows) {
            s->failed = complain(1, "out of memory");
            return;
        }
        s->rows = rows;
        s->room = room;
    }
    vsnprintf(row.label, sizeof row.label, format, arguments);
    row.study = s->info->name;
    row.least = row.largest = row.simulated;
    row.seeds = 1;
    s->rows[s->count++] = row;
}

void study_add(study *s, study_tolerance tolerance, const char *section, double published, double simulated,
               const char *label, ...) {
    study_row row = {
        .section = section, .published = published, .measured = NAN, .simulated = simulated, .tolerance = tolerance};
    va_list arguments;
    study_bounds(tolerance, published, &row.low, &row.high);
    va_start(arguments, label);
    add_row(s, row, label, arguments);
    va_end(arguments);
}

void study_between(study *s, const char *section, double published, double simulated, double low, double high,
                   const char *label, ...) {
    const study_row row = {.section = section,
                           .published = published,
                           .measured = NAN,
                           .simulated = simulated,
                           .tolerance = STUDY_RANGE,
                           .low = low,
                           .high = high};
    va_list arguments;
    va_start(arguments, label);
    add_row(s, row, label, arguments);
    va_end(arguments);
}

void study_unjudged(study *s, const char *why, const char *section, double published, double simulated, const char *label,
                    ...) {
    const study_row row = {.section = section, .published = published, .measured = NAN, .simulated = simulated, .why = why};
    va_list arguments;
    va_start(arguments, label);
    add_row(s, row, label, arguments);
    va_end(arguments);
}

void study_fitted(study *s, const char *what) {
    if (s->count > 0) {
        s->rows[(s->seed_number > 0 ? s->row : s->count) - 1].fitted = what;
    }
}

void study_measured(study *s, const char *section, double published, double simulated, double measured, const char *label,
                    ...) {
    const study_row row = {.section = section, .published = published, .measured = measured, .simulated = simulated};
    va_list arguments;
    va_start(arguments, label);
    add_row(s, row, label, arguments);
    va_end(arguments);
}

void study_measured_between(study *s, const char *section, double published, double simulated, double measured, double low,
                            double high, const char *label, ...) {
    const study_row row = {.section = section,
                           .published = published,
                           .measured = measured,
                           .simulated = simulated,
                           .tolerance = STUDY_RANGE,
                           .low = low,
                           .high = high};
    va_list arguments;
    va_start(arguments, label);
    add_row(s, row, label, arguments);
    va_end(arguments);
}

/* ---- the simulations ---- */

weft_machine study_machine(study *s, const char *name) {
    weft_machine machine = WEFT_MACHINE_INIT;
    weft_message message = {""};
    if (!s->failed && weft_machine_load(&machine, name, &message) != WEFT_OK) {
        s->failed = complain(EXIT_FAILED, "%s", message.text);
    }
    return machine;
}

/* The answer to the next request of a walk. */
static weft_simulation next_answer(study *s) {
    return *simulations_answer(&s->simulations, s->request++, s->seed_number);
}

weft_simulation study_simulate(study *s, const char *machine, const char *profile, const void *problem,
                               const weft_schedule *schedule, int in_part) {
    const weft_simulation none = WEFT_SIMULATION_INIT;
    weft_simulate_options options = WEFT_SIMULATE_INIT;
    weft_plan_options how = WEFT_PLAN_OPTIONS_INIT;
    weft_profile kernel = WEFT_PROFILE_INIT;
    weft_plan *plan = NULL;
    weft_message message = {""};
    if (!s->gathering) {
        return next_answer(s);
    }
    const weft_machine m = study_machine(s, machine);
    how.schedule = schedule;
    how.machine = &m;
    options.profile = &kernel;
    if (s->failed) {
        return none;
    }
    if (weft_profile_load(&kernel, profile, &message) != WEFT_OK ||
        weft_plan_create(&plan, problem, &how, &message) != WEFT_OK) {
        s->failed = complain(EXIT_FAILED, "%s", message.text);
    } else if (!simulations_ask(&s->simulations, plan, &m, NULL, &options, in_part)) {
        s->failed = complain(EXIT_FAILED, "%s", s->simulations.message.text);
    }
    return none;
}

weft_simulation study_stream(study *s, const weft_machine *machine, const weft_stream *stream, double drift) {
    const weft_simulation none = WEFT_SIMULATION_INIT;
    weft_simulate_options options = WEFT_SIMULATE_INIT;
    if (!s->gathering) {
        return next_answer(s);
    }
    options.drift = drift;
    if (!s->failed && !simulations_ask(&s->simulations, NULL, machine, stream, &options, 0)) {
        s->failed = complain(EXIT_FAILED, "%s", s->simulations.message.text);
    }
    return none;
}

weft_dist_simulation study_ranks(study *s, const char *machine, const char *profile, const void *problem,
                                 const weft_ranks *ranks, weft_dist_simulate_options options) {
    weft_dist_simulation sim = WEFT_DIST_SIMULATION_INIT;
    weft_simulate_options simulate = WEFT_SIMULATE_INIT;
    weft_dist_options how = WEFT_DIST_OPTIONS_INIT;
    weft_profile kernel = WEFT_PROFILE_INIT;
    weft_dist *dist = NULL;
    weft_message message = {""};
    if (s->gathering || s->failed) {
        return sim;
    }
    const weft_machine m = study_machine(s, machine);
    simulate.profile = &kernel;
    simulate.seed = s->simulations.seed + s->seed_number;
    options.machine = &m;
    options.simulate = &simulate;
    how.ranks = ranks;
    if (!s->failed && (weft_profile_load(&kernel, profile, &message) || weft_dist_create(&dist, problem, &how, &message) ||
                       weft_dist_simulate(dist, &options, &sim, &message))) {
        progress_wipe();
        s->failed = complain(EXIT_FAILED, "%s", message.text);
    }
    weft_dist_destroy(dist);
    return sim;
}

/* ---- walking a study ---- */

int study_gather(study *s, const study_info *info, uint64_t seed, size_t seeds) {
    s->info = info;
    s->simulations.seed = seed;
    s->simulations.seeds = seeds;
    s->gathering = 1;
    info->run(s);
    s->gathering = 0;
    return !s->failed;
}

int study_run(study *s) {
    if (!s->failed && !simulations_run(&s->simulations)) {
        progress_wipe();
        s->failed = complain(EXIT_FAILED, "%s", s->simulations.message.text);
    }
    for (s->seed_number = 0; !s->failed && s->seed_number < s->simulations.seeds; s->seed_number++) {
        s->request = s->row = 0;
        s->info->run(s);
    }
    return !s->failed;
}

void study_release(study *s) {
    simulations_release(&s->simulations);
    free(s->rows);
    s->rows = NULL;
    s->count = s->room = 0;
}
