/* Softmax on 24 queries, weights in fp32. */
#define BITS 256
#include "cpu/kernel/vector__sve.h"
#define COLUMNS 24
#define KEYS    2
#define PRECISE 1
#define NAME    weft_cpu_panel_24__sve256
#include "cpu/kernel/panel.inc"
