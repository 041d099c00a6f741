/* The decode kernel behind the fake driver: a launch runs the kernel's own source, see emulate.h. */
#include "cuda/decode/params.h"
#include "cuda/ptx/cp_async.cuh"

extern "C" {
#include "fake_driver.h"

#define WEFT_DECODE(symbol, ...)                                                                                           \
    void symbol##_main(weft_decode_params p);                                                                              \
    void symbol##_append(weft_decode_params p);                                                                            \
    void symbol##_merge(weft_decode_params p);
#include "cuda/decode/variants.def"
void decode_deal_runs(weft_decode_params p);
}

/* Copies that nobody waited for end with their CTA. */
static void begin() {
    for (emulated_orders<emulated_copy> &copies : emulated_copies_of) {
        copies = {};
    }
}

template <void (*ENTRY)(weft_decode_params)> static int run(unsigned grid, unsigned warps, const void *parameters) {
    emulated_launch({[](void *argument) { ENTRY(*(const weft_decode_params *)argument); }, (void *)parameters, grid,
                     32 * warps, begin, nullptr, nullptr});
    return 0;
}

int fake_run_decode(const char *kernel, unsigned grid, const void *parameters) {
    if (strcmp(kernel, "decode_deal_runs") == 0) {
        return run<decode_deal_runs>(grid, WEFT_DECODE_DEAL_WARPS, parameters);
    }
#define WEFT_DECODE(symbol, ...)                                                                                           \
    if (strcmp(kernel, #symbol "_main") == 0) {                                                                            \
        return run<symbol##_main>(grid, WEFT_DECODE_WARPS, parameters);                                                    \
    }                                                                                                                      \
    if (strcmp(kernel, #symbol "_append") == 0) {                                                                          \
        return run<symbol##_append>(grid, WEFT_DECODE_WARPS, parameters);                                                  \
    }                                                                                                                      \
    if (strcmp(kernel, #symbol "_merge") == 0) {                                                                           \
        return run<symbol##_merge>(grid, WEFT_DECODE_MERGE_WARPS, parameters);                                             \
    }
#include "cuda/decode/variants.def"
    return 1;
}
