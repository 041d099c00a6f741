/* Softmax on 24 queries, weights in fp32. */
#include "cpu/kernel/vector__avx2.h"
#define COLUMNS 24
#define KEYS    1
#define PRECISE 1
#define NAME    weft_cpu_panel_24__avx2
#include "cpu/kernel/panel.inc"
