/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers at the edge: each test is a row of docs/numbers.md, which tests/docs/numbers.py holds to the tests' names. */
#ifndef WEFT_TESTS_CPU_NUMBERS_H
#define WEFT_TESTS_CPU_NUMBERS_H

#include <float.h>
#include <stdio.h>

#include "../ref/tensors.h"

static const weft_dtype number_dtypes[] = {WEFT_FP32, WEFT_FP16, WEFT_BF16};
enum { NUMBER_DTYPES = 3 };

static inline double at(weft_dtype dtype, const void *data, int64_t i) {
    return weft_ref_load(dtype, data, (size_t)i);
}

static inline void put(weft_dtype dtype, void *data, int64_t i, double value) {
    weft_ref_store(dtype, data, (size_t)i, value);
}

/* The unit in the last place of 1; the smallest number, a denormal; the largest one. */
static inline double unit_of(weft_dtype dtype) {
    return dtype == WEFT_FP32 ? 0x1p-23 : dtype == WEFT_FP16 ? 0x1p-10 : 0x1p-7;
}

static inline double smallest_of(weft_dtype dtype) {
    return dtype == WEFT_FP32 ? 0x1p-149 : dtype == WEFT_FP16 ? 0x1p-24 : 0x1p-133;
}

static inline double largest_of(weft_dtype dtype) {
    return dtype == WEFT_FP32 ? (double)FLT_MAX : dtype == WEFT_FP16 ? 65504 : 0x1.fep127;
}

/* Whether a denormal came through. Instructions that multiply bf16 take its denormals as 0. */
static inline int is_denormal(weft_dtype dtype, double got, double want) {
    return got == want || (dtype == WEFT_BF16 && got == 0);
}

/* A copy of a guarded buffer, guarded too. */
static inline void *copy_of(const void *data, size_t bytes) {
    void *copy = guarded_new(bytes);
    memcpy(copy, data, bytes);
    return copy;
}

static inline void succeeds(weft_status status, const weft_message *message) {
    if (status) {
        fail_msg("%s", message->text);
    }
}

static inline void refused(weft_status status, const weft_message *message, const char *text) {
    assert_int_equal(status, WEFT_INVALID);
    assert_string_equal(message->text, text);
}

/* Runs the rows, or with --list prints their names. */
static inline int run_numbers(int argc, char **argv, const struct CMUnitTest *rows, size_t count) {
    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        for (size_t i = 0; i < count; i++) {
            puts(rows[i].name);
        }
        return 0;
    }
    return _cmocka_run_group_tests("numbers", rows, count, NULL, NULL);
}

#endif
