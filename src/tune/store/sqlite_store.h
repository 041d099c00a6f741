/* SPDX-License-Identifier: Apache-2.0 */
/* The store from the inside: what store.c and store_rows.c share. */
#ifndef WEFT_TUNE_SQLITE_STORE_H
#define WEFT_TUNE_SQLITE_STORE_H

#include <sqlite3.h>

#include "tune/store/store.h"

struct weft_store {
    sqlite3 *db;
    char path[1024];
};

/* Says what SQLite says: "the tuning store PATH: disk is full". */
weft_status weft_store_fail(const weft_store *store, int result, weft_message *message);

/* Runs statements that give no rows. */
int weft_store_exec(const weft_store *store, const char *sql);

/* A number that a statement gives. */
int weft_store_ask(const weft_store *store, const char *sql, int64_t *value);

/* What a file is that was looked at; *result is SQLite's, where it could not be. */
typedef enum weft_store_verdict {
    WEFT_STORE_GOOD,
    WEFT_STORE_EMPTY,
    WEFT_STORE_OLDER,
    WEFT_STORE_NEWER,
    WEFT_STORE_FOREIGN, /* another program's, or not as weft makes it */
    WEFT_STORE_DAMAGED,
    WEFT_STORE_UNREADABLE
} weft_store_verdict;
weft_store_verdict weft_store_judge(const weft_store *store, int *result);

/* Makes a good one of one that is empty or older: all of it or nothing, however the process ends. */
int weft_store_bring_up_to_date(const weft_store *store, weft_store_verdict from);

#endif
