/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel for multi-head latent attention behind the fake driver: a launch runs the kernel's own source, see emulate.h.
 */
#include "cuda/sm90/mla/shape.cuh"

#include "cuda/ptx/cp_async.cuh"

extern "C" {
#include "fake_driver.h"

#define WEFT_MLA(symbol, ...)                                                                                              \
    void symbol##_main(weft_mla_params p);                                                                                 \
    void symbol##_merge(weft_mla_params p);
#include "cuda/sm90/mla/variants.def"
}

static void begin() {
    emulated_barriers_begin();
    emulated_copies_begin(WEFT_MLA_SHARED_BYTES);
}

/* A barrier of the CTA that ended. The kernel's desk is out of reach, but its first barrier is where it begins: `desk` only
 * says how far on the member lies. */
static const emulated_mbarrier &barrier_of(const mla_desk &desk, const uint64_t &member) {
    const emulated_mbarrier &b =
        emulated_mbarrier_at(emulated_first_mbarrier() + (uint32_t)((const char *)&member - (const char *)&desk));
    if (b.missing != b.arrivals || b.bytes != 0) {
        emulated_fail("mbarrier %u is left inside of a phase: %u of %u arrivals, %lld bytes to come", b.number,
                      b.arrivals - b.missing, b.arrivals, (long long)b.bytes);
    }
    return b;
}

/* What was filled was given back, as often. */
static void end() {
    static const mla_desk desk = {};
    emulated_copies_end();
    emulated_products_end();
    for (int slot = 0; slot < WEFT_MLA_SLOTS; slot++) {
        const uint64_t filled = barrier_of(desk, desk.weights[slot]).flips;
        bool same = true;
        for (const uint64_t &part : desk.full[slot]) {
            same &= barrier_of(desk, part).flips == filled;
        }
        for (const uint64_t &half : desk.empty[slot]) {
            same &= barrier_of(desk, half).flips == filled;
        }
        if (!same) {
            emulated_fail("slot %d was not given back as often as it was filled, %llu times", slot,
                          (unsigned long long)filled);
        }
    }
    if (barrier_of(desk, desk.q_full).flips != barrier_of(desk, desk.q_empty).flips) {
        emulated_fail("Q was not given back as often as it came");
    }
}

template <void (*ENTRY)(weft_mla_params)> static void enter(void *argument) {
    ENTRY(*(const weft_mla_params *)argument);
}

int fake_run_mla(const char *kernel, unsigned grid, void *parameters) {
#define WEFT_MLA(symbol, ...)                                                                                              \
    if (strcmp(kernel, #symbol "_main") == 0) {                                                                            \
        emulated_launch({enter<symbol##_main>, parameters, grid, WEFT_MLA_THREADS, begin, emulated_copies_turn, end});     \
        return 0;                                                                                                          \
    }                                                                                                                      \
    if (strcmp(kernel, #symbol "_merge") == 0) {                                                                           \
        emulated_launch({enter<symbol##_merge>, parameters, grid, 32 * WEFT_DECODE_MERGE_WARPS, emulated_barriers_begin,   \
                         nullptr, nullptr});                                                                               \
        return 0;                                                                                                          \
    }
#include "cuda/sm90/mla/variants.def"
    return 1;
}
