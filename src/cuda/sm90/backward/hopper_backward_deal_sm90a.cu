/* SPDX-License-Identifier: Apache-2.0 */
/* The launches before `begin` of the Hopper backward, for those who need them: see params.h. */
#include "cuda/sm90/backward/deal.cuh"
#include "cuda/sm90/backward/lists.cuh"

extern "C" __global__ void __launch_bounds__(WEFT_HOPPER_BACKWARD_QUERY_THREADS)
    attention_backward__hopper_list(const __grid_constant__ weft_hopper_backward_params p) {
    backward_make_lists(p);
}

extern "C" __global__ void __launch_bounds__(WEFT_HOPPER_BACKWARD_DEAL_THREADS)
    attention_backward__hopper_deal(const __grid_constant__ weft_hopper_backward_params p) {
    backward_deal(p);
}
