/* Rows of results. */
#include "cpu/aarch64/transpose.h"
#include "cpu/kernel/vector__neon.h"
#define NAME weft_cpu_rows__neon
#include "cpu/kernel/rows.inc"
