/* SPDX-License-Identifier: Apache-2.0 */
/* Statements of the store, and what SQLite says when they fail. */
#include "base/status.h"
#include "tune/store/sqlite_store.h"

weft_status weft_store_fail(const weft_store *store, int result, weft_message *message) {
    const int primary = result & 0xff;
    const char *text = primary == SQLITE_BUSY || primary == SQLITE_LOCKED ? "another process has held it for too long"
                       : primary == SQLITE_FULL                           ? "the disk is full"
                       : primary == SQLITE_READONLY                       ? "it cannot be written: it is read-only"
                       : primary == SQLITE_CANTOPEN                       ? "it cannot be opened, or its folder not written"
                                                                          : sqlite3_errstr(result);
    return weft_fail(message, primary == SQLITE_NOMEM ? WEFT_NO_MEMORY : WEFT_IO, "the tuning store %.120s: %s",
                     store->path, text);
}

int weft_store_exec(const weft_store *store, const char *sql) {
    return sqlite3_exec(store->db, sql, NULL, NULL, NULL);
}

int weft_store_ask(const weft_store *store, const char *sql, int64_t *value) {
    sqlite3_stmt *statement = NULL;
    int result = sqlite3_prepare_v2(store->db, sql, -1, &statement, NULL);
    if (result == SQLITE_OK) {
        result = sqlite3_step(statement);
        *value = result == SQLITE_ROW ? sqlite3_column_int64(statement, 0) : 0;
        result = result == SQLITE_ROW ? SQLITE_OK : result == SQLITE_DONE ? SQLITE_EMPTY : result;
    }
    const int finished = sqlite3_finalize(statement);
    return result ? result : finished;
}
