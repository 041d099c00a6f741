/* SPDX-License-Identifier: Apache-2.0 */
/* The launch before the study kernel where keys are appended or rows rotated: see append.h. */
#include "cuda/study/append.cuh"

#define APPEND(symbol, BF16)                                                                                               \
    extern "C" __global__ void __launch_bounds__(WEFT_STUDY_APPEND_THREADS)                                                \
        symbol(const __grid_constant__ weft_study_append p) {                                                              \
        if (p.chunk == WEFT_STUDY_APPEND_CHUNK) {                                                                          \
            study_append<BF16, WEFT_STUDY_APPEND_CHUNK>(p);                                                                \
        } else {                                                                                                           \
            study_append<BF16, 1>(p);                                                                                      \
        }                                                                                                                  \
    }

APPEND(study_append_bf16, true)
APPEND(study_append_fp16, false)
