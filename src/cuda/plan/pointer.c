/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a kernel can follow a pointer. */
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
