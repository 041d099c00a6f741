/* The Hopper GEMM in bf16, A contiguous along k and B along n. */
#define WEFT_GEMM_IN_gemm_bf16_kn_by_class_sm90a(x) x
#include "cuda/sm90/gemm/entries.cuh"
