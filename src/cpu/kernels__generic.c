/* Any processor: four floats at a time, whatever the compiler makes of that. */
#define WIDTH   4
#define ROWS    4
#define VECTORS 2
#define BY_LANE 0
#define NAME    weft_cpu_generic
#define LABEL   "generic"
#include "cpu/kernels.inc"
