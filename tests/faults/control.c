/* SPDX-License-Identifier: Apache-2.0 */
/* Which call fails: see faults.h. */
#define _GNU_SOURCE
#include "faults.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static atomic_long count;
static atomic_int kinds;
static long at;
static int on, fails_with;
static _Atomic(const char *) first;

/* Where a library's code lies. */
typedef struct place {
    const char *library;
    uintptr_t from, to;
} place;
static place threads = {.library = "libgomp"}, sqlite = {.library = "libsqlite3"};

static int find(struct dl_phdr_info *info, size_t size, void *data) {
    place *where = data;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum && info->dlpi_name && strstr(info->dlpi_name, where->library); i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type == PT_LOAD && p->p_flags & PF_X) {
            where->from = info->dlpi_addr + p->p_vaddr;
            where->to = where->from + p->p_memsz;
        }
    }
    return 0;
}

static int is_in(const place *where, const void *caller) {
    return (uintptr_t)caller >= where->from && (uintptr_t)caller < where->to;
}

int faults_hit(faults_kind kind, const char *name, const void *caller) {
    if (!(atomic_load(&kinds) & (int)kind) || is_in(&threads, caller) ||
        (kind == FAULTS_SQLITE && is_in(&sqlite, caller))) {
        return 0;
    }
    const long number = atomic_fetch_add(&count, 1) + 1;
    if (at == 0 || (on ? number < at : number != at)) {
        return 0;
    }
    if (fails_with == FAULTS_KILL) {
        kill(getpid(), SIGKILL);
    }
    const char *none = NULL;
    atomic_compare_exchange_strong(&first, &none, name);
    return kind == FAULTS_MEMORY ? ENOMEM : kind == FAULTS_THREADS ? EAGAIN : fails_with;
}

void faults_begin(int which, long number, int from_then_on, int error) {
    dl_iterate_phdr(find, &threads);
    dl_iterate_phdr(find, &sqlite);
    atomic_store(&count, 0);
    atomic_store(&first, NULL);
    at = number;
    on = from_then_on;
    fails_with = error;
    atomic_store(&kinds, which);
}

long faults_end(const char **failed) {
    atomic_store(&kinds, 0);
    if (failed) {
        *failed = atomic_load(&first);
    }
    return atomic_load(&count);
}

int faults_have_failed(void) {
    return atomic_load(&kinds) && atomic_load(&first);
}

int faults_open_files(void) {
    int open = 0;
    for (int file = 0; file < 256; file++) {
        open += syscall(SYS_fcntl, file, F_GETFD) >= 0;
    }
    return open;
}

/* ---- a program that is preloaded ---- */

static int error_number(const char *name) {
    static const struct {
        const char *name;
        int number;
    } known[] = {{"EIO", EIO},       {"ENOSPC", ENOSPC},      {"EROFS", EROFS},
                 {"EACCES", EACCES}, {"short", FAULTS_SHORT}, {"kill", FAULTS_KILL}};
    for (size_t i = 0; name && i < sizeof known / sizeof *known; i++) {
        if (strcmp(name, known[i].name) == 0) {
            return known[i].number;
        }
    }
    return EIO;
}

__attribute__((constructor)) static void begin(void) {
    const char *words = getenv("FAULTS"), *number = getenv("FAULTS_AT"), *log = getenv("FAULTS_LOG");
    unsetenv("LD_PRELOAD"); /* what the command starts is not meant */
    if (log) {
        faults_log_begin(log);
        faults_take_standard_output();
    }
    if (!words) {
        return;
    }
    const int which = (strstr(words, "memory") ? FAULTS_MEMORY : 0) | (strstr(words, "files") ? FAULTS_FILES : 0) |
                      (strstr(words, "sqlite") ? FAULTS_SQLITE : 0) | (strstr(words, "threads") ? FAULTS_THREADS : 0);
    if (which & FAULTS_FILES && !log) {
        faults_take_standard_output();
    }
    faults_begin(which, number ? atol(number) : 0, getenv("FAULTS_ON") != NULL, error_number(getenv("FAULTS_ERROR")));
}

__attribute__((destructor)) static void end(void) {
    const char *path = getenv("FAULTS_COUNT"), *failed = NULL;
    if (path) {
        char text[96];
        const long calls = faults_end(&failed);
        const int length = snprintf(text, sizeof text, "%ld %s\n", calls, failed ? failed : "-");
        const long file = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
        syscall(SYS_write, file, text, (size_t)length);
        syscall(SYS_close, file);
    }
}
