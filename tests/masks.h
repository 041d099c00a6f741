/* Masks drawn at random, and what they say in words. */
#ifndef TESTS_MASKS_H
#define TESTS_MASKS_H

#include <weft/weft.h>

#include "random.h"

/* Any mask, with an offset and a window where it has them: some queries may see nothing, some keys may not be seen. */
static inline void draw_mask(uint64_t *random, weft_attention *p) {
    p->offset = p->left = p->right = 0;
    p->mask = (weft_mask)random_between(random, WEFT_MASK_NONE, WEFT_MASK_WINDOW_BOTTOM_RIGHT);
    if (p->mask == WEFT_MASK_CAUSAL || p->mask == WEFT_MASK_WINDOW) {
        p->offset = p->kv_seq - p->seq + random_between(random, -p->kv_seq, p->seq);
    }
    if (p->mask == WEFT_MASK_WINDOW || p->mask == WEFT_MASK_WINDOW_BOTTOM_RIGHT) {
        p->left = random_between(random, -1, p->kv_seq / 2);
        p->right = random_between(random, -1, p->kv_seq / 2);
    }
}

/* Whether a query sees a key, on the problem as the caller wrote it. */
static inline int mask_shows(const weft_attention *p, int64_t query, int64_t key) {
    const int bottom_right = p->mask == WEFT_MASK_CAUSAL_BOTTOM_RIGHT || p->mask == WEFT_MASK_WINDOW_BOTTOM_RIGHT;
    const int64_t own = query + (bottom_right ? p->kv_seq - p->seq : p->offset);
    switch (p->mask) {
    case WEFT_MASK_CAUSAL:
    case WEFT_MASK_CAUSAL_BOTTOM_RIGHT:
        return key <= own;
    case WEFT_MASK_WINDOW:
    case WEFT_MASK_WINDOW_BOTTOM_RIGHT:
        return (p->left < 0 || own - key <= p->left) && (p->right < 0 || key - own <= p->right);
    case WEFT_MASK_NONE:
        break;
    }
    return 1;
}

#endif
