/* SPDX-License-Identifier: Apache-2.0 */
/* Checking what runs leave: against the reference, or against a result that was held to it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "base/struct.h"
#include "bench/bench.h"
#include "ref/ref.h"

/* Compares with the reference, which needs what runs read and write as it was before. */
static weft_status ask_reference(weft_bench *b, weft_check *check, weft_message *message) {
    weft_status status = WEFT_OK;
    weft_data before = b->host;
    for (size_t i = 0; i < b->count; i++) {
        void **at = weft_bench_pointer(&before, &b->buffers[i]);
        if (b->buffers[i].is_read && b->buffers[i].is_written) {
            *at = status ? NULL : malloc(weft_bench_bytes(&b->buffers[i]));
            status = status ? status
                     : *at  ? weft_bench_fill(b, &weft_bench_memory_host, i, *at, message)
                            : weft_fail(message, WEFT_NO_MEMORY, "out of memory");
        }
    }
    const weft_check_options options = {.struct_size = sizeof options,
                                        .operations = b->options.check_operations,
                                        .seconds = b->options.check_seconds,
                                        .seed = b->options.seed,
                                        .progress = b->options.progress,
                                        .progress_user = b->options.progress_user};
    status = status ? status : weft_check_sample(&b->problem, &b->host, &before, &options, check, message);
    for (size_t i = 0; i < b->count; i++) {
        if (b->buffers[i].is_read && b->buffers[i].is_written) {
            free(*weft_bench_pointer(&before, &b->buffers[i]));
        }
    }
    return status;
}

/* Keeps what was checked. */
static weft_status keep(weft_bench *b, weft_message *message) {
    for (size_t i = 0; i < b->count; i++) {
        void **to = weft_bench_pointer(&b->first, &b->buffers[i]);
        if (b->buffers[i].is_written && *weft_bench_pointer(&b->host, &b->buffers[i])) {
            if (!(*to = malloc(weft_bench_bytes(&b->buffers[i])))) {
                return weft_fail(message, WEFT_NO_MEMORY, "out of memory");
            }
            memcpy(*to, *weft_bench_pointer(&b->host, &b->buffers[i]), weft_bench_bytes(&b->buffers[i]));
        }
    }
    return WEFT_OK;
}

static double largest_of(const weft_buffer *buffer, const void *data) {
    double largest = 0;
    for (size_t i = 0; i < buffer->elements; i++) {
        const double value = fabs(weft_ref_load(buffer->dtype, data, i));
        largest = isfinite(value) ? fmax(largest, value) : largest;
    }
    return largest;
}

/* Compares with the first result: another schedule changes nothing but rounding. The sample that the bound is from misses
 * the largest results, so these may be off by two roundings besides. Optional outputs are left to the reference. */
static void compare(weft_bench *b, weft_check *check) {
    for (size_t i = 0; i < b->count && check->passed; i++) {
        const weft_buffer *buffer = &b->buffers[i];
        if (!buffer->is_written || buffer->optional) {
            continue;
        }
        const void *first = *weft_bench_pointer(&b->first, buffer), *now = *weft_bench_pointer(&b->host, buffer);
        const double bound = 2 * b->checked.bound * (check->relative ? largest_of(buffer, first) : 1);
        const double rounding = 2 * weft_bench_rounding(buffer->dtype);
        for (size_t k = 0; k < buffer->elements && check->passed; k++) {
            const double want = weft_ref_load(buffer->dtype, first, k);
            check->max_error = fabs(weft_ref_load(buffer->dtype, now, k) - want); /* may be NaN */
            check->bound = bound + rounding * fabs(want);
            check->passed = check->max_error <= check->bound || (isnan(want) && isnan(check->max_error));
            check->checked++;
        }
    }
}

weft_status weft_bench_check(weft_bench *b, weft_check *check, weft_message *message) {
    const void *data;
    weft_check found = WEFT_CHECK_INIT;
    weft_status status = weft_bench_data(b, &data, message);
    if (status == WEFT_OK && b->checked.checked > 0) {
        found.unit = "elements";
        found.passed = 1;
        found.relative = b->checked.relative;
        compare(b, &found);
        found.total = found.checked;
    } else if (status == WEFT_OK) {
        status = ask_reference(b, &found, message);
        if (status == WEFT_OK && b->options.check_once && found.passed) {
            b->checked = found;
            status = keep(b, message);
        }
    }
    return status ? status : weft_struct_give(check, &found, sizeof found, sizeof(size_t), "WEFT_CHECK_INIT", message);
}
