/* SPDX-License-Identifier: Apache-2.0 */
/** Where the keys of a KV cache lie: pages that lists name.
 *
 * Columns are those of the sequences: a batch's own, or in a packed batch one sequence's behind the other's, as many for
 * each as its list of pages holds (weft_sequences.keys_each). So an entry of the lists is found from a column alone.
 */
#ifndef WEFT_ORDER_PAGES_H
#define WEFT_ORDER_PAGES_H

#include "sequence.h"

/** The pages of an attention's K and V. `page` 0: there are none, and a batch is one page. */
typedef struct weft_pages {
    const int32_t *table; /**< in the memory of whoever reads it */
    int64_t page;         /**< keys of a page */
    int64_t pages;        /**< that K and V have */
    int64_t stride;       /**< entries from batch to batch; packed: entries of a sequence */
    weft_divisor by_page;
    uint64_t *fault; /**< null, or where a kernel tells what is wrong with lists and lengths: see weft_fault() */
} weft_pages;

/** A row of K and V: which page of the tensors, or batch where there are none, and which row of it. */
typedef struct weft_page_row {
    int64_t page, row;
} weft_page_row;

/** Where a batch's column, below 2^31, lies. A page that the tensors do not have is page -1: nothing is to be read there.
 */
WEFT_INLINE weft_page_row weft_page_of(const weft_pages *pages, int64_t batch, int64_t column) {
    weft_page_row at;
    at.page = batch;
    at.row = column;
    if (pages->page > 0) {
        const uint32_t entry = weft_divide_short((uint32_t)column, &pages->by_page);
        const int32_t page = pages->table[batch * pages->stride + entry];
        at.row = (uint32_t)column - entry * (uint32_t)pages->page;
        at.page = page >= 0 && page < pages->pages ? page : -1;
    }
    return at;
}

/** What a kernel tells of lists and lengths that lead nowhere: one word, so that the host reads it whole, and the last that
 * is told stays. Bits 0 to 31 are what was found, which is never 0; 32 to 62 the entry, over all lists, or the sequence; 63
 * says that it is a length. */
WEFT_INLINE uint64_t weft_fault(int is_length, int64_t index, int32_t found) {
    return (uint64_t)(is_length != 0) << 63 | ((uint64_t)index & INT32_MAX) << 32 | (uint32_t)found;
}

/** Tells of the entry for a batch's column, whose page there is none of. */
WEFT_INLINE void weft_page_tell(const weft_pages *pages, int64_t batch, int64_t column) {
    if (pages->fault) {
        const int64_t entry = batch * pages->stride + weft_divide_short((uint32_t)column, &pages->by_page);
        *(volatile uint64_t *)pages->fault = weft_fault(0, entry, pages->table[entry]);
    }
}

/** Tells of the length of a cache's sequence, if it is none. */
WEFT_INLINE void weft_length_tell(const weft_pages *pages, const weft_sequences *all, int64_t number) {
    if (pages->fault && all->lengths.kv_used) {
        const int32_t used = all->lengths.kv_used[number];
        if (used < 0 || used > all->keys) {
            *(volatile uint64_t *)pages->fault = weft_fault(1, number, used);
        }
    }
}

#endif
