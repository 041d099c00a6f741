/* The entry points of one module. A module defines WEFT_ATTENTION_IN_<module>(x) as x and includes this file; rows of
 * variants.def that belong to other modules expand to nothing. */
#include "cuda/sm90/attention/kernel.cuh"

#ifndef WEFT_ATTENTION_IN_attention_bf16_sm90a
#define WEFT_ATTENTION_IN_attention_bf16_sm90a(x)
#endif
#ifndef WEFT_ATTENTION_IN_attention_fp16_sm90a
#define WEFT_ATTENTION_IN_attention_fp16_sm90a(x)
#endif

#define WEFT_HOPPER_ATTENTION_ENTRY(symbol, DTYPE, depth, groups, keys, stages, splits)                                    \
    extern "C" __global__ void __launch_bounds__(128 * ((groups) + 1), 1)                                                  \
        symbol(const __grid_constant__ weft_hopper_attention_params p) {                                                   \
        hopper_attention<hopper_shape<WEFT_##DTYPE, depth, groups, keys, stages, splits>>(p);                              \
    }

#define WEFT_HOPPER_ATTENTION(symbol, module, DTYPE, depth, groups, keys, stages, splits, ...)                             \
    WEFT_ATTENTION_IN_##module(WEFT_HOPPER_ATTENTION_ENTRY(symbol, DTYPE, depth, groups, keys, stages, splits))
#include "cuda/sm90/attention/variants.def"
