/* SPDX-License-Identifier: Apache-2.0 */
/* Allocations that can fail. strdup(), getline(), asprintf(), open_memstream() and so on call these. */
#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "faults.h"

/* The GNU C library's own names for the functions that are replaced here. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *memory);

static atomic_long blocks;

long faults_blocks(void) {
    return atomic_load(&blocks);
}

static int fails(const char *name, const void *caller) {
    const int error = faults_hit(FAULTS_MEMORY, name, caller);
    errno = error ? error : errno;
    return error;
}

static void *counted(void *memory) {
    atomic_fetch_add(&blocks, memory != NULL);
    return memory;
}

void *malloc(size_t size) {
    return fails("malloc", __builtin_return_address(0)) ? NULL : counted(__libc_malloc(size));
}

void *calloc(size_t items, size_t size) {
    return fails("calloc", __builtin_return_address(0)) ? NULL : counted(__libc_calloc(items, size));
}

void *realloc(void *old, size_t size) {
    if (fails("realloc", __builtin_return_address(0))) {
        return NULL;
    }
    void *memory = __libc_realloc(old, size);
    atomic_fetch_add(&blocks, (memory != NULL) - (old != NULL && (memory != NULL || size == 0)));
    return memory;
}

void *reallocarray(void *old, size_t items, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(items, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return realloc(old, bytes);
}

void *memalign(size_t alignment, size_t size) {
    return fails("memalign", __builtin_return_address(0)) ? NULL : counted(__libc_memalign(alignment, size));
}

void *aligned_alloc(size_t alignment, size_t size) {
    return fails("aligned_alloc", __builtin_return_address(0)) ? NULL : counted(__libc_memalign(alignment, size));
}

int posix_memalign(void **memory, size_t alignment, size_t size) {
    void *got = fails("posix_memalign", __builtin_return_address(0)) ? NULL : counted(__libc_memalign(alignment, size));
    if (!got) {
        return ENOMEM;
    }
    *memory = got;
    return 0;
}

void free(void *memory) {
    atomic_fetch_sub(&blocks, memory != NULL);
    __libc_free(memory);
}
