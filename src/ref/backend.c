/* The reference as a backend: always there, never fast. */
#include "base/status.h"
#include "problem/problem.h"
#include "ref/ref.h"

static weft_status run_attention(const weft_plan *plan, const void *data, weft_message *message) {
    return weft_ref_attention_tiled(plan, data, message);
}

static weft_status run_backward(const weft_plan *plan, const void *data, weft_message *message) {
    return weft_ref_attention_backward(&plan->attention, data, message);
}

static weft_status run_gemm(const weft_plan *plan, const void *data, weft_message *message) {
    weft_status status = WEFT_OK;
    for (int64_t i = 0; i < plan->gemm.batch && status == WEFT_OK; i++) {
        const weft_gemm_data one = weft_gemm_product(&plan->gemm, data, i);
        status = weft_ref_gemm_tiled(plan, &one, message);
    }
    return status;
}

static weft_status run(const weft_plan *plan, const void *data, weft_message *message) {
    static weft_status (*const runs[])(const weft_plan *, const void *, weft_message *) = {
        [WEFT_ATTENTION] = run_attention, [WEFT_ATTENTION_BACKWARD] = run_backward, [WEFT_GEMM] = run_gemm};
    const size_t number = (size_t)plan->operation->info.operation;
    return number < sizeof runs / sizeof *runs
               ? runs[number](plan, data, message)
               : weft_fail(message, WEFT_UNSUPPORTED, "there is no reference for %s", plan->operation->info.name);
}

const weft_backend weft_backend_ref = {.name = "ref", .run = run};
