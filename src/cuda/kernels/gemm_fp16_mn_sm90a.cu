/* The Hopper GEMM in fp16, A contiguous along m and B along n. */
#define WEFT_GEMM_IN_gemm_fp16_mn_sm90a(x) x
#include "cuda/sm90/gemm/entries.cuh"
