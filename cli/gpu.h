/* Attention on a GPU, from buffers of the host's: copied there, run and timed, copied back. */
#ifndef WEFT_CLI_GPU_H
#define WEFT_CLI_GPU_H

#include "plan/plan.h"

/* An attention's buffers on the GPU of a plan, and what is needed to time runs. Zero it first; gpu_close() takes it in any
 * state. */
typedef struct gpu {
    const void *driver; /* a weft_cuda_driver */
    void *context;
    uint64_t q, k, v, o, lse; /* device memory */
    size_t o_bytes, lse_bytes;
    void *start, *end; /* events */
} gpu;

/* Takes the GPU of `plan` and copies the buffers there. Returns an exit code, with the message printed. */
int gpu_open(gpu *g, const weft_plan *plan, const weft_attention_data *host);

/* Runs a plan of the same problem and GPU once, and says how long that took on the GPU. */
int gpu_time(gpu *g, const weft_plan *plan, double *seconds);

/* Fills O and LSE with NaN, so that what a run leaves out is seen. */
int gpu_poison(gpu *g);

/* Copies O and LSE back. */
int gpu_fetch(gpu *g, const weft_attention_data *host);

void gpu_close(gpu *g);

/* How often to run what takes `seconds`: what the user asked for, or half a second's worth, 5 to 200. */
int64_t gpu_runs(int64_t asked, double seconds);

#endif
