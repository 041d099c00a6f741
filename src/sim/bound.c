/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/bound.h"

#include <math.h>

#include "base/status.h"
#include "base/struct.h"
#include "sim/sources.h"

/* Steps of the busiest worker at least: those of whole waves where all positions are alike, else the mean or the longest
 * tile. */
static double busiest_steps(const weft_plan *plan, double total) {
    const weft_walk *w = &plan->walk;
    const double longest = (double)weft_ceil_divide(w->reach.columns, w->reach.tile_columns);
    const double positions = (double)w->order.count, workers = fmin((double)w->workers, positions);
    const int alike = total == positions * longest * w->visits;
    return alike ? ceil(positions / workers) * longest * w->visits : fmax(total / workers, longest);
}

weft_status weft_bound_of(const weft_plan *plan, const weft_simulate_options *options, weft_bound *bound,
                          weft_message *message) {
    weft_sim_source source;
    weft_sim_walk walk;
    weft_sim_job job;
    const weft_machine *m = &plan->machine;
    weft_sim_settings settings;
    weft_status status = weft_sim_settings_read(&settings, options, weft_plan_profile(plan), message);
    if (status) {
        return status;
    }
    status = weft_sim_walk_make(&source, &walk, plan, &settings, message);
    if (status == WEFT_OK && !source.next(&walk, 0, 0, &job)) {
        status = weft_fail(message, WEFT_UNSUPPORTED, "the plan has no tiles");
    }
    if (status == WEFT_OK) {
        const weft_visit visit = {.tile = weft_tile_at(0, 0, 0), .direction = 1, .steps = 1};
        const double total = (double)weft_simulate_steps(plan), workers = (double)source.workers;
        const double ctas = (double)(plan->schedule.cluster_m * plan->schedule.cluster_n);
        weft_visit_reads reads = {.pass = 0};
        plan->operation->reads(&walk.tiling, &plan->walk.reach, &visit, m->l2_sector, &reads);
        double sectors = (double)reads.sums.sectors;
        for (int i = 0; i < reads.streams; i++) {
            sectors += (double)reads.stream[i].sectors;
        }
        const double busiest = walk.runs.count > 0 ? fmax(total / workers, 1.0) : busiest_steps(plan, total);
        *bound = (weft_bound){
            .products = total * ctas * reads.flops / weft_sim_matrix_rate(m, reads.dtype),
            .exponentials = total * ctas * reads.exponentials / m->exp_rate,
            .l2 = total * sectors * (double)m->l2_sector / m->l2_bandwidth,
            .dram = (double)walk.pieces.distinct * (double)m->l2_sector / m->dram_bandwidth,
            .steps = busiest * job.step_seconds,
            .waves = busiest * workers / total,
        };
    }
    weft_sim_walk_release(&walk);
    return status;
}

weft_status weft_simulate_bounds(const weft_plan *plan, const weft_simulate_options *options, weft_bounds *bounds,
                                 weft_message *message) {
    weft_bound b;
    if (!plan) {
        return weft_fail(message, WEFT_INVALID, "plan is null");
    }
    const weft_status status = weft_bound_of(plan, options, &b, message);
    if (status) {
        return status;
    }
    const weft_bounds found = {.struct_size = sizeof found,
                               .products = b.products,
                               .exponentials = b.exponentials,
                               .steps = b.steps,
                               .l2 = b.l2,
                               .dram = b.dram,
                               .waves = b.waves};
    return weft_struct_give(bounds, &found, sizeof found, sizeof(size_t), "WEFT_BOUNDS_INIT", message);
}
