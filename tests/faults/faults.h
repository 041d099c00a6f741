/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of the system that fail on demand: a shared library that stands before the C library (LD_PRELOAD, or linked first),
 * counts calls of some kinds and lets one of them fail, or that one and all after it.
 *
 * A program that links it calls faults_begin() and faults_end(). One that is preloaded is told by its environment:
 *
 *   FAULTS="memory files"  kinds that count and fail, below
 *   FAULTS_AT=N            the N-th call fails, the first being 1; 0 or nothing: none does
 *   FAULTS_ON=1            and so do all after it
 *   FAULTS_ERROR=EIO       what files fail with: EIO (if nothing else is named), ENOSPC, EROFS, EACCES, or
 *                          short: a read or a write does half of what it could, at least a byte
 *                          kill: the process is killed, at any kind of call
 *   FAULTS_COUNT=FILE      when the process exits, the number of calls and the name of the first that failed go there
 *   FAULTS_LOG=FILE        writes and flushes of files are logged there: log.c
 *
 * Calls that the library of threads (libgomp) makes do not count: it ends the process when one of its own fails. What the C
 * library does behind a FILE counts as reads and writes, what SQLite calls of its own does not count as a call of SQLite,
 * and so does standard output; standard error never fails. */
#ifndef WEFT_TESTS_FAULTS_H
#define WEFT_TESTS_FAULTS_H

#include <stddef.h>
#include <sys/types.h>

typedef enum faults_kind {
    FAULTS_MEMORY = 1,  /* malloc and its kin: no memory */
    FAULTS_FILES = 2,   /* open to unlink: an error of the system's */
    FAULTS_SQLITE = 4,  /* calls of SQLite: SQLITE_IOERR */
    FAULTS_THREADS = 8, /* starts of threads: EAGAIN */
} faults_kind;

enum { FAULTS_SHORT = -1, FAULTS_KILL = -2 }; /* instead of an error number */

/* From now on calls of these kinds count from 1, and the at-th fails (0: none) with an error number, or FAULTS_SHORT. */
void faults_begin(int kinds, long at, int from_then_on, int error);

/* Nothing fails from now on. Returns how many calls there were. *failed: the name of the first that failed, or null. */
long faults_end(const char **failed);

/* Blocks of memory that are allocated now, and files that are open: to find leaks. */
long faults_blocks(void);
int faults_open_files(void);

/* ---- within the library ---- */

/* Counts a call that stands in `caller`. Returns 0, or what it is to fail with. */
int faults_hit(faults_kind kind, const char *name, const void *caller);
#define FAULTS_HIT(kind, name) faults_hit(kind, name, __builtin_return_address(0))

/* Whether a call has failed since faults_begin(). */
int faults_have_failed(void);

/* Whether the log is asked for, and what it takes. */
void faults_log_begin(const char *path);
void faults_log_open(int file, const char *path, int flags);
void faults_log_close(int file);
void faults_log_write(int file, const void *bytes, size_t length, off_t offset /* -1: at the end of the last */);
void faults_log_size(int file, off_t length);
void faults_log_sync(int file);
void faults_log_rename(const char *from, const char *to);
void faults_log_unlink(const char *path);

/* Standard output becomes a stream whose writes can fail. */
void faults_take_standard_output(void);

#endif
