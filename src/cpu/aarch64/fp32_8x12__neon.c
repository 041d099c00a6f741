/* fp32, 8 x 12. */
#include "cpu/aarch64/transpose.h"
#include "cpu/kernel/kernel.h"
#include "cpu/kernel/vector__neon.h"

#define FMLA     "fmla"
#define VECTOR   ".4s"
#define LANE     ".s"
#define REGISTER "q"
#define STRIDE   "#16"
#include "cpu/aarch64/multiply_8x12.inc"

#define PACKED     float
#define AS         WEFT_FP32
#define A_LINES    8
#define A_GROUP    1
#define B_LINES    12
#define B_GROUP    1
#define DEPTH      2
#define SQUARE     4
#define TRANSPOSE  transpose_floats
#define WIDEN_FOUR widen_four
#include "cpu/kernel/pack.inc"

extern const weft_cpu_panel weft_cpu_panel_12__neon;
extern const weft_cpu_few weft_cpu_few__neon;
extern const weft_cpu_rows weft_cpu_rows__neon;

const weft_cpu_kernel weft_cpu_fp32_8x12__neon = {
    .name = "fp32_8x12__neon",
    .dtype = WEFT_FP32,
    .a = {A_LINES, A_GROUP},
    .b = {B_LINES, B_GROUP},
    .depth = DEPTH,
    .fetch = 12,
    .fetch_across = 6,
    .multiply = multiply,
    .pack_a = pack_a,
    .pack_b = pack_b,
    .panel = &weft_cpu_panel_12__neon,
    .few = &weft_cpu_few__neon,
    .rows = &weft_cpu_rows__neon,
};
