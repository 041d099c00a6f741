/* SPDX-License-Identifier: Apache-2.0 */
/* The CUDA backend from the inside: families of kernels, and what a plan holds on a GPU. */
#ifndef WEFT_CUDA_PLAN_BACKEND_H
#define WEFT_CUDA_PLAN_BACKEND_H

#include <pthread.h>

#include "cuda/driver/driver.h"
#include "cuda/plan/knobs.h"
#include "cuda/plan/tickets.h"
#include "plan/plan.h"
#include "weft/order/pages.h"

/* Static shared memory that a CTA has beside a choice's, at most. */
enum { WEFT_CUDA_STATIC_SHARED = 1024 };

/* When a launch is made: in every run, in runs that are not prepared or that are, or by weft_plan_prepare(). */
typedef enum weft_cuda_when {
    WEFT_CUDA_ALWAYS = 0,
    WEFT_CUDA_UNPREPARED,
    WEFT_CUDA_PREPARED,
    WEFT_CUDA_PREPARES
} weft_cuda_when;

/* One kernel to launch, out of a family's. */
typedef struct weft_cuda_choice {
    const char *image, *kernel; /* of a .cu file, and an entry point in it */
    int64_t tile_m, tile_n;
    int32_t threads;       /* of a CTA */
    uint32_t shared_bytes; /* dynamic, of a CTA */
    int32_t overlaps;      /* 1: it may begin while the launch before it ends: see ptx/grid.cuh */
    int32_t ctas;          /* that share an SM, as it was compiled; 0: only the driver knows */
    int32_t operation;     /* 0: its tiles are the plan's; else as this weft_operation lays them out */
    int64_t grid;          /* above 0: it has no tiles, but so many CTAs */
    int32_t as_main;       /* 1: it has as many CTAs as the plan's, in whose place it is launched */
    weft_cuda_when when;
} weft_cuda_choice;

/* A launch of a run, or of what prepares runs. Most plans have one. */
typedef struct weft_cuda_pass {
    weft_cuda_choice choice;
    void *function;
    int ctas;       /* that fit an SM at a time */
    uint32_t grid;  /* CTAs of the launch, whole clusters */
    weft_walk walk; /* its table and lengths in device memory */
} weft_cuda_pass;

/* Launches of a run, at most; up to WEFT_TICKETS_WORDS of them have a counter of their own. */
enum { WEFT_CUDA_MAX_PASSES = 6 };

typedef struct weft_cuda_plan weft_cuda_plan;

/* A family: kernels that take the same parameters. A row of families.def, defined in the family.c of its folder. */
typedef struct weft_cuda_family {
    const char *name;
    const char *profile;    /* the file of profiles/ that describes its kernels */
    size_t parameter_bytes; /* of the struct that its kernels take by value; at most WEFT_CUDA_MAX_PARAMETERS */
    int leaves_zero;        /* 1: its kernels leave the counters of dynamic dispatch at 0, as they found them */
    int spreads;            /* 1: its workers share out the steps of all tiles, so that all are launched for any number */
    int finds_counters;     /* 1: its kernels find theirs in a weft_counter_pool; captured launches of others are static */

    /* Picks a kernel for the plan's problem and schedule, where a tile dimension of 0 is open. Says why when there is none.
     */
    weft_status (*choose)(const weft_plan *plan, const weft_cuda_device *device, const weft_cuda_knobs *knobs,
                          weft_cuda_choice *choice, weft_message *why);

    /* The plan's heads_in_tile: see weft_plan. Null: 1. */
    int64_t (*heads_in_tile)(const weft_plan *plan, const weft_cuda_device *device);
    /* The plan's `joined`: see weft_plan. Null: 0. */
    int (*joins)(const weft_plan *plan);
    /* The plan's lead, once its heads_in_tile is known. Null: 0. */
    int64_t (*lead)(const weft_plan *plan, const weft_cuda_choice *choice);

    /* Makes the choices that the kernel's author knows best, among those that the schedule leaves open; or null. The device
     * is loaded with the kernel by then. */
    void (*complete)(const weft_plan *plan, const weft_cuda_device *device, const weft_cuda_choice *choice,
                     weft_schedule *schedule);

    /* The problem that the plan's kernel computes in its place, of the same operation, whose tiles are the plan's:
     * `computed` is a copy of the plan's. Null: the same. */
    void (*computes)(const weft_problem *problem, weft_problem *computed);

    /* The launches of a run in their order, of which *main takes the plan's tiles, as chosen, and behind them those that
     * prepare runs. Returns how many, at most WEFT_CUDA_MAX_PASSES. Null: only that one. */
    int (*passes)(const weft_plan *plan, const weft_cuda_choice *choice, weft_cuda_choice *list, int *main);

    /* Bytes of device memory in which the launches of a run leave something for each other; or null: none. */
    size_t (*workspace)(const weft_plan *plan);

    /* Whether the plan's tiles add to sums one after the other: see weft/order/turns.h; or null: none do. */
    int (*takes_turns)(const weft_plan *plan);

    /* Where tiles take turns: the heads of queries that share the keys of a tile, if the plan knows every length; else 0.
     */
    int64_t (*members)(const weft_plan *plan);

    /* Where tiles take turns: whether a launch of the run makes their timetable, and `fill` gives it to the others. Null:
     * the plan makes it. */
    int (*deals)(const weft_plan *plan);

    /* Fills the parameters of a launch. `data` is the struct of the plan's operation, with a workspace where one is needed;
     * `walk`, which tells the launch's dispatch, has its table and its lengths in device memory, the plan's and the data's;
     * `counters` are all null where the plan needs none. Tiles that are handed out by counters, by ticket or by side, need
     * counters->own or ->pool. */
    weft_status (*fill)(const weft_plan *plan, const weft_cuda_pass *pass, const void *data, const weft_walk *walk,
                        const weft_counters *counters, void *parameters, weft_message *message);

    /* For tuning: the kernels that could take the plan's problem, as copies of its schedule with what tells them apart
     * (tile, cluster) filled in, and perhaps more that goes with them; what the schedule has fixed stays as it is. Returns
     * how many there are, at most `capacity`. Null: only the one that `choose` takes. */
    size_t (*candidates)(const weft_plan *plan, const weft_cuda_device *device, const weft_cuda_knobs *knobs,
                         weft_schedule *list, size_t capacity);

    /* How long a finished plan takes by the family's model, in seconds; what `choose` and `complete` rank by. Null, 0 or
     * less: it cannot tell. */
    double (*cost)(const weft_plan *plan, const weft_cuda_device *device);

    /* What the simulator is to know of the plan's kernel, but for `places`; or null. */
    void (*facts)(const weft_plan *plan, const weft_cuda_plan *placed, weft_kernel_facts *facts);

    int by_side; /* 1: its persistent workers find their places by the side of the L2 that they are on, where the order has
                    domains: see order/deal.h */

    /* Whether the plan's workers keep pace by a counter: see weft_counters; or null. */
    int (*paces)(const weft_plan *plan);
} weft_cuda_family;

enum { WEFT_CUDA_MAX_PARAMETERS = 4096 };

/* What the launches of a run leave for each other: the caller's memory, or the plan's own, which serves one run after the
 * other. */
typedef struct weft_cuda_workspace {
    size_t bytes;
    uint64_t own;         /* device memory, or 0: every run brings its own */
    void *free;           /* an event: who used the plan's own last is done */
    pthread_mutex_t lock; /* held from the wait for that event until it is recorded again */
} weft_cuda_workspace;

/* Where kernels tell what is wrong with a cache's lists and lengths: pinned memory of the host, which the GPU writes to, so
 * that the host reads it without waiting. See weft_fault(). */
typedef struct weft_cuda_fault {
    uint64_t *host;  /* null: nobody tells, as the driver has no such memory, or the plan no cache */
    uint64_t device; /* its address there */
} weft_cuda_fault;

/* What a plan holds on a GPU. Nothing but the tickets, the workspace and the fault changes once it is placed. */
struct weft_cuda_plan {
    const weft_cuda_driver *driver;
    weft_cuda_device device;
    void *context;
    int retained; /* whether the context is the primary one, held by this plan */
    const weft_cuda_family *family;
    weft_problem computed; /* what the plan's tiles are cut from */
    weft_cuda_knobs knobs;
    weft_cuda_pass passes[WEFT_CUDA_MAX_PASSES];
    int pass_count;
    weft_cuda_pass *main; /* the one by the plan's walk */
    uint32_t side_grid;   /* CTAs of its launch where workers are placed by side */
    int paces;            /* whether they keep pace by a counter */
    weft_cuda_workspace workspace;
    weft_cuda_fault fault;
    uint64_t timetable;    /* device memory: of a family that takes turns, or 0 */
    int together;          /* whether all its workers must run at the same time */
    uint64_t table;        /* device memory, or 0 */
    uint64_t lengths;      /* device memory: those of the problem, or 0 */
    weft_tickets *tickets; /* counters of dynamic dispatch and of workers by side, or null */
    uint64_t side_of_sm;   /* device memory: see weft_cuda_side_table(), or 0: workers are not placed by side */
    uint64_t worker_of_sm; /* device memory of whoever placed the workers by SM, or 0: see weft_study_params */
};

/* The best family for the plan on this device by the specification of its kernel, which is read into `knobs`, and the
 * family's choice. WEFT_UNSUPPORTED, with the reason, when none fits. */
weft_status weft_cuda_choose(const weft_plan *plan, const weft_cuda_device *device, const weft_cuda_family **family,
                             weft_cuda_knobs *knobs, weft_cuda_choice *choice, weft_message *message);

/* The candidates of the family that takes the plan: see weft_backend. */
size_t weft_cuda_candidates(const weft_plan *plan, weft_schedule *list, size_t capacity);

/* How long a finished plan takes by its family's model, in seconds; 0 where there is none: see weft_backend. */
double weft_cuda_cost(const weft_plan *plan);

/* What is known of the plan's kernel: see weft_backend. */
void weft_cuda_facts(const weft_plan *plan, weft_kernel_facts *facts);

/* paper.c: a chip that need not be here, as the driver would describe it, if its kernels were measured. weft_cuda_knows:
 * see weft_backend. */
int weft_cuda_knows(const weft_machine *machine);
weft_status weft_cuda_device_on_paper(const weft_machine *machine, weft_cuda_device *device, weft_message *message);
int64_t weft_cuda_clusters_on_paper(const weft_cuda_device *device, int64_t ctas);

/* passes.c: the walk of a launch that is not by the plan's, and its grid, once the plan's are there; `workers` are as many
 * as the GPU holds at a time. */
weft_status weft_cuda_pass_lay_out(const weft_plan *plan, weft_cuda_pass *pass, int64_t workers, weft_message *message);

/* workspace.c: the plan's own, where its runs need one and do not bring it. The plan's context is current. */
weft_status weft_cuda_workspace_new(weft_plan *plan, weft_message *message);
void weft_cuda_workspace_free(weft_cuda_plan *c);

/* Begins a run on a stream with the workspace that the data brings, or the plan's own, whose address goes into the copy of
 * the data; *taken says whether the run ends with weft_cuda_workspace_give_back(). */
weft_status weft_cuda_workspace_take(const weft_plan *plan, weft_data *data, void *stream, int *taken,
                                     weft_message *message);
weft_cu_result weft_cuda_workspace_give_back(weft_cuda_plan *c, void *stream);

/* fault.c: makes room for what kernels tell, where the plan has a cache. The plan's context is current. */
void weft_cuda_fault_new(weft_plan *plan);
void weft_cuda_fault_free(weft_cuda_plan *c);

/* WEFT_INVALID, and what it is, where a run has told something since the last time; it is then forgotten. `when` stands
 * before it in the message: "in an earlier run ". */
weft_status weft_cuda_fault_take(const weft_plan *plan, const char *when, weft_message *message);

/* weft_attention_pages() for kernels, which tell what is wrong with them. */
weft_pages weft_cuda_pages(const weft_plan *plan, const weft_attention_data *data);

/* Clusters of so many CTAs of the plan's kernel, which is loaded, that the GPU holds at a time. They do not span the groups
 * of SMs that the chip is made of, so that some SMs may be left over. */
int64_t weft_cuda_clusters(const weft_cuda_plan *c, int64_t ctas);

/* lengths.c: puts the lengths that a placed plan knows into device memory, its own; and the walk of a launch, with the
 * lengths that the data brings. The plan's context is current. */
weft_status weft_cuda_place_lengths(weft_plan *plan, weft_message *message);
weft_walk weft_cuda_walk_with(const weft_plan *plan, const weft_cuda_pass *pass, const void *data);

/* Launches the plan's kernels on a stream, those of a run or those that prepare runs; `data` as for weft_cuda_family.fill.
 * The plan's context is current. Allocates nothing and waits for nothing. */
weft_status weft_cuda_launch(const weft_plan *plan, const void *data, int prepares, void *stream, weft_message *message);

/* Whether weft_plan_prepare() does something for the plan. */
int weft_cuda_prepares(const weft_plan *plan);

/* Whether the kernel can follow a pointer: it is in memory that the plan's GPU can reach, and aligned as the kernel needs
 * it. The plan's context is current. */
weft_status weft_cuda_check_pointer(const weft_cuda_plan *c, const char *name, const void *pointer, size_t alignment,
                                    weft_message *message);

/* CUDA as a backend, and its functions: see weft_backend. */
extern const weft_backend weft_backend_cuda;
weft_status weft_cuda_open(weft_plan *plan, int given_machine, weft_message *message);
weft_status weft_cuda_place(weft_plan *plan, weft_message *message);
void weft_cuda_close(weft_plan *plan);
weft_status weft_cuda_enqueue(const weft_plan *plan, const void *data, void *stream, weft_message *message);
weft_status weft_cuda_prepare(const weft_plan *plan, const void *data, void *stream, weft_message *message);

#endif
