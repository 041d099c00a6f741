/* SPDX-License-Identifier: Apache-2.0 */
/* Memory in which the launches of a run leave something for each other. */
#include <string.h>

#include "base/status.h"
#include "cuda/plan/backend.h"

weft_status weft_cuda_workspace_new(weft_plan *plan, weft_message *message) {
    weft_cuda_plan *c = plan->placed;
    weft_cuda_workspace *w = &c->workspace;
    w->bytes = c->family->workspace(plan);
    if (w->bytes == 0 || plan->brings_workspace) {
        return WEFT_OK;
    }
    weft_cu_result result = c->driver->memory_new(&w->own, w->bytes);
    if (result) {
        w->own = 0;
        return weft_cuda_fail(c->driver, result, "no memory on the GPU for a plan's workspace", message);
    }
    pthread_mutex_init(&w->lock, NULL);
    result = c->driver->event_new(&w->free, WEFT_CU_EVENT_UNTIMED);
    return result ? weft_cuda_fail(c->driver, result, "no event for a plan's workspace", message) : WEFT_OK;
}

void weft_cuda_workspace_free(weft_cuda_plan *c) {
    weft_cuda_workspace *w = &c->workspace;
    if (w->own) {
        c->driver->memory_free(w->own);
        pthread_mutex_destroy(&w->lock);
    }
    if (w->free) {
        c->driver->event_free(w->free);
    }
}

/* Whether the stream is part of a capture. */
static weft_cu_result ask_capture(const weft_cuda_plan *c, void *stream, int *is_captured) {
    int status = WEFT_CU_CAPTURE_NONE;
    uint64_t id = 0;
    const weft_cu_result result = c->driver->stream_capture(stream, &status, &id, NULL, NULL, NULL);
    *is_captured = status != WEFT_CU_CAPTURE_NONE;
    return result;
}

weft_status weft_cuda_workspace_take(const weft_plan *plan, weft_data *data, void *stream, int *taken,
                                     weft_message *message) {
    weft_cuda_plan *c = plan->placed;
    weft_cuda_workspace *w = &c->workspace;
    void *brought = NULL;
    int is_captured = 0;
    *taken = 0;
    if (w->bytes == 0) {
        return WEFT_OK;
    }
    memcpy(&brought, (const char *)data + plan->operation->workspace, sizeof brought);
    if (brought) {
        return weft_cuda_check_pointer(c, "workspace", brought, 16, message);
    }
    if (!w->own) {
        return weft_fail(message, WEFT_INVALID, "workspace is null, and the plan has none: it was made to be brought one");
    }
    weft_cu_result result = ask_capture(c, stream, &is_captured);
    if (result == 0 && is_captured) { /* what is captured runs at any time, and several times at once */
        return weft_fail(message, WEFT_INVALID,
                         "workspace is null: a captured run brings %zu bytes that no other run uses at the same time",
                         w->bytes);
    }
    pthread_mutex_lock(&w->lock);
    result = result ? result : c->driver->stream_wait(stream, w->free, 0);
    if (result) {
        pthread_mutex_unlock(&w->lock);
        return weft_cuda_fail(c->driver, result, "the plan's workspace cannot be had on the stream", message);
    }
    const void *own = (const void *)(uintptr_t)w->own;
    memcpy((char *)data + plan->operation->workspace, &own, sizeof own);
    *taken = 1;
    return WEFT_OK;
}

weft_cu_result weft_cuda_workspace_give_back(weft_cuda_plan *c, void *stream) {
    const weft_cu_result result = c->driver->event_record(c->workspace.free, stream);
    pthread_mutex_unlock(&c->workspace.lock);
    return result;
}
