/* SPDX-License-Identifier: Apache-2.0 */
/* The plan, from the inside, and the interface that a backend fills. */
#ifndef WEFT_PLAN_PLAN_H
#define WEFT_PLAN_PLAN_H

#include <weft/profile.h>

#include "problem/operation.h"

/* What is known of the kernel that a plan has chosen, for the simulator: as it was measured, in place of what the kernel's
 * profile says. Zeros: nothing. */
typedef struct weft_kernel_facts {
    double launch;  /* seconds of a launch beside its tiles */
    double tile;    /* seconds of a tile beside its steps */
    double step;    /* seconds of a step, while nothing is late */
    double least;   /* seconds, whatever the tiles take: the chip's power does not allow more */
    int keeps_step; /* 1: its workers wait for each other */
    int places;     /* 1: its workers find the side of the L2 that an order by domain means them to be on */
} weft_kernel_facts;

/* A way to run plans: a table of functions. Buffers have been checked for null; problems are resolved. */
typedef struct weft_backend {
    const char *name;
    const char *(*kernel)(const weft_plan *plan); /* the kernel that the plan takes; null where there is only one kind */
    const char *(*launch)(const weft_plan *plan, size_t index); /* the kernels of a run, in their order; null past the last.
                                                                   Null where a run is one kernel */
    size_t (*workspace)(const weft_plan *plan);                 /* see weft_plan_workspace(); null: 0 */
    const char *(*profile)(const weft_plan *plan);              /* the name of its profile; null: the machine's usual one */

    /* For devices with memory and kernels of their own, null otherwise. `open` takes the device and a kernel, before the
     * schedule is laid out: it fixes tiles and workers, and the machine where none was given. `place` puts on the device
     * what the finished plan needs there. `close` releases what either took, also after a failure. */
    weft_status (*open)(weft_plan *plan, int given_machine, weft_message *message);
    weft_status (*place)(weft_plan *plan, weft_message *message);
    void (*close)(weft_plan *plan);

    /* `data` is the struct of the plan's operation, checked. */
    weft_status (*run)(const weft_plan *plan, const void *data, weft_message *message);

    /* The same on a stream, without waiting; null where there are no streams. */
    weft_status (*enqueue)(const weft_plan *plan, const void *data, void *stream, weft_message *message);

    /* See weft_plan_prepare(); null: there is nothing to prepare. `data` has lengths and a workspace, and no other buffer.
     */
    weft_status (*prepare)(const weft_plan *plan, const void *data, void *stream, weft_message *message);

    /* See weft_plan_check(); null: runs tell at once what is wrong. */
    weft_status (*check)(const weft_plan *plan, weft_message *message);

    /* For tuning. `candidates`: what differs from kernel to kernel (tiles, clusters), as copies of the plan's schedule with
     * that filled in, and the dispatches that differ here; returns how many there are, at most `room`. `cost`: how long the
     * plan would take by the backend's own model, in any unit; null where only the simulator can tell. The plan is made. */
    size_t (*candidates)(const weft_plan *plan, weft_schedule *list, size_t room);
    double (*cost)(const weft_plan *plan);

    /* What is known of the plan's kernel. Null: nothing, and workers are where an order by domain means them to be. */
    void (*facts)(const weft_plan *plan, weft_kernel_facts *facts);

    /* Whether it can lay out plans on paper for a machine, and price them: it has kernels for that chip, and their times
     * were measured there. Null: for none. */
    int (*knows)(const weft_machine *machine);
} weft_backend;

/* What the library is made of. The plan names nobody above it: src/registry/ fills this in. */
typedef struct weft_registry {
    const weft_backend *backends[2]; /* by weft_device_kind */

    /* The tuner's part, for modes other than WEFT_ESTIMATE: fills in the draft's schedule as it was tuned, or tunes it. */
    weft_status (*tune)(weft_plan *draft, weft_message *message);
} weft_registry;
extern const weft_registry weft_registered;

struct weft_plan {
    const weft_operation_row *operation;
    union { /* resolved */
        weft_problem problem;
        weft_attention attention;
        weft_gemm gemm;
    };
    const weft_problem
        *computed;          /* what a kernel computes in the problem's place, whose tiles are cut; null: the problem */
    weft_schedule schedule; /* every choice made */
    int64_t products;       /* GEMM: of a walk; walks follow each other. 0: all of the batch */
    int64_t heads_in_tile;  /* attention: query heads that share K and V in one tile; its rows are (query, head); divides
                               tile_m */
    int64_t lead; /* attention: queries of a tile minus those of the first tile, see weft_reach; set by the backend */
    weft_machine machine;
    int given_machine; /* 1: the caller gave it; 0: it is the device's own */
    int on_paper;      /* 1: laid out for a machine that need not be here, by a backend that knows it; cannot be placed */
    weft_walk walk;
    uint32_t *table;      /* what walk.order.table points to, or null */
    void *kept;           /* what the problem points to, or null */
    int joined;           /* attention, packed: see weft_tiling; set by the backend */
    int brings_workspace; /* as in weft_plan_options */
    weft_device device;
    const weft_backend *backend;
    void *placed;           /* what the backend holds for this plan, or null */
    int is_outline;         /* 1: an order custom may be without its table: see weft_plan_positions() */
    weft_progress progress; /* null but in the copy that one run of it takes: see weft_plan_run_with_progress() */
    void *progress_user;
};

/* A draft is a plan that is not made: problem, device and backend are there, and the schedule as the caller gave it, with
 * what is open in it. It holds nothing that is to be released. */
weft_status weft_plan_draft(weft_plan *draft, const void *problem, const weft_schedule *schedule, const weft_device *device,
                            weft_message *message);

/* A draft of a problem and its options. *given is the machine that these name, copied to `machine`, or null: the device's.
 */
weft_status weft_plan_draft_with(weft_plan *draft, weft_machine *machine, const weft_machine **given, const void *problem,
                                 const weft_plan_options *options, weft_message *message);

/* Puts a draft on paper: the machine's own kernels, whether or not such a device is here. Returns 0, and leaves the draft
 * as it is, when no backend knows the machine. */
int weft_plan_put_on_paper(weft_plan *draft, const weft_machine *machine);

/* CTAs of a cluster that share a tile: the schedule's split. */
int64_t weft_plan_tile_ctas(const weft_plan *plan);

/* Rows of tiles that one visit of a worker stands for: those of a cluster, unless each of its CTAs has a part of a tile. */
int64_t weft_plan_visit_rows(const weft_plan *plan);

/* The plan's problem as it is cut into tiles. */
weft_tiling weft_plan_tiling(const weft_plan *plan);

/* Makes a plan of a draft: what is open is chosen by the model. */
weft_status weft_plan_make(weft_plan **plan, const weft_plan *draft, const weft_machine *machine, weft_message *message);

/* The same in two parts: all that can be said of it, and what it needs on the device, without which it cannot run. */
weft_status weft_plan_lay_out(weft_plan **plan, const weft_plan *draft, const weft_machine *machine, weft_message *message);
weft_status weft_plan_place(weft_plan *plan, weft_message *message);

/* options.c: the caller's schedule and device, checked; null: all open, the CPU. */
weft_status weft_schedule_copy(weft_schedule *ours, const weft_schedule *theirs, weft_message *message);
weft_status weft_device_copy(weft_device *ours, const weft_device *theirs, weft_message *message);

#endif
