/* SPDX-License-Identifier: Apache-2.0 */
/* The epilogue of a product on a GPU, from the host's side: what kernels get of it, and the sums of columns, which a second
 * launch adds up. */
#ifndef WEFT_CUDA_GEMM_EPILOGUE_H
#define WEFT_CUDA_GEMM_EPILOGUE_H

#include "cuda/gemm/epilogue_params.h"
#include "cuda/plan/backend.h"

/* Why no GPU takes an epilogue; WEFT_OK where one may. */
weft_status weft_gemm_check_epilogue(const weft_gemm *p, weft_message *why);

/* The epilogue of a run. */
weft_gemm_epilogue weft_gemm_epilogue_of(const weft_gemm *p, const weft_gemm_data *data);

/* The launch that adds up shares of the sums of columns, where there is one: 1, else 0. The bytes of the workspace that
 * shares take, from its beginning on. weft_gemm_fill_sums returns 0 where a launch is another. */
int weft_gemm_sums_pass(const weft_gemm *p, weft_cuda_choice *pass);
size_t weft_gemm_shares_bytes(const weft_gemm *p);
int weft_gemm_fill_sums(const weft_gemm *p, const weft_cuda_pass *pass, const weft_gemm_data *data, void *parameters);

#endif
