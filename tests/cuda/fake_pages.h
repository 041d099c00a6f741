/* What kernels tell of lists and lengths: the fake driver's, from the parameters of a launch. */
#ifndef WEFT_TESTS_CUDA_FAKE_PAGES_H
#define WEFT_TESTS_CUDA_FAKE_PAGES_H

#include "weft/order/pages.h"

static inline void fake_tell(const weft_pages *pages, const weft_sequences *all, const weft_band *band) {
    for (int64_t i = 0; i < all->count; i++) {
        const weft_sequence s = weft_sequence_at(all, i);
        weft_length_tell(pages, all, i);
        for (int64_t row = s.rows.begin; row < s.used_end && pages->page > 0; row++) {
            const weft_rows seen = weft_band_seen(band, &s, row);
            for (int64_t column = seen.begin; column < seen.end; column++) {
                if (weft_page_of(pages, all->packed ? 0 : i, column).page < 0) {
                    weft_page_tell(pages, all->packed ? 0 : i, column);
                }
            }
        }
    }
}

#endif
