/* SPDX-License-Identifier: Apache-2.0 */
/* CTAs of a kernel on a CPU: every thread a fibre, every wrapped instruction done in C.
 *
 * The kernel's own source is compiled as C++ with this folder's cuda/ptx before src's: nothing but the wrapped instructions
 * differs. What runs behind a thread's back (copies, products) is done as late as its wait allows, so a missing wait shows;
 * warps take turns in a random order, the same in every run, now and then a lane or a warp sleeps for long, and a thread
 * runs until it has to wait for others, so a missing barrier shows as well, if seldom.
 *
 * Up to EMULATED_SLOTS CTAs are there at a time, whole clusters; where there are no clusters, the next begins when one
 * ends. Each has an OS thread to itself, so what belongs to a CTA, here and in the kernel, belongs to an OS thread. But
 * only one of them runs at a time, for some turns: what they share needs no locks, and a run can be repeated. */
#ifndef WEFT_TESTS_CUDA_EMULATE_H
#define WEFT_TESTS_CUDA_EMULATE_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>

using std::max;
using std::min;

#define __device__
#define __global__
#define __shared__ __thread
#define __grid_constant__
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))

struct emulated_index {
    unsigned x;
};
extern __thread emulated_index blockIdx;
extern emulated_index gridDim;
extern uint64_t gridNumber;             /* of the launch, from 1 */
extern __thread unsigned emulated_slot; /* of the CTA, among those that are there at the same time */
unsigned emulated_thread();             /* which fibre runs */
#define threadIdx (emulated_index{emulated_thread()})

enum { EMULATED_THREADS = 640, EMULATED_SHARED = 256 << 10 }; /* of a CTA, at most */
enum { EMULATED_SLOTS = 12, EMULATED_CLUSTER = 8 };           /* CTAs at a time, one for each SM; of a cluster, at most */

/* Prints one line and ends the program: the kernel did what no kernel may. */
[[noreturn]] void emulated_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Lets others run. The words say what for, should nobody get on. */
void emulated_pause(const char *what, uint32_t which);

/* The same until `count` is another: before that the thread is not looked at. */
void emulated_await(const uint64_t &count, const char *what, uint32_t which);

/* Somebody can get on. */
void emulated_moved();

/* A number below `sides`, the same in every run. */
unsigned emulated_dice(unsigned sides);

struct alignas(16) uint4 {
    uint32_t x, y, z, w;
};
struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};

static inline float __uint_as_float(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

struct alignas(8) uint2 {
    uint32_t x, y;
};

static inline uint2 make_uint2(uint32_t x, uint32_t y) {
    return uint2{x, y};
}

static inline float2 make_float2(float x, float y) {
    return float2{x, y};
}

static inline float4 make_float4(float x, float y, float z, float w) {
    return float4{x, y, z, w};
}

static inline uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w) {
    return uint4{x, y, z, w};
}

/* The kernels' dynamic shared memory. Offsets in it stand for shared addresses; those of static variables, which lie
 * beside it, are beyond its end or wrap around. */
extern __shared__ unsigned char emulated_shared[];
#define study_shared  emulated_shared
#define hopper_shared emulated_shared
#define gemm_shared   emulated_shared
#define decode_shared emulated_shared
static inline size_t __cvta_generic_to_shared(const void *p) {
    return (size_t)((const unsigned char *)p - emulated_shared);
}
static inline unsigned char *emulated_at(uint32_t address) {
    return emulated_shared + address;
}

void __syncthreads();

/* All lanes of a warp meet; the last to come calls `work` with what each of the 32 brought. All bring the same `work`. */
void emulated_meet(void *mine, void (*work)(void *const *all));

static inline void __syncwarp() {
    emulated_meet(nullptr, [](void *const *) {});
}

/* Every lane gets what the lane brought whose number `from` makes of its own number and argument. */
template <int (*FROM)(int lane, int argument), class T> static inline T emulated_exchange(T value, int argument) {
    struct item {
        T in, out;
        int argument;
    } mine = {value, T(), argument};
    emulated_meet(&mine, [](void *const *all) {
        for (int i = 0; i < 32; i++) {
            item *to = (item *)all[i];
            to->out = ((const item *)all[FROM(i, to->argument)])->in;
        }
    });
    return mine.out;
}

static inline int emulated_from_lane(int, int lane) {
    return lane;
}
static inline int emulated_from_xor(int lane, int mask) {
    return lane ^ mask;
}

static inline int emulated_from_below(int lane, int distance) {
    return lane < distance ? lane : lane - distance;
}

template <class T> static inline T __shfl_up_sync(uint32_t, T value, int distance) {
    return emulated_exchange<emulated_from_below>(value, distance);
}

template <class T> static inline T __shfl_sync(uint32_t, T value, int lane) {
    return emulated_exchange<emulated_from_lane>(value, lane);
}

template <class T> static inline T __shfl_xor_sync(uint32_t, T value, int mask) {
    return emulated_exchange<emulated_from_xor>(value, mask);
}

static inline uint32_t __ballot_sync(uint32_t, bool value) {
    uint32_t mine = value;
    emulated_meet(&mine, [](void *const *all) {
        uint32_t bits = 0;
        for (int i = 0; i < 32; i++) {
            bits |= *(const uint32_t *)all[i] << i;
        }
        for (int i = 0; i < 32; i++) {
            *(uint32_t *)all[i] = bits;
        }
    });
    return mine;
}

static inline int __reduce_add_sync(uint32_t mask, int value) {
    for (int i = 1; i < 32; i *= 2) {
        value += __shfl_xor_sync(mask, value, i);
    }
    return value;
}

static inline int __reduce_max_sync(uint32_t mask, int value) {
    for (int i = 1; i < 32; i *= 2) {
        value = max(value, __shfl_xor_sync(mask, value, i));
    }
    return value;
}

static inline int __ffs(int bits) {
    return __builtin_ffs(bits);
}

static inline int __popc(uint32_t bits) {
    return __builtin_popcount(bits);
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

static inline void __threadfence() {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

static inline void __nanosleep(unsigned) {
    emulated_pause("other CTAs, being CTA", blockIdx.x);
}

static inline unsigned atomicCAS(unsigned *to, unsigned expected, unsigned value) {
    __atomic_compare_exchange_n(to, &expected, value, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return expected; /* what was there */
}

static inline unsigned atomicExch(unsigned *to, unsigned value) {
    return __atomic_exchange_n(to, value, __ATOMIC_RELAXED);
}

static inline unsigned atomicAdd(unsigned *to, unsigned value) {
    return __atomic_fetch_add(to, value, __ATOMIC_RELAXED);
}

static inline unsigned long long atomicAdd(unsigned long long *to, unsigned long long value) {
    return __atomic_fetch_add(to, value, __ATOMIC_RELAXED);
}

/* A launch. */
struct emulated_kernel {
    void (*cta)(void *argument); /* what every thread does */
    void *argument;
    unsigned ctas, threads;
    void (*begin)();      /* before each CTA */
    void (*turn)();       /* whenever all warps had a turn: what works beside them; may be null */
    void (*end)();        /* after each CTA, to look at what it left; may be null */
    unsigned cluster = 1; /* CTAs of a cluster; 1: there are none */
    /* The kernel counts on it that lanes that did the same stay together, as a GPU has them: whole warps sleep. */
    bool converges = false;
};
void emulated_launch(const emulated_kernel &kernel);

#endif
