/* SPDX-License-Identifier: Apache-2.0 */
/* What kernels tell of lists and lengths: the fake driver's, from the parameters of a launch. */
#ifndef WEFT_TESTS_CUDA_FAKE_PAGES_H
#define WEFT_TESTS_CUDA_FAKE_PAGES_H

#include "weft/order/pages.h"

/* Of some columns of a sequence. */
static inline void fake_tell_columns(const weft_pages *pages, int64_t batch, weft_rows columns) {
    for (int64_t column = columns.begin; column < columns.end && pages->page > 0; column++) {
        if (weft_page_of(pages, batch, column).page < 0) {
            weft_page_tell(pages, batch, column);
        }
    }
}

static inline void fake_tell(const weft_pages *pages, const weft_sequences *all, const weft_band *band) {
    for (int64_t i = 0; i < all->count; i++) {
        const weft_sequence s = weft_sequence_at(all, i);
        weft_length_tell(pages, all, i);
        fake_tell_columns(pages, all->packed ? 0 : i, weft_sequence_added(all, i));
        for (int64_t row = s.rows.begin; row < s.used_end; row++) {
            fake_tell_columns(pages, all->packed ? 0 : i, weft_band_seen(band, &s, row));
        }
    }
}

#endif
