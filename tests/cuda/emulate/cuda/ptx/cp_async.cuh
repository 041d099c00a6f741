/* cp.async on a CPU: see emulate.h. A copy is done when its group is waited for, not before. */
#ifndef WEFT_CUDA_PTX_CP_ASYNC_CUH
#define WEFT_CUDA_PTX_CP_ASYNC_CUH

#include "orders.h"

struct emulated_copy {
    uint32_t to;
    const void *from;
    bool present;
};
inline thread_local emulated_orders<emulated_copy> emulated_copies_of[EMULATED_THREADS];

static inline void cp_async_16(uint32_t to, const void *from, bool present) {
    emulated_copies_of[emulated_thread()].open.push_back({to, from, present});
}

static inline void cp_async_commit() {
    emulated_copies_of[emulated_thread()].commit();
}

template <int PENDING> static inline void cp_async_wait() {
    emulated_copies_of[emulated_thread()].wait(PENDING, [](const emulated_copy &c) {
        if (c.present) {
            memcpy(emulated_at(c.to), c.from, 16);
        } else {
            memset(emulated_at(c.to), 0, 16);
        }
    });
}

#endif
