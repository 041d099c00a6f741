/* SPDX-License-Identifier: Apache-2.0 */
/* Memory for packed operands and for threads. What is released is kept for the next call, up to KEPT bytes: pages fresh
 * from the system cost more than filling them. weft_release_memory() frees what is kept. No lock, so that a child of a fork
 * finds none held: each place holds a buffer or nothing, and whoever takes it out has it. */
#include "cpu/memory.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <weft/weft.h>

/* ALIGNMENT: a cache line. BEYOND: kernels load the next values of an operand before they know that there are none. LARGE:
 * a huge page; buffers of several are laid on their borders. */
enum { ALIGNMENT = 64, BEYOND = 1024, LARGE = 2 << 20, PLACES = 64 };
#if defined(__has_feature)
#define HAS_ADDRESS_SANITIZER __has_feature(address_sanitizer)
#elif defined(__SANITIZE_ADDRESS__)
#define HAS_ADDRESS_SANITIZER 1
#else
#define HAS_ADDRESS_SANITIZER 0
#endif
#if HAS_ADDRESS_SANITIZER
static const size_t KEPT = 0; /* let it see every buffer come and go */
#else
static const size_t KEPT = (size_t)128 << 20;
#endif

/* Before each buffer, in a cache line of its own. */
typedef struct header {
    size_t bytes; /* behind the header */
    void *base;   /* what free() takes */
} header;

static header *places[PLACES];
static size_t kept; /* bytes in all places */

/* Takes a buffer of at least `bytes` and not many more out of its place. */
static header *take(size_t bytes) {
    for (int i = 0; i < PLACES; i++) {
        header *found = __atomic_load_n(&places[i], __ATOMIC_RELAXED); /* looking is cheaper than taking */
        found = found ? __atomic_exchange_n(&places[i], NULL, __ATOMIC_ACQUIRE) : NULL;
        if (!found) {
            continue;
        }
        if (found->bytes >= bytes && found->bytes / 4 <= bytes) {
            __atomic_fetch_sub(&kept, found->bytes, __ATOMIC_RELAXED);
            return found;
        }
        header *nothing = NULL; /* not this one: back, or away where its place was taken meanwhile */
        if (!__atomic_compare_exchange_n(&places[i], &nothing, found, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
            __atomic_fetch_sub(&kept, found->bytes, __ATOMIC_RELAXED);
            free(found->base);
        }
    }
    return NULL;
}

static header *make(size_t bytes) {
    const size_t border = bytes >= 2 * (size_t)LARGE ? LARGE : ALIGNMENT;
    if (bytes > SIZE_MAX / 2) {
        return NULL;
    }
    const size_t whole = (bytes + border + border - 1) / border * border; /* the header lies before the first border */
    char *base = aligned_alloc(border, whole);
    if (!base) {
        return NULL;
    }
#ifdef MADV_HUGEPAGE
    if (border == LARGE) {
        (void)madvise(base, whole, MADV_HUGEPAGE); /* a wish; without it the memory is as good */
    }
#endif
    header *made = (header *)(void *)(base + border - ALIGNMENT);
    made->base = base;
    made->bytes = whole - border;
    return made;
}

void *weft_cpu_alloc(size_t bytes) {
    if (bytes > SIZE_MAX / 2) {
        return NULL;
    }
    header *found = take(bytes + BEYOND);
    found = found ? found : make(bytes + BEYOND);
    return found ? (char *)found + ALIGNMENT : NULL;
}

void weft_cpu_free(void *buffer) {
    if (!buffer) {
        return;
    }
    header *mine = (header *)(void *)((char *)buffer - ALIGNMENT);
    if (__atomic_add_fetch(&kept, mine->bytes, __ATOMIC_RELAXED) <= KEPT) {
        for (int i = 0; i < PLACES; i++) {
            header *nothing = NULL;
            if (__atomic_compare_exchange_n(&places[i], &nothing, mine, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
                return;
            }
        }
    }
    __atomic_fetch_sub(&kept, mine->bytes, __ATOMIC_RELAXED);
    free(mine->base);
}

size_t weft_release_memory(void) {
    size_t bytes = 0;
    for (int i = 0; i < PLACES; i++) {
        header *found = __atomic_exchange_n(&places[i], NULL, __ATOMIC_ACQUIRE);
        if (found) {
            bytes += found->bytes;
            __atomic_fetch_sub(&kept, found->bytes, __ATOMIC_RELAXED);
            free(found->base);
        }
    }
    return bytes;
}
