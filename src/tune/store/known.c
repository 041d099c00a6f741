/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/store/known.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/fork.h"
#include "base/status.h"
#include "tune/store/store.h"

typedef struct entry {
    weft_tune_number number;
    weft_tuned tuned;
    uint64_t stamp; /* of the file when nothing was found in it */
    uint64_t since; /* when it was remembered: the larger, the later; 0: the place is free */
    int found;
} entry;

/* An open hash table of 2^n places, at most half of them used. */
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static entry *table;
static size_t places, used;
static uint64_t puts; /* counts what is remembered */

/* Half a kilobyte each. */
enum { FIRST_PLACES = 256, MOST_PLACES = 1 << 14 };

/* The place of a number, or the free one where it would go. */
static entry *place(const weft_tune_number *number) {
    size_t i = (size_t)number->hash & (places - 1);
    while (table[i].since && memcmp(&table[i].number, number, sizeof *number) != 0) {
        i = (i + 1) & (places - 1);
    }
    return &table[i];
}

/* Makes room for one more: a larger table, or, at the most, one without the older half. Under the lock. */
static int make_room(void) {
    if (used * 2 < places) {
        return 1;
    }
    const int is_largest = places == MOST_PLACES;
    const uint64_t forgotten = is_largest ? puts - used / 2 : 0;
    const size_t old_places = places, new_places = is_largest ? places : places ? 2 * places : FIRST_PLACES;
    entry *old = table, *fresh = calloc(new_places, sizeof *fresh);
    if (!fresh) {
        return used + 1 < places;
    }
    table = fresh;
    places = new_places;
    used = 0;
    for (size_t i = 0; i < old_places; i++) {
        if (old[i].since > forgotten) {
            *place(&old[i].number) = old[i];
            used++;
        }
    }
    free(old);
    return 1;
}

static void remember(const weft_tune_number *number, const weft_tuned *tuned, uint64_t stamp) {
    weft_fork_hold();
    pthread_rwlock_wrlock(&lock);
    if (make_room()) {
        entry *e = place(number);
        used += !e->since;
        e->number = *number;
        e->since = ++puts;
        e->found = tuned != NULL;
        e->stamp = stamp;
        if (tuned) {
            e->tuned = *tuned;
        }
    }
    pthread_rwlock_unlock(&lock);
    weft_fork_release();
}

/* Asks the store. */
static weft_status ask(const weft_plan *draft, weft_tuned *tuned, weft_message *message) {
    weft_tune_key key;
    weft_store *store = NULL;
    weft_status status = weft_tune_key_make(&key, draft, message);
    if (status == WEFT_OK && (status = weft_store_open(&store, 0, message)) == WEFT_OK) {
        status = weft_store_find(store, &key, tuned, message);
    }
    weft_store_close(store);
    return status;
}

weft_status weft_known_find(const weft_plan *draft, weft_tuned *tuned, weft_message *message) {
    weft_tune_number number;
    int found = 0, missing = 0;
    uint64_t stamp = 0;
    weft_tune_number_make(&number, draft);
    weft_fork_hold();
    pthread_rwlock_rdlock(&lock);
    if (places > 0) {
        const entry *e = place(&number);
        found = e->since && e->found;
        missing = e->since && !e->found;
        stamp = e->stamp;
        if (found) {
            *tuned = e->tuned;
        }
    }
    pthread_rwlock_unlock(&lock);
    weft_fork_release();
    if (found) {
        return WEFT_OK;
    }
    const uint64_t now = weft_store_stamp();
    if (missing && stamp == now) {
        return weft_fail(message, WEFT_NOT_FOUND, "nothing was tuned for this class of problems on this device");
    }
    const weft_status status = ask(draft, tuned, message);
    if (status == WEFT_OK || status == WEFT_NOT_FOUND) {
        remember(&number, status ? NULL : tuned, now);
    }
    return status;
}

void weft_known_put(const weft_plan *draft, const weft_tuned *tuned) {
    weft_tune_number number;
    weft_tune_number_make(&number, draft);
    remember(&number, tuned, 0);
}

size_t weft_known_clear(void) {
    weft_fork_hold();
    pthread_rwlock_wrlock(&lock);
    const size_t bytes = places * sizeof *table;
    free(table);
    table = NULL;
    places = used = 0;
    pthread_rwlock_unlock(&lock);
    weft_fork_release();
    return bytes;
}
