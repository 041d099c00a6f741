/* SPDX-License-Identifier: Apache-2.0 */
/* The portable GEMM behind the fake driver: a launch runs the kernel's own source, see emulate.h. */
#include "cuda/gemm/operands_params.h"
#include "cuda/gemm/params.h"
#include "cuda/ptx/cp_async.cuh"
#include "cuda/ptx/tma.cuh"

extern "C" {
#include "fake_driver.h"

#define WEFT_PORTABLE_GEMM_TAKES_0 weft_portable_gemm_params
#define WEFT_PORTABLE_GEMM_TAKES_1 weft_portable_gemm_params
#define WEFT_PORTABLE_GEMM_TAKES_2 weft_portable_gemm_fused_params
#define WEFT_PORTABLE_GEMM_TAKES_3 weft_portable_gemm_fused_params
#define WEFT_PORTABLE_GEMM(symbol, module, DTYPE, a_mn, b_mn, tile_m, tile_n, step, warps_m, warps_n, stages, ctas, form)  \
    void symbol(WEFT_PORTABLE_GEMM_TAKES_##form p);
#include "cuda/gemm/variants.def"

void gemm_column_sums(weft_gemm_sums_params p);
void gemm_operands(weft_gemm_operands_params p);
}

/* Copies that nobody waited for end with their CTA. */
template <uint32_t SHARED_BYTES> static void begin() {
    emulated_copies_begin(SHARED_BYTES);
    for (emulated_orders<emulated_copy> &copies : emulated_copies_of) {
        copies = {};
    }
}

/* The product comes first in whatever a variant takes. */
template <class P, void (*ENTRY)(P), uint32_t SHARED_BYTES>
static int run(unsigned grid, unsigned threads, const void *all) {
    const weft_portable_gemm_params *p = (const weft_portable_gemm_params *)all;
    if (p->counter && *p->counter != 0) {
        return 1;
    }
    emulated_launch({[](void *argument) { ENTRY(*(const P *)argument); }, (void *)all, grid, threads, begin<SHARED_BYTES>,
                     nullptr, nullptr});
    return 0;
}

int fake_run_portable_gemm(const char *kernel, unsigned grid, const void *parameters) {
#define WEFT_PORTABLE_GEMM(symbol, module, DTYPE, a_mn, b_mn, tile_m, tile_n, step, warps_m, warps_n, stages, ctas, form)  \
    if (strcmp(kernel, #symbol) == 0) {                                                                                    \
        return run<WEFT_PORTABLE_GEMM_TAKES_##form, symbol,                                                                \
                   WEFT_PORTABLE_GEMM_SHARED_BYTES(tile_m, tile_n, step, stages)>(grid, 32 * (warps_m) * (warps_n),        \
                                                                                  parameters);                             \
    }
#include "cuda/gemm/variants.def"
    return 1;
}

int fake_run_gemm_sums(unsigned grid, const void *parameters) {
    emulated_launch({[](void *argument) { gemm_column_sums(*(const weft_gemm_sums_params *)argument); }, (void *)parameters,
                     grid, WEFT_GEMM_SUMS_THREADS, [] {}, nullptr, nullptr});
    return 0;
}

int fake_run_gemm_operands(unsigned grid, const void *parameters) {
    const weft_gemm_operands_params *p = (const weft_gemm_operands_params *)parameters;
    if (grid != p->a.all_ctas + p->b.all_ctas) {
        return 1;
    }
    emulated_launch({[](void *argument) { gemm_operands(*(const weft_gemm_operands_params *)argument); },
                     (void *)parameters, grid, WEFT_GEMM_OPERAND_THREADS, [] {}, nullptr, nullptr});
    return 0;
}
