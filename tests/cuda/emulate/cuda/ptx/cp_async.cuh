/* cp.async on a CPU: see emulate.h. A copy is done when its group is waited for, not before. */
#ifndef WEFT_CUDA_PTX_CP_ASYNC_CUH
#define WEFT_CUDA_PTX_CP_ASYNC_CUH

#include "emulate.h"

#include <deque>
#include <vector>

struct emulated_copy {
    uint32_t to;
    const void *from;
    bool present;
};
struct emulated_copies {
    std::vector<emulated_copy> open;
    std::deque<std::vector<emulated_copy>> groups;
};
extern emulated_copies emulated_copies_of[512];

static inline void cp_async_16(uint32_t to, const void *from, bool present) {
    emulated_copies_of[emulated_thread()].open.push_back({to, from, present});
}

static inline void cp_async_commit() {
    emulated_copies &mine = emulated_copies_of[emulated_thread()];
    mine.groups.push_back(std::move(mine.open));
    mine.open.clear();
}

template <int PENDING> static inline void cp_async_wait() {
    emulated_copies &mine = emulated_copies_of[emulated_thread()];
    while (mine.groups.size() > (size_t)PENDING) {
        for (const emulated_copy &c : mine.groups.front()) {
            if (c.present) {
                memcpy(study_shared + c.to, c.from, 16);
            } else {
                memset(study_shared + c.to, 0, 16);
            }
        }
        mine.groups.pop_front();
    }
}

#endif
