/* SPDX-License-Identifier: Apache-2.0 */
/* The portable GEMM for groups behind the fake driver: a launch runs the kernel's own source, see emulate.h. */
#include "cuda/gemm/grouped/params.h"
#include "cuda/ptx/cp_async.cuh"
#include "cuda/ptx/tma.cuh"

extern "C" {
#include "fake_driver.h"

#define WEFT_PORTABLE_GROUPED(symbol, ...) void symbol(weft_portable_grouped_params p);
#include "cuda/gemm/grouped/variants.def"
}

/* Copies that nobody waited for end with their CTA. */
template <uint32_t SHARED_BYTES> static void begin() {
    emulated_copies_begin(SHARED_BYTES);
    for (emulated_orders<emulated_copy> &copies : emulated_copies_of) {
        copies = {};
    }
}

template <void (*ENTRY)(weft_portable_grouped_params), uint32_t SHARED_BYTES>
static int run(unsigned grid, unsigned threads, const weft_portable_grouped_params *p) {
    if (p->product.counter && *p->product.counter != 0) {
        return 1;
    }
    emulated_launch({[](void *argument) { ENTRY(*(const weft_portable_grouped_params *)argument); }, (void *)p, grid,
                     threads, begin<SHARED_BYTES>, nullptr, nullptr});
    return 0;
}

int fake_run_portable_grouped(const char *kernel, unsigned grid, const void *parameters) {
#define WEFT_PORTABLE_GROUPED(symbol, module, DTYPE, a_mn, b_mn, tile_m, tile_n, step, warps_m, warps_n, stages, ...)      \
    if (strcmp(kernel, #symbol) == 0) {                                                                                    \
        return run<symbol, WEFT_PORTABLE_GEMM_SHARED_BYTES(tile_m, tile_n, step, stages)>(                                 \
            grid, 32 * (warps_m) * (warps_n), (const weft_portable_grouped_params *)parameters);                           \
    }
#include "cuda/gemm/grouped/variants.def"
    return 1;
}
