/* fp32, 4 x 8: 8 accumulators fit any processor's registers. */
#include "cpu/kernel/vector__generic.h"
#define ROWS    4
#define VECTORS 2
#define FETCH   12
#define NAME    weft_cpu_fp32_4x8__generic
#define LABEL   "fp32_4x8__generic"
#define PANEL   weft_cpu_panel_8__generic
#define FEW     weft_cpu_few__generic
#define RESULTS weft_cpu_rows__generic
#include "cpu/kernel/fp32_block.inc"
