/* SPDX-License-Identifier: Apache-2.0 */
#include "base/tally.h"

void weft_tally_told(void *user, int64_t done, int64_t total) {
    weft_tally_part *part = user;
    weft_tally *t = part->of;
    const double units = total > 0 ? part->units * (double)done / (double)total : 0;
    if (t->progress && units >= part->told) {
        pthread_mutex_lock(&t->lock);
        t->done += units - part->told;
        part->told = units;
        t->progress(t->user, (int64_t)t->done, (int64_t)(t->planned > t->done ? t->planned : t->done));
        pthread_mutex_unlock(&t->lock);
    }
}
