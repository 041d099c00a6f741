/* Softmax on 48 queries, weights in fp32. */
#define BITS 512
#include "cpu/kernel/vector__sve.h"
#define COLUMNS 48
#define KEYS    2
#define PRECISE 1
#define NAME    weft_cpu_panel_48__sve512
#include "cpu/kernel/panel.inc"
