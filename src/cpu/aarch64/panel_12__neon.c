/* Softmax on 12 queries, weights in fp32. */
#include "cpu/kernel/vector__neon.h"
#define COLUMNS 12
#define KEYS    2
#define PRECISE 1
#define NAME    weft_cpu_panel_12__neon
#include "cpu/kernel/panel.inc"
