/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Schedules, devices and plans: choosing how and where; and orders of your own.
 */
#ifndef WEFT_PLAN_H
#define WEFT_PLAN_H

#include "data.h"
#include "order.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Tile shape, order, sweep, dispatch, cluster. A zero means: let the plan choose. Other structs hold schedules by value,
 * so this one never changes its size: new fields take the place of reserved ones. */
typedef struct weft_schedule {
    size_t struct_size;             /**< set by WEFT_SCHEDULE_INIT */
    int64_t tile_m, tile_n, tile_k; /**< attention: queries x keys (tile_k unused); GEMM: rows x columns x k step */
    int32_t order;                  /**< a weft_order_kind */
    int32_t sweep;                  /**< a weft_sweep */
    int32_t dispatch;               /**< a weft_dispatch */
    int32_t table;                  /**< 1: the order comes from a table built by the plan instead of being computed */
    int64_t workers;                /**< workers to use */
    int64_t group;                  /**< group size of the orders that take one */
    weft_axis axis;                 /**< the axis that groups are cut across */
    int64_t domains;                /**< L2 domains of the orders that take them */
    int64_t cluster_m, cluster_n; /**< CTAs in a cluster, over rows x columns of the grid of tiles (attention: heads x query
                                       blocks), which they must divide; a GEMM's on a GPU may reach over the edge */
    int64_t split;                /**< on a GPU: CTAs of a cluster that share the steps of a tile, under grid dispatch;
                                       attention backward: parts, 1 to 8, one for each CTA of a cluster: of the heads that
                                       share keys as far as it divides them, and then of each head's queries */
    const uint32_t *order_table;  /**< WEFT_ORDER_CUSTOM: the caller's order, see weft_order_check(); a plan copies it */
    int64_t order_count;          /**< entries of order_table */
    uint64_t order_hash;          /**< 0, or the hash that the table must have, as JSON names it; a plan fills it in */
    int64_t reserved[5];          /**< 0 */
} weft_schedule;

#define WEFT_SCHEDULE_INIT                                                                                                 \
    {                                                                                                                      \
        sizeof(weft_schedule), 0, 0, 0, 0, 0, 0, 0, 0, 0, WEFT_AXIS_CHOOSE, 0, 0, 0, 0, NULL, 0, 0, {                      \
            0                                                                                                              \
        }                                                                                                                  \
    }

typedef enum weft_device_kind {
    WEFT_DEVICE_CPU = 0,
    WEFT_DEVICE_CUDA = 1 /**< an NVIDIA GPU; its driver is libcuda.so.1, or what the variable WEFT_CUDA_DRIVER names */
} weft_device_kind;

/** How a plan chooses what its schedule leaves open: see weft/tune.h. */
typedef enum weft_mode {
    WEFT_ESTIMATE = 0, /**< by the model, in microseconds */
    WEFT_MEASURE = 1,  /**< as it was tuned before, or else by timing candidates on the device for some seconds */
    WEFT_STORED = 2,   /**< as it was tuned before; WEFT_NOT_FOUND when it was not */
    WEFT_PAPER = 3     /**< as WEFT_ESTIMATE, for the machine given, which need not be here: to be simulated, not run.
                          WEFT_UNSUPPORTED when the device's kernels were not measured on it */
} weft_mode;

/** A device, and how its kernels are to be run. Zeros choose the fastest.
 *
 * `kernel` names a family of kernels, and may add options for studies after a colon, separated by commas: "study",
 * "study:precise,ctas=2", or ":ctas=1" for any family. The CPU takes none.
 *   precise           exponentials keep denormals and divisions are exact
 *   mask-every-block  the mask is tested in every block of keys, not only where it can matter
 *   no-prefetch       a block of keys is loaded when it is needed, not ahead of that
 *   ctas=N            CTAs that share an SM, 1 to 32; otherwise as many as fit
 */
typedef struct weft_device {
    size_t struct_size; /**< set by WEFT_DEVICE_INIT */
    weft_device_kind kind;
    int32_t index;      /**< which GPU, as the driver numbers them */
    const char *kernel; /**< the family of kernels to take, and its options; null: the best that fits */
    weft_mode mode;     /**< how to choose what the schedule leaves open; WEFT_MEASURE and WEFT_STORED take no machine */
} weft_device;

/** The CPU. For a GPU: weft_device gpu = WEFT_DEVICE_INIT; gpu.kind = WEFT_DEVICE_CUDA; */
#define WEFT_DEVICE_INIT                                                                                                   \
    { sizeof(weft_device), WEFT_DEVICE_CPU, 0, NULL, WEFT_ESTIMATE }

typedef struct weft_machine weft_machine; /* weft/machine.h */

/** A problem, a machine, a schedule and a kernel, ready to run. Opaque, and never changed once it is made. */
typedef struct weft_plan weft_plan;

/** How to make a plan. A null pointer means: choose for me. What they point to is copied. */
typedef struct weft_plan_options {
    size_t struct_size;            /**< set by WEFT_PLAN_OPTIONS_INIT */
    const weft_schedule *schedule; /**< null: all chosen */
    const weft_machine *machine;   /**< null: the device's own */
    const weft_device *device;     /**< null: the CPU */
    int32_t brings_workspace;      /**< 1: every run brings its workspace, and the plan allocates none */
} weft_plan_options;

#define WEFT_PLAN_OPTIONS_INIT                                                                                             \
    { sizeof(weft_plan_options), NULL, NULL, NULL, 0 }

/** Makes a plan. On failure *plan is null.
 *
 * @param plan     where the plan goes; the caller destroys it
 * @param problem  what to compute: a weft_attention, a weft_gemm, a weft_combine or a weft_grouped_gemm; copied
 * @param options  null: all chosen, on the CPU
 * @param message  null, or where to say what is wrong
 *
 * On a GPU, the schedule's workers are persistent CTAs (0: all that fit), tiles are those that kernels were compiled for,
 * and a null machine is the GPU as its driver describes it. The plan loads its kernel. It belongs to the CUDA context that
 * is current in this thread, if that is one of the device, else to the device's primary context, which is what the CUDA
 * runtime and every framework use. The device memory that it owns is a table, if the schedule asks for one (4 bytes a
 * position), the lengths that the problem has (20 bytes a sequence) and the arrays of its masks, 13 KiB of counters for
 * dynamic dispatch, and a workspace, if its runs need one and do not bring theirs; for a cache also a word of pinned
 * memory, see weft_plan_check(). Plans may be made and destroyed while
 * other threads capture streams.
 *
 * WEFT_NOT_FOUND when there is no driver or no such device, WEFT_UNSUPPORTED when the driver is too old or no kernel fits
 * (the message says why), WEFT_FAILED when the driver fails.
 */
WEFT_API weft_status weft_plan_create(weft_plan **plan, const void *problem, const weft_plan_options *options,
                                      weft_message *message);

/** Releases a plan; null is fine. */
WEFT_API void weft_plan_destroy(weft_plan *plan);

/** Runs a plan and returns when it is done.
 *
 * @param plan     the plan
 * @param data     the struct of the plan's operation: weft_attention_data, weft_attention_gradients,
 *                 weft_gemm_data, weft_combine_data or weft_grouped_gemm_data
 * @param message  null, or where to say what is wrong
 *
 * WEFT_INVALID when the data is of another operation, a pointer is null that must not be, or an output overlaps another
 * buffer. */
WEFT_API weft_status weft_plan_run(const weft_plan *plan, const void *data, weft_message *message);

/** How far a run is: `done` tiles of `total`. */
typedef void (*weft_progress)(void *user, int64_t done, int64_t total);

/** The same, telling how far this run is: `progress` is called now and then, from the thread that made the call. Null: not
 * at all. Progress belongs to the run: several runs of one plan at once may have one each. A GPU does not say how far it
 * is. */
WEFT_API weft_status weft_plan_run_with_progress(const weft_plan *plan, const void *data, weft_progress progress,
                                                 void *user, weft_message *message);

/** Puts a run of a plan on a stream and returns at once.
 *
 * The buffers are in memory that the plan's GPU can read, aligned as weft_problem_buffer() says, and stay valid until the
 * stream has passed the run. Nothing is allocated, copied or waited for, so the call can be captured in a CUDA graph.
 * Threads may enqueue one plan on many streams at once: under dynamic dispatch on at most 256 that have runs of it in
 * flight; with the other dispatches there is no limit. It can be part of any number of captures, and what was captured may
 * run in any number of executables and branches at once. A captured run of a GEMM or of the family "study" under dynamic
 * dispatch deals out its tiles statically, and by no side of the L2; the results are the same bits. The plan must outlive
 * what was enqueued or captured.
 *
 * The stream is a CUstream or cudaStream_t of the plan's context; null is the default stream. A plan for the CPU takes only
 * null, and has run when the call returns.
 */
WEFT_API weft_status weft_plan_enqueue(const weft_plan *plan, const void *data, void *stream, weft_message *message);

/** Does once, on a stream, what runs with the same lengths have in common, and returns at once: on a GPU it deals out the
 * keys of sequences of unlike lengths to workers. Later runs on the stream with the same workspace and lengths skip that
 * with `prepared` = 1 in their data: those of all layers of a model, until a length changes. Until then the workspace is
 * for runs of this plan alone. The bits of results are the same either way.
 *
 * @param plan     the plan
 * @param data     the struct of the plan's operation, of which lengths, cache.new_starts and workspace are taken; all else
 *                 may be null
 * @param stream   as for weft_plan_enqueue()
 * @param message  null, or where to say what is wrong
 *
 * Nothing is allocated, copied or waited for, so that the call can be captured in a CUDA graph. Plans for the CPU, and all
 * others that have nothing to prepare, do nothing and take `prepared` = 1 as 0. Where there is something, a workspace that
 * is null is WEFT_INVALID, here and in a run that is prepared: the plan's own may serve others in between. */
WEFT_API weft_status weft_plan_prepare(const weft_plan *plan, const void *data, void *stream, weft_message *message);

/** What runs of a plan have found wrong in memory that only a GPU reads, since somebody was last told: an entry of a
 * cache's table that is needed and names no page, a kv_used of a cache that is below 0 or beyond kv_seq. WEFT_INVALID, and
 * a message that names the last that was found; WEFT_OK when there is nothing, and on the CPU, whose runs refuse such data.
 * Waits for nothing: what is still under way may be told later.
 *
 * weft_plan_run() tells of its own run, and weft_plan_enqueue(), before it begins another, of those before. Who replays
 * CUDA graphs asks here. Results of such a run are NaN where they would depend on such an entry; a length is held to what
 * there is. */
WEFT_API weft_status weft_plan_check(const weft_plan *plan, weft_message *message);

/** Bytes of the workspace that a run of a plan takes, in device memory aligned to 16 bytes; 0: none. The data's struct has
 * it, as `workspace`. Without it a run takes the plan's own: then runs on several streams wait for each other, and a run
 * that is captured in a CUDA graph is WEFT_INVALID, because it might run at the same time as others. */
WEFT_API size_t weft_plan_workspace(const weft_plan *plan);

/** Describes a plan, in words or as one JSON object.
 *
 * Writes at most `size` bytes with the final null, and returns the length of the whole text without it (as snprintf does),
 * or 0 when memory ran out.
 */
WEFT_API size_t weft_plan_text(const weft_plan *plan, char *text, size_t size);
WEFT_API size_t weft_plan_json(const weft_plan *plan, char *text, size_t size);

/** A schedule with every choice made as a JSON object: what weft_plan_json() has as `schedule`. As weft_plan_json(). */
WEFT_API size_t weft_schedule_json(const weft_schedule *schedule, char *text, size_t size);

/** Reads a schedule from JSON: such an object, or what the command prints with --json, of which `recommended.schedule` or
 * `schedule` counts. What it leaves out is open. `label` stands for the text in messages. The caller frees its order_table,
 * if it has one: an order of more than 65536 tiles is in JSON by its hash alone, and has to be given again.
 *
 * WEFT_INVALID, with the label and the line or key, when it is none. */
WEFT_API weft_status weft_schedule_from_json(weft_schedule *schedule, const char *text, size_t length, const char *label,
                                             weft_message *message);

/** weft_plan_text() without the kernel, for a plan that is not run; and the problem as a title: "Attention, 8 heads of 64,
 * ...". */
WEFT_API size_t weft_plan_outline(const weft_plan *plan, char *text, size_t size);
WEFT_API size_t weft_plan_title(const weft_plan *plan, char *text, size_t size);

/** The schedule with every choice made. Its order_table, if there is one, is the plan's: valid as long as the plan. */
WEFT_API weft_schedule weft_plan_schedule(const weft_plan *plan);

/** The problem with every default filled in: the struct of the plan's operation. Valid as long as the plan. */
WEFT_API const void *weft_plan_problem(const weft_plan *plan);

/** The kernel that runs the plan, and the backend that it belongs to ("cpu", "cuda"). */
WEFT_API const char *weft_plan_kernel(const weft_plan *plan);
WEFT_API const char *weft_plan_backend(const weft_plan *plan);

/** What the workers walk: pass it to a kernel by value. Valid as long as the plan.
 * @param plan  the plan
 * @param size  sizeof(weft_walk); null when the library was built with another layout of it. */
WEFT_API const weft_walk *weft_plan_walk(const weft_plan *plan, size_t size);

/* ---- orders of your own ---- */

/** The most entries of a table of an order: beyond that, only computed orders. */
enum { WEFT_MOST_IN_TABLE = 1 << 28 };

/** The grid that an order of the caller's covers in a plan with these options, whatever their order: tiles, or clusters of
 * tiles where the schedule asks for clusters, or pairs of these under a sweep that pairs them. All of the grid: also what a
 * causal mask leaves without work. What is open is chosen as for a plan of WEFT_ORDER_CUSTOM, which takes clusters, split
 * tiles and domains only when the schedule asks for them. */
WEFT_API weft_status weft_plan_positions(const void *problem, const weft_plan_options *options, weft_grid *grid,
                                         weft_message *message);

/** Checks that a table visits every tile of a grid exactly once. table[position] is the number of the tile at a position:
 * (batch * rows + row) * cols + col. WEFT_INVALID, and a message that names the first tile that is visited twice or
 * missing, and the position. */
WEFT_API weft_status weft_order_check(const uint32_t *table, int64_t count, weft_grid grid, weft_message *message);

/** Reads an order from text and checks it as weft_order_check() does. Line by line, the text has the tiles in the order of
 * their visits. A tile is its number, or row and column, or batch, row and column, separated by blanks or a comma, the
 * same way in every line. A # begins a comment, and empty lines do not count.
 *
 * @param text     need not end with a null
 * @param length   bytes of text
 * @param name     of the text, for messages: "name:line: what is wrong"
 * @param grid     the tiles, at most WEFT_MOST_IN_TABLE
 * @param table    one entry for each tile of the grid
 * @param message  null, or where to say what is wrong
 */
WEFT_API weft_status weft_order_read(const char *text, size_t length, const char *name, weft_grid grid, uint32_t *table,
                                     weft_message *message);

#ifdef __cplusplus
}
#endif

#endif
