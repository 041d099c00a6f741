/* Warpgroups on a CPU: registers are not counted, and there are no clusters. */
#ifndef WEFT_CUDA_PTX_CLUSTER_CUH
#define WEFT_CUDA_PTX_CLUSTER_CUH

#include "emulate.h"

static inline bool elect_one() {
    __syncwarp();
    return emulated_thread() % 32 == 0;
}

template <int REGISTERS> static inline void registers_raise() {
}

template <int REGISTERS> static inline void registers_lower() {
}

/* barriers.cpp */
void barrier_sync(uint32_t number, uint32_t threads);
void barrier_arrive(uint32_t number, uint32_t threads);
bool barrier_any(uint32_t number, uint32_t threads, bool mine);

#endif
