/* SPDX-License-Identifier: Apache-2.0 */
/* What a store looks like inside, how to tell one, and how to make one of an older one. */
#include <stdio.h>
#include <string.h>

#include "tune/store/sqlite_store.h"

enum {
    APPLICATION = 0x57454654, /* "WEFT": tells the file from other programs' */
    SCHEMA = 2
};

/* A row is one tuning; a trial is one candidate of a tuning that is not finished. */
#define KEY "device TEXT NOT NULL, driver INTEGER NOT NULL, build TEXT NOT NULL, problem TEXT NOT NULL, given TEXT NOT NULL"
#define COLUMNS                                                                                                            \
    "schedule TEXT NOT NULL, seconds REAL NOT NULL, spread REAL NOT NULL, runs INTEGER NOT NULL, date INTEGER NOT NULL"

static const char create_tables[] = "CREATE TABLE tunings(" KEY ", " COLUMNS ", whole INTEGER NOT NULL,"
                                    " PRIMARY KEY(device, driver, build, problem, given)) WITHOUT ROWID;"
                                    "CREATE TABLE trials(" KEY ", " COLUMNS
                                    ", PRIMARY KEY(device, driver, build, problem, given, schedule)) WITHOUT ROWID;";

/* Schema 1 had no trials, and rows without spread, runs and what was given. */
static const char migrate_1[] = "ALTER TABLE tunings RENAME TO tunings_1;";
static const char migrate_1_rows[] =
    "INSERT INTO tunings SELECT device, driver, build, problem, '', schedule, seconds, 0, 1, date, 1 FROM tunings_1;"
    "DROP TABLE tunings_1;";

/* What every statement needs to be there. */
static const char probe[] =
    "SELECT device, driver, build, problem, given, schedule, seconds, spread, runs, date, whole FROM "
    "tunings LIMIT 1; SELECT device, driver, build, problem, given, schedule, seconds, spread, runs, "
    "date FROM trials LIMIT 1;";

/* What no store has: a view may be without end, a trigger may take away what is stored, and a virtual table is code. */
static const char other_kinds[] =
    "SELECT count(*) FROM sqlite_master WHERE type NOT IN ('table', 'index') OR sql LIKE 'CREATE VIRTUAL%'";

/* quick_check gives "ok", or a line for each thing that is wrong. */
static int is_sound(const weft_store *store, int *result) {
    sqlite3_stmt *statement = NULL;
    int sound = 0;
    *result = sqlite3_prepare_v2(store->db, "PRAGMA quick_check(1)", -1, &statement, NULL);
    if (*result == SQLITE_OK && (*result = sqlite3_step(statement)) == SQLITE_ROW) {
        const unsigned char *text = sqlite3_column_text(statement, 0);
        sound = text && strcmp((const char *)text, "ok") == 0;
        *result = SQLITE_OK;
    }
    sqlite3_finalize(statement);
    return sound;
}

weft_store_verdict weft_store_judge(const weft_store *store, int *result) {
    int64_t application = 0, schema = 0, tables = 0, others = 0;
    if ((*result = weft_store_ask(store, "PRAGMA application_id", &application)) ||
        (*result = weft_store_ask(store, "PRAGMA user_version", &schema)) ||
        (*result = weft_store_ask(store, "SELECT count(*) FROM sqlite_master", &tables)) ||
        (*result = weft_store_ask(store, other_kinds, &others))) {
        const int primary = *result & 0xff;
        return primary == SQLITE_NOTADB || primary == SQLITE_CORRUPT ? WEFT_STORE_DAMAGED : WEFT_STORE_UNREADABLE;
    }
    if (application == 0 && schema == 0 && tables == 0) {
        return WEFT_STORE_EMPTY;
    }
    if (application != APPLICATION || (others > 0 && schema <= SCHEMA)) {
        return WEFT_STORE_FOREIGN;
    }
    if (schema > SCHEMA) {
        return WEFT_STORE_NEWER;
    }
    if (!is_sound(store, result)) {
        const int primary = *result & 0xff;
        return *result == SQLITE_OK || primary == SQLITE_CORRUPT || primary == SQLITE_NOTADB ? WEFT_STORE_DAMAGED
                                                                                             : WEFT_STORE_UNREADABLE;
    }
    if (schema < SCHEMA) {
        return schema == 1 ? WEFT_STORE_OLDER : WEFT_STORE_FOREIGN;
    }
    *result = weft_store_exec(store, probe);
    return *result == SQLITE_OK               ? WEFT_STORE_GOOD
           : (*result & 0xff) == SQLITE_ERROR ? WEFT_STORE_FOREIGN
                                              : WEFT_STORE_UNREADABLE;
}

/* All of it or nothing, however the process ends. */
int weft_store_bring_up_to_date(const weft_store *store, weft_store_verdict from) {
    char mark[96];
    snprintf(mark, sizeof mark, "PRAGMA application_id = %d; PRAGMA user_version = %d;", APPLICATION, SCHEMA);
    int result = weft_store_exec(store, "BEGIN IMMEDIATE");
    if (result) {
        return result;
    }
    if ((from == WEFT_STORE_OLDER && (result = weft_store_exec(store, migrate_1))) ||
        (result = weft_store_exec(store, create_tables)) ||
        (from == WEFT_STORE_OLDER && (result = weft_store_exec(store, migrate_1_rows))) ||
        (result = weft_store_exec(store, mark)) || (result = weft_store_exec(store, "COMMIT"))) {
        weft_store_exec(store, "ROLLBACK");
    }
    return result;
}
