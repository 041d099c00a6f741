/* Softmax on 12 queries, weights rounded to bf16 next. */
#include "cpu/kernel/vector__neon.h"
#define COLUMNS 12
#define KEYS    2
#define PRECISE 0
#define NAME    weft_cpu_panel_12_short__neon
#include "cpu/kernel/panel.inc"
