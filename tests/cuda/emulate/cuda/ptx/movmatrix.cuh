/* SPDX-License-Identifier: Apache-2.0 */
/* movmatrix on a CPU. */
#ifndef WEFT_CUDA_PTX_MOVMATRIX_CUH
#define WEFT_CUDA_PTX_MOVMATRIX_CUH

#include "emulate.h"

static inline uint32_t movmatrix_transposed(uint32_t from) {
    struct item {
        uint32_t in, out;
    } mine = {from, 0};
    emulated_meet(&mine, [](void *const *all) {
        for (int lane = 0; lane < 32; lane++) {
            uint32_t two = 0;
            for (int e = 0; e < 2; e++) {
                const int row = lane % 4 * 2 + e, column = lane / 4;
                two |= (((const item *)all[4 * row + column / 2])->in >> 16 * (column % 2) & 0xffff) << 16 * e;
            }
            ((item *)all[lane])->out = two;
        }
    });
    return mine.out;
}

#endif
