/* A few queries against a long cache of keys and values. */
#include "cpu/vector__neon.h"
#define NAME weft_cpu_few__neon
#include "cpu/few.inc"
