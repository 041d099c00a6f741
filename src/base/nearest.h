/* SPDX-License-Identifier: Apache-2.0 */
/* The word that a mistyped one was meant to be. */
#ifndef WEFT_BASE_NEAREST_H
#define WEFT_BASE_NEAREST_H

#include <stddef.h>
#include <stdint.h>

/* A mistyped name, and the nearest of those that were tried: null when none is near. */
typedef struct weft_near {
    const char *name, *best;
    size_t least; /* letters between them */
} weft_near;

weft_near weft_near_to(const char *name);
void weft_near_try(weft_near *near, const char *candidate);

/* The nearest of `next(0)`, `next(1)`, ...; null when none is near. */
const char *weft_nearest(const char *name, const char *(*next)(int32_t i));

#endif
