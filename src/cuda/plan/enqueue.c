/* SPDX-License-Identifier: Apache-2.0 */
/* A run on a GPU: the hot call. It checks pointers and launches; it allocates nothing and waits for nothing. */
#include <string.h>

#include "cuda/plan/backend.h"

/* Buffers that are null are optional: the plan has checked that. */
static weft_status check_pointers(const weft_plan *plan, const void *data, weft_message *message) {
    weft_buffer list[WEFT_BUFFERS];
    const size_t count = plan->operation->buffers(&plan->problem, list);
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < count && status == WEFT_OK; i++) {
        const void *pointer;
        memcpy(&pointer, (const char *)data + list[i].offset, sizeof pointer);
        if (pointer) {
            status = weft_cuda_check_pointer(plan->placed, list[i].name, pointer, list[i].alignment, message);
        }
    }
    return status;
}

static weft_status check_and_launch(const weft_plan *plan, const void *data, int prepares, void *stream,
                                    weft_message *message) {
    const weft_cuda_plan *c = plan->placed;
    int pushed;
    weft_status status = weft_cuda_enter(c->driver, c->context, &pushed, message);
    if (status) {
        return status;
    }
    if ((status = check_pointers(plan, data, message)) == WEFT_OK) {
        status = weft_cuda_launch(plan, data, prepares, stream, message);
    }
    weft_cuda_leave(c->driver, pushed);
    return status;
}

weft_status weft_cuda_enqueue(const weft_plan *plan, const void *data, void *stream, weft_message *message) {
    const weft_status status = weft_cuda_fault_take(plan, "in an earlier run ", message);
    return status ? status : check_and_launch(plan, data, 0, stream, message);
}

weft_status weft_cuda_prepare(const weft_plan *plan, const void *data, void *stream, weft_message *message) {
    return weft_cuda_prepares(plan) ? check_and_launch(plan, data, 1, stream, message) : WEFT_OK;
}
