/* Loaded before the C library's malloc (LD_PRELOAD): counts allocations, and lets one of them fail.
 *
 *   FAIL_ALLOC=N        the N-th allocation of the process returns null, the first being 1
 *   FAIL_ALLOC_COUNT=F  the number of allocations is written to the file F when the process exits
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* The GNU C library's own names for the functions that are replaced here. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

static atomic_long count;
static long failing; /* 0: none, as before main() */

__attribute__((constructor)) static void begin(void) {
    const char *number = getenv("FAIL_ALLOC");
    atomic_store(&count, 0);
    failing = number ? atol(number) : 0;
}

__attribute__((destructor)) static void end(void) {
    const char *path = getenv("FAIL_ALLOC_COUNT");
    const int file = path ? open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666) : -1;
    if (file >= 0) {
        dprintf(file, "%ld\n", atomic_load(&count));
        close(file);
    }
}

static int fails(void) {
    const int now = atomic_fetch_add(&count, 1) + 1 == failing;
    errno = now ? ENOMEM : errno;
    return now;
}

void *malloc(size_t size) {
    return fails() ? NULL : __libc_malloc(size);
}

void *calloc(size_t items, size_t size) {
    return fails() ? NULL : __libc_calloc(items, size);
}

void *realloc(void *old, size_t size) {
    return fails() ? NULL : __libc_realloc(old, size);
}

void *memalign(size_t alignment, size_t size) {
    return fails() ? NULL : __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
    return memalign(alignment, size);
}

int posix_memalign(void **memory, size_t alignment, size_t size) {
    *memory = memalign(alignment, size);
    return *memory ? 0 : ENOMEM;
}
