/* SPDX-License-Identifier: Apache-2.0 */
/* Streams (FILE) whose reads and writes go through files.c, where they can fail: the C library's own go past it. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "faults.h"

static ssize_t read_from(void *file, char *bytes, size_t length) {
    return read((int)(intptr_t)file, bytes, length);
}

/* All of it, as the C library's streams do: 0 stands for an error. */
static ssize_t write_to(void *file, const char *bytes, size_t length) {
    size_t done = 0;
    while (done < length) {
        const ssize_t wrote = write((int)(intptr_t)file, bytes + done, length - done);
        if (wrote < 0) {
            return 0;
        }
        done += (size_t)wrote;
    }
    return (ssize_t)done;
}

static int seek_in(void *file, off64_t *offset, int whence) {
    *offset = lseek((int)(intptr_t)file, *offset, whence);
    return *offset < 0 ? -1 : 0;
}

static int close_one(void *file) {
    return close((int)(intptr_t)file);
}

static FILE *stream_of(int file, const char *mode) {
    const cookie_io_functions_t functions = {read_from, write_to, seek_in, close_one};
    FILE *stream = fopencookie((void *)(intptr_t)file, mode, functions);
    if (!stream) {
        const int error = errno;
        close(file);
        errno = error;
    }
    return stream;
}

FILE *fopen(const char *restrict path, const char *restrict mode) {
    const int both = strchr(mode, '+') != NULL, reads = mode[0] == 'r';
    const int flags = (both    ? O_RDWR
                       : reads ? O_RDONLY
                               : O_WRONLY) |
                      (reads            ? 0
                       : mode[0] == 'w' ? O_CREAT | O_TRUNC
                                        : O_CREAT | O_APPEND) |
                      (strchr(mode, 'e') ? O_CLOEXEC : 0);
    const int file = open(path, flags, 0666);
    return file < 0 ? NULL : stream_of(file, mode);
}

FILE *fopen64(const char *restrict path, const char *restrict mode) {
    return fopen(path, mode);
}

void faults_take_standard_output(void) {
    FILE *stream = stream_of(STDOUT_FILENO, "w");
    stdout = stream ? stream : stdout;
}
