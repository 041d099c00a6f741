/* SPDX-License-Identifier: Apache-2.0 */
/* The launch of weft_plan_prepare() for the decode kernel, whatever its variant. */
#include "cuda/decode/list.cuh"

extern "C" __global__ void __launch_bounds__(WEFT_DECODE_DEAL_THREADS)
    decode_deal_runs(const __grid_constant__ weft_decode_params p) {
    decode_make_list(p);
}
