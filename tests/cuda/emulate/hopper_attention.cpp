/* SPDX-License-Identifier: Apache-2.0 */
/* The Hopper attention kernel behind the fake driver: a launch runs the kernel's own source, see emulate.h. */
#include "cuda/sm90/attention/pages.cuh"

#include <atomic>

static std::atomic<uint64_t> steps; /* that all CTAs of all launches so far have done */

extern "C" {
#include "fake_driver.h"

uint64_t emulated_attention_steps(void) {
    return steps;
}

#define WEFT_HOPPER_ATTENTION(symbol, module, DTYPE, depth, groups, keys, stages, splits, form, ...)                       \
    void symbol(hopper_params<form>::type p);
#include "cuda/sm90/attention/variants.def"
}

template <class S> static void begin() {
    emulated_barriers_begin();
    emulated_copies_begin(WEFT_HOPPER_FORM_BYTES(S::depth, S::tile_m, S::keys, S::stages, S::form));
}

/* A barrier of the CTA that ended. The kernel's desk is out of reach, but its first barrier is where it begins: `desk` only
 * says how far on the member lies. */
static const emulated_mbarrier &barrier_of(const void *desk, const uint64_t *member) {
    const uint32_t offset = (uint32_t)((const char *)member - (const char *)desk);
    const emulated_mbarrier &b = emulated_mbarrier_at(emulated_first_mbarrier() + offset);
    if (b.missing != b.arrivals || b.bytes != 0) {
        emulated_fail("mbarrier %u is left inside of a phase: %u of %u arrivals, %lld bytes to come", b.number,
                      b.arrivals - b.missing, b.arrivals, (long long)b.bytes);
    }
    return b;
}

/* What was filled was given back, as often, by every warp: nobody arrives twice in a phase. */
static void check_stage(const void *desk, const uint64_t *full, const uint64_t *empty, const char *what, int stage) {
    const uint64_t filled = barrier_of(desk, full).flips, given_back = barrier_of(desk, empty).flips;
    if (filled != given_back) {
        emulated_fail("stage %d of %s was filled %llu times and given back %llu times", stage, what,
                      (unsigned long long)filled, (unsigned long long)given_back);
    }
}

template <class S> static void end() {
    static const hopper_desk<S> desk = {};
    uint64_t filled = 0, given_back = 0;
    emulated_copies_end();
    emulated_products_end();
    for (int i = 0; i < S::stages; i++) {
        check_stage(&desk, &desk.k_full[i], &desk.k_empty[i], "K", i);
        check_stage(&desk, &desk.v_full[i], &desk.v_empty[i], "V", i);
        steps += barrier_of(&desk, &desk.k_full[i]).flips; /* a block of K for each */
    }
    if constexpr (S::bias) {
        for (int i = 0; i < S::groups * WEFT_HOPPER_BIAS_PLACES; i++) {
            check_stage(&desk, &desk.bias.full[0][i], &desk.bias.empty[0][i], "the bias", i);
        }
    }
    for (int i = 0; i < S::q_slots; i++) {
        filled += barrier_of(&desk, &desk.q_full[i]).flips;
        given_back += barrier_of(&desk, &desk.q_empty[i]).flips;
    }
    if (filled != given_back + 1) { /* that there is no further tile needs no answer */
        emulated_fail("Q came %llu times and was given back %llu times", (unsigned long long)filled - 1,
                      (unsigned long long)given_back);
    }
}

static int counters_are_zero(const uint64_t *counter) {
    for (int i = 0; counter && i < WEFT_HOPPER_COUNTERS; i++) {
        if (counter[i] != 0) {
            return 0;
        }
    }
    return 1;
}

/* As a pool is before and after a launch. */
static int pool_is_free(const weft_counter_pool *pool) {
    for (int i = 0; pool && i < WEFT_POOL_SETS; i++) {
        if (pool->sets[i].owner != 0 || !counters_are_zero(pool->sets[i].counters)) {
            return 0;
        }
    }
    return !pool || pool->lock == 0;
}

/* CTAs of a cluster: so many for each tile, where the launch has more than there are tiles. */
static unsigned cluster_of(unsigned grid, const weft_walk &walk) {
    const unsigned tiles = (unsigned)walk.order.count;
    return walk.dispatch == WEFT_DISPATCH_GRID && grid > tiles ? grid / tiles : 1;
}

template <class S, void (*ENTRY)(typename hopper_params<S::form>::type)>
static int run(unsigned grid, weft_hopper_attention_params *p) {
    using params = typename hopper_params<S::form>::type;
    if (!counters_are_zero(p->counter) || !pool_is_free(p->pool)) {
        return 1;
    }
    emulated_launch({[](void *argument) { ENTRY(*(const params *)argument); }, p, grid, 128 * (S::groups + 1), begin<S>,
                     emulated_copies_turn, end<S>, cluster_of(grid, p->walk)});
    return counters_are_zero(p->counter) && pool_is_free(p->pool) ? 0 : 1;
}

int fake_run_attention(const char *kernel, unsigned grid, void **parameters) {
    weft_hopper_attention_params *p = (weft_hopper_attention_params *)parameters[0];
#define WEFT_HOPPER_ATTENTION(symbol, module, DTYPE, depth, groups, keys, stages, splits, form, ...)                       \
    if (strcmp(kernel, #symbol) == 0) {                                                                                    \
        return run<hopper_shape<WEFT_##DTYPE, depth, groups, keys, stages, splits, form>, symbol>(grid, p);                \
    }
#include "cuda/sm90/attention/variants.def"
    return fake_run_study(kernel, grid, p);
}
