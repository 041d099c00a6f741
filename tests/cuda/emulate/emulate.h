/* A CTA of the study kernel on a CPU: every thread a fibre, every wrapped instruction done in C.
 *
 * The kernel's own source is compiled as C++ with this folder's cuda/ptx before src's: nothing but the wrapped instructions
 * differs. Copies by cp.async arrive as late as their wait allows, so a missing wait shows; a thread runs until it has to
 * wait for others, so a missing barrier shows as well, if seldom. */
#ifndef WEFT_TESTS_CUDA_EMULATE_H
#define WEFT_TESTS_CUDA_EMULATE_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define __device__
#define __global__
#define __shared__
#define __grid_constant__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))

struct emulated_index {
    unsigned x;
};
extern emulated_index blockIdx;
unsigned emulated_thread(); /* which fibre runs */
#define threadIdx (emulated_index{emulated_thread()})

struct alignas(16) uint4 {
    uint32_t x, y, z, w;
};
static inline uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w) {
    return uint4{x, y, z, w};
}

/* Offsets in shared memory stand for shared addresses. */
extern unsigned char study_shared[];
static inline size_t __cvta_generic_to_shared(const void *p) {
    return (size_t)((const unsigned char *)p - study_shared);
}

void __syncthreads();

/* All lanes of a warp meet; the last to come calls `work` with what each of the 32 brought. */
void emulated_meet(void *mine, void (*work)(void *const *all));

static inline void __syncwarp() {
    emulated_meet(nullptr, [](void *const *) {});
}

static inline float __shfl_xor_sync(uint32_t, float value, int mask) {
    struct {
        float in, out;
        int mask;
    } mine = {value, 0, mask};
    typedef decltype(mine) item;
    emulated_meet(&mine, [](void *const *all) {
        for (int i = 0; i < 32; i++) {
            item *to = (item *)all[i];
            to->out = ((const item *)all[i ^ to->mask])->in;
        }
    });
    return mine.out;
}

static inline bool __any_sync(uint32_t, bool value) {
    bool mine = value;
    emulated_meet(&mine, [](void *const *all) {
        bool any = false;
        for (int i = 0; i < 32; i++) {
            any |= *(const bool *)all[i];
        }
        for (int i = 0; i < 32; i++) {
            *(bool *)all[i] = any;
        }
    });
    return mine;
}

/* Runs `ctas` CTAs, one after the other. */
void emulated_launch(void (*cta)(void *argument), void *argument, unsigned ctas, unsigned threads);

#endif
