/* SPDX-License-Identifier: Apache-2.0 */
/* The general variants of the study kernel, and what precedes them, behind the fake driver: a launch runs the kernel's own
 * source, see emulate.h. */
#include "cuda/ptx/cp_async.cuh"
#include "cuda/study/append.h"
#include "cuda/study/params.h"

extern "C" {
#include "fake_driver.h"

#define WEFT_STUDY_GENERAL(symbol, ...) void symbol(weft_study_params p);
#include "cuda/study/variants.def"
void study_append_bf16(weft_study_append p);
void study_append_fp16(weft_study_append p);
}

/* Copies that nobody waited for end with their CTA. */
static void begin() {
    for (emulated_orders<emulated_copy> &copies : emulated_copies_of) {
        copies = {};
    }
}

template <class PARAMS, void (*ENTRY)(PARAMS)> static int run(unsigned grid, unsigned threads, const void *parameters) {
    emulated_launch({[](void *argument) { ENTRY(*(const PARAMS *)argument); }, (void *)parameters, grid, threads, begin,
                     nullptr, nullptr});
    return 0;
}

int fake_run_study(const char *kernel, unsigned grid, const void *parameters) {
#define WEFT_STUDY_GENERAL(symbol, module, DTYPE, head_dim, head_dim_v, tile_m, tile_n, MATH, warps, ...)                  \
    if (strcmp(kernel, #symbol) == 0) {                                                                                    \
        return run<weft_study_params, symbol>(grid, 32 * (warps), parameters);                                             \
    }
#include "cuda/study/variants.def"
    return 1; /* plain variants have an emulation of their own: CMakeLists.txt */
}

int fake_run_append(const char *kernel, unsigned grid, const void *parameters) {
    return strcmp(kernel, "study_append_bf16") == 0
               ? run<weft_study_append, study_append_bf16>(grid, WEFT_STUDY_APPEND_THREADS, parameters)
               : run<weft_study_append, study_append_fp16>(grid, WEFT_STUDY_APPEND_THREADS, parameters);
}
