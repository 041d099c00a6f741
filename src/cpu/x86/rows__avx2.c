/* Rows of results. */
#include "cpu/kernel/vector__avx2.h"
#include "cpu/x86/transpose.h"
#define NAME weft_cpu_rows__avx2
#include "cpu/kernel/rows.inc"
