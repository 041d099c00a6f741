/* SPDX-License-Identifier: Apache-2.0 */
/* The Hopper backward behind the fake driver: a launch runs the kernel's own source, see emulate.h. */
#include "cuda/sm90/backward/shape.cuh"

extern "C" {
#include "fake_driver.h"

void attention_backward__hopper_list(weft_hopper_backward_params p);
void attention_backward__hopper_deal(weft_hopper_backward_params p);
#define WEFT_HOPPER_BACKWARD(symbol, ...)                                                                                  \
    void symbol##_begin(weft_hopper_backward_params p);                                                                    \
    void symbol##_main(weft_hopper_backward_params p);                                                                     \
    void symbol##_end(weft_hopper_backward_params p);
#include "cuda/sm90/backward/variants.def"
}

template <uint32_t BYTES> static void begin() {
    emulated_barriers_begin();
    emulated_copies_begin(BYTES);
}

static void end() {
    emulated_copies_end();
    emulated_products_end();
}

template <void (*ENTRY)(weft_hopper_backward_params)> static void enter(void *argument) {
    ENTRY(*(const weft_hopper_backward_params *)argument);
}

template <uint32_t BYTES, void (*ENTRY)(weft_hopper_backward_params)>
static int run(unsigned grid, unsigned threads, weft_hopper_backward_params *p, int ctas = 1) {
    emulated_launch({enter<ENTRY>, p, grid, threads, begin<BYTES>, emulated_copies_turn, end, (unsigned)ctas});
    return 0;
}

int fake_run_hopper_backward(const char *kernel, unsigned grid, void *parameters) {
    weft_hopper_backward_params *p = (weft_hopper_backward_params *)parameters;
    if (strcmp(kernel, WEFT_HOPPER_BACKWARD_LIST) == 0) {
        return run<0, attention_backward__hopper_list>(grid, WEFT_HOPPER_BACKWARD_QUERY_THREADS, p);
    }
    if (strcmp(kernel, WEFT_HOPPER_BACKWARD_DEAL) == 0) {
        return run<WEFT_HOPPER_BACKWARD_DEAL_BYTES, attention_backward__hopper_deal>(grid,
                                                                                     WEFT_HOPPER_BACKWARD_DEAL_THREADS, p);
    }
#define WEFT_HOPPER_BACKWARD(symbol, module, DTYPE, depth, depth_v, keys, queries, form)                                   \
    if (strcmp(kernel, #symbol "_begin") == 0) {                                                                           \
        return run<0, symbol##_begin>(grid, WEFT_HOPPER_BACKWARD_QUERY_THREADS, p);                                        \
    }                                                                                                                      \
    if (strcmp(kernel, #symbol "_main") == 0) {                                                                            \
        return run<WEFT_HOPPER_BACKWARD_BYTES(depth, depth_v, keys, queries), symbol##_main>(                              \
            grid, WEFT_HOPPER_BACKWARD_THREADS, p, p->splits);                                                             \
    }                                                                                                                      \
    if (strcmp(kernel, #symbol "_end") == 0) {                                                                             \
        return run<WEFT_HOPPER_BACKWARD_DQ_BYTES(depth, depth_v), symbol##_end>(                                           \
            grid, WEFT_HOPPER_BACKWARD_END_THREADS(keys), p);                                                              \
    }
#include "cuda/sm90/backward/variants.def"
    return 1;
}
