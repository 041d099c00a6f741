/* The plan, from the inside, and the interface that a backend fills. */
#ifndef WEFT_PLAN_PLAN_H
#define WEFT_PLAN_PLAN_H

#include <weft/machine.h>

/* A way to run plans: a table of functions. Buffers have been checked for null; problems are resolved. */
typedef struct weft_backend {
    const char *name;
    const char *(*kernel)(const weft_plan *plan); /* the kernel that the plan takes; null where there is only one kind */

    /* For devices with memory and kernels of their own, null otherwise. `open` takes the device and a kernel, before the
     * schedule is laid out: it settles tiles and workers, and the machine where none was given. `place` puts on the device
     * what the finished plan needs there. `close` releases what either took, also after a failure. */
    weft_status (*open)(weft_plan *plan, int given_machine, weft_message *message);
    weft_status (*place)(weft_plan *plan, weft_message *message);
    void (*close)(weft_plan *plan);

    weft_status (*attention_forward)(const weft_plan *plan, const weft_attention_data *data, weft_message *message);
    weft_status (*attention_backward)(const weft_attention *problem, const weft_attention_gradients *data,
                                      weft_message *message);
    weft_status (*gemm)(const weft_plan *plan, const weft_gemm_data *data, weft_message *message);

    /* For tuning. `candidates`: what differs from kernel to kernel (tiles, clusters), as copies of the plan's schedule with
     * that filled in, and the dispatches that differ here; returns how many there are, at most `room`. `cost`: how long the
     * plan would take by the backend's own model, in any unit; null where only the simulator can tell. The plan is made. */
    size_t (*candidates)(const weft_plan *plan, weft_schedule *list, size_t room);
    double (*cost)(const weft_plan *plan);

    /* As attention_forward and gemm, on a stream, without waiting; null where there are no streams. */
    weft_status (*enqueue_attention)(const weft_plan *plan, const weft_attention_data *data, void *stream,
                                     weft_message *message);
    weft_status (*enqueue_gemm)(const weft_plan *plan, const weft_gemm_data *data, void *stream, weft_message *message);
} weft_backend;

/* The reference, and what is faster. */
extern const weft_backend weft_backend_ref, weft_backend_cpu, weft_backend_cuda;

struct weft_plan {
    weft_subject subject;
    weft_attention attention; /* resolved; meaningful when subject is attention */
    weft_gemm gemm;           /* resolved; meaningful when subject is GEMM */
    weft_schedule schedule;   /* every choice made */
    int64_t products;         /* GEMM on the CPU: of a walk, all of the batch or 1; walks follow each other */
    int64_t pack; /* attention: query heads that share K and V in one tile; its rows are (query, head); divides tile_m */
    int64_t lead; /* attention: queries of a tile minus those of the first tile, see weft_reach; set by the backend */
    weft_machine machine;
    weft_walk walk;
    uint32_t *table; /* what walk.order.table points to, or null */
    weft_device device;
    const weft_backend *backend;
    void *placed;           /* what the backend holds for this plan, or null */
    weft_progress progress; /* null but in the copy that one run of it takes: see weft_plan_run_attention_with_progress() */
    void *progress_user;
};

/* A draft is a plan that is not made: problem, device and backend are there, and the schedule as the caller gave it, with
 * what is open in it. It holds nothing that is to be released. */
weft_status weft_plan_draft_attention(weft_plan *draft, const weft_attention *problem, const weft_schedule *schedule,
                                      const weft_device *device, weft_message *message);
weft_status weft_plan_draft_gemm(weft_plan *draft, const weft_gemm *problem, const weft_schedule *schedule,
                                 const weft_device *device, weft_message *message);

/* Makes a plan of a draft: what is open is chosen by the model. */
weft_status weft_plan_make(weft_plan **plan, const weft_plan *draft, const weft_machine *machine, weft_message *message);

/* The same in two parts: all that can be said of it, and what it needs on the device, without which it cannot run. */
weft_status weft_plan_lay_out(weft_plan **plan, const weft_plan *draft, const weft_machine *machine, weft_message *message);
weft_status weft_plan_place(weft_plan *plan, weft_message *message);

/* The tuner's part, for modes other than WEFT_ESTIMATE: fills in the draft's schedule as it was tuned, or tunes it. */
weft_status weft_tune_settle(weft_plan *draft, weft_message *message);

#endif
