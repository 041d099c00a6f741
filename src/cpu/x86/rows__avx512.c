/* Rows of results. */
#include "cpu/kernel/vector__avx512.h"
#include "cpu/x86/transpose.h"
#define NAME weft_cpu_rows__avx512
#include "cpu/kernel/rows.inc"
