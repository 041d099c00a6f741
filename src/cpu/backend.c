/* The CPU backend. */
#include "cpu/cpu.h"

static const char *kernel(const weft_plan *plan) {
    return weft_cpu_choose(plan->subject, plan->subject == WEFT_SUBJECT_GEMM ? plan->gemm.dtype : plan->attention.dtype)
        ->name;
}

const weft_backend weft_backend_cpu = {
    .name = "cpu",
    .kernel = kernel,
    .open = weft_cpu_open,
    .candidates = weft_cpu_candidates,
    .cost = weft_cpu_cost,
    .attention_forward = weft_cpu_attention,
    .attention_backward = weft_cpu_attention_backward,
    .gemm = weft_cpu_gemm,
};
