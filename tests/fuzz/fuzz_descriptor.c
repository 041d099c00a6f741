/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors filled with anything: the checks answer, plans are made or refused, and what is accepted can be walked. */
#include <weft/sim.h>

#include "../plans.h"
#include "take.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The first few visits of the first and the last worker stay inside the grid. */
static void walk_a_little(const weft_plan *plan) {
    const weft_walk *walk = weft_plan_walk(plan, sizeof(weft_walk));
    const int64_t last = walk->dispatch == WEFT_DISPATCH_GRID ? walk->order.count - 1 : walk->workers - 1;
    for (int64_t index = 0; index <= last; index += last > 0 ? last : 1) {
        uint64_t counter = (uint64_t)(walk->order.count > 8 ? walk->order.count - 8 : 0);
        weft_worker worker = weft_worker_start(walk, index, &counter);
        weft_visit v;
        for (int i = 0; i < 8 && weft_worker_next(walk, &worker, &v); i++) {
            if (v.tile.batch < 0 || v.tile.row < 0 || v.tile.col < 0 || v.tile.batch >= walk->order.grid.batch ||
                v.tile.row >= walk->order.grid.rows * walk->cluster_rows || v.tile.col >= walk->cols || v.steps < 0 ||
                v.full_begin < 0 || v.full_end < v.full_begin) {
                abort();
            }
        }
    }
    char text[64];
    if (weft_plan_text(plan, text, sizeof text) == 0 || weft_plan_json(plan, text, sizeof text) == 0) {
        abort();
    }
}

/* What is small enough is simulated, a few steps of it, and adds up. */
static void simulate_a_little(const weft_plan *plan, input *in) {
    const weft_walk *walk = weft_plan_walk(plan, sizeof(weft_walk));
    if (walk->order.count > 100000 || walk->workers > 100 || walk->reach.columns / walk->reach.tile_columns > 100) {
        return; /* every worker finishes the tile that it has begun */
    }
    weft_simulate_options options = WEFT_SIMULATE_INIT;
    options.limit = 1 + (uint64_t)take(in) % 1000;
    options.stages = take(in) % 18;
    options.drift = (double)(take(in) % 101) / 100;
    weft_simulation sim = WEFT_SIMULATION_INIT;
    const weft_status status = weft_simulate(plan, &options, &sim, NULL, NULL);
    if (status == WEFT_OK && (sim.simulated <= 0 || !(sim.seconds >= 0))) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    input in = {data, size};
    weft_message message;
    memset(message.text, '#', sizeof message.text);
    weft_plan *plan = NULL;
    const weft_schedule schedule = take_schedule(&in);
    const char *const name = weft_machine_name((size_t)take(&in) % 6);
    weft_machine machine = WEFT_MACHINE_INIT;
    if (name && weft_machine_load(&machine, name, NULL) != WEFT_OK) {
        abort();
    }
    const uint64_t kind = (uint64_t)take(&in) % 5;
    if (kind == 0 || kind == 2) {
        const weft_attention p = take_attention(&in);
        const int valid = weft_problem_check(&p, &message) == WEFT_OK;
        if (valid != (attention_sizes(&p).q != 0)) {
            abort();
        }
        expect(plan_for(&plan, &p, &schedule, name ? &machine : NULL, &message), &message, plan);
    } else if (kind == 4) {
        const weft_combine p = take_combine(&in);
        weft_buffer buffer = WEFT_BUFFER_INIT;
        const int valid = weft_problem_check(&p, &message) == WEFT_OK;
        if (valid != (weft_problem_buffer(&p, 0, &buffer, NULL) == WEFT_OK) || (valid && buffer.elements == 0)) {
            abort();
        }
        expect(plan_for(&plan, &p, &schedule, name ? &machine : NULL, &message), &message, plan);
    } else {
        const weft_gemm p = take_gemm(&in);
        const int valid = weft_problem_check(&p, &message) == WEFT_OK;
        if (valid != (gemm_sizes(&p).a != 0)) {
            abort();
        }
        expect(plan_for(&plan, &p, &schedule, name ? &machine : NULL, &message), &message, plan);
    }
    if (plan) {
        walk_a_little(plan);
        simulate_a_little(plan, &in);
    }
    weft_plan_destroy(plan);
    return 0;
}
