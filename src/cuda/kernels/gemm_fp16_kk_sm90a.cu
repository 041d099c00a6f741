/* The Hopper GEMM in fp16, A contiguous along k and B along k. */
#define WEFT_GEMM_IN_gemm_fp16_kk_sm90a(x) x
#include "cuda/sm90/gemm/entries.cuh"
