/* mma.sync m16n8k16 on a CPU. */
#ifndef WEFT_CUDA_PTX_MMA_CUH
#define WEFT_CUDA_PTX_MMA_CUH

#include "halves.h"

struct emulated_mma {
    float *c;
    const uint32_t *a;
    uint32_t b[2];
};

template <bool BF16> static inline void emulated_multiply(void *const *all) {
    float a[16][16], b[16][8];
    for (int lane = 0; lane < 32; lane++) {
        const emulated_mma *m = (const emulated_mma *)all[lane];
        const int g = lane / 4, t = lane % 4 * 2;
        for (int e = 0; e < 2; e++) {
            a[g][t + e] = emulated_half(BF16, (uint16_t)(m->a[0] >> 16 * e));
            a[g + 8][t + e] = emulated_half(BF16, (uint16_t)(m->a[1] >> 16 * e));
            a[g][t + 8 + e] = emulated_half(BF16, (uint16_t)(m->a[2] >> 16 * e));
            a[g + 8][t + 8 + e] = emulated_half(BF16, (uint16_t)(m->a[3] >> 16 * e));
            b[t + e][g] = emulated_half(BF16, (uint16_t)(m->b[0] >> 16 * e));
            b[t + 8 + e][g] = emulated_half(BF16, (uint16_t)(m->b[1] >> 16 * e));
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
    emulated_meet(&mine, emulated_multiply<BF16>);
}

#endif
