/* SPDX-License-Identifier: Apache-2.0 */
/* Second-touch latency: what tells the sides of an L2 apart. See cuda/l2/sides_params.h. */
#include "cuda/l2/sides_params.h"

static __device__ __forceinline__ uint32_t sm_number() {
    uint32_t sm;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    return sm;
}

/* From the L2, never from the SM's own cache. */
static __device__ __forceinline__ uint32_t load_l2(const uint32_t *address) {
    uint32_t value;
    asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
    return value;
}

static __device__ __forceinline__ uint32_t load_volatile(const uint32_t *address) {
    return *(const volatile uint32_t *)address;
}

static __device__ __forceinline__ uint64_t nanoseconds() {
    uint64_t now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

/* Waits until so many have arrived. False: one has waited in vain, and nobody waits any more. */
static __device__ bool wait_for(weft_sides_counts *counts, uint32_t arrived) {
    const uint64_t begin = nanoseconds();
    while (load_volatile(&counts->arrived) < arrived) {
        if (load_volatile(&counts->late) || nanoseconds() - begin > WEFT_SIDES_PATIENCE) {
            atomicExch(&counts->late, 1u);
            return false;
        }
    }
    return true;
}

static __device__ uint64_t walk(const uint32_t *lines) {
    uint32_t at = 0;
    const long long begin = clock64();
    for (int i = 0; i < WEFT_SIDES_LINES; i++) {
        at = load_l2(lines + at);
    }
    /* The last line leads back to the first, so `at` is 0; the compiler does not know, and has to wait for it. */
    return (uint64_t)(clock64() - begin) + at;
}

/* Makes the lines a ring. */
extern "C" __global__ void sides_fill(uint32_t *lines) {
    const uint32_t words = WEFT_SIDES_STRIDE / sizeof(uint32_t);
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < WEFT_SIDES_LINES) {
        lines[i * words] = (i + 1) % WEFT_SIDES_LINES * words;
    }
}

/* Streams through a buffer much larger than the L2, so that nothing else stays in it. */
extern "C" __global__ void sides_flush(uint4 *buffer, uint64_t count) {
    for (uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += (uint64_t)gridDim.x * blockDim.x) {
        buffer[i].x += 1;
    }
}

/* One thread a CTA, and as many CTAs as SMs; their shared memory keeps two from sharing one. */
extern "C" __global__ void sides_measure(weft_sides_params p) {
    const uint32_t me = sm_number(), ctas = gridDim.x;
    p.sm_of_cta[blockIdx.x] = me;
    atomicAdd(&p.counts->arrived, 1u);
    if (!wait_for(p.counts, ctas)) { /* until every SM has its CTA */
        return;
    }
    if (me == p.first) {
        p.counts->clocks[0] = walk(p.lines);
        __threadfence();
        atomicAdd(&p.counts->arrived, 1u);
    }
    if (me == p.second && wait_for(p.counts, ctas + 1)) {
        p.counts->clocks[1] = walk(p.lines);
    }
}
