/* SPDX-License-Identifier: Apache-2.0 */
/* Small problems of any form under any schedule: what the CPU takes is run, and is what the reference says. */
#include <stdio.h>

#include <weft/bench.h>

#include "../plans.h"
#include "take.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { LARGEST = 1 << 17 /* elements of a buffer */ };

/* From 1 to `most`. */
static int64_t some(input *in, int64_t most) {
    return 1 + (int64_t)((uint64_t)take(in) % (uint64_t)most);
}

/* Factors of any size belong to the tests of numbers: here a plain kernel has to be exact enough to hold others to. */
static double factor(input *in) {
    static const double factors[] = {1, 0.5, -1.25, 0};
    return factors[(uint64_t)take(in) % 4];
}

static weft_attention small_attention(input *in) {
    weft_attention p = take_attention(in);
    const int64_t group = some(in, 3);
    p.operation = some(in, 3) == 3 ? WEFT_ATTENTION_BACKWARD : WEFT_ATTENTION;
    p.kv_heads = some(in, 3);
    p.heads = group * p.kv_heads;
    p.head_dim = some(in, 40);
    p.scale = 0;
    p.softcap = p.softcap != 0 ? 20 : 0;
    p.dropout = p.dropout != 0 ? 0.25 : 0;
    if (!p.lengths.q_starts) {
        p.batch = some(in, 3);
        p.seq = some(in, 70);
        p.kv_seq = some(in, 70);
    }
    return p;
}

static weft_gemm small_gemm(input *in) {
    weft_gemm p = take_gemm(in);
    p.m = some(in, 70);
    p.n = some(in, 70);
    p.k = some(in, 70);
    p.alpha = p.alpha != 1 ? factor(in) : 1;
    p.beta = p.beta != 0 ? factor(in) : 0;
    return p;
}

static weft_combine small_combine(input *in) {
    weft_combine p = take_combine(in);
    p.seq = some(in, 20);
    p.head_dim = some(in, 40);
    return p;
}

static int is_small(const void *problem) {
    weft_buffer b = WEFT_BUFFER_INIT;
    for (size_t i = 0; weft_problem_buffer(problem, i, &b, NULL) == WEFT_OK; i++) {
        if (b.elements > LARGEST) {
            return 0;
        }
    }
    return 1;
}

/* Optional inputs are there in half of the runs. */
static void run(const weft_plan *plan, input *in) {
    weft_bench_options options = WEFT_BENCH_INIT;
    weft_check check = WEFT_CHECK_INIT;
    weft_message message = {""};
    weft_bench *bench = NULL;
    char text[2048];
    options.seed = (uint64_t)some(in, 1000);
    options.required_only = (int32_t)(take(in) % 2);
    weft_status status = weft_bench_open(&bench, plan, &options, &message);
    if (status == WEFT_OK) {
        status = weft_bench_run(bench, plan, &message);
        status = status ? status : weft_bench_check(bench, &check, &message);
    }
    weft_bench_close(bench);
    if (status == WEFT_OK ? !check.passed : status != WEFT_UNSUPPORTED) {
        weft_plan_text(plan, text, sizeof text);
        fprintf(stderr, "%s\n%s\nerror %g of %g\n", text, message.text, check.max_error, check.bound);
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    input in = {data, size};
    weft_message message = {""};
    weft_plan *plan = NULL;
    union {
        weft_attention attention;
        weft_gemm gemm;
        weft_combine combine;
    } p;
    const weft_schedule schedule = take_schedule(&in);
    const int64_t kind = some(&in, 5);
    if (kind < 4) {
        p.attention = small_attention(&in);
    } else if (kind == 4) {
        p.gemm = small_gemm(&in);
    } else {
        p.combine = small_combine(&in);
    }
    if (weft_problem_check(&p, &message) == WEFT_OK && is_small(&p)) {
        expect(plan_for(&plan, &p, &schedule, NULL, &message), &message, plan);
    }
    if (plan) {
        run(plan, &in);
    }
    weft_plan_destroy(plan);
    return 0;
}
