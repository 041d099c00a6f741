/* SPDX-License-Identifier: Apache-2.0 */
/* Reuse distances: how much else was touched since a piece was touched last. Under strict LRU an access misses in every
 * cache smaller than its distance, so one pass gives the misses for every size. */
#ifndef WEFT_SIM_REUSE_H
#define WEFT_SIM_REUSE_H

#include <stdint.h>

enum { WEFT_REUSE_BIN = 8 }; /* sectors */

/* A profile of distances: four bins to a doubling, and one for first touches. */
enum { WEFT_PROFILE_BINS = 128, WEFT_PROFILE_FIRST = WEFT_PROFILE_BINS };

typedef struct weft_reuse {
    uint32_t ids, room;  /* pieces, and moments in the tree */
    uint32_t *last;      /* (ids) the moment of the last touch, 0: never */
    uint32_t *piece_at;  /* (room + 1) the piece touched last at a moment, ids when none */
    uint32_t *weight_of; /* (ids) sectors */
    int64_t *tree;       /* (room + 1) Fenwick sums of the weights at the moments of last touches */
    uint32_t now;
    uint64_t *histogram; /* (bins) sectors by distance */
    uint64_t bins, cold; /* cold: misses whatever the size, first touches among them */
    uint64_t *profile;   /* (WEFT_PROFILE_BINS + 1) sectors read, by distance, or null */
} weft_reuse;

/* `sectors` bounds the distinct sectors. Returns 0 when memory ran out; release it in any case. */
int weft_reuse_init(weft_reuse *reuse, uint32_t ids, uint64_t sectors);
void weft_reuse_release(weft_reuse *reuse);

void weft_reuse_read(weft_reuse *reuse, uint32_t id, uint32_t weight);

/* A write takes room like a read, but hits or misses as the machine counts writes, whatever the size of the cache. */
void weft_reuse_write(weft_reuse *reuse, uint32_t id, uint32_t weight, int misses);

/* Sectors that miss in a strict LRU cache of this many sectors. */
uint64_t weft_reuse_misses(const weft_reuse *reuse, uint64_t capacity);

#endif
