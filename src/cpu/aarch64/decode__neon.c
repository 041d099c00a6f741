/* A few queries against a long cache of keys and values. */
#include "cpu/kernel/vector__neon.h"
#define NAME    weft_cpu_few__neon
#define PRECISE 1
#include "cpu/kernel/decode.inc"
