/* Softmax on 32 queries, weights in fp32. */
#include "cpu/kernel/vector__avx512.h"
#define COLUMNS 32
#define KEYS    2
#define PRECISE 1
#define NAME    weft_cpu_panel_32__avx512
#include "cpu/kernel/panel.inc"
