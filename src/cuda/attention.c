/* Attention forward on a GPU: the hot call. It checks pointers and launches; it allocates nothing and waits for nothing. */
#include <stdint.h>

#include "cuda/cuda.h"
#include "plan/status.h"

/* A pointer that the kernel will follow: in memory that the plan's device can reach, and aligned as the kernel loads it. */
static weft_status check_pointer(const weft_cuda_plan *c, const char *name, const void *pointer, size_t alignment,
                                 weft_message *message) {
    int type = 0, ordinal = -1;
    int attributes[] = {WEFT_CU_POINTER_MEMORY_TYPE, WEFT_CU_POINTER_DEVICE_ORDINAL};
    void *values[] = {&type, &ordinal};
    if ((uintptr_t)pointer % alignment != 0) {
        return weft_fail(message, WEFT_INVALID, "%s is not aligned to %zu bytes", name, alignment);
    }
    const weft_cu_result result = c->driver->pointer_attributes(2, attributes, values, (uint64_t)(uintptr_t)pointer);
    if (result) {
        return weft_cuda_fail(c->driver, result, "a pointer cannot be looked up", message);
    }
    if (type == WEFT_CU_MEMORY_DEVICE && ordinal != c->device.index) {
        return weft_fail(message, WEFT_INVALID, "%s is on device %d and the plan on device %d", name, ordinal,
                         c->device.index);
    }
    if (type != WEFT_CU_MEMORY_DEVICE && type != WEFT_CU_MEMORY_HOST && !c->device.reads_any_memory) {
        return weft_fail(message, WEFT_INVALID, "%s is not in memory that the GPU can read", name);
    }
    return WEFT_OK;
}

static weft_status check_pointers(const weft_cuda_plan *c, const weft_attention_data *data, weft_message *message) {
    weft_status status;
    if ((status = check_pointer(c, "q", data->q, 16, message)) || (status = check_pointer(c, "k", data->k, 16, message)) ||
        (status = check_pointer(c, "v", data->v, 16, message)) || (status = check_pointer(c, "o", data->o, 16, message))) {
        return status;
    }
    return data->lse ? check_pointer(c, "lse", data->lse, sizeof(float), message) : WEFT_OK;
}

weft_status weft_cuda_enqueue_attention(const weft_plan *plan, const weft_attention_data *data, void *stream,
                                        weft_message *message) {
    const weft_cuda_plan *c = plan->placed;
    _Alignas(16) unsigned char parameters[WEFT_CUDA_MAX_PARAMETERS];
    void *arguments[] = {parameters};
    uint64_t counter = 0;
    int pushed;
    weft_status status = weft_cuda_enter(c->driver, c->context, &pushed, message);
    if (status) {
        return status;
    }
    if ((status = check_pointers(c, data, message)) == WEFT_OK && c->tickets) {
        status = weft_tickets_take(c->tickets, stream, &counter, message);
    }
    if (status == WEFT_OK) {
        c->family->fill(plan, data, &c->walk, (uint64_t *)(uintptr_t)counter, parameters);
        const weft_cu_result result = c->driver->launch(c->function, c->grid, 1, 1, (unsigned)c->choice.threads, 1, 1,
                                                        c->choice.shared_bytes, stream, arguments, NULL);
        status = result ? weft_cuda_fail(c->driver, result, "the kernel cannot be launched", message) : WEFT_OK;
    }
    weft_cuda_leave(c->driver, pushed);
    return status;
}
