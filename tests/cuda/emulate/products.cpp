/* Products of warpgroups: done by each warp for its 16 rows, at the wait that needs them, from what is in shared memory and
 * in the lanes' registers then. */
#include "cuda/ptx/wgmma.cuh"

#include "cuda/ptx/tma.cuh"
#include "halves.h"
#include "orders.h"

enum { WARPS = EMULATED_THREADS / 32 };

static thread_local emulated_orders<emulated_product> orders[EMULATED_THREADS];
static thread_local bool fenced[EMULATED_THREADS];

/* The products of a warpgroup that not all of its warps have done: those that come later do the same. */
struct agreement {
    std::deque<emulated_product> products;
    uint64_t first;   /* the number of products[0] */
    uint64_t done[4]; /* by each warp */
};
static thread_local agreement agreements[WARPS / 4];

static bool same(const emulated_product &x, const emulated_product &y) {
    return x.n == y.n && x.a == y.a && x.b == y.b && !x.a_registers == !y.a_registers && x.add == y.add &&
           x.bf16 == y.bf16 && x.a_mn == y.a_mn && x.b_mn == y.b_mn;
}

static void agree(unsigned warp, const emulated_product &p) {
    agreement &g = agreements[warp / 4];
    const uint64_t at = g.done[warp % 4]++ - g.first;
    if (at == g.products.size()) {
        g.products.push_back(p);
    } else if (!same(p, g.products[at])) {
        emulated_fail("warps of a warpgroup differ in a product");
    }
    if (*std::min_element(g.done, g.done + 4) > g.first) {
        g.products.pop_front();
        g.first++;
    }
}

/* 16 bytes of an operand: 8 elements from k of row i, or where it is mn-major 8 rows from i of k. */
static void load_8(uint64_t operand, bool mn, bool bf16, int i, int k, float (&to)[8]) {
    const uint32_t start = (uint32_t)(operand & 0x3fff) << 4, across = (uint32_t)(operand >> 16 & 0x3fff) << 4,
                   apart = (uint32_t)(operand >> 32 & 0x3fff) << 4, row = (uint32_t)(mn ? k : i);
    const uint32_t column = mn ? (uint32_t)(i / 64) * across + (uint32_t)(i % 64) * 2 : (uint32_t)k * 2;
    uint16_t halves[8];
    const uint32_t at = emulated_swizzled(start + row / 8 * apart + row % 8 * 128 + column);
    memcpy(halves, emulated_settled_at(at, "a product"), 16);
    for (int e = 0; e < 8; e++) {
        to[e] = emulated_half(bf16, halves[e]);
    }
}

typedef float eight __attribute__((vector_size(32)));

struct operands {
    float a[16][16];
    eight b[16][32]; /* row k, columns in eights */
};

/* put(i, k, value) for 16 k of rows `first` on. */
template <class F> static void for_elements(uint64_t operand, bool mn, bool bf16, int first, int rows, F put) {
    float some[8];
    for (int i = 0; i < rows; i += mn ? 8 : 1) {
        for (int k = 0; k < 16; k += mn ? 1 : 8) {
            load_8(operand, mn, bf16, first + i, k, some);
            for (int e = 0; e < 8; e++) {
                put(mn ? i + e : i, mn ? k : k + e, some[e]);
            }
        }
    }
}

/* Of thread i of a warp: see src/cuda/ptx/wgmma.cuh. */
static void load_a_registers(operands *o, unsigned warp, size_t nth, bool bf16) {
    for (int i = 0; i < 32; i++) {
        const uint32_t *a = orders[warp * 32 + (unsigned)i].groups.front()[nth].a_registers;
        for (int e = 0; e < 8; e++) {
            o->a[i / 4 + e / 2 % 2 * 8][i % 4 * 2 + e / 4 * 8 + e % 2] =
                emulated_half(bf16, (uint16_t)(a[e / 2] >> 16 * (e % 2)));
        }
    }
}

/* The nth product of the warp's oldest batch. */
static void multiply(unsigned warp, size_t nth) {
    static thread_local operands o;
    const emulated_product p = orders[warp * 32].groups.front()[nth];
    float *d[32];
    for (unsigned lane = 0; lane < 32; lane++) {
        const emulated_product &q = orders[warp * 32 + lane].groups.front()[nth];
        if (!same(p, q)) {
            emulated_fail("lanes of warp %u differ in a product", warp);
        }
        d[lane] = q.d;
    }
    agree(warp, p);
    if (p.a_registers) {
        load_a_registers(&o, warp, nth, p.bf16);
    } else {
        for_elements(p.a, p.a_mn, p.bf16, (int)(warp % 4) * 16, 16, [](int i, int k, float value) { o.a[i][k] = value; });
    }
    for_elements(p.b, p.b_mn, p.bf16, 0, p.n, [](int i, int k, float value) { o.b[k][i / 8][i % 8] = value; });
    for (int row = 0; row < 16; row++) {
        for (int j = 0; j < p.n / 8; j++) {
            eight sums = {0};
            for (int k = 0; k < 16; k++) {
                sums += o.a[row][k] * o.b[k][j];
            }
            for (int e = 0; e < 8; e++) {
                float *to = &d[row % 8 * 4 + e / 2][4 * j + row / 8 * 2 + e % 2];
                *to = (p.add ? *to : 0) + sums[e];
            }
        }
    }
}

void emulated_start(const emulated_product &product) {
    if (!fenced[emulated_thread()]) {
        emulated_fail("a product without a fence before its batch");
    }
    orders[emulated_thread()].open.push_back(product);
}

void wgmma_fence() {
    fenced[emulated_thread()] = true;
}

void wgmma_commit() {
    orders[emulated_thread()].commit();
    fenced[emulated_thread()] = false;
}

void emulated_products_wait(size_t pending) {
    emulated_meet(&pending, [](void *const *all) {
        const unsigned warp = emulated_thread() / 32;
        const size_t left = *(const size_t *)all[0];
        const auto &first = orders[warp * 32].groups;
        for (unsigned lane = 0; lane < 32; lane++) {
            const emulated_orders<emulated_product> &o = orders[warp * 32 + lane];
            if (*(const size_t *)all[lane] != left || !o.open.empty() || o.groups.size() != first.size()) {
                emulated_fail("lanes of warp %u differ in what they wait for, or wait inside of a batch", warp);
            }
        }
        while (first.size() > left) {
            for (size_t i = 0; i < first.front().size(); i++) {
                multiply(warp, i);
            }
            for (unsigned lane = 0; lane < 32; lane++) {
                orders[warp * 32 + lane].groups.pop_front();
            }
        }
    });
}

void emulated_products_end() {
    for (unsigned i = 0; i < EMULATED_THREADS; i++) {
        if (!orders[i].none()) {
            emulated_fail("nobody waited for the last products of thread %u", i);
        }
    }
    for (const agreement &g : agreements) {
        if (!g.products.empty()) {
            emulated_fail("warps of a warpgroup have done different numbers of products");
        }
    }
}
