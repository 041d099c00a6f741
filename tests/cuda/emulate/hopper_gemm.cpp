/* SPDX-License-Identifier: Apache-2.0 */
/* The Hopper GEMM behind the fake driver: a launch runs the kernel's own source, see emulate.h. */
#include "cuda/sm90/gemm/shape.cuh"

extern "C" {
#include "fake_driver.h"

#define WEFT_GEMM(symbol, module, DTYPE, a_mn, b_mn, tile_m, tile_n, stages, ctas, form)                                   \
    void symbol(WEFT_GEMM_TAKES_##form p);
#include "cuda/sm90/gemm/variants.def"
#define WEFT_HOPPER_GROUPED(symbol, ...) void symbol(weft_hopper_grouped_params p);
#include "cuda/sm90/gemm/grouped/variants.def"
}

static const weft_gemm_params *launched;

template <class S> static void begin() {
    const weft_gemm_params &p = *launched;
    /* Tiles at the edge store all of their pieces, and a cluster's may lie outside of all phases, in phase 8. */
    const int32_t rows = S::tile_m * p.cluster_m, columns = S::tile_n * p.cluster_n;
    const emulated_edges edges = {{S::transposed ? rows : columns, S::transposed ? columns : rows, S::by_phase ? 9 : 1}};
    emulated_barriers_begin();
    emulated_copies_begin(WEFT_GEMM_SHARED_BYTES(S::tile_m, S::tile_n, S::stages), edges);
}

/* One of the CTA's barriers, which is between two phases. */
static const emulated_mbarrier &barrier_at(uint32_t address) {
    const emulated_mbarrier &b = emulated_mbarrier_at(address);
    if (b.missing != b.arrivals || b.bytes != 0) {
        emulated_fail("mbarrier %u is left inside of a phase: %u of %u arrivals, %lld bytes to come", b.number,
                      b.arrivals - b.missing, b.arrivals, (long long)b.bytes);
    }
    return b;
}

/* Whether one thread of the warp arrived in every phase, and no other in any. */
static bool gives_back(const emulated_mbarrier &b, uint32_t cta, uint32_t warp) {
    int always = 0, ever = 0;
    for (uint32_t i = 0; i < 32; i++) {
        const uint32_t who = cta * EMULATED_THREADS + warp * 32 + i;
        always += b.ever[who] && !b.never[who];
        ever += b.ever[who];
    }
    return always == 1 && ever == 1;
}

/* A stage was given back as often as it was filled, by each warpgroup that its data was sent to: by its first warp, in the
 * CTAs of the part that are in this one's row or column. */
template <class S> static void check_stage(const gemm_place &me, uint32_t stage) {
    const weft_gemm_params &p = *launched;
    const emulated_mbarrier &full = barrier_at(GEMM_DESK(S, me, full) + 8 * stage),
                            &empty = barrier_at(GEMM_DESK(S, me, empty) + 8 * stage);
    if (full.flips != empty.flips) {
        emulated_fail("stage %u was filled %llu times and given back %llu times", stage, (unsigned long long)full.flips,
                      (unsigned long long)empty.flips);
    }
    for (uint32_t i = 0; i < (uint32_t)(p.cluster_m * p.cluster_n) * S::groups && empty.flips > 0; i++) {
        const uint32_t cta = i / S::groups, warp = 4 + i % S::groups * 4;
        const uint32_t in_m = cta / (uint32_t)p.cluster_n, in_n = cta % (uint32_t)p.cluster_n;
        if ((in_m == me.in_m || in_n == me.in_n) && !gives_back(empty, me.first + cta, warp)) {
            emulated_fail("stage %u was not given back once each time by warp %u of CTA %u of the cluster", stage, warp,
                          me.first + cta);
        }
    }
}

/* In the first CTA of a cluster, as many jobs were given back as came. In a cluster the barriers wait for the next job. */
template <class S> static void check_jobs(const gemm_place &me) {
    uint64_t came = 0, given_back = 0;
    for (uint32_t i = 0; i < GEMM_JOBS; i++) {
        const uint32_t full = GEMM_DESK(S, me, job_full) + 8 * i;
        came += (me.ctas > 1 ? emulated_mbarrier_at(full) : barrier_at(full)).flips;
        given_back += barrier_at(GEMM_DESK(S, me, job_empty) + 8 * i).flips;
    }
    if (me.rank == 0 && came != given_back) {
        emulated_fail("%llu jobs came and %llu were given back", (unsigned long long)came, (unsigned long long)given_back);
    }
}

template <class S> static void end() {
    const gemm_place me = gemm_find_place(*launched, 0);
    emulated_copies_end();
    emulated_products_end();
    for (uint32_t i = 0; i < S::stages; i++) {
        check_stage<S>(me, i);
    }
    check_jobs<S>(me);
    for (uint32_t i = 0; i < 2 * S::warps && launched->beta != 0; i++) {
        barrier_at(GEMM_DESK(S, me, piece_full) + 8 * i);
    }
}

/* The product comes first in whatever a variant takes. */
template <class S, class P, void (*ENTRY)(P)> static int run(unsigned grid, const void *all) {
    const weft_gemm_params &p = *(const weft_gemm_params *)all;
    if ((p.counter && *p.counter != 0) || (p.begun && *p.begun != 0)) {
        return 1;
    }
    launched = &p;
    emulated_launch({[](void *argument) { ENTRY(*(const P *)argument); }, (void *)all, grid,
                     (unsigned)WEFT_GEMM_THREADS(S::tile_m), begin<S>, emulated_copies_turn, end<S>,
                     (unsigned)(p.cluster_m * p.cluster_n * p.split), true});
    return p.begun && *p.begun != (uint64_t)p.walk.order.count ? 1 : 0; /* each tile was counted */
}

int fake_run_gemm(const char *kernel, unsigned grid, const void *parameters) {
#define WEFT_GEMM(symbol, module, DTYPE, a_mn, b_mn, tile_m, tile_n, stages, ctas, form)                                   \
    if (strcmp(kernel, #symbol) == 0) {                                                                                    \
        return run<gemm_shape<WEFT_##DTYPE, a_mn, b_mn, tile_m, tile_n, stages, form>, WEFT_GEMM_TAKES_##form, symbol>(    \
            grid, parameters);                                                                                             \
    }
#include "cuda/sm90/gemm/variants.def"
    return 1;
}

int fake_run_hopper_grouped(const char *kernel, unsigned grid, const void *parameters) {
#define WEFT_HOPPER_GROUPED(symbol, module, DTYPE, b_mn, tile_m, tile_n, stages, ctas)                                     \
    if (strcmp(kernel, #symbol) == 0) {                                                                                    \
        return run<gemm_shape<WEFT_##DTYPE, 0, b_mn, tile_m, tile_n, stages, WEFT_GEMM_GROUPED>,                           \
                   weft_hopper_grouped_params, symbol>(grid, parameters);                                                  \
    }
#include "cuda/sm90/gemm/grouped/variants.def"
    return 1;
}
