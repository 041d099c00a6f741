/* SPDX-License-Identifier: Apache-2.0 */
/* Operations by number and by name, and what all problems and their data have in common. */
#include <stdio.h>
#include <string.h>

#include "base/names.h"
#include "base/status.h"
#include "base/struct.h"
#include "problem/operation.h"

#define WEFT_OPERATION(NUMBER, name) extern const weft_operation_row weft_operation_##name;
#include "problem/operations.def"
#undef WEFT_OPERATION

static const weft_operation_row *const rows[] = {
#define WEFT_OPERATION(NUMBER, name) [NUMBER] = &weft_operation_##name,
#include "problem/operations.def"
#undef WEFT_OPERATION
};
enum { ROWS = sizeof rows / sizeof *rows };

const weft_operation_row *weft_operation_at(int32_t operation) {
    return operation > 0 && operation < ROWS ? rows[operation] : NULL;
}

const weft_operation_info *weft_operation_describe(int32_t operation) {
    const weft_operation_row *row = weft_operation_at(operation);
    return row ? &row->info : NULL;
}

int32_t weft_operation_find(const char *name) {
    for (int32_t i = 1; i < ROWS; i++) {
        if (name && rows[i] && weft_names_agree(name, rows[i]->info.name)) {
            return i;
        }
    }
    return 0;
}

int weft_problem_init(void *problem, int32_t operation) {
    const weft_operation_row *row = weft_operation_at(operation);
    weft_problem fresh = {0};
    if (!row || !problem) {
        return 0;
    }
    row->init(&fresh);
    memcpy(problem, &fresh, row->info.problem_size);
    return 1;
}

/* The row that the head of a caller's struct names: struct_size, then the operation. */
static weft_status find_row(const weft_operation_row **row, const void *theirs, const char *what, weft_message *message) {
    struct {
        size_t struct_size;
        int32_t operation;
    } head = {0, 0};
    if (!theirs) {
        return weft_fail(message, WEFT_INVALID, "the %s is null", what);
    }
    memcpy(&head.struct_size, theirs, sizeof head.struct_size);
    if (head.struct_size < sizeof head) {
        return weft_fail(message, WEFT_INVALID,
                         "struct_size %zu of the %s is not one that this library knows: initialise it with its _INIT",
                         head.struct_size, what);
    }
    memcpy(&head, theirs, sizeof head);
    *row = weft_operation_at(head.operation);
    return *row ? WEFT_OK : weft_fail(message, WEFT_INVALID, "operation %d is not a weft_operation", (int)head.operation);
}

weft_status weft_problem_resolve(weft_problem *resolved, const weft_operation_row **row, const void *problem,
                                 weft_message *message) {
    weft_status status = find_row(row, problem, "problem", message);
    if (status) {
        return status;
    }
    memset(resolved, 0, sizeof *resolved);
    (*row)->init(resolved);
    status = weft_struct_take(resolved, (*row)->info.problem_size, sizeof(size_t) + sizeof(int64_t), problem, "its _INIT",
                              message);
    return status ? status : (*row)->resolve(resolved, message);
}

weft_status weft_problem_check(const void *problem, weft_message *message) {
    weft_problem resolved;
    const weft_operation_row *row;
    return weft_problem_resolve(&resolved, &row, problem, message);
}

double weft_problem_flops(const void *problem) {
    weft_problem resolved;
    const weft_operation_row *row;
    return weft_problem_resolve(&resolved, &row, problem, NULL) ? 0.0 : row->flops(&resolved);
}

weft_status weft_problem_buffer(const void *problem, size_t index, weft_buffer *buffer, weft_message *message) {
    weft_problem resolved;
    const weft_operation_row *row;
    weft_buffer list[WEFT_BUFFERS];
    const weft_status status = weft_problem_resolve(&resolved, &row, problem, message);
    if (status) {
        return status;
    }
    const size_t count = row->buffers(&resolved, list);
    if (index >= count) {
        return weft_fail(message, WEFT_NOT_FOUND, "%s has %zu buffers", row->info.name, count);
    }
    return weft_struct_give(buffer, &list[index], sizeof list[index], sizeof(size_t), "WEFT_BUFFER_INIT", message);
}

static const void *pointer_at(const weft_data *data, size_t offset) {
    const void *pointer;
    memcpy(&pointer, (const char *)data + offset, sizeof pointer);
    return pointer;
}

/* Buffers that are optional together are all given or all null. */
static int is_left_out(const weft_data *data, const weft_buffer *list, size_t count, size_t i) {
    for (size_t j = 0; j < count; j++) {
        if (list[j].optional == list[i].optional && pointer_at(data, list[j].offset)) {
            return 0;
        }
    }
    return list[i].optional != 0;
}

static int share_memory(const void *first, size_t first_bytes, const void *second, size_t second_bytes) {
    const uintptr_t a = (uintptr_t)first, b = (uintptr_t)second;
    return a < b ? b - a < first_bytes : a - b < second_bytes;
}

weft_status weft_problem_check_dtypes(const weft_problem *problem, const weft_operation_row *row, const char *by,
                                      weft_message *message) {
    weft_buffer list[WEFT_BUFFERS];
    const size_t count = row->buffers(problem, list);
    for (size_t i = 0; i < count; i++) {
        if (list[i].dtype == WEFT_FP8) {
            return weft_fail(message, WEFT_UNSUPPORTED, "%s is not supported by %s yet: only the simulator takes it",
                             weft_dtype_name(list[i].dtype), by);
        }
    }
    return WEFT_OK;
}

/* Copies a caller's data, and checks what is no buffer. */
static weft_status take_data(weft_data *copy, const weft_operation_row *row, const void *data, weft_message *message) {
    const weft_operation_row *given;
    int32_t prepared = 0;
    memset(copy, 0, sizeof *copy);
    weft_status status = find_row(&given, data, "data", message);
    if (status) {
        return status;
    }
    if (given != row) {
        return weft_fail(message, WEFT_INVALID, "the plan is for %s, and the data for %s", row->info.name,
                         given->info.name);
    }
    status = weft_struct_take(copy, row->info.data_size, sizeof(size_t) + sizeof(int64_t), data, "its _INIT", message);
    if (status == WEFT_OK && row->prepared) {
        memcpy(&prepared, (const char *)copy + row->prepared, sizeof prepared);
    }
    return prepared == 0 || prepared == 1
               ? status
               : weft_fail(message, WEFT_INVALID, "prepared %d is neither 0 nor 1", (int)prepared);
}

weft_status weft_data_check_lengths(weft_data *copy, const weft_operation_row *row, const weft_problem *problem,
                                    const void *data, weft_message *message) {
    weft_buffer list[WEFT_BUFFERS];
    const weft_status status = take_data(copy, row, data, message);
    const size_t count = status ? 0 : row->buffers(problem, list);
    for (size_t i = 0; i < count; i++) {
        const void *none = NULL;
        const size_t end = row->lengths + sizeof(weft_lengths);
        if (!row->lengths || list[i].offset < row->lengths || list[i].offset >= end) {
            memcpy((char *)copy + list[i].offset, &none, sizeof none);
        } else if (!pointer_at(copy, list[i].offset) && !list[i].optional) {
            return weft_fail(message, WEFT_INVALID, "%s is null", list[i].name);
        }
    }
    return status;
}

weft_status weft_data_check(weft_data *copy, const weft_operation_row *row, const weft_problem *problem, const void *data,
                            weft_message *message) {
    weft_buffer list[WEFT_BUFFERS];
    const size_t count = row->buffers(problem, list);
    return weft_data_check_buffers(copy, row, problem, list, count, data, message);
}

weft_status weft_data_check_buffers(weft_data *copy, const weft_operation_row *row, const weft_problem *problem,
                                    const weft_buffer *list, size_t count, const void *data, weft_message *message) {
    const weft_status status = take_data(copy, row, data, message);
    if (status) {
        return status;
    }
    for (size_t i = 0; i < count; i++) {
        const void *at = pointer_at(copy, list[i].offset);
        if (!at && !is_left_out(copy, list, count, i)) {
            return weft_fail(message, WEFT_INVALID, "%s is null", list[i].name);
        }
        if ((uintptr_t)at % weft_dtype_bytes(list[i].dtype) != 0) {
            return weft_fail(message, WEFT_INVALID, "%s is not aligned to its elements of %zu bytes", list[i].name,
                             weft_dtype_bytes(list[i].dtype));
        }
        for (size_t j = 0; at && j < i; j++) {
            const void *other = pointer_at(copy, list[j].offset);
            if (other && (list[i].is_written || list[j].is_written) &&
                share_memory(at, list[i].elements * weft_dtype_bytes(list[i].dtype), other,
                             list[j].elements * weft_dtype_bytes(list[j].dtype)) &&
                !(row->apart && row->apart(problem, copy, list[i].offset, list[j].offset))) {
                return weft_fail(message, WEFT_INVALID, "%s overlaps %s", list[i].name, list[j].name);
            }
        }
    }
    return WEFT_OK;
}

const char *weft_dtype_choice(int32_t dtype) {
    return weft_dtype_name((weft_dtype)dtype);
}

const char *weft_layout_name(int32_t layout) {
    static const char *const names[] = {"bshd", "bhsd"};
    return layout >= 0 && layout < 2 ? names[layout] : NULL;
}

const char *weft_size_text(int64_t number, char *text, size_t size) {
    const int is_round = number >= 10240 && number % 1024 == 0;
    snprintf(text, size, is_round ? "%lldK" : "%lld", (long long)(is_round ? number / 1024 : number));
    return text;
}

int64_t weft_tile_dividing(int64_t block, int64_t most) {
    int64_t parts = weft_ceil_divide(block, most);
    while (block % parts != 0) {
        parts++;
    }
    return block / parts;
}

int64_t weft_bucket(int64_t length) {
    if (length <= 16) {
        return length;
    }
    const int shift = 63 - __builtin_clzll((unsigned long long)length) - 3; /* leaves 8 ... 15 */
    return length >> shift << shift;
}
