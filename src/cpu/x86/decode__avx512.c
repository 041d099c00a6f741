/* A few queries against a long cache of keys and values. */
#include "cpu/kernel/vector__avx512.h"
#define NAME    weft_cpu_few__avx512
#define PRECISE 1
#include "cpu/kernel/decode.inc"
