/* Rows of results. */
#include "cpu/kernel/vector__generic.h"
#define NAME weft_cpu_rows__generic
#include "cpu/kernel/rows.inc"
