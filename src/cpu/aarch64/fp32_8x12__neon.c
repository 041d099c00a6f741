/* SPDX-License-Identifier: Apache-2.0 */
/* fp32, 8 x 12. */
#include "cpu/aarch64/transpose.h"
#include "cpu/aarch64/vector__neon.h"
#include "cpu/kernel/kernel.h"

#define FMLA     "fmla"
#define VECTOR   ".4s"
#define LANE     ".s"
#define REGISTER "q"
#define STRIDE   "#16"
#include "cpu/aarch64/multiply_8x12.inc"

#define NAME         fp32_8x12__neon
#define PACKED       float
#define AS           WEFT_FP32
#define A_LINES      8
#define A_INTERLEAVE 1
#define B_LINES      12
#define B_INTERLEAVE 1
#define DEPTH        2
#define SQUARE       4
#define TRANSPOSE    transpose_floats
#define WIDEN_FOUR   widen_four
#define PANEL        panel_12__neon
#define DECODE       decode__neon
#define RESULTS      rows__neon
#define FETCH        12
#define FETCH_ACROSS 6
#include "cpu/kernel/block.inc"
