/* A few queries against a long cache of keys and values. */
#include "cpu/vector__generic.h"
#define NAME weft_cpu_few__generic
#include "cpu/few.inc"
