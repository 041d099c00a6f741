/* SPDX-License-Identifier: Apache-2.0 */
/* mma.sync on a CPU. */
#ifndef WEFT_CUDA_PTX_MMA_CUH
#define WEFT_CUDA_PTX_MMA_CUH

#include "halves.h"

struct emulated_mma {
    float *c;
    const uint32_t *a;
    uint32_t b[2];
};

/* Of TF32 a lane's two elements are one, with a zero behind it. */
template <bool BF16, bool TF32> static inline void emulated_pair(uint32_t word, float &low, float &high) {
    low = TF32 ? emulated_tf32(word) : emulated_half(BF16, (uint16_t)word);
    high = TF32 ? 0 : emulated_half(BF16, (uint16_t)(word >> 16));
}

template <bool BF16, bool TF32> static inline void emulated_multiply(void *const *all) {
    float a[16][16], b[16][8];
    for (int lane = 0; lane < 32; lane++) {
        const emulated_mma *m = (const emulated_mma *)all[lane];
        const int g = lane / 4, t = lane % 4 * 2;
        for (int i = 0; i < 4; i++) {
            emulated_pair<BF16, TF32>(m->a[i], a[g + i % 2 * 8][t + i / 2 * 8], a[g + i % 2 * 8][t + i / 2 * 8 + 1]);
        }
        for (int i = 0; i < 2; i++) {
            emulated_pair<BF16, TF32>(m->b[i], b[t + 8 * i][g], b[t + 8 * i + 1][g]);
        }
    }
    for (int lane = 0; lane < 32; lane++) {
        for (int i = 0; i < 4; i++) {
            const int row = lane / 4 + i / 2 * 8, col = lane % 4 * 2 + i % 2;
            float sum = 0;
            for (int k = 0; k < 16; k++) {
                sum += a[row][k] * b[k][col];
            }
            ((const emulated_mma *)all[lane])->c[i] += sum;
        }
    }
}

template <bool BF16> static inline void mma_m16n8k16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    emulated_mma mine = {c, a, {b0, b1}};
    emulated_meet(&mine, emulated_multiply<BF16, false>);
}

static inline void mma_m16n8k8_tf32(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    emulated_mma mine = {c, a, {b0, b1}};
    emulated_meet(&mine, emulated_multiply<false, true>);
}

#endif
