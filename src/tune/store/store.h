/* SPDX-License-Identifier: Apache-2.0 */
/* The store of what was tuned: one SQLite file, for any number of processes. Built without SQLite (store_none.c), every
 * call says so with WEFT_UNSUPPORTED. */
#ifndef WEFT_TUNE_STORE_H
#define WEFT_TUNE_STORE_H

#include <math.h>

#include <weft/tune.h>

#include "tune/store/key.h"

typedef struct weft_store weft_store;

/* Whether the numbers of a tuning are such as a tuning has. */
static inline int weft_tuned_can_be(const weft_tuned *t) {
    return isfinite(t->seconds) && t->seconds > 0 && isfinite(t->spread) && t->spread >= 0 && t->runs >= 0 && t->date >= 0;
}

/* Opens the store. To write: it is begun where there is none, a file that is damaged or of another program is set aside,
 * and an older schema is brought up to date. To read, the same where the folder lets us, else what is there is read.
 *
 * WEFT_NOT_FOUND when there is none to read, WEFT_IO when it cannot be opened, WEFT_UNSUPPORTED when a newer weft made it.
 */
weft_status weft_store_open(weft_store **store, int to_write, weft_message *message);
void weft_store_close(weft_store *store);

/* One row. WEFT_NOT_FOUND when there is none; a row that cannot be read is none. Each write is done when it returns. */
weft_status weft_store_find(weft_store *store, const weft_tune_key *key, weft_tuned *tuned, weft_message *message);
weft_status weft_store_put(weft_store *store, const weft_tune_key *key, const weft_tuned *tuned, weft_message *message);

/* Puts every row that is later than the one that is there, all or none. *count: how many. */
weft_status weft_store_put_all(weft_store *store, const weft_tuning *rows, size_t rows_count, int64_t *count,
                               weft_message *message);

/* Times of single candidates, kept until their class is tuned as a whole. */
weft_status weft_store_put_trial(weft_store *store, const weft_tune_key *key, const weft_tuned *trial,
                                 weft_message *message);
weft_status weft_store_trials(weft_store *store, const weft_tune_key *key, void (*row)(void *user, const weft_tuned *trial),
                              void *user, weft_message *message);
weft_status weft_store_drop_trials(weft_store *store, const weft_tune_key *key, weft_message *message);

/* Rows and trials of a key, or all of them with null. *count: rows. */
weft_status weft_store_forget(weft_store *store, const weft_tune_key *key, int64_t *count, weft_message *message);

weft_status weft_store_list(weft_store *store, int (*row)(void *user, const weft_tuning *tuning), void *user,
                            weft_message *message);

/* A number that changes when the file does. */
uint64_t weft_store_stamp(void);

/* Says what its owner should know, for weft_tunings_notice(). */
void weft_store_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
