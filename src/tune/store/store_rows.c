/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of the store: reading, writing, forgetting. */
#include <string.h>

#include "base/names.h"
#include "base/status.h"
#include "tune/store/sqlite_store.h"

#define MATCH " WHERE device = ?1 AND driver = ?2 AND build = ?3 AND problem = ?4 AND given = ?5"

static int bind_key(sqlite3_stmt *s, const weft_tuning *row) {
    const char *const texts[] = {row->device, NULL, row->build, row->problem, row->given};
    int result = sqlite3_bind_int(s, 2, row->driver);
    for (int i = 0; i < 5 && !result; i++) {
        result = texts[i] ? sqlite3_bind_text(s, i + 1, texts[i], -1, SQLITE_TRANSIENT) : SQLITE_OK;
    }
    return result;
}

static weft_tuning row_of(const weft_tune_key *key, const weft_tuned *tuned) {
    weft_tuning row = {sizeof row, key->device, key->driver, key->build, key->problem, key->given, WEFT_TUNED_INIT};
    if (tuned) {
        row.tuned = *tuned;
    }
    return row;
}

static int bind_tuned(sqlite3_stmt *s, const weft_tuned *t) {
    char words[WEFT_WORDS];
    int result;
    weft_schedule_write(&t->schedule, words);
    (void)((result = sqlite3_bind_text(s, 6, words, -1, SQLITE_TRANSIENT)) ||
           (result = sqlite3_bind_double(s, 7, t->seconds)) || (result = sqlite3_bind_double(s, 8, t->spread)) ||
           (result = sqlite3_bind_int64(s, 9, t->runs)) || (result = sqlite3_bind_int64(s, 10, t->date)));
    return result;
}

/* A text of a row: "" for a null, and when memory ran out, where *no_memory becomes 1. */
static const char *text_of(sqlite3_stmt *s, int column, int *no_memory) {
    const char *text = (const char *)sqlite3_column_text(s, column);
    *no_memory |= !text && sqlite3_errcode(sqlite3_db_handle(s)) == SQLITE_NOMEM;
    return text ? text : "";
}

/* Reads schedule, seconds, spread, runs and date from the columns that begin at `first`; 0 when the schedule means nothing
 * to this library, or when no tuning has such numbers: then another program wrote them. */
static int read_tuned(sqlite3_stmt *s, int first, weft_tuned *t, int *no_memory) {
    const char *words = text_of(s, first, no_memory);
    memset(t, 0, sizeof *t);
    t->seconds = sqlite3_column_double(s, first + 1);
    t->spread = sqlite3_column_double(s, first + 2);
    t->runs = sqlite3_column_int64(s, first + 3);
    t->date = sqlite3_column_int64(s, first + 4);
    return weft_schedule_read(&t->schedule, words, NULL) == WEFT_OK && weft_tuned_can_be(t);
}

/* Prepares a statement for a key. */
static int prepare(const weft_store *store, const char *sql, const weft_tuning *key, sqlite3_stmt **s) {
    const int result = sqlite3_prepare_v2(store->db, sql, -1, s, NULL);
    return result || !key ? result : bind_key(*s, key);
}

/* Runs a statement that gives no rows, and lets go of it. */
static int run(sqlite3_stmt *s, int result) {
    if (result == SQLITE_OK) {
        result = sqlite3_step(s);
        result = result == SQLITE_DONE || result == SQLITE_ROW ? SQLITE_OK : result;
    }
    sqlite3_finalize(s);
    return result;
}

weft_status weft_store_find(weft_store *store, const weft_tune_key *key, weft_tuned *tuned, weft_message *message) {
    const weft_tuning row = row_of(key, NULL);
    sqlite3_stmt *s = NULL;
    int found = 0, no_memory = 0,
        result = prepare(store, "SELECT schedule, seconds, spread, runs, date, whole FROM tunings" MATCH, &row, &s);
    if (result == SQLITE_OK && (result = sqlite3_step(s)) == SQLITE_ROW) {
        found = read_tuned(s, 0, tuned, &no_memory);
        tuned->whole = sqlite3_column_int(s, 5);
        result = no_memory ? SQLITE_NOMEM : result;
    }
    sqlite3_finalize(s);
    if (result != SQLITE_ROW && result != SQLITE_DONE) {
        return weft_store_fail(store, result, message);
    }
    return found ? WEFT_OK : weft_fail(message, WEFT_NOT_FOUND, "nothing was tuned for: %.200s", key->problem);
}

static int put(const weft_store *store, const weft_tuning *row, const char *sql) {
    sqlite3_stmt *s = NULL;
    int result = prepare(store, sql, row, &s);
    result = result ? result : bind_tuned(s, &row->tuned);
    result = result ? result : sqlite3_bind_int(s, 11, row->tuned.whole);
    return run(s, result);
}

static const char put_row[] = "INSERT OR REPLACE INTO tunings VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";

weft_status weft_store_put(weft_store *store, const weft_tune_key *key, const weft_tuned *tuned, weft_message *message) {
    const weft_tuning row = row_of(key, tuned);
    const int result = put(store, &row, put_row);
    return result ? weft_store_fail(store, result, message) : WEFT_OK;
}

weft_status weft_store_put_all(weft_store *store, const weft_tuning *rows, size_t rows_count, int64_t *count,
                               weft_message *message) {
    static const char put_later[] =
        "INSERT INTO tunings VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11) ON CONFLICT DO UPDATE SET schedule = ?6, "
        "seconds = ?7, spread = ?8, runs = ?9, date = ?10, whole = ?11 WHERE date < ?10";
    int result = weft_store_exec(store, "BEGIN IMMEDIATE");
    *count = 0;
    if (result) {
        return weft_store_fail(store, result, message);
    }
    for (size_t i = 0; i < rows_count && !result; i++) {
        result = put(store, &rows[i], put_later);
        *count += result ? 0 : sqlite3_changes(store->db);
    }
    result = result ? result : weft_store_exec(store, "COMMIT");
    if (result) {
        weft_store_exec(store, "ROLLBACK");
        *count = 0;
        return weft_store_fail(store, result, message);
    }
    return WEFT_OK;
}

weft_status weft_store_put_trial(weft_store *store, const weft_tune_key *key, const weft_tuned *trial,
                                 weft_message *message) {
    const weft_tuning row = row_of(key, trial);
    sqlite3_stmt *s = NULL;
    int result = prepare(store, "INSERT OR REPLACE INTO trials VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)", &row, &s);
    result = run(s, result ? result : bind_tuned(s, trial));
    return result ? weft_store_fail(store, result, message) : WEFT_OK;
}

weft_status weft_store_trials(weft_store *store, const weft_tune_key *key, void (*row)(void *user, const weft_tuned *trial),
                              void *user, weft_message *message) {
    const weft_tuning like = row_of(key, NULL);
    sqlite3_stmt *s = NULL;
    weft_tuned trial;
    int no_memory = 0;
    int result = prepare(store, "SELECT schedule, seconds, spread, runs, date FROM trials" MATCH, &like, &s);
    while (result == SQLITE_OK && (result = sqlite3_step(s)) == SQLITE_ROW) {
        if (read_tuned(s, 0, &trial, &no_memory)) {
            row(user, &trial);
        }
        result = no_memory ? SQLITE_NOMEM : SQLITE_OK;
    }
    sqlite3_finalize(s);
    return result == SQLITE_DONE ? WEFT_OK : weft_store_fail(store, result, message);
}

static int erase(const weft_store *store, const char *sql, const weft_tuning *like) {
    sqlite3_stmt *s = NULL;
    const int result = prepare(store, sql, like, &s);
    return run(s, result);
}

weft_status weft_store_drop_trials(weft_store *store, const weft_tune_key *key, weft_message *message) {
    const weft_tuning like = row_of(key, NULL);
    const int result = erase(store, "DELETE FROM trials" MATCH, &like);
    return result ? weft_store_fail(store, result, message) : WEFT_OK;
}

weft_status weft_store_forget(weft_store *store, const weft_tune_key *key, int64_t *count, weft_message *message) {
    weft_tuning like;
    if (key) {
        like = row_of(key, NULL);
    }
    int result = erase(store, key ? "DELETE FROM trials" MATCH : "DELETE FROM trials", key ? &like : NULL);
    result = result ? result : erase(store, key ? "DELETE FROM tunings" MATCH : "DELETE FROM tunings", key ? &like : NULL);
    *count = result ? 0 : sqlite3_changes(store->db);
    return result ? weft_store_fail(store, result, message) : WEFT_OK;
}

weft_status weft_store_list(weft_store *store, int (*row)(void *user, const weft_tuning *tuning), void *user,
                            weft_message *message) {
    sqlite3_stmt *s = NULL;
    int result = prepare(store, "SELECT * FROM tunings ORDER BY device, driver, build, problem, given", NULL, &s);
    int stop = 0, no_memory = 0;
    while (!stop && result == SQLITE_OK && (result = sqlite3_step(s)) == SQLITE_ROW) {
        weft_tuning found;
        const int readable = read_tuned(s, 5, &found.tuned, &no_memory);
        found.device = text_of(s, 0, &no_memory);
        found.driver = sqlite3_column_int(s, 1);
        found.build = text_of(s, 2, &no_memory);
        found.problem = text_of(s, 3, &no_memory);
        found.given = text_of(s, 4, &no_memory);
        found.tuned.whole = sqlite3_column_int(s, 10);
        const int is_text = weft_is_text(found.device) && weft_is_text(found.build) && weft_is_text(found.problem) &&
                            weft_is_text(found.given);
        stop = readable && is_text && !no_memory && row(user, &found);
        result = no_memory ? SQLITE_NOMEM : SQLITE_OK;
    }
    sqlite3_finalize(s);
    return stop || result == SQLITE_DONE ? WEFT_OK : weft_store_fail(store, result, message);
}
