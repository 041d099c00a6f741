/* SPDX-License-Identifier: Apache-2.0 */
/* ldmatrix on a CPU. */
#ifndef WEFT_CUDA_PTX_LDMATRIX_CUH
#define WEFT_CUDA_PTX_LDMATRIX_CUH

#include "emulate.h"

const unsigned char *emulated_row_at(uint32_t address); /* 16 bytes */

struct emulated_ldmatrix {
    uint32_t from, *to;
};

template <bool TRANSPOSED> static inline void emulated_load(void *const *all) {
    for (int lane = 0; lane < 32; lane++) {
        for (int m = 0; m < 4; m++) {
            uint16_t two[2];
            for (int e = 0; e < 2; e++) {
                const int row = TRANSPOSED ? lane % 4 * 2 + e : lane / 4, col = TRANSPOSED ? lane / 4 : lane % 4 * 2 + e;
                const emulated_ldmatrix *source = (const emulated_ldmatrix *)all[m * 8 + row];
                memcpy(&two[e], emulated_row_at(source->from) + 2 * col, 2);
            }
            ((const emulated_ldmatrix *)all[lane])->to[m] = two[0] | (uint32_t)two[1] << 16;
        }
    }
}

static inline void ldmatrix_x4(uint32_t (&to)[4], uint32_t from) {
    emulated_ldmatrix mine = {from, to};
    emulated_meet(&mine, emulated_load<false>);
}

static inline void ldmatrix_x4_transposed(uint32_t (&to)[4], uint32_t from) {
    emulated_ldmatrix mine = {from, to};
    emulated_meet(&mine, emulated_load<true>);
}

#endif
