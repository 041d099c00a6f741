/* Launches that follow each other: the next may begin while this one ends (sm_90).
 *
 * A kernel that was launched so (WEFT_CU_LAUNCH_OVERLAP) sets itself up, then waits; it touches no memory that others may
 * write before that. In other launches both do nothing. */
#ifndef WEFT_CUDA_PTX_GRID_CUH
#define WEFT_CUDA_PTX_GRID_CUH

/* Waits until the launches before this one are over and what they wrote is seen. */
static __device__ __forceinline__ void grid_wait() {
    asm volatile("griddepcontrol.wait;" ::: "memory");
}

/* Lets the next launch begin as soon as there is room for it. */
static __device__ __forceinline__ void grid_let_next() {
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

#endif
