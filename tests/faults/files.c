/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on files that can fail. What does not fail goes to the system itself, past the C library. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "faults.h"

/* Fails with an error number; a short call is one of reads and writes alone. */
static int fails(const char *name, const void *caller) {
    const int error = faults_hit(FAULTS_FILES, name, caller);
    errno = error > 0 ? error : errno;
    return error > 0;
}
#define FAILS(name) fails(name, __builtin_return_address(0))

/* ---- opening and closing ---- */

static int open_at(int folder, const char *path, int flags, unsigned mode) {
    const int file = (int)syscall(SYS_openat, folder, path, flags, mode);
    if (file >= 0) {
        faults_log_open(file, path, flags);
    }
    return file;
}

#define MODE_OF(flags, mode)                                                                                               \
    unsigned mode = 0;                                                                                                     \
    if ((flags) & (O_CREAT | O_TMPFILE)) {                                                                                 \
        va_list more;                                                                                                      \
        va_start(more, flags);                                                                                             \
        mode = va_arg(more, unsigned);                                                                                     \
        va_end(more);                                                                                                      \
    }

int open(const char *path, int flags, ...) {
    MODE_OF(flags, mode)
    return FAILS("open") ? -1 : open_at(AT_FDCWD, path, flags, mode);
}

int open64(const char *path, int flags, ...) {
    MODE_OF(flags, mode)
    return FAILS("open") ? -1 : open_at(AT_FDCWD, path, flags, mode);
}

int openat(int folder, const char *path, int flags, ...) {
    MODE_OF(flags, mode)
    return FAILS("openat") ? -1 : open_at(folder, path, flags, mode);
}

int openat64(int folder, const char *path, int flags, ...) {
    MODE_OF(flags, mode)
    return FAILS("openat") ? -1 : open_at(folder, path, flags, mode);
}

/* Linux closes a file even when close() fails. */
int close(int file) {
    const int failed = FAILS("close");
    faults_log_close(file);
    const int error = errno, result = (int)syscall(SYS_close, file);
    errno = failed ? error : errno;
    return failed ? -1 : result;
}

DIR *opendir(const char *path) {
    DIR *(*real)(const char *);
    *(void **)&real = dlsym(RTLD_NEXT, "opendir");
    return FAILS("opendir") ? NULL : real(path);
}

/* ---- reading and writing ---- */

/* How much of a length a call may do; -1: it fails. */
static ssize_t allowed(const char *name, size_t length, const void *caller) {
    const int error = faults_hit(FAULTS_FILES, name, caller);
    errno = error > 0 ? error : errno;
    return error > 0 ? -1 : error == FAULTS_SHORT && length > 1 ? (ssize_t)(length / 2) : (ssize_t)length;
}
#define ALLOWED(name, length) allowed(name, length, __builtin_return_address(0))

ssize_t read(int file, void *bytes, size_t length) {
    const ssize_t most = ALLOWED("read", length);
    return most < 0 ? -1 : syscall(SYS_read, file, bytes, (size_t)most);
}

ssize_t write(int file, const void *bytes, size_t length) {
    const ssize_t most = file == STDERR_FILENO ? (ssize_t)length : ALLOWED("write", length);
    const ssize_t wrote = most < 0 ? -1 : syscall(SYS_write, file, bytes, (size_t)most);
    if (wrote > 0) {
        faults_log_write(file, bytes, (size_t)wrote, -1);
    }
    return wrote;
}

ssize_t pread(int file, void *bytes, size_t length, off_t offset) {
    const ssize_t most = ALLOWED("pread", length);
    return most < 0 ? -1 : syscall(SYS_pread64, file, bytes, (size_t)most, offset);
}

ssize_t pread64(int file, void *bytes, size_t length, off64_t offset) {
    return pread(file, bytes, length, offset);
}

ssize_t pwrite(int file, const void *bytes, size_t length, off_t offset) {
    const ssize_t most = ALLOWED("pwrite", length);
    const ssize_t wrote = most < 0 ? -1 : syscall(SYS_pwrite64, file, bytes, (size_t)most, offset);
    if (wrote > 0) {
        faults_log_write(file, bytes, (size_t)wrote, offset);
    }
    return wrote;
}

ssize_t pwrite64(int file, const void *bytes, size_t length, off64_t offset) {
    return pwrite(file, bytes, length, offset);
}

int fsync(int file) {
    const int result = FAILS("fsync") ? -1 : (int)syscall(SYS_fsync, file);
    if (result == 0) {
        faults_log_sync(file);
    }
    return result;
}

int fdatasync(int file) {
    const int result = FAILS("fdatasync") ? -1 : (int)syscall(SYS_fdatasync, file);
    if (result == 0) {
        faults_log_sync(file);
    }
    return result;
}

int ftruncate(int file, off_t length) {
    const int result = FAILS("ftruncate") ? -1 : (int)syscall(SYS_ftruncate, file, length);
    if (result == 0) {
        faults_log_size(file, length);
    }
    return result;
}

int ftruncate64(int file, off64_t length) {
    return ftruncate(file, length);
}

void *mmap(void *where, size_t length, int protection, int flags, int file, off_t offset) {
    return FAILS("mmap") ? MAP_FAILED : (void *)syscall(SYS_mmap, where, length, protection, flags, file, offset);
}

void *mmap64(void *where, size_t length, int protection, int flags, int file, off64_t offset) {
    return FAILS("mmap") ? MAP_FAILED : (void *)syscall(SYS_mmap, where, length, protection, flags, file, offset);
}

/* ---- names ---- */

int rename(const char *from, const char *to) {
    const int result = FAILS("rename") ? -1 : (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
    if (result == 0) {
        faults_log_rename(from, to);
    }
    return result;
}

int unlink(const char *path) {
    const int result = FAILS("unlink") ? -1 : (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
    if (result == 0) {
        faults_log_unlink(path);
    }
    return result;
}

int mkdir(const char *path, mode_t mode) {
    return FAILS("mkdir") ? -1 : (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}

int access(const char *path, int mode) {
    return FAILS("access") ? -1 : (int)syscall(SYS_faccessat, AT_FDCWD, path, mode);
}

/* The kernel's struct is the C library's on 64-bit machines. */
int stat(const char *restrict path, struct stat *restrict info) {
    return FAILS("stat") ? -1 : (int)syscall(SYS_newfstatat, AT_FDCWD, path, info, 0);
}

int stat64(const char *restrict path, struct stat64 *restrict info) {
    return FAILS("stat") ? -1 : (int)syscall(SYS_newfstatat, AT_FDCWD, path, info, 0);
}

int lstat(const char *restrict path, struct stat *restrict info) {
    return FAILS("lstat") ? -1 : (int)syscall(SYS_newfstatat, AT_FDCWD, path, info, AT_SYMLINK_NOFOLLOW);
}

int lstat64(const char *restrict path, struct stat64 *restrict info) {
    return FAILS("lstat") ? -1 : (int)syscall(SYS_newfstatat, AT_FDCWD, path, info, AT_SYMLINK_NOFOLLOW);
}

int fstat(int file, struct stat *info) {
    return FAILS("fstat") ? -1 : (int)syscall(SYS_fstat, file, info);
}

int fstat64(int file, struct stat64 *info) {
    return FAILS("fstat") ? -1 : (int)syscall(SYS_fstat, file, info);
}

int fchmod(int file, mode_t mode) {
    return FAILS("fchmod") ? -1 : (int)syscall(SYS_fchmod, file, mode);
}

int flock(int file, int operation) {
    return FAILS("flock") ? -1 : (int)syscall(SYS_flock, file, operation);
}

/* Only locks of a file fail: what else fcntl() does, it does in memory. A lock that fails with EACCES is one that another
 * process has, and worth waiting for; so that error becomes EIO. */
static int control(int file, int command, void *argument, const void *caller) {
    const int locks = command == F_SETLK || command == F_SETLKW || command == F_GETLK;
    if (locks && fails("fcntl", caller)) {
        errno = errno == EACCES ? EIO : errno;
        return -1;
    }
    return (int)syscall(SYS_fcntl, file, command, argument);
}

int fcntl(int file, int command, ...) {
    va_list more;
    va_start(more, command);
    void *argument = va_arg(more, void *);
    va_end(more);
    return control(file, command, argument, __builtin_return_address(0));
}

int fcntl64(int file, int command, ...) {
    va_list more;
    va_start(more, command);
    void *argument = va_arg(more, void *);
    va_end(more);
    return control(file, command, argument, __builtin_return_address(0));
}
