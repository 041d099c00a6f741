/* SPDX-License-Identifier: Apache-2.0 */
/* What a message is of. Between two ranks those of a tag are in the order of steps. */
#ifndef WEFT_DIST_TAGS_H
#define WEFT_DIST_TAGS_H

#include <weft/dist.h>

enum {
    WEFT_TAG_WORD = WEFT_FIRST_TAG, /* who is there: see peers.h */
    WEFT_TAG_KEYS,
    WEFT_TAG_VALUES,
    WEFT_TAG_ADDS,     /* gradients of keys, on their way from rank to rank */
    WEFT_TAG_HOME,     /* the same, to whose keys they are */
    WEFT_TAG_EXCHANGE, /* heads */
};

#endif
