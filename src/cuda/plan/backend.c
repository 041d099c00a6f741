/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA as a backend: runs on a stream. */
#include "cuda/plan/backend.h"
#include "base/status.h"

static const char *kernel(const weft_plan *plan) {
    const weft_cuda_plan *c = plan->placed;
    return c->main->choice.kernel;
}

static const char *launch(const weft_plan *plan, size_t index) {
    const weft_cuda_plan *c = plan->placed;
    for (int i = 0; i < c->pass_count; i++) {
        if (c->passes[i].choice.when <= WEFT_CUDA_UNPREPARED && index-- == 0) {
            return c->passes[i].choice.kernel;
        }
    }
    return NULL;
}

static size_t workspace(const weft_plan *plan) {
    const weft_cuda_plan *c = plan->placed;
    return c->family->workspace ? c->family->workspace(plan) : 0;
}

static const char *profile(const weft_plan *plan) {
    const weft_cuda_plan *c = plan->placed;
    return c->family->profile;
}

/* Waits for what was put on the default stream. */
static weft_status wait(const weft_plan *plan, weft_message *message) {
    const weft_cuda_plan *c = plan->placed;
    int pushed;
    const weft_status status = weft_cuda_enter(c->driver, c->context, &pushed, message);
    if (status) {
        return status;
    }
    const weft_cu_result result = c->driver->stream_synchronize(NULL);
    weft_cuda_leave(c->driver, pushed);
    return result ? weft_cuda_fail(c->driver, result, "the kernel failed", message) : WEFT_OK;
}

static weft_status run(const weft_plan *plan, const void *data, weft_message *message) {
    weft_status status = weft_cuda_enqueue(plan, data, NULL, message);
    status = status ? status : wait(plan, message);
    return status ? status : weft_cuda_fault_take(plan, "", message);
}

static weft_status check(const weft_plan *plan, weft_message *message) {
    return weft_cuda_fault_take(plan, "in an earlier run ", message);
}

const weft_backend weft_backend_cuda = {
    .name = "cuda",
    .kernel = kernel,
    .launch = launch,
    .workspace = workspace,
    .profile = profile,
    .open = weft_cuda_open,
    .place = weft_cuda_place,
    .close = weft_cuda_close,
    .candidates = weft_cuda_candidates,
    .cost = weft_cuda_cost,
    .facts = weft_cuda_facts,
    .knows = weft_cuda_knows,
    .run = run,
    .enqueue = weft_cuda_enqueue,
    .prepare = weft_cuda_prepare,
    .check = check,
};
