/* fp32, 8 x 48: 24 accumulators, 3 vectors of B and 1 of A of 32 registers. */
#include "cpu/vector__avx512.h"
#include "cpu/x86/transpose.h"
#define ROWS      8
#define VECTORS   3
#define NAME      weft_cpu_fp32_8x48__avx512
#define LABEL     "fp32_8x48__avx512"
#define PANEL     weft_cpu_panel_48__avx512
#define FEW       weft_cpu_few__avx512
#define SQUARE    4
#define TRANSPOSE transpose_floats
#include "cpu/fp32_block.inc"
