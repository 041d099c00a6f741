/* fp32, 12 x 32: 24 accumulators, 2 vectors of B and 1 of A of 32 registers. */
#include "cpu/kernel/vector__avx512.h"
#include "cpu/x86/transpose.h"
#define ROWS       12
#define VECTORS    2
#define FETCH      20
#define NAME       weft_cpu_fp32_12x32__avx512
#define LABEL      "fp32_12x32__avx512"
#define PANEL      weft_cpu_panel_32__avx512
#define FEW        weft_cpu_few__avx512
#define RESULTS    weft_cpu_rows__avx512
#define SQUARE     4
#define TRANSPOSE  transpose_floats
#define WIDEN_FOUR widen_four
#include "cpu/kernel/fp32_block.inc"
