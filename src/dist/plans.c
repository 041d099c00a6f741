/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank computes with: memory for the life of its work, and plans that are made once. */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "dist/work.h"
#include "plan/plan.h"
#include "problem/problem.h"

/* ---- memory ---- */

static weft_status keep_block(weft_dist_work *work, void *block, weft_message *message) {
    if (work->block_count == work->block_room) {
        const size_t room = work->block_room ? 2 * work->block_room : 32;
        void **blocks = realloc(work->blocks, room * sizeof *blocks);
        if (!blocks) {
            work->memory.give(work->memory.self, block);
            return weft_fail(message, WEFT_NO_MEMORY, "no memory for a rank's buffers");
        }
        work->blocks = blocks;
        work->block_room = room;
    }
    work->blocks[work->block_count++] = block;
    return WEFT_OK;
}

weft_status weft_dist_take(weft_dist_work *work, size_t bytes, char **at, weft_message *message) {
    void *block;
    weft_status status = work->memory.take(work->memory.self, bytes, &block, message);
    work->taken += bytes;
    status = status ? status : keep_block(work, block, message);
    *at = status ? NULL : block;
    return status;
}

/* ---- plans ---- */

weft_status weft_dist_plan_of(weft_dist_work *work, const void *problem, const weft_plan **plan, weft_message *message) {
    weft_problem resolved;
    const weft_operation_row *row;
    weft_status status = weft_problem_resolve(&resolved, &row, problem, message);
    for (size_t i = 0; i < work->plan_count && !status; i++) {
        if (memcmp(&work->plans[i].problem, &resolved, sizeof resolved) == 0) {
            *plan = work->plans[i].plan;
            return WEFT_OK;
        }
    }
    if (!status && work->plan_count == work->plan_room) {
        const size_t room = work->plan_room ? 2 * work->plan_room : 16;
        weft_dist_plan *plans = realloc(work->plans, room * sizeof *plans);
        if (!plans) {
            return weft_fail(message, WEFT_NO_MEMORY, "no memory for %zu plans of a rank", room);
        }
        work->plans = plans;
        work->plan_room = room;
    }
    weft_plan_options options = work->options;
    weft_schedule adding = WEFT_SCHEDULE_INIT; /* tiles and orders are an attention's; as many threads add */
    adding.workers = work->schedule.workers;
    options.schedule = !status && row == work->dist->operation ? work->options.schedule : &adding;
    weft_plan *made = NULL;
    status = status ? status : weft_plan_create(&made, problem, &options, message);
    if (status) {
        return status;
    }
    work->plans[work->plan_count++] = (weft_dist_plan){resolved, made};
    work->workspace_bytes =
        work->workspace_bytes > weft_plan_workspace(made) ? work->workspace_bytes : weft_plan_workspace(made);
    *plan = made;
    return WEFT_OK;
}

static void poll(void *user, int64_t done, int64_t total) {
    (void)done;
    (void)total;
    weft_io_poll(user);
}

weft_status weft_dist_compute(weft_dist_work *work, const weft_plan *plan, const void *data, weft_message *message) {
    return work->memory.on_device ? weft_plan_enqueue(plan, data, work->memory.stream, message)
                                  : weft_plan_run_with_progress(plan, data, poll, &work->io, message);
}
