/* SPDX-License-Identifier: Apache-2.0 */
/* The portable backward behind the fake driver: a launch runs the kernel's own source, see emulate.h. */
#include "cuda/ptx/cp_async.cuh"
#include "cuda/study/backward/params.h"

extern "C" {
#include "fake_driver.h"

#define WEFT_STUDY_BACKWARD(symbol, ...)                                                                                   \
    void symbol##_dq(weft_study_backward_params p);                                                                        \
    void symbol##_dk_dv(weft_study_backward_params p);                                                                     \
    void symbol##_sinks(weft_study_backward_params p);
#include "cuda/study/backward/variants.def"
}

/* Copies that nobody waited for end with their CTA. */
static void begin() {
    for (emulated_orders<emulated_copy> &copies : emulated_copies_of) {
        copies = {};
    }
}

template <void (*ENTRY)(weft_study_backward_params)>
static int run(unsigned grid, unsigned threads, const weft_study_backward_params *p) {
    emulated_launch({[](void *argument) { ENTRY(*(const weft_study_backward_params *)argument); }, (void *)p, grid, threads,
                     begin, nullptr, nullptr});
    return 0;
}

int fake_run_backward(const char *kernel, unsigned grid, const void *parameters) {
    const weft_study_backward_params *p = (const weft_study_backward_params *)parameters;
#define WEFT_STUDY_BACKWARD(symbol, module, DTYPE, head_dim, head_dim_v, tile, warps, ...)                                 \
    if (strcmp(kernel, #symbol "_dq") == 0) {                                                                              \
        return run<symbol##_dq>(grid, 32 * (warps), p);                                                                    \
    }                                                                                                                      \
    if (strcmp(kernel, #symbol "_dk_dv") == 0) {                                                                           \
        return run<symbol##_dk_dv>(grid, 32 * (warps), p);                                                                 \
    }                                                                                                                      \
    if (strcmp(kernel, #symbol "_sinks") == 0) {                                                                           \
        return run<symbol##_sinks>(grid, WEFT_STUDY_SINKS_THREADS, p);                                                     \
    }
#include "cuda/study/backward/variants.def"
    return 1;
}
