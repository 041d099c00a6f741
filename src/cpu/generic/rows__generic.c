/* Rows of results. */
#include "cpu/vector__generic.h"
#define NAME weft_cpu_rows__generic
#include "cpu/rows.inc"
