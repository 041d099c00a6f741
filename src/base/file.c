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

/* Creates a file beside `path`, with the mode of the file that it will replace. Returns -1 when it cannot, or when `path`
 * is nothing to replace. */
static int create_beside(const char *path, char *beside, size_t size) {
    struct stat info;
    const int found = lstat(path, &info) == 0;
    if ((found && !S_ISREG(info.st_mode)) || (size_t)snprintf(beside, size, "%s.%ld", path, (long)getpid()) >= size) {
        return -1;
    }
    const int file = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file >= 0 && found) {
        (void)!fchmod(file, info.st_mode & 07777);
    }
    return file;
}

weft_status weft_file_begin(weft_file *f, const char *path, weft_message *message) {
    f->path = path;
    f->error = f->replaces = 0;
    f->file = STDOUT_FILENO;
    if (!path) {
        return fflush(stdout) == 0 ? WEFT_OK : weft_fail(message, WEFT_IO, "could not write to standard output");
    }
    f->file = create_beside(path, f->beside, sizeof f->beside);
    f->replaces = f->file >= 0;
    if (!f->replaces) {
        f->file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    }
    return f->file < 0 ? fail(path, errno, message) : WEFT_OK;
}

void weft_file_put(weft_file *f, const void *text, size_t length) {
    f->error = f->error ? f->error : write_all(f->file, text, length);
}

weft_status weft_file_end(weft_file *f, weft_message *message) {
    if (!f->path) {
        return f->error ? weft_fail(message, WEFT_IO, "could not write to standard output") : WEFT_OK;
    }
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

int weft_file_line(const char *path, char *text, size_t size) {
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t length = file >= 0 ? read(file, text, size - 1) : 0;
    if (file >= 0) {
        close(file);
    }
    text[length > 0 ? length : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
    return length > 0;
}
