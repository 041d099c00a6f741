/* SPDX-License-Identifier: Apache-2.0 */
/* What a caller gives with a problem: a schedule and a device. */
#include "base/status.h"
#include "base/struct.h"
#include "plan/plan.h"

weft_status weft_schedule_copy(weft_schedule *ours, const weft_schedule *theirs, weft_message *message) {
    const weft_schedule none = WEFT_SCHEDULE_INIT;
    *ours = none;
    const weft_status status = weft_struct_take_options(ours, sizeof *ours, theirs, "WEFT_SCHEDULE_INIT", message);
    if (status == WEFT_OK && ours->order_table && ours->order != WEFT_ORDER_CHOOSE && ours->order != WEFT_ORDER_CUSTOM) {
        return weft_fail(message, WEFT_INVALID, "order_table is given, and order is %d: order custom takes it",
                         (int)ours->order);
    }
    return status;
}

weft_status weft_device_copy(weft_device *ours, const weft_device *theirs, weft_message *message) {
    const weft_device none = WEFT_DEVICE_INIT;
    *ours = none;
    const weft_status status = weft_struct_take_options(ours, sizeof *ours, theirs, "WEFT_DEVICE_INIT", message);
    if (status) {
        return status;
    }
    if (ours->kind != WEFT_DEVICE_CPU && ours->kind != WEFT_DEVICE_CUDA) {
        return weft_fail(message, WEFT_INVALID, "kind %d is not WEFT_DEVICE_CPU or WEFT_DEVICE_CUDA", (int)ours->kind);
    }
    if (ours->mode < WEFT_ESTIMATE || ours->mode > WEFT_PAPER) {
        return weft_fail(message, WEFT_INVALID, "mode %d is not WEFT_ESTIMATE, WEFT_MEASURE, WEFT_STORED or WEFT_PAPER",
                         (int)ours->mode);
    }
    if (ours->kernel && ours->kind == WEFT_DEVICE_CPU) {
        return weft_fail(message, WEFT_INVALID, "kernel %.40s: the CPU has no such knob", ours->kernel);
    }
    return WEFT_OK;
}
