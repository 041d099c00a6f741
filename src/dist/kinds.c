/* SPDX-License-Identifier: Apache-2.0 */
#include "dist/kinds.h"

#include <string.h>

#include "base/status.h"

#define WEFT_DIST_KIND(name)                                                                                               \
    {                                                                                                                      \
        .resolve = weft_dist_##name##_resolve, .choose = weft_dist_##name##_choose, .check = weft_dist_##name##_check,     \
        .describe_rows = weft_dist_##name##_rows, .slices = weft_dist_##name##_slices, .told = weft_dist_##name##_told,    \
        .memory = weft_dist_##name##_memory, .rows_text = weft_dist_##name##_rows_text,                                    \
        .variant = weft_dist_##name##_variant, .ask = weft_dist_##name##_ask, .begin = weft_dist_##name##_begin,           \
        .plan_slice = weft_dist_##name##_plan_slice, .plan_sum = weft_dist_##name##_plan_sum,                              \
        .plan_end = weft_dist_##name##_plan_end, .take = weft_dist_##name##_take, .clear = weft_dist_##name##_clear,       \
        .slice = weft_dist_##name##_slice, .add = weft_dist_##name##_add, .check_data = weft_dist_##name##_check_data,     \
        .run = weft_dist_##name##_run                                                                                      \
    }

static const weft_dist_kind attention = WEFT_DIST_KIND(attention), gemm = WEFT_DIST_KIND(gemm);

static const weft_dist_kind *const kinds[] = {
    [WEFT_ATTENTION] = &attention, [WEFT_ATTENTION_BACKWARD] = &attention, [WEFT_GEMM] = &gemm};
enum { KINDS = sizeof kinds / sizeof *kinds };

const weft_dist_kind *weft_dist_kind_of(const void *problem, weft_message *message) {
    struct {
        size_t struct_size;
        int32_t operation;
    } head = {0, 0};
    if (!problem) {
        weft_fail(message, WEFT_INVALID, "problem is null");
        return NULL;
    }
    memcpy(&head, problem, sizeof head);
    if (head.operation > 0 && head.operation < KINDS && kinds[head.operation]) {
        return kinds[head.operation];
    }
    const weft_operation_row *row = weft_operation_at(head.operation);
    weft_fail(message, WEFT_UNSUPPORTED, "%s is not shared among ranks: attention is, forward and backward, and gemm",
              row ? row->info.name : "this operation");
    return NULL;
}
