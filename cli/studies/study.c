#include "studies/study.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "cli.h"

const study_info study_table[] = {
    {"sawtooth", "Sawtooth wavefront reordering on GB10", "published", "Zhu, Pan, Ding", study_sawtooth,
     "Sawtooth wavefront reordering on this GPU", device_sawtooth},
    {"cutile", "FlashAttention in CUDA Tile on B200", "published", "NVIDIA", study_cutile,
     "The ladder of FlashAttention in CUDA Tile on this GPU (published: B200)", device_cutile},
    {"tile-scheduling", "Tile scheduling: GEMM on H100", "published", "Jonah", study_tile_scheduling,
     "Tile scheduling: GEMM on this GPU (published: H100)", device_tile_scheduling},
    {"numa", "NUMA-aware attention on MI300X", "published", "Choudhary et al.", study_numa,
     "Attention by the sides of this GPU's L2", device_numa},
    {"h200", "The two sides of an H200's L2", "measured", "by us, with Nsight Compute", study_h200,
     "The simulator against this GPU", device_h200},
    {0, 0, 0, 0, 0, 0, 0},
};

/* ---- building the rows ---- */

static void add_row(study *s, study_row row, const char *format, va_list arguments) {
    if (s->counting) {
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
    s->rows[s->count++] = row;
}

void study_within(study *s, const char *section, double published, double simulated, double share, const char *label, ...) {
    va_list arguments;
    va_start(arguments, label);
    add_row(s, (study_row){section, "", published, simulated, NAN, published * (1 - share), published * (1 + share), 1},
            label, arguments);
    va_end(arguments);
}

void study_between(study *s, const char *section, double published, double simulated, double low, double high,
                   const char *label, ...) {
    va_list arguments;
    va_start(arguments, label);
    add_row(s, (study_row){section, "", published, simulated, NAN, low, high, 1}, label, arguments);
    va_end(arguments);
}

void study_show(study *s, const char *section, double published, double simulated, const char *label, ...) {
    va_list arguments;
    va_start(arguments, label);
    add_row(s, (study_row){section, "", published, simulated, NAN, 0, 0, 0}, label, arguments);
    va_end(arguments);
}

void study_measured(study *s, const char *section, double published, double simulated, double measured, const char *label,
                    ...) {
    va_list arguments;
    va_start(arguments, label);
    add_row(s, (study_row){section, "", published, simulated, measured, 0, 0, 0}, label, arguments);
    va_end(arguments);
}

void study_measured_between(study *s, const char *section, double published, double simulated, double measured, double low,
                            double high, const char *label, ...) {
    va_list arguments;
    va_start(arguments, label);
    add_row(s, (study_row){section, "", published, simulated, measured, low, high, 1}, label, arguments);
    va_end(arguments);
}

/* ---- running on a GPU ---- */

static void add_error(study_deviation *e, double simulated, double measured) {
    if (simulated > 0 && measured > 0) {
        e->sum += fabs(simulated / measured - 1);
        e->count++;
    }
}

/* Makes the file of raw numbers, and puts the columns over those that follow: each operation has its own. */
static void head_csv(study *s, int32_t operation) {
    if (s->csv_path && !s->csv && !s->failed && !(s->csv = fopen(s->csv_path, "we"))) {
        s->failed = complain(EXIT_FAILED, "%s: %s", s->csv_path, strerror(errno));
    }
    if (s->csv && s->headed != operation) {
        device_case_csv_header(s->csv, operation);
        s->headed = operation;
    }
}

int study_run_cases(study *s, device_case *cases, size_t count, int skip) {
    if (s->counting) {
        s->units += (double)count;
        s->misses.count += (int)count;
        return 1;
    }
    for (size_t i = 0; i < count; i++) { /* the kernel with its options */
        device_case *c = &cases[i];
        if (c->device.kernel &&
            kernel_specification(c->specification, sizeof c->specification, c->device.kernel, &c->options)) {
            c->device.kernel = c->specification;
        }
    }
    if (s->failed || device_bench_run(s->bench, cases, count, DEVICE_TIME | DEVICE_COUNT_TRAFFIC | DEVICE_SIMULATE, skip)) {
        s->failed = 1;
        return 0;
    }
    for (size_t i = 0; i < count; i++) {
        if (cases[i].kernel[0]) {
            add_error(&s->misses, (double)cases[i].sim.total.misses, cases[i].values[WEFT_COUNTER_L2_MISSES]);
            add_error(&s->dram, (double)cases[i].sim.total.dram_read_bytes, cases[i].values[WEFT_COUNTER_DRAM_READ_BYTES]);
            head_csv(s, cases[i].problem.operation);
            if (s->csv) {
                device_case_csv(s->csv, s->name, device_bench_name(s->bench), &cases[i]);
            }
        }
    }
    if (s->csv) { /* a long study that is ended early leaves what it has */
        fflush(s->csv);
    }
    progress_add((double)count);
    return !s->failed;
}

void study_show_errors(study *s) {
    static const char section[] = "the simulator against the counters, mean of |simulated / measured - 1|, per cent";
    const struct {
        const char *what;
        const study_deviation *error;
    } rows[] = {{"L2 misses", &s->misses}, {"DRAM reads", &s->dram}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].error->count > 0) {
            study_measured(s, section, NAN, NAN, 100 * rows[i].error->sum / rows[i].error->count, "%s, over %d launches",
                           rows[i].what, rows[i].error->count);
        }
    }
}

/* ---- running the simulations ---- */

weft_machine study_machine(study *s, const char *name) {
    weft_machine machine = WEFT_MACHINE_INIT;
    weft_message message = {""};
    if (weft_machine_load(&machine, name, &message) != WEFT_OK) {
        s->failed = complain(1, "%s", message.text);
    }
    return machine;
}

int study_part(study *s, progress_part *part, uint64_t steps) {
    *part = (progress_part){(double)steps, 0};
    s->units += s->counting ? part->units : 0;
    return !s->counting;
}

static weft_simulation finish(study *s, weft_status status, weft_plan *plan, const weft_simulate_options *options,
                              weft_message *message) {
    const weft_simulate_options init = WEFT_SIMULATE_INIT;
    weft_simulate_options told = options ? *options : init;
    weft_simulation sim = WEFT_SIMULATION_INIT;
    progress_part part;
    if (status == WEFT_OK && !s->failed) {
        const uint64_t steps = weft_simulate_steps(plan);
        if (study_part(s, &part, told.limit > 0 && told.limit < steps ? told.limit : steps)) {
            told.progress = progress_told;
            told.progress_user = &part;
            status = weft_simulate(plan, &told, &sim, NULL, message);
            progress_part_end(&part);
        }
    }
    if (status != WEFT_OK && !s->failed) {
        s->failed = complain(1, "%s", message->text);
    }
    weft_plan_destroy(plan);
    return sim;
}

weft_simulation study_simulate(study *s, const char *machine, const void *problem, const weft_schedule *schedule,
                               const weft_simulate_options *options) {
    const weft_machine m = study_machine(s, machine);
    weft_plan_options how = WEFT_PLAN_OPTIONS_INIT;
    weft_plan *plan = NULL;
    weft_message message = {""};
    how.schedule = schedule;
    how.machine = &m;
    const weft_status status = weft_plan_create(&plan, problem, &how, &message);
    return finish(s, status, plan, options, &message);
}

/* ---- judging them ---- */

int study_passes(const study_row *row) {
    const double value = isnan(row->measured) ? row->simulated : row->measured;
    return !row->judged || (value >= row->low && value <= row->high);
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

json_t *study_row_json(const study_row *row) {
    json_t *object = json_pack("{s:s, s:s}", "section", row->section, "label", row->label);
    set_number(&object, "simulated", row->simulated);
    set_number(&object, "published", row->published);
    set_number(&object, "measured", row->measured);
    set_number(&object, "error", study_error(row));
    if (row->judged) {
        weft_json_set(&object, "low", json_real(row->low));
        weft_json_set(&object, "high", json_real(row->high));
        weft_json_set(&object, "passed", json_boolean(study_passes(row)));
    }
    return object;
}
