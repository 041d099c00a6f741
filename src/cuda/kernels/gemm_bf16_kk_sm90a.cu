/* The Hopper GEMM in bf16, A contiguous along k and B along k. */
#define WEFT_GEMM_IN_gemm_bf16_kk_sm90a(x) x
#include "cuda/sm90/gemm/entries.cuh"
