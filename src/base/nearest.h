/* The word that a mistyped one was meant to be. */
#ifndef WEFT_BASE_NEAREST_H
#define WEFT_BASE_NEAREST_H

#include <stdint.h>

/* The name nearest to a mistyped one among `next(0)`, `next(1)`, ...; null when none is near. */
const char *weft_nearest(const char *name, const char *(*next)(int32_t i));

#endif
