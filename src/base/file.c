/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/status.h"

static weft_status fail(const char *path, int error, weft_message *message) {
    return weft_fail(message, WEFT_IO, "%.180s: %s", path, strerror(error));
}

/* The folder that holds a file: "a/b" is in "a", "/b" in "/", "b" in ".". */
static void folder_of(const char *path, char *folder, size_t size) {
    const char *slash = strrchr(path, '/');
    if (slash) {
        snprintf(folder, size, "%.*s", slash == path ? 1 : (int)(slash - path), path);
    } else {
        snprintf(folder, size, ".");
    }
}

weft_status weft_file_check(const char *path, weft_message *message) {
    struct stat info;
    char folder[PATH_MAX];
    if (stat(path, &info) == 0) {
        if (S_ISDIR(info.st_mode)) {
            return fail(path, EISDIR, message);
        }
        return access(path, W_OK) == 0 ? WEFT_OK : fail(path, errno, message);
    }
    if (errno != ENOENT) {
        return fail(path, errno, message);
    }
    folder_of(path, folder, sizeof folder);
    return access(folder, W_OK | X_OK) == 0 ? WEFT_OK : fail(path, errno, message);
}

/* Returns 0, or an error number. */
static int write_all(int file, const char *text, size_t length) {
    while (length > 0) {
        const ssize_t wrote = write(file, text, length);
        if (wrote < 0 && errno != EINTR) {
            return errno;
        }
        text += wrote > 0 ? wrote : 0;
        length -= wrote > 0 ? (size_t)wrote : 0;
    }
    return 0;
}

/* Opens a new file beside `path`, of a name that nobody has: a process that was killed may have left one behind. */
static int open_beside(const char *path, char *beside, size_t size) {
    int file = -1;
    for (int i = 0; i < 64 && file < 0; i++) {
        if ((size_t)snprintf(beside, size, i ? "%s.%ld.%d" : "%s.%ld", path, (long)getpid(), i) >= size) {
            errno = ENAMETOOLONG;
            return -1;
        }
        file = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (file < 0 && errno != EEXIST) {
            return -1;
        }
    }
    return file;
}

/* Opens where the text goes. Returns -1 and sets errno when it cannot. */
static int open_to_write(weft_file *f, const char *path) {
    struct stat info;
    const int found = lstat(path, &info) == 0;
    if (!found && errno != ENOENT) {
        return -1;
    }
    if (!found || S_ISREG(info.st_mode)) {
        const int file = open_beside(path, f->beside, sizeof f->beside);
        f->replaces = file >= 0;
        if (file >= 0 && found) {
            (void)!fchmod(file, info.st_mode & 07777);
        }
        /* A file may be written where its folder may not. */
        if (file >= 0 || !found || (errno != EACCES && errno != EPERM && errno != ENAMETOOLONG)) {
            return file;
        }
    }
    return open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
}

weft_status weft_file_begin(weft_file *f, const char *path, weft_message *message) {
    f->path = path;
    f->error = f->replaces = 0;
    f->file = STDOUT_FILENO;
    if (!path) {
        return fflush(stdout) == 0 ? WEFT_OK : weft_fail(message, WEFT_IO, "could not write to standard output");
    }
    f->file = open_to_write(f, path);
    return f->file < 0 ? fail(path, errno, message) : WEFT_OK;
}

void weft_file_put(weft_file *f, const void *text, size_t length) {
    f->error = f->error ? f->error : write_all(f->file, text, length);
}

weft_status weft_file_end(weft_file *f, weft_message *message) {
    if (!f->path) {
        return f->error ? weft_fail(message, WEFT_IO, "could not write to standard output") : WEFT_OK;
    }
    /* Else a machine that loses its power may have the name and not yet what belongs to it. */
    f->error = f->replaces && !f->error && fsync(f->file) != 0 && errno != EINVAL ? errno : f->error;
    f->error = close(f->file) != 0 && !f->error ? errno : f->error;
    f->error = f->replaces && !f->error && rename(f->beside, f->path) != 0 ? errno : f->error;
    if (f->error && f->replaces) {
        unlink(f->beside);
    }
    return f->error ? fail(f->path, f->error, message) : WEFT_OK;
}

weft_status weft_file_write(const char *path, const void *text, size_t length, weft_message *message) {
    weft_file f;
    const weft_status status = weft_file_begin(&f, path, message);
    if (status) {
        return status;
    }
    weft_file_put(&f, text, length);
    return weft_file_end(&f, message);
}

/* Reads to the end; returns 0 or an error number: EFBIG for more than `most` bytes. */
static int read_all(int file, size_t most, char **text, size_t *length) {
    size_t room = 0;
    for (;;) {
        if (*length == room) {
            room = room ? 2 * room : 1 << 16;
            char *larger = realloc(*text, room + 1);
            if (!larger) {
                return ENOMEM;
            }
            *text = larger;
        }
        const ssize_t got = read(file, *text + *length, room - *length);
        if (got == 0 || (got < 0 && errno != EINTR)) {
            (*text)[*length] = '\0';
            return got == 0 ? 0 : errno;
        }
        *length += got > 0 ? (size_t)got : 0;
        if (*length > most) {
            return EFBIG;
        }
    }
}

weft_status weft_file_read(const char *path, size_t most, char **text, size_t *length, weft_message *message) {
    const int file = path ? open(path, O_RDONLY | O_CLOEXEC) : STDIN_FILENO;
    *text = NULL;
    *length = 0;
    const int error = file < 0 ? errno : read_all(file, most, text, length);
    if (path && file >= 0) {
        close(file);
    }
    if (error) {
        free(*text);
        *text = NULL;
        return error == ENOMEM ? weft_fail(message, WEFT_NO_MEMORY, "no memory to read a file")
                               : fail(path ? path : "standard input", error, message);
    }
    return WEFT_OK;
}

/* The system does not say: the file is not there, not for us, or of a device that is gone. */
static int is_silent(int error) {
    return error == ENOENT || error == ENOTDIR || error == EACCES || error == EPERM || error == ENODEV || error == ENXIO;
}

int weft_file_head(const char *path, char *text, size_t size, int *error) {
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    size_t length = 0;
    ssize_t got = file < 0 ? -1 : 1;
    while (file >= 0 && got != 0 && length < size - 1) {
        got = read(file, text + length, size - 1 - length);
        if (got < 0 && errno != EINTR) {
            break;
        }
        length += got > 0 ? (size_t)got : 0;
    }
    if (got < 0 && !is_silent(errno)) {
        *error = errno;
    }
    if (file >= 0) {
        close(file);
    }
    length = got < 0 ? 0 : length;
    text[length] = '\0';
    return length > 0;
}

int weft_file_line(const char *path, char *text, size_t size, int *error) {
    const int found = weft_file_head(path, text, size, error);
    text[strcspn(text, "\n")] = '\0';
    return found;
}
