/* SPDX-License-Identifier: Apache-2.0 */
/* The log of what a process writes, for tests that cut the power: every open, write, change of size, flush, rename and
 * unlink in its order, as lines of words, each followed by as many bytes as its last word says:
 *
 *   open PATH FLAGS 0 / write PATH OFFSET LENGTH / size PATH LENGTH 0 / sync PATH 0 0 / rename FROM TO 0 / unlink PATH 0 0
 *
 * Paths hold no blanks; what goes to standard output has the path "-". */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "faults.h"

enum { FILES = 256, PATH = 512 };

static int log_file = -1;
static char paths[FILES][PATH];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void faults_log_begin(const char *path) {
    const int file = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    log_file = (int)syscall(SYS_fcntl, file, F_DUPFD_CLOEXEC, 200); /* out of the way */
    syscall(SYS_close, file);
    strcpy(paths[STDOUT_FILENO], "-");
}

static void note(const char *what, const char *path, const char *second, const void *bytes, size_t length) {
    char line[2 * PATH + 64];
    const int used = snprintf(line, sizeof line, "%s %s %s %zu\n", what, path, second, length);
    pthread_mutex_lock(&lock);
    syscall(SYS_write, log_file, line, (size_t)used);
    syscall(SYS_write, log_file, bytes, length);
    pthread_mutex_unlock(&lock);
}

static const char *path_of(int file) {
    return log_file >= 0 && file >= 0 && file < FILES && paths[file][0] ? paths[file] : NULL;
}

void faults_log_open(int file, const char *path, int flags) {
    char text[24];
    if (log_file < 0 || file >= FILES || strlen(path) >= PATH) {
        return;
    }
    strcpy(paths[file], path);
    snprintf(text, sizeof text, "%d", flags);
    note("open", path, text, "", 0);
}

void faults_log_close(int file) {
    if (file >= 0 && file < FILES) {
        paths[file][0] = '\0';
    }
}

void faults_log_write(int file, const void *bytes, size_t length, off_t offset) {
    char text[24];
    if (path_of(file)) {
        const off_t at = offset >= 0 ? offset : file == STDOUT_FILENO ? 0 : lseek(file, 0, SEEK_CUR) - (off_t)length;
        snprintf(text, sizeof text, "%lld", (long long)at);
        note("write", path_of(file), text, bytes, length);
    }
}

void faults_log_size(int file, off_t length) {
    char text[24];
    if (path_of(file)) {
        snprintf(text, sizeof text, "%lld", (long long)length);
        note("size", path_of(file), text, "", 0);
    }
}

void faults_log_sync(int file) {
    if (path_of(file)) {
        note("sync", path_of(file), "0", "", 0);
    }
}

void faults_log_rename(const char *from, const char *to) {
    if (log_file >= 0) {
        note("rename", from, to, "", 0);
    }
}

void faults_log_unlink(const char *path) {
    if (log_file >= 0) {
        note("unlink", path, "0", "", 0);
    }
}
