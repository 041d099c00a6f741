/* x86 with AVX-512: 512-bit vectors, 32 registers: 24 accumulators, 2 of B, 1 of A. */
#define WIDTH   16
#define ROWS    12
#define VECTORS 2
#define BY_LANE 0
#define NAME    weft_cpu_avx512
#define LABEL   "avx512"
#include "cpu/kernels.inc"
