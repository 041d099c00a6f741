/* Studies: building their rows, running their simulations. */
#include "study.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

const study_info study_table[] = {
    {"sawtooth", "Sawtooth wavefront reordering on GB10", "published", "Zhu, Pan, Ding", study_sawtooth},
    {"cutile", "FlashAttention in CUDA Tile on B200", "published", "NVIDIA", study_cutile},
    {"tile-scheduling", "Tile scheduling: GEMM on H100", "published", "Jonah", study_tile_scheduling},
    {"numa", "NUMA-aware attention on MI300X", "published", "Choudhary et al.", study_numa},
    {"h200", "The two sides of an H200's L2", "measured", "by us, with Nsight Compute", study_h200},
    {0, 0, 0, 0, 0},
};

static void add_row(study *s, study_row row, const char *format, va_list arguments) {
    if (s->count == s->room) {
        const size_t room = s->room ? 2 * s->room : 64;
        study_row *rows = realloc(s->rows, room * sizeof *rows);
        if (!rows) {
            s->failed = 1;
            return;
        }
        s->rows = rows;
        s->room = room;
    }
    vsnprintf(row.label, sizeof row.label, format, arguments);
    s->rows[s->count++] = row;
    if (!s->quiet) {
        fprintf(stderr, "\r\033[K%zu rows: %.60s", s->count, row.label);
    }
}

void study_within(study *s, const char *section, double published, double simulated, double share, const char *label, ...) {
    va_list arguments;
    va_start(arguments, label);
    add_row(s, (study_row){section, "", published, simulated, published * (1 - share), published * (1 + share), 1}, label,
            arguments);
    va_end(arguments);
}

void study_between(study *s, const char *section, double published, double simulated, double low, double high,
                   const char *label, ...) {
    va_list arguments;
    va_start(arguments, label);
    add_row(s, (study_row){section, "", published, simulated, low, high, 1}, label, arguments);
    va_end(arguments);
}

void study_show(study *s, const char *section, double published, double simulated, const char *label, ...) {
    va_list arguments;
    va_start(arguments, label);
    add_row(s, (study_row){section, "", published, simulated, 0, 0, 0}, label, arguments);
    va_end(arguments);
}

/* ---- running the simulations ---- */

weft_machine study_machine(study *s, const char *name) {
    weft_machine machine;
    weft_message message = {""};
    if (weft_machine_load(&machine, name, &message) != WEFT_OK) {
        s->failed = complain(1, "%s", message.text);
    }
    return machine;
}

static weft_simulation finish(study *s, weft_status status, weft_plan *plan, const weft_simulate_options *options,
                              weft_message *message) {
    weft_simulation sim;
    memset(&sim, 0, sizeof sim);
    if (status == WEFT_OK) {
        status = weft_simulate(plan, options, &sim, NULL, message);
    }
    if (status != WEFT_OK) {
        s->failed = complain(1, "%s", message->text);
    }
    weft_plan_destroy(plan);
    return sim;
}

weft_simulation study_attention(study *s, const char *machine, const weft_attention *problem, const weft_schedule *schedule,
                                const weft_simulate_options *options) {
    const weft_machine m = study_machine(s, machine);
    weft_plan *plan = NULL;
    weft_message message = {""};
    const weft_status status = weft_plan_attention(&plan, problem, schedule, &m, &message);
    return finish(s, status, plan, options, &message);
}

weft_simulation study_gemm(study *s, const char *machine, const weft_gemm *problem, const weft_schedule *schedule,
                           const weft_simulate_options *options) {
    const weft_machine m = study_machine(s, machine);
    weft_plan *plan = NULL;
    weft_message message = {""};
    const weft_status status = weft_plan_gemm(&plan, problem, schedule, &m, &message);
    return finish(s, status, plan, options, &message);
}

/* ---- judging them ---- */

int study_passes(const study_row *row) {
    return !row->judged || (row->simulated >= row->low && row->simulated <= row->high);
}

double study_error(const study_row *row) {
    return row->published != 0 ? row->simulated / row->published - 1 : 0;
}

json_t *study_row_json(const study_row *row) {
    json_t *object =
        json_pack("{s:s, s:s, s:f}", "section", row->section, "label", row->label, "simulated", row->simulated);
    if (!isnan(row->published)) {
        json_object_set_new(object, "published", json_real(row->published));
        json_object_set_new(object, "error", json_real(study_error(row)));
    }
    if (row->judged) {
        json_object_set_new(object, "low", json_real(row->low));
        json_object_set_new(object, "high", json_real(row->high));
        json_object_set_new(object, "passed", json_boolean(study_passes(row)));
    }
    return object;
}
