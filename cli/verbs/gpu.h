/* A problem on a GPU, from buffers of the host's: copied there, run and timed, copied back. */
#ifndef WEFT_CLI_GPU_H
#define WEFT_CLI_GPU_H

#include "plan/plan.h"

/* The buffers of an attention (Q, K, V, O, LSE) or a GEMM (A, B, C) on the GPU of a plan, and what is needed to time runs.
 * Zero it first; gpu_close() takes it in any state. */
enum { GPU_BUFFERS = 5 };
typedef struct gpu {
    const void *driver; /* a weft_cuda_driver */
    void *context;
    uint64_t memory[GPU_BUFFERS]; /* device memory, or 0 */
    void *start, *end;            /* events */
} gpu;

/* A buffer of a plan's problem: its bytes, and whether a run writes and reads it. */
typedef struct gpu_buffer {
    size_t bytes;
    int written, read;
} gpu_buffer;

/* The buffers of a plan's problem, in the order of gpu.memory. Returns how many there are. */
size_t gpu_buffers(const weft_plan *plan, gpu_buffer list[GPU_BUFFERS]);

/* Takes the GPU of `plan` and copies the buffers there. `host` is a weft_attention_data or a weft_gemm_data, as the plan's
 * subject is. Returns an exit code, with the message printed. */
int gpu_open(gpu *g, const weft_plan *plan, const void *host);

/* Puts a run of a plan on the default stream. */
weft_status gpu_enqueue(const gpu *g, const weft_plan *plan, weft_message *message);

/* Runs a plan of the same problem and GPU once, and says how long that took on the GPU. */
int gpu_time(gpu *g, const weft_plan *plan, double *seconds);

/* Fills what a run writes with NaN, so that what it leaves out is seen; what it reads too is copied there again. */
int gpu_poison(gpu *g, const weft_plan *plan, const void *host);

/* Copies back what a run writes. */
int gpu_fetch(gpu *g, const weft_plan *plan, const void *host);

void gpu_close(gpu *g);

/* How often to run what takes `seconds`: what the user asked for, or half a second's worth, 5 to 200. */
int64_t gpu_runs(int64_t asked, double seconds);

#endif
