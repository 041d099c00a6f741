/* SPDX-License-Identifier: Apache-2.0 */
/* Where the store is, whether it has changed, and what its owner should know. */
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/environment.h"
#include "base/fork.h"
#include "tune/store/store.h"

size_t weft_tunings_path(char *path, size_t size) {
    const char *named = weft_environment(WEFT_VARIABLE_TUNING_DB), *home = weft_environment(WEFT_VARIABLE_HOME),
               *cache = weft_environment(WEFT_VARIABLE_XDG_CACHE_HOME);
    int length = 0;
    if (size > 0) {
        path[0] = '\0';
    }
    if (named) {
        length = snprintf(path, size, "%s", named);
    } else if (cache && *cache == '/') { /* the convention: a relative one does not count */
        length = snprintf(path, size, "%s/weft/tuning.db", cache);
    } else if (home) {
        length = snprintf(path, size, "%s/.cache/weft/tuning.db", home);
    }
    return length > 0 ? (size_t)length : 0;
}

static uint64_t stamp_of(const char *path) {
    struct stat info;
    if (stat(path, &info) != 0) {
        return 1;
    }
    const uint64_t parts[] = {(uint64_t)info.st_ino, (uint64_t)info.st_size, (uint64_t)info.st_mtim.tv_sec,
                              (uint64_t)info.st_mtim.tv_nsec};
    uint64_t stamp = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        stamp = (stamp ^ parts[i]) * UINT64_C(0x9e3779b97f4a7c15);
        stamp ^= stamp >> 32;
    }
    return stamp;
}

uint64_t weft_store_stamp(void) {
    char path[1024], log[1040];
    const size_t length = weft_tunings_path(path, sizeof path);
    if (length == 0 || length >= sizeof path) {
        return 0;
    }
    snprintf(log, sizeof log, "%s-wal", path); /* where SQLite writes first */
    return stamp_of(path) * 3 + stamp_of(log);
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static weft_message note; /* under the lock; "" when there is nothing */

void weft_store_note(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    weft_fork_hold();
    pthread_mutex_lock(&lock);
    vsnprintf(note.text, sizeof note.text, format, arguments);
    pthread_mutex_unlock(&lock);
    weft_fork_release();
    va_end(arguments);
}

int weft_tunings_notice(weft_message *notice) {
    weft_fork_hold();
    pthread_mutex_lock(&lock);
    const int there = note.text[0] != '\0';
    if (there && notice) {
        *notice = note;
    }
    note.text[0] = '\0';
    pthread_mutex_unlock(&lock);
    weft_fork_release();
    return there;
}
