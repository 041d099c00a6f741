/* Softmax on 32 queries, weights rounded to bf16 next. */
#include "cpu/kernel/vector__avx512.h"
#define COLUMNS 32
#define KEYS    2
#define PRECISE 0
#define NAME    weft_cpu_panel_32_short__avx512
#include "cpu/kernel/panel.inc"
