/* x86 with AVX2 and FMA: 256-bit vectors, 16 registers: 12 accumulators, 2 of B, 1 of A. */
#define WIDTH   8
#define ROWS    6
#define VECTORS 2
#define BY_LANE 0
#define NAME    weft_cpu_avx2
#define LABEL   "avx2"
#include "cpu/kernels.inc"
