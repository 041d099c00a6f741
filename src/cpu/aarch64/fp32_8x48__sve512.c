/* fp32, 8 x 48: 24 accumulators, 3 vectors of B and 1 of A of 32 registers. */
#define BITS 512
#include "cpu/aarch64/transpose.h"
#include "cpu/kernel/vector__sve.h"
#define ROWS       8
#define VECTORS    3
#define FETCH      12
#define NAME       weft_cpu_fp32_8x48__sve512
#define LABEL      "fp32_8x48__sve512"
#define PANEL      weft_cpu_panel_48__sve512
#define FEW        weft_cpu_few__neon
#define RESULTS    weft_cpu_rows__neon
#define SQUARE     4
#define TRANSPOSE  transpose_floats
#define WIDEN_FOUR widen_four
#include "cpu/kernel/fp32_block.inc"
