/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/sm90/gemm/phases.h"

#include "problem/problem.h"

/* Distances are in units of 16 bytes, 8 elements: what the copy engine can begin at. A line of the L2 is 8 of them, a
 * sector 2. */
enum { UNIT = 8, LINE = 8, SECTOR = 2, MOST_PHASES = 8 };

/* The largest of 1, 2, 4 and 8 that divides the distance. */
static int64_t divisor(int64_t distance) {
    return distance % 8 == 0 ? 8 : distance % 4 == 0 ? 4 : distance % 2 == 0 ? 2 : 1;
}

/* Elements of k that the last step has to spare, in units: a step can begin so much earlier. */
static int64_t spare_of(const weft_gemm *p) {
    return (weft_ceil_divide(p->k, WEFT_GEMM_STEP) * WEFT_GEMM_STEP - p->k) / UNIT;
}

/* How many phases; 1: none. */
static int64_t count_of(const weft_gemm *p, const weft_gemm_view *view, int64_t tile_m, int64_t tile_n) {
    const int64_t rows = weft_ceil_divide(view->m, tile_m), most = INT64_C(1) << 32;
    int64_t count = LINE / divisor(view->lda / UNIT);
    if (weft_gemm_is_fused(p) || !WEFT_GEMM_HAS_PHASES(tile_m, tile_n) || view->a_mn || p->batch > 1 || spare_of(p) == 0 ||
        view->m < MOST_PHASES || rows >= WEFT_FIRST_MOST - MOST_PHASES || view->lda > most || p->ldc > most) {
        return 1;
    }
    while (count > 1 && count * weft_ceil_divide(weft_ceil_divide(view->m, count), tile_m) != rows) {
        count /= 2;
    }
    return count;
}

/* How far a phase begins behind a multiple of `step`; whole sectors less where that is more than there is to spare. */
static uint32_t shift_of(int64_t phase, int64_t apart, const void *a, int64_t step, int64_t spare) {
    int64_t shift = (int64_t)(((uint64_t)(phase * apart) + (uintptr_t)a / 16) % (uint64_t)step);
    while (shift > spare) {
        shift -= SECTOR;
    }
    return (uint32_t)(shift > 0 ? shift : 0);
}

weft_gemm_phases weft_gemm_phases_of(const weft_gemm *p, const weft_gemm_view *view, int64_t tile_m, int64_t tile_n,
                                     const void *a) {
    const int64_t count = count_of(p, view, tile_m, tile_n), apart = view->lda / UNIT, spare = spare_of(p);
    const int64_t step = divisor(count * apart); /* what the rows of a phase begin at multiples of, but for the first */
    weft_gemm_phases to = {0, 0, 0, 0, 0, 0};
    if (count == 1) {
        return to;
    }
    to.count = (int32_t)count;
    to.tiles = (int32_t)(weft_ceil_divide(view->m, tile_m) / count);
    to.multiplier = ((1 << WEFT_FIRST_SHIFT) + to.tiles - 1) / to.tiles;
    to.longer = (int32_t)(view->m % count ? view->m % count : count);
    /* Neighbours are far apart, so that a cluster of two of them is off by whole sectors only. */
    to.order = count == 8 ? 0x73516240 : count == 4 ? 0x3120 : 0x10;
    for (int32_t i = 0; i < to.count; i++) {
        const int64_t phase = to.order >> (4 * i) & 15;
        to.shifts |= shift_of(phase, apart, a, step, spare) << (4 * i);
    }
    return to;
}

int weft_gemm_wants_phases(const weft_gemm *p, const weft_gemm_view *view, int64_t tile_m, int64_t tile_n) {
    return count_of(p, view, tile_m, tile_n) > 1;
}

int64_t weft_gemm_line_of_a(const weft_gemm *p, const weft_gemm_view *view, int64_t tile_m, int64_t tile_n,
                            int64_t cluster_m) {
    const int64_t count = count_of(p, view, tile_m, tile_n), step = divisor(count * (view->lda / UNIT));
    if (count == 1) {
        return view->lda * (int64_t)weft_dtype_bytes(p->dtype);
    }
    const int64_t tiles = weft_ceil_divide(view->m, tile_m) / count;
    return 16 * (tiles % cluster_m == 0 && spare_of(p) >= step - 1 ? step : SECTOR);
}
