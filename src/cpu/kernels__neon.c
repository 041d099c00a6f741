/* aarch64: 128-bit vectors, 32 registers: 16 accumulators, 4 of A, 4 of B. */
#define WIDTH   4
#define ROWS    4
#define VECTORS 4
#define BY_LANE 1
#define NAME    weft_cpu_neon
#define LABEL   "neon"
#include "cpu/kernels.inc"
