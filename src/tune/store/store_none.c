/* SPDX-License-Identifier: Apache-2.0 */
/* In place of the store where the library is built without SQLite. */
#include "base/status.h"
#include "tune/store/store.h"

static weft_status absent(weft_message *message) {
    return weft_fail(message, WEFT_UNSUPPORTED, "this build of weft keeps no tunings: it was made without SQLite");
}

weft_status weft_store_open(weft_store **store, int to_write, weft_message *message) {
    (void)to_write;
    *store = NULL;
    return absent(message);
}

void weft_store_close(weft_store *store) {
    (void)store;
}

weft_status weft_store_find(weft_store *store, const weft_tune_key *key, weft_tuned *tuned, weft_message *message) {
    (void)store, (void)key, (void)tuned;
    return absent(message);
}

weft_status weft_store_put(weft_store *store, const weft_tune_key *key, const weft_tuned *tuned, weft_message *message) {
    (void)store, (void)key, (void)tuned;
    return absent(message);
}

weft_status weft_store_put_all(weft_store *store, const weft_tuning *rows, size_t rows_count, int64_t *count,
                               weft_message *message) {
    (void)store, (void)rows, (void)rows_count;
    *count = 0;
    return absent(message);
}

weft_status weft_store_put_trial(weft_store *store, const weft_tune_key *key, const weft_tuned *trial,
                                 weft_message *message) {
    (void)store, (void)key, (void)trial;
    return absent(message);
}

weft_status weft_store_trials(weft_store *store, const weft_tune_key *key, void (*row)(void *user, const weft_tuned *trial),
                              void *user, weft_message *message) {
    (void)store, (void)key, (void)row, (void)user;
    return absent(message);
}

weft_status weft_store_drop_trials(weft_store *store, const weft_tune_key *key, weft_message *message) {
    (void)store, (void)key;
    return absent(message);
}

weft_status weft_store_forget(weft_store *store, const weft_tune_key *key, int64_t *count, weft_message *message) {
    (void)store, (void)key;
    *count = 0;
    return absent(message);
}

weft_status weft_store_list(weft_store *store, int (*row)(void *user, const weft_tuning *tuning), void *user,
                            weft_message *message) {
    (void)store, (void)row, (void)user;
    return absent(message);
}
