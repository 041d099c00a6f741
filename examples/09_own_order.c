/* SPDX-License-Identifier: Apache-2.0 */
/* Step 6: an order of your own, as a table. Tiles along the diagonals, so that a wave touches as many rows as columns. */
#include <stdio.h>
#include <stdlib.h>

#include <weft/machine.h>
#include <weft/sim.h>

static uint32_t *diagonals(weft_grid grid, int64_t *count) {
    *count = grid.batch * grid.rows * grid.cols;
    uint32_t *table = malloc((size_t)*count * sizeof *table);
    for (int64_t p = 0; table && p < *count; p++) {
        const int64_t batch = p / (grid.rows * grid.cols), row = p % grid.rows, diagonal = p / grid.rows % grid.cols;
        table[p] = (uint32_t)((batch * grid.rows + row) * grid.cols + (row + diagonal) % grid.cols);
    }
    return table;
}

int main(void) {
    weft_gemm problem = WEFT_GEMM_INIT;
    problem.m = 4096;
    problem.n = problem.k = 2048;
    problem.dtype = problem.c_dtype = WEFT_BF16;

    weft_schedule schedule = WEFT_SCHEDULE_INIT;
    schedule.tile_m = schedule.tile_n = 128;

    weft_machine machine = WEFT_MACHINE_INIT;
    weft_plan_options options = WEFT_PLAN_OPTIONS_INIT;
    weft_simulation result = WEFT_SIMULATION_INIT;
    weft_plan *plan = NULL;
    weft_message message = {"out of memory"};
    weft_grid grid;
    options.schedule = &schedule;
    options.machine = &machine;
    weft_status status = weft_machine_load(&machine, "h200", &message);
    status = status ? status : weft_plan_positions(&problem, &options, &grid, &message);
    uint32_t *table = status ? NULL : diagonals(grid, &schedule.order_count);
    schedule.order_table = table;
    status = status ? status : weft_plan_create(&plan, &problem, &options, &message);
    free(table); /* the plan has a copy */
    status = status ? status : weft_simulate(plan, NULL, &result, NULL, &message);
    if (status) {
        fprintf(stderr, "%s\n", message.text);
    } else {
        printf("%lld x %lld tiles along the diagonals: %.3f ms, %.1f MB from DRAM\n", (long long)grid.rows,
               (long long)grid.cols, 1e3 * result.seconds, (double)result.total.dram_read_bytes / 1e6);
    }
    weft_plan_destroy(plan);
    return status != WEFT_OK;
}
