/* What every hot call ends with: pointers are checked, parameters filled, and the kernel is put on a stream. */
#include <stdint.h>

#include "base/status.h"
#include "cuda/plan/backend.h"

weft_status weft_cuda_check_pointer(const weft_cuda_plan *c, const char *name, const void *pointer, size_t alignment,
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

weft_status weft_cuda_launch(const weft_plan *plan, const void *data, void *stream, weft_message *message) {
    const weft_cuda_plan *c = plan->placed;
    _Alignas(64) unsigned char parameters[WEFT_CUDA_MAX_PARAMETERS];
    void *arguments[] = {parameters};
    weft_counters counters = {0};
    weft_walk walk = weft_cuda_walk_with(plan, data);
    weft_status status = WEFT_OK;
    if (c->tickets) {
        status = weft_tickets_take(c->tickets, stream, c->family->leaves_zero, c->paces, &counters, message);
    }
    /* Without counters of its own a worker takes the tiles that dynamic dispatch would give it if all were as fast. */
    if (counters.is_captured && !c->family->finds_counters && walk.dispatch == WEFT_DISPATCH_DYNAMIC) {
        walk.dispatch = WEFT_DISPATCH_STATIC;
    }
    if (status || (status = c->family->fill(plan, data, &walk, &counters, parameters, message))) {
        return status;
    }
    const uint32_t grid = c->side_of_sm && !counters.is_captured ? c->side_grid : c->grid;
    const weft_schedule *s = &plan->schedule;
    const uint32_t ctas = (uint32_t)(s->cluster_m * s->cluster_n * s->split);
    const unsigned threads = (unsigned)c->choice.threads, shared = c->choice.shared_bytes;
    weft_cu_result result;
    /* Such a kernel sets itself up while the launch before it ends. A capture takes that from CUDA 12.3 on, and only after
     * another kernel, not after the order that zeroes counters. */
    const int overlaps =
        c->choice.overlaps && !counters.ordered && c->driver->launch_extended && c->driver->release >= 12030;
    if (ctas == 1 && !overlaps) {
        result = c->driver->launch(c->function, grid, 1, 1, threads, 1, 1, shared, stream, arguments, NULL);
    } else {
        const weft_cu_launch_attribute attributes[2] = {{WEFT_CU_LAUNCH_CLUSTER, {ctas, 1, 1}},
                                                        {WEFT_CU_LAUNCH_OVERLAP, {1}}};
        const weft_cu_launch launch = {{grid, 1, 1}, {threads, 1, 1}, shared, stream, attributes, overlaps ? 2 : 1};
        result = c->driver->launch_extended(&launch, c->function, arguments, NULL);
    }
    return result ? weft_cuda_fail(c->driver, result, "the kernel cannot be launched", message) : WEFT_OK;
}
