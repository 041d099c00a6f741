/* fp32, 4 x 24: 12 accumulators, 3 vectors of B, 1 of A: all 16 registers. */
#include "cpu/kernel/vector__avx2.h"
#include "cpu/x86/transpose.h"
#define ROWS       4
#define VECTORS    3
#define FETCH      12
#define NAME       weft_cpu_fp32_4x24__avx2
#define LABEL      "fp32_4x24__avx2"
#define PANEL      weft_cpu_panel_24__avx2
#define FEW        weft_cpu_few__avx2
#define RESULTS    weft_cpu_rows__avx2
#define SQUARE     4
#define TRANSPOSE  transpose_floats
#define WIDEN_FOUR widen_four
#include "cpu/kernel/fp32_block.inc"
