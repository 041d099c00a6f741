/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of SQLite that can fail: they do nothing and say that they did not. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sqlite3.h>

#include "faults.h"

/* Defines one: its result, its name, its parameters, how they are passed on, what else it does when it fails. */
#define CALL(name, parameters, arguments, fail)                                                                            \
    int name parameters {                                                                                                  \
        static int(*real) parameters;                                                                                      \
        if (FAULTS_HIT(FAULTS_SQLITE, #name)) {                                                                            \
            fail;                                                                                                          \
            return SQLITE_IOERR;                                                                                           \
        }                                                                                                                  \
        if (!real) {                                                                                                       \
            *(void **)&real = dlsym(RTLD_NEXT, #name);                                                                     \
        }                                                                                                                  \
        return real arguments;                                                                                             \
    }

CALL(sqlite3_open_v2, (const char *path, sqlite3 **db, int flags, const char *vfs), (path, db, flags, vfs), *db = NULL)
CALL(sqlite3_prepare_v2, (sqlite3 * db, const char *sql, int length, sqlite3_stmt **statement, const char **rest),
     (db, sql, length, statement, rest), *statement = NULL)
CALL(sqlite3_step, (sqlite3_stmt * statement), (statement), (void)0)
CALL(sqlite3_exec, (sqlite3 * db, const char *sql, int (*row)(void *, int, char **, char **), void *user, char **message),
     (db, sql, row, user, message), (void)0)
CALL(sqlite3_bind_int, (sqlite3_stmt * statement, int at, int value), (statement, at, value), (void)0)
CALL(sqlite3_bind_int64, (sqlite3_stmt * statement, int at, sqlite3_int64 value), (statement, at, value), (void)0)
CALL(sqlite3_bind_double, (sqlite3_stmt * statement, int at, double value), (statement, at, value), (void)0)
CALL(sqlite3_bind_text, (sqlite3_stmt * statement, int at, const char *text, int length, void (*release)(void *)),
     (statement, at, text, length, release), (void)0)
