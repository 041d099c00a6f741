/* Softmax on 24 queries, weights rounded to bf16 next. */
#define BITS 256
#include "cpu/kernel/vector__sve.h"
#define COLUMNS 24
#define KEYS    2
#define PRECISE 0
#define NAME    weft_cpu_panel_24_short__sve256
#include "cpu/kernel/panel.inc"
