/* SPDX-License-Identifier: Apache-2.0 */
/* A search from the inside. */
#ifndef WEFT_SEARCH_SEARCH_H
#define WEFT_SEARCH_SEARCH_H

#include "search/entries.h"

struct weft_search {
    weft_search_entries all; /* of which the first summary.count are ranked */
    weft_machine machine;    /* that the caller has given */
    weft_search_summary summary;
    uint64_t limit; /* of steps of each in the last round; 0: none */
    weft_search_entry baseline;
};

#endif
