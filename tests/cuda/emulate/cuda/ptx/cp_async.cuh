/* SPDX-License-Identifier: Apache-2.0 */
/* cp.async on a CPU: see emulate.h. A copy is done when its group is waited for, not before. */
#ifndef WEFT_CUDA_PTX_CP_ASYNC_CUH
#define WEFT_CUDA_PTX_CP_ASYNC_CUH

#include "orders.h"

struct emulated_copy {
    uint32_t to;
    const void *from;
    int bytes, size; /* read, and written: the others are zeros */
};
inline thread_local emulated_orders<emulated_copy> emulated_copies_of[EMULATED_THREADS];

static inline void cp_async_16(uint32_t to, const void *from, bool present) {
    emulated_copies_of[emulated_thread()].open.push_back({to, from, present ? 16 : 0, 16});
}

static inline void cp_async_16_kept(uint32_t to, const void *from, uint64_t) {
    cp_async_16(to, from, true);
}

static inline void cp_async_16_first(uint32_t to, const void *from, int bytes) {
    emulated_copies_of[emulated_thread()].open.push_back({to, from, bytes, 16});
}

static inline void cp_async_4_first(uint32_t to, const void *from, int bytes) {
    emulated_copies_of[emulated_thread()].open.push_back({to, from, bytes, 4});
}

static inline void cp_async_commit() {
    emulated_copies_of[emulated_thread()].commit();
}

template <int PENDING> static inline void cp_async_wait() {
    emulated_copies_of[emulated_thread()].wait(PENDING, [](const emulated_copy &c) {
        if (c.to % c.size || (uintptr_t)c.from % c.size * (c.bytes != 0) || c.bytes < 0 || c.bytes > c.size) {
            emulated_fail("a copy of %d of %d bytes is not aligned", c.bytes, c.size);
        }
        memset(emulated_at(c.to), 0, (size_t)c.size);
        memcpy(emulated_at(c.to), c.from, (size_t)c.bytes);
    });
}

#endif
