/* SPDX-License-Identifier: Apache-2.0 */
/* A transport over another that does all that a transport may do, at random: it holds messages back, lets those of
 * different ranks and tags overtake each other, says "not yet" of what has ended, and ends a send when it has copied it, or
 * when it has been received. */
#ifndef WEFT_TESTS_DIST_SHAKEN_H
#define WEFT_TESTS_DIST_SHAKEN_H

#include <weft/dist.h>

typedef struct shaken_message shaken_message;

typedef struct shaken {
    weft_transport inner;
    uint64_t random;
    shaken_message *first, *last; /* what has begun, in this order */
} shaken;

/* Makes it: it is valid as long as `s` and `inner`. */
weft_transport shaken_open(shaken *s, const weft_transport *inner, uint64_t seed);

/* When all has ended: gives up copies that nobody has received. */
void shaken_close(shaken *s);

#endif
