/* The CPU backend: forward attention and GEMM by the best kernels, backward by the reference. */
#include "cpu/cpu.h"
#include "ref/ref.h"

static const char *kernel(const weft_plan *plan) {
    (void)plan;
    return weft_cpu_choose()->name;
}

const weft_backend weft_backend_cpu = {
    .name = "cpu",
    .kernel = kernel,
    .attention_forward = weft_cpu_attention,
    .attention_backward = weft_ref_attention_backward,
    .gemm = weft_cpu_gemm,
};
