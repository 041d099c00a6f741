/* SPDX-License-Identifier: Apache-2.0 */
/* What every hot call ends with: parameters are filled, and the kernels are put on a stream. */
#include <string.h>

#include "base/status.h"
#include "cuda/plan/backend.h"

/* One launch of a run. */
static weft_status launch_pass(const weft_plan *plan, const weft_cuda_pass *pass, const void *data,
                               const weft_counters *counters, void *stream, weft_message *message) {
    const weft_cuda_plan *c = plan->placed;
    _Alignas(64) unsigned char parameters[WEFT_CUDA_MAX_PARAMETERS];
    void *arguments[] = {parameters};
    weft_walk walk = weft_cuda_walk_with(plan, pass, data);
    /* Without counters of its own a worker takes the tiles that dynamic dispatch would give it if all were as fast. */
    if (counters->is_captured && !c->family->finds_counters && walk.dispatch == WEFT_DISPATCH_DYNAMIC && !walk.next) {
        walk.dispatch = WEFT_DISPATCH_STATIC;
    }
    const weft_status status = c->family->fill(plan, pass, data, &walk, counters, parameters, message);
    if (status) {
        return status;
    }
    const uint32_t grid = c->side_of_sm && pass == c->main && !counters->is_captured ? c->side_grid : pass->grid;
    const weft_schedule *s = &plan->schedule;
    const uint32_t ctas = (uint32_t)(s->cluster_m * s->cluster_n * weft_plan_tile_ctas(plan));
    const unsigned threads = (unsigned)pass->choice.threads, shared = pass->choice.shared_bytes;
    weft_cu_result result;
    /* Such a kernel sets itself up while the launch before it ends. A capture takes that from CUDA 12.3 on, and only after
     * another kernel, not after the order that zeroes counters. */
    const int overlaps =
        pass->choice.overlaps && !counters->ordered && c->driver->launch_extended && c->driver->release >= 12030;
    weft_cu_launch_attribute attributes[3];
    unsigned count = 0;
    if (ctas > 1 && pass == c->main) {
        attributes[count++] = (weft_cu_launch_attribute){WEFT_CU_LAUNCH_CLUSTER, {ctas, 1, 1}};
    }
    if (overlaps) {
        attributes[count++] = (weft_cu_launch_attribute){WEFT_CU_LAUNCH_OVERLAP, {1}};
    }
    /* Workers wait for each other: all run, or none. */
    if (pass == c->main && (c->together || (c->timetable && walk.dispatch == WEFT_DISPATCH_STATIC))) {
        attributes[count++] = (weft_cu_launch_attribute){WEFT_CU_LAUNCH_COOPERATIVE, {1}};
    }
    if (count == 0) {
        result = c->driver->launch(pass->function, grid, 1, 1, threads, 1, 1, shared, stream, arguments, NULL);
    } else {
        const weft_cu_launch launch = {{grid, 1, 1}, {threads, 1, 1}, shared, stream, attributes, count};
        result = c->driver->launch_extended(&launch, pass->function, arguments, NULL);
    }
    return result ? weft_cuda_fail(c->driver, result, "the kernel cannot be launched", message) : WEFT_OK;
}

int weft_cuda_prepares(const weft_plan *plan) {
    const weft_cuda_plan *c = plan->placed;
    return c->passes[c->pass_count - 1].choice.when == WEFT_CUDA_PREPARES;
}

/* Which launches to make beside those of every run. What prepares runs leaves it in a workspace that is the caller's: the
 * plan's own may serve other runs in between. */
static weft_status find_when(const weft_plan *plan, const weft_data *data, int prepares, weft_cuda_when *when,
                             weft_message *message) {
    const weft_operation_row *row = plan->operation;
    const void *workspace;
    int32_t prepared = 0;
    *when = WEFT_CUDA_UNPREPARED;
    if (!weft_cuda_prepares(plan)) {
        return WEFT_OK;
    }
    memcpy(&workspace, (const char *)data + row->workspace, sizeof workspace);
    memcpy(&prepared, (const char *)data + row->prepared, sizeof prepared);
    *when = prepares ? WEFT_CUDA_PREPARES : prepared ? WEFT_CUDA_PREPARED : WEFT_CUDA_UNPREPARED;
    return workspace || *when == WEFT_CUDA_UNPREPARED
               ? WEFT_OK
               : weft_fail(message, WEFT_INVALID, "workspace is null: runs are prepared in a workspace that they bring");
}

weft_status weft_cuda_launch(const weft_plan *plan, const void *data, int prepares, void *stream, weft_message *message) {
    weft_cuda_plan *c = plan->placed;
    weft_counters counters = {0};
    weft_data with = {.room = {NULL}}; /* the data, with a workspace */
    int taken = 0;
    memcpy(&with, data, plan->operation->info.data_size);
    weft_cuda_when when;
    weft_status status = find_when(plan, &with, prepares, &when, message);
    status = status ? status : weft_cuda_workspace_take(plan, &with, stream, &taken, message);
    if (status == WEFT_OK && c->tickets) {
        status = weft_tickets_take(c->tickets, stream, c->family->leaves_zero, c->paces, &counters, message);
    }
    for (int i = 0; i < c->pass_count && status == WEFT_OK; i++) {
        const weft_cuda_when its = c->passes[i].choice.when;
        if (its == when || (its == WEFT_CUDA_ALWAYS && !prepares)) {
            status = launch_pass(plan, &c->passes[i], &with, &counters, stream, message);
        }
    }
    const weft_cu_result result = taken ? weft_cuda_workspace_give_back(c, stream) : 0;
    return status || !result ? status
                             : weft_cuda_fail(c->driver, result, "the plan's workspace cannot be given back", message);
}
