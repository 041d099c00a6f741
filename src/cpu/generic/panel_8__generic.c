/* Softmax on 8 queries, weights in fp32. */
#include "cpu/kernel/vector__generic.h"
#define COLUMNS 8
#define KEYS    1
#define PRECISE 1
#define NAME    weft_cpu_panel_8__generic
#include "cpu/kernel/panel.inc"
