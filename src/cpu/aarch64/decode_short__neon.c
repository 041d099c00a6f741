/* A few queries against a long cache of keys and values, weights rounded to bf16 next. */
#include "cpu/kernel/vector__neon.h"
#define NAME    weft_cpu_few_short__neon
#define PRECISE 0
#include "cpu/kernel/decode.inc"
