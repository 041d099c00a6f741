/* SPDX-License-Identifier: Apache-2.0 */
/* Products of warpgroups: a batch is done when the first of its warps waits for it and all have ordered it, from what is in
 * shared memory and in the threads' registers then. */
#include "cuda/ptx/wgmma.cuh"

#include "cuda/ptx/tma.cuh"
#include "halves.h"
#include "orders.h"

enum { GROUP = 128, GROUPS = EMULATED_THREADS / GROUP };

static thread_local emulated_orders<emulated_product> orders[EMULATED_THREADS];
static thread_local bool fenced[EMULATED_THREADS];
static thread_local uint64_t committed[EMULATED_THREADS], done[GROUPS]; /* batches */
static thread_local uint64_t changes[GROUPS];                           /* of committed and done */

static bool same(const emulated_product &x, const emulated_product &y) {
    return x.n == y.n && x.a == y.a && x.b == y.b && !x.a_registers == !y.a_registers && x.add == y.add &&
           x.bf16 == y.bf16 && x.tf32 == y.tf32 && x.a_mn == y.a_mn && x.b_mn == y.b_mn;
}

/* An operand in shared memory: see wgmma_operand(). */
struct place {
    uint32_t start, across, apart;
};

static place place_of(uint64_t operand) {
    return {(uint32_t)(operand & 0x3fff) << 4, (uint32_t)(operand >> 16 & 0x3fff) << 4,
            (uint32_t)(operand >> 32 & 0x3fff) << 4};
}

/* 16 bytes of an operand: 8 elements from k of row i, or where it is mn-major 8 rows from i of k. Of TF32 every other one
 * is there, and zeros between. */
static void load_8(const place &p, bool mn, const emulated_product &of, int i, int k, float (&to)[8]) {
    const uint32_t row = (uint32_t)(mn ? k : i);
    const uint32_t column = mn ? (uint32_t)(i / 64) * p.across + (uint32_t)(i % 64) * 2 : (uint32_t)k * 2;
    uint16_t halves[8];
    const uint32_t at = emulated_swizzled(p.start + row / 8 * p.apart + row % 8 * 128 + column);
    memcpy(halves, emulated_settled_at(at, "a product"), 16);
    for (int e = 0; e < 8; e++) {
        to[e] = !of.tf32 ? emulated_half(of.bf16, halves[e])
                : e % 2  ? 0
                         : emulated_tf32(halves[e] | (uint32_t)halves[e + 1] << 16);
    }
}

/* Tells that `rows` of an operand, 16 of k, are read from now on (by 1), or no more (by -1). */
static void announce(uint64_t operand, bool mn, int rows, int by) {
    const place p = place_of(operand);
    for (int i = 0; i < rows; i += mn ? 64 : 8) {
        if (mn) {
            emulated_reads(p.start + (uint32_t)(i / 64) * p.across, p.apart + 1024, by);
        } else {
            emulated_reads(p.start + (uint32_t)(i / 8) * p.apart, 32, by);
        }
    }
}

static void announce(const emulated_product &p, int by) {
    announce(p.b, p.b_mn, p.n, by);
    if (!p.a_registers) {
        announce(p.a, p.a_mn, 64, by);
    }
}

typedef float eight __attribute__((vector_size(32)));

struct operands {
    float a[64][16];
    eight b[32][16]; /* columns in eights, row k */
};

/* put(i, k, value) for 16 k of all rows. */
template <class F> static void for_elements(uint64_t operand, bool mn, const emulated_product &of, int rows, F put) {
    const place p = place_of(operand);
    float some[8];
    for (int i = 0; i < rows; i += mn ? 8 : 1) {
        for (int k = 0; k < 16; k += mn ? 1 : 8) {
            load_8(p, mn, of, i, k, some);
            for (int e = 0; e < 8; e++) {
                put(mn ? i + e : i, mn ? k : k + e, some[e]);
            }
        }
    }
}

/* Of thread i of a warpgroup: see src/cuda/ptx/wgmma.cuh. */
static void load_a_registers(operands *o, const emulated_product *const *all, bool bf16) {
    for (int i = 0; i < GROUP; i++) {
        const uint32_t *a = all[i]->a_registers;
        for (int e = 0; e < 8; e++) {
            o->a[i / 32 * 16 + i % 32 / 4 + e / 2 % 2 * 8][i % 4 * 2 + e / 4 * 8 + e % 2] =
                emulated_half(bf16, (uint16_t)(a[e / 2] >> 16 * (e % 2)));
        }
    }
}

/* One product, as all threads of the warpgroup ordered it. */
static void multiply(const emulated_product *const *all) {
    static thread_local operands o;
    const emulated_product &p = *all[0];
    if (p.a_registers) {
        load_a_registers(&o, all, p.bf16);
    } else {
        for_elements(p.a, p.a_mn, p, 64, [](int i, int k, float value) { o.a[i][k] = value; });
    }
    for_elements(p.b, p.b_mn, p, p.n, [](int i, int k, float value) { o.b[i / 8][k][i % 8] = value; });
    for (int row = 0; row < 64; row++) {
        const emulated_product *const *lanes = all + row / 16 * 32 + row % 8 * 4;
        for (int j = 0; j < p.n / 8; j++) {
            eight sums = {0};
            for (int k = 0; k < 16; k++) {
                sums += o.a[row][k] * o.b[j][k];
            }
            for (int e = 0; e < 8; e++) {
                float *to = &lanes[e / 2]->d[4 * j + row % 16 / 8 * 2 + e % 2];
                *to = (p.add ? *to : 0) + sums[e];
            }
        }
    }
}

/* The warpgroup's oldest batch. */
static void multiply_batch(unsigned group) {
    const emulated_orders<emulated_product> *of = &orders[group * GROUP];
    const size_t count = of[0].groups.front().size();
    for (size_t nth = 0; nth < count; nth++) {
        const emulated_product *all[GROUP];
        for (unsigned i = 0; i < GROUP; i++) {
            if (of[i].groups.front().size() != count || !same(of[i].groups.front()[nth], of[0].groups.front()[nth])) {
                emulated_fail("lanes of warp %u, or warps of its warpgroup, differ in a product", group * 4 + i / 32);
            }
            all[i] = &of[i].groups.front()[nth];
        }
        multiply(all);
        announce(*all[0], -1);
    }
    for (unsigned i = 0; i < GROUP; i++) {
        orders[group * GROUP + i].groups.pop_front();
    }
    done[group]++;
    changes[group]++;
}

void emulated_start(const emulated_product &product) {
    if (!fenced[emulated_thread()]) {
        emulated_fail("a product without a fence before its batch");
    }
    if (emulated_thread() % GROUP == 0) {
        announce(product, 1);
    }
    orders[emulated_thread()].open.push_back(product);
}

void wgmma_fence() {
    fenced[emulated_thread()] = true;
}

void wgmma_commit() {
    orders[emulated_thread()].commit();
    committed[emulated_thread()]++;
    changes[emulated_thread() / GROUP]++;
    fenced[emulated_thread()] = false;
}

static bool all_committed(unsigned group) {
    const uint64_t *of = &committed[group * GROUP];
    return *std::min_element(of, of + GROUP) > done[group];
}

void emulated_products_wait(size_t pending) {
    const unsigned group = emulated_thread() / GROUP;
    emulated_meet(&pending, [](void *const *all) {
        const unsigned first = emulated_thread() / 32 * 32;
        for (unsigned lane = 0; lane < 32; lane++) {
            if (*(const size_t *)all[lane] != *(const size_t *)all[0] || !orders[first + lane].open.empty() ||
                committed[first + lane] != committed[first]) {
                emulated_fail("lanes of warp %u differ in what they wait for, or wait inside of a batch", first / 32);
            }
        }
    });
    const uint64_t mine = committed[emulated_thread()];
    while (done[group] + pending < mine) {
        if (all_committed(group)) {
            multiply_batch(group);
            emulated_moved();
        } else {
            emulated_await(changes[group], "products of the other warps of warpgroup", group);
        }
    }
}

void emulated_products_end() {
    for (unsigned i = 0; i < EMULATED_THREADS; i++) {
        if (!orders[i].none()) {
            emulated_fail("nobody waited for the last products of thread %u", i);
        }
    }
}
