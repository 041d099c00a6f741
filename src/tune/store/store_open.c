/* SPDX-License-Identifier: Apache-2.0 */
/* Opening the store: what to do with a file that is missing, damaged, foreign, older or newer. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "base/environment.h"
#include "base/fork.h"
#include "base/status.h"
#include "tune/store/sqlite_store.h"

enum { BUSY_MS = 10000 }; /* how long to wait for other processes */

/* A log of what is written, beside the file, lets readers and a writer go on at once and is flushed once for each row; but
 * its index is memory that processes share, which other hosts on a network file system do not see. */
static int is_on_network(const char *path) {
    static const unsigned long kinds[] = {
        0x6969 /* NFS */,      0xff534d42 /* CIFS */,   0xfe534d42 /* SMB */, 0x0bd00bd0 /* Lustre */,
        0x47504653 /* GPFS */, 0x19830326 /* BeeGFS */, 0x01021997 /* 9p */,  0x00c36400 /* Ceph */};
    struct statfs info;
    int found = 0;
    for (size_t i = 0; statfs(path, &info) == 0 && i < sizeof kinds / sizeof *kinds; i++) {
        found |= ((unsigned long)info.f_type & 0xffffffffUL) == kinds[i];
    }
    return found;
}

static void settle_journal(const weft_store *store) {
    int64_t unused;
    (void)weft_store_ask(store, is_on_network(store->path) ? "PRAGMA journal_mode = DELETE" : "PRAGMA journal_mode = WAL",
                         &unused);
    weft_store_exec(store, "PRAGMA synchronous = FULL"); /* what is stored survives a loss of power */
}

static int open_file(weft_store *store, int flags, const char *name) {
    const int result = sqlite3_open_v2(name, &store->db, flags | SQLITE_OPEN_NOMUTEX, NULL);
    if (store->db) {
        sqlite3_extended_result_codes(store->db, 1);
        sqlite3_busy_timeout(store->db, BUSY_MS);
    }
    return result;
}

static void close_file(weft_store *store) {
    sqlite3_close(store->db);
    store->db = NULL;
}

/* Moves the file, and the log that belongs to it, out of the way. */
static weft_status set_aside(const weft_store *store, const char *why, weft_message *message) {
    static const char *const parts[] = {"-wal", "-shm", "-journal"};
    char to[1100], from[1100], part[1120];
    snprintf(to, sizeof to, "%s.aside-%lld-%d", store->path, (long long)time(NULL), (int)getpid());
    if (rename(store->path, to) != 0) {
        return weft_fail(message, WEFT_IO, "the tuning store %.120s is %s, and cannot be set aside", store->path, why);
    }
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        snprintf(from, sizeof from, "%s%s", store->path, parts[i]);
        snprintf(part, sizeof part, "%s%s", to, parts[i]);
        (void)rename(from, part);
    }
    weft_store_note("the tuning store %.80s is %s: it was set aside as %.80s, and a new one begun", store->path, why,
                    strrchr(to, '/') ? strrchr(to, '/') + 1 : to);
    return WEFT_OK;
}

/* Whether the whole file can be read: what looks damaged may be a disk that fails. */
static weft_status check_reading(const weft_store *store, weft_message *message) {
    char room[16384];
    const int file = open(store->path, O_RDONLY | O_CLOEXEC);
    ssize_t got = file < 0 ? -1 : 1;
    while (file >= 0 && (got > 0 || (got < 0 && errno == EINTR))) {
        got = read(file, room, sizeof room);
    }
    const int error = errno;
    if (file >= 0) {
        close(file);
    }
    return got < 0 ? weft_fail(message, WEFT_IO, "the tuning store %.120s: %s", store->path, strerror(error)) : WEFT_OK;
}

static const char *reason(weft_store_verdict v) {
    return v == WEFT_STORE_FOREIGN ? "not weft's, or not as weft makes it" : "damaged";
}

/* Makes the folder of the default place; a place that the user names has one. */
static void make_folder(const char *path) {
    char folder[1024];
    if (weft_environment(WEFT_VARIABLE_TUNING_DB)) {
        return;
    }
    snprintf(folder, sizeof folder, "%s", path);
    for (char *slash = strchr(folder + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(folder, 0700);
        *slash = '/';
    }
}

/* Makes an empty file that is its owner's alone, where there is none: what SQLite makes, all may read. The log that it
 * writes beside has the same mode. A file that is there is not opened: closing it would end the locks that SQLite has on
 * it. */
static void make_private(const char *path) {
    const int file = access(path, F_OK) == 0 ? -1 : open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file >= 0) {
        close(file);
    }
}

/* Looks at the file and mends what can be mended, while no other process does. A file is set aside when it was found bad
 * twice and can be read: one read that fails must not cost the store. */
static weft_status open_to_write(weft_store *store, weft_message *message) {
    int found_bad = 0;
    for (int again = 0; again < 3; again++) {
        make_private(store->path);
        int result = open_file(store, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, store->path);
        const weft_store_verdict v = result ? WEFT_STORE_UNREADABLE : weft_store_judge(store, &result);
        if (v == WEFT_STORE_NEWER) {
            return weft_fail(message, WEFT_UNSUPPORTED,
                             "the tuning store %.120s was made by a newer weft: name another one in WEFT_TUNING_DB",
                             store->path);
        }
        if (v == WEFT_STORE_UNREADABLE) {
            return weft_store_fail(store, result, message);
        }
        if (v == WEFT_STORE_FOREIGN || v == WEFT_STORE_DAMAGED) {
            close_file(store);
            const weft_status status = found_bad++ ? set_aside(store, reason(v), message) : check_reading(store, message);
            if (status) {
                return status;
            }
            continue;
        }
        if (sqlite3_db_readonly(store->db, "main") == 1) {
            return weft_store_fail(store, SQLITE_READONLY, message);
        }
        settle_journal(store);
        result = v == WEFT_STORE_GOOD ? SQLITE_OK : weft_store_bring_up_to_date(store, v);
        return result ? weft_store_fail(store, result, message) : WEFT_OK;
    }
    return weft_store_fail(store, SQLITE_CORRUPT, message);
}

/* Reads what is there, changing nothing: for a folder that cannot be written. */
static weft_status open_to_read(weft_store *store, weft_message *message) {
    char name[3200] = "file:";
    size_t used = strlen(name);
    for (const char *c = store->path; *c && used + 24 < sizeof name; c++) { /* as a URI */
        used += (size_t)snprintf(name + used, sizeof name - used, strchr("%?#", *c) ? "%%%02x" : "%c", (unsigned char)*c);
    }
    weft_store_verdict v = WEFT_STORE_UNREADABLE;
    int result = open_file(store, SQLITE_OPEN_READONLY, store->path);
    v = result ? WEFT_STORE_UNREADABLE : weft_store_judge(store, &result);
    if (v == WEFT_STORE_UNREADABLE) { /* a log cannot be shared here, and none is being written either */
        close_file(store);
        snprintf(name + used, sizeof name - used, "?immutable=1");
        result = open_file(store, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, name);
        v = result ? WEFT_STORE_UNREADABLE : weft_store_judge(store, &result);
    }
    switch (v) {
    case WEFT_STORE_GOOD:
        return WEFT_OK;
    case WEFT_STORE_UNREADABLE:
        return weft_store_fail(store, result, message);
    case WEFT_STORE_EMPTY:
        return weft_fail(message, WEFT_NOT_FOUND, "the tuning store %.120s is empty", store->path);
    default:
        return weft_fail(message, WEFT_IO, "the tuning store %.120s is %s, and its folder cannot be written", store->path,
                         v == WEFT_STORE_OLDER   ? "of an older weft"
                         : v == WEFT_STORE_NEWER ? "of a newer weft"
                                                 : reason(v));
    }
}

weft_status weft_store_open(weft_store **result, int to_write, weft_message *message) {
    char lock_path[1040];
    weft_status status;
    *result = NULL;
    weft_store *store = calloc(1, sizeof *store);
    if (!store) {
        return weft_fail(message, WEFT_NO_MEMORY, "no memory for the tuning store");
    }
    const size_t length = weft_tunings_path(store->path, sizeof store->path);
    if (length == 0 || length >= sizeof store->path) {
        free(store);
        return weft_fail(message, WEFT_IO, "there is no place for a tuning store: name one in WEFT_TUNING_DB");
    }
    if (!to_write && access(store->path, F_OK) != 0) {
        const int missing = errno == ENOENT || errno == ENOTDIR;
        status = missing ? weft_fail(message, WEFT_NOT_FOUND, "nothing was tuned yet: there is no tuning store")
                         : weft_fail(message, WEFT_IO, "the tuning store %.120s: %s", store->path, strerror(errno));
        free(store);
        return status;
    }
    if (to_write) {
        make_folder(store->path);
    }
    snprintf(lock_path, sizeof lock_path, "%s.lock", store->path);
    weft_fork_hold();
    const int lock = open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    while (lock >= 0 && flock(lock, LOCK_EX) != 0 && errno == EINTR) {
    }
    status = to_write || (lock >= 0 && access(store->path, W_OK) == 0) ? open_to_write(store, message)
                                                                       : open_to_read(store, message);
    if (lock >= 0) {
        close(lock);
    }
    if (status) {
        weft_store_close(store);
        return status;
    }
    *result = store;
    return WEFT_OK;
}

void weft_store_close(weft_store *store) {
    if (store) {
        close_file(store);
        weft_fork_release();
        free(store);
    }
}
