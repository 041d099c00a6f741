/** @file
 * Weft: attention and matrix products, tile by tile, in an order of your choosing.
 *
 * Read from the top: status and messages, problems, the two simple calls, then schedules and plans for those who want to
 * choose, and devices for those who have a GPU. Nothing here prints, exits or keeps global state (but for the CUDA driver
 * and kernels, which are loaded once, and stored tunings, which are read once); every function may be called from any
 * thread, and one plan may run in many threads at once.
 */
#ifndef WEFT_H
#define WEFT_H

#include <stddef.h>
#include <stdint.h>

#include "order.h"

#define WEFT_VERSION_MAJOR 0
#define WEFT_VERSION_MINOR 1
#define WEFT_VERSION_PATCH 0
#define WEFT_VERSION       "0.1.0"

#if defined(__GNUC__)
#define WEFT_API __attribute__((visibility("default")))
#else
#define WEFT_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------------------------------------------------------------
 * Status
 * ------------------------------------------------------------------------------------------------------------------ */

typedef enum weft_status {
    WEFT_OK = 0,
    WEFT_INVALID = 1,     /**< an argument is wrong; the message names it, its value and what is allowed */
    WEFT_UNSUPPORTED = 2, /**< the arguments are right, but this build or device cannot do it */
    WEFT_NOT_FOUND = 3,   /**< no such order, machine, file or device */
    WEFT_NO_MEMORY = 4,
    WEFT_IO = 5,    /**< a file could not be read or written */
    WEFT_FAILED = 6 /**< the device or its driver failed; the message says what it reports */
} weft_status;

/** One line about what went wrong. Every call that takes one accepts null, and leaves it alone when it succeeds. */
typedef struct weft_message {
    char text[256];
} weft_message;

/** A short name of a status: "ok", "invalid", ... Never null. */
WEFT_API const char *weft_status_name(weft_status status);

/** The version of the library in use, "0.1.0". */
WEFT_API const char *weft_version(void);

/* ---------------------------------------------------------------------------------------------------------------------
 * Problems: what to compute
 * ------------------------------------------------------------------------------------------------------------------ */

typedef enum weft_dtype { WEFT_FP32 = 0, WEFT_FP16 = 1, WEFT_BF16 = 2 } weft_dtype;

/** Order of the dimensions in memory, the last one contiguous. */
typedef enum weft_layout {
    WEFT_BSHD = 0, /**< (batch, seq, heads, head_dim) */
    WEFT_BHSD = 1  /**< (batch, heads, seq, head_dim) */
} weft_layout;

typedef enum weft_mask {
    WEFT_MASK_NONE = 0,
    WEFT_MASK_CAUSAL = 1,             /**< query i sees keys 0 .. i + offset */
    WEFT_MASK_CAUSAL_BOTTOM_RIGHT = 2 /**< the last query sees the last key: offset is kv_seq - seq */
} weft_mask;

/** Distances in elements. All zero: packed, in the problem's layout. A zero beside non-zeros repeats an input, and the
 * gradients of what it repeats add up. */
typedef struct weft_strides {
    int64_t batch, seq, head;
} weft_strides;

/** An attention: O = softmax(scale * Q K^T) V, for each batch and head.
 *
 * Q and O are (batch, seq, heads, head_dim), K and V (batch, kv_seq, kv_heads, head_dim); query head h reads
 * kv head h / (heads / kv_heads). A query that sees no key gets zeros and an LSE of -inf.
 */
typedef struct weft_attention {
    size_t struct_size; /**< set by WEFT_ATTENTION_INIT, so that fields can be added later */
    int64_t batch;
    int64_t heads, kv_heads; /**< kv_heads divides heads */
    int64_t seq, kv_seq;     /**< queries and keys */
    int64_t head_dim;        /**< a multiple of 8, at most 256 */
    weft_dtype dtype;        /**< of Q, K, V and O */
    weft_mask mask;
    int64_t offset; /**< WEFT_MASK_CAUSAL: position of the first query among the keys; 0 otherwise */
    double scale;   /**< 0: 1 / sqrt(head_dim) */
    weft_layout layout;
    weft_strides q_strides, k_strides, v_strides, o_strides;
} weft_attention;

/** One batch, one head, fp32, no mask, packed (batch, seq, heads, head_dim). Set at least seq, kv_seq and head_dim. */
/* clang-format off */
#define WEFT_ATTENTION_INIT                                                                                                \
    {sizeof(weft_attention), 1, 1, 1, 0, 0, 0, WEFT_FP32, WEFT_MASK_NONE, 0, 0.0, WEFT_BSHD, {0, 0, 0}, {0, 0, 0},         \
     {0, 0, 0}, {0, 0, 0}}
/* clang-format on */

typedef enum weft_major { WEFT_ROW_MAJOR = 0, WEFT_COL_MAJOR = 1 } weft_major;

/** Matrix products: C = alpha A B + beta C, with A (m, k), B (k, n) and C (m, n); `batch` of them. */
typedef struct weft_gemm {
    size_t struct_size; /**< set by WEFT_GEMM_INIT */
    int64_t m, n, k;
    weft_dtype dtype;   /**< of A and B */
    weft_dtype c_dtype; /**< of C */
    weft_major a_major, b_major, c_major;
    int64_t lda, ldb, ldc; /**< leading dimensions in elements; 0: packed */
    double alpha, beta;
    int64_t batch;
    int64_t a_stride, b_stride,
        c_stride; /**< elements from one product's matrix to the next one's; 0: one after the other */
} weft_gemm;

/** One product C = A B in fp32, all row-major and packed. Set m, n and k. */
/* clang-format off */
#define WEFT_GEMM_INIT                                                                                                     \
    {sizeof(weft_gemm), 0, 0, 0, WEFT_FP32, WEFT_FP32, WEFT_ROW_MAJOR, WEFT_ROW_MAJOR, WEFT_ROW_MAJOR, 0, 0, 0, 1.0, 0.0,  \
     1, 0, 0, 0}
/* clang-format on */

/** The largest value of any dimension. Products of dimensions are checked beyond that. */
#define WEFT_MAX_DIMENSION INT64_C(2147483647)

/** Bytes of one element; 0 for a value that is not a dtype. */
WEFT_API size_t weft_dtype_bytes(weft_dtype dtype);

/** Checks a problem: WEFT_OK, or WEFT_INVALID and a message such as "kv_heads 3 does not divide heads 8". */
WEFT_API weft_status weft_attention_check(const weft_attention *problem, weft_message *message);
WEFT_API weft_status weft_gemm_check(const weft_gemm *problem, weft_message *message);

/** Elements that a buffer must hold, strides included; 0 for a problem that does not pass its check. */
typedef struct weft_attention_extents {
    size_t q, k, v, o; /**< elements of dtype */
    size_t lse;        /**< floats: batch * heads * seq */
} weft_attention_extents;
typedef struct weft_gemm_extents {
    size_t a, b, c; /**< elements of dtype, dtype and c_dtype */
} weft_gemm_extents;
WEFT_API weft_attention_extents weft_attention_sizes(const weft_attention *problem);
WEFT_API weft_gemm_extents weft_gemm_sizes(const weft_gemm *problem);

/** Floating-point operations by the usual count: 4 batch heads seq kv_seq head_dim, halved when causal; 2 batch m n k. */
WEFT_API double weft_attention_flops(const weft_attention *problem);
WEFT_API double weft_gemm_flops(const weft_gemm *problem);

/* ---------------------------------------------------------------------------------------------------------------------
 * Running a problem, simply
 * ------------------------------------------------------------------------------------------------------------------ */

/** Buffers of a forward attention; the caller owns them all. lse may be null. No output may overlap anything else. */
typedef struct weft_attention_data {
    const void *q, *k, *v;
    void *o;
    float *lse; /**< (batch, heads, seq): natural logarithm of each query's sum of exponentials */
} weft_attention_data;

/** Buffers of a backward attention: dO in, dQ, dK and dV out, each laid out like the tensor it belongs to. */
typedef struct weft_attention_gradients {
    const void *q, *k, *v, *grad_o;
    void *grad_q, *grad_k, *grad_v;
    const void *o;    /**< what the forward pass gave, with its lse; null: computed again */
    const float *lse; /**< as in weft_attention_data, or null */
} weft_attention_gradients;

/** Buffers of a GEMM. c is read only when beta is not 0. */
typedef struct weft_gemm_data {
    const void *a, *b;
    void *c;
} weft_gemm_data;

/** Computes an attention with the default plan. */
WEFT_API weft_status weft_attention_forward(const weft_attention *problem, const weft_attention_data *data,
                                            weft_message *message);
WEFT_API weft_status weft_attention_backward(const weft_attention *problem, const weft_attention_gradients *data,
                                             weft_message *message);
WEFT_API weft_status weft_gemm_multiply(const weft_gemm *problem, const weft_gemm_data *data, weft_message *message);

/** Gives memory back to the system. Runs on the CPU keep up to 128 MiB of scratch memory for the next one, which then need
 * not wait for fresh pages; this frees what is kept and not in use. Any thread may call it at any time, also while others
 * run plans. Returns how many bytes it freed. */
WEFT_API size_t weft_release_memory(void);

/* ---------------------------------------------------------------------------------------------------------------------
 * Schedules and plans: choosing how
 * ------------------------------------------------------------------------------------------------------------------ */

/** Tile shape, order, sweep, dispatch, cluster. A zero means: let the plan choose. */
typedef struct weft_schedule {
    size_t struct_size;             /**< set by WEFT_SCHEDULE_INIT */
    int64_t tile_m, tile_n, tile_k; /**< attention: queries x keys (tile_k unused); GEMM: rows x columns x k step */
    int32_t order;                  /**< a weft_order_kind, or WEFT_CHOOSE */
    int32_t sweep;                  /**< a weft_sweep, or WEFT_CHOOSE */
    int32_t dispatch;               /**< a weft_dispatch, or WEFT_CHOOSE */
    int32_t table;                  /**< 1: the order comes from a table built by the plan instead of being computed */
    int64_t workers;                /**< workers to use */
    int64_t group;                  /**< group size of the orders that take one */
    weft_axis axis;                 /**< the axis that groups are cut across */
    int64_t domains;                /**< L2 domains of the orders that take them */
    int64_t cluster_m, cluster_n; /**< CTAs in a cluster, over rows x columns of the grid of tiles (attention: heads x query
                                       blocks), which they must divide; a GEMM's on a GPU may reach over the edge */
    int64_t split; /**< on a GPU: CTAs of a cluster that share out the steps of a tile, under grid dispatch */
} weft_schedule;

#define WEFT_CHOOSE (-1)
#define WEFT_SCHEDULE_INIT                                                                                                 \
    { sizeof(weft_schedule), 0, 0, 0, WEFT_CHOOSE, WEFT_CHOOSE, WEFT_CHOOSE, 0, 0, 0, WEFT_AXIS_N, 0, 0, 0, 0 }

typedef struct weft_machine weft_machine; /* weft/machine.h */

/** A problem, a machine, a schedule and a kernel, ready to run. Opaque, and never changed once it is made. */
typedef struct weft_plan weft_plan;

/** Makes a plan. On failure *plan is null.
 *
 * @param plan      where the plan goes; the caller destroys it
 * @param problem   what to compute; copied
 * @param schedule  null: all chosen
 * @param machine   null: this host; copied
 * @param message   null, or where to say what is wrong
 */
WEFT_API weft_status weft_plan_attention(weft_plan **plan, const weft_attention *problem, const weft_schedule *schedule,
                                         const weft_machine *machine, weft_message *message);
WEFT_API weft_status weft_plan_gemm(weft_plan **plan, const weft_gemm *problem, const weft_schedule *schedule,
                                    const weft_machine *machine, weft_message *message);

/** Releases a plan; null is fine. */
WEFT_API void weft_plan_destroy(weft_plan *plan);

/** Runs a plan; WEFT_INVALID when the plan is for another kind of problem or a pointer is null. */
WEFT_API weft_status weft_plan_run_attention(const weft_plan *plan, const weft_attention_data *data, weft_message *message);
WEFT_API weft_status weft_plan_run_gemm(const weft_plan *plan, const weft_gemm_data *data, weft_message *message);

/** How far a run is: `done` tiles of `total`. */
typedef void (*weft_progress)(void *user, int64_t done, int64_t total);

/** The same, telling how far this run is: `progress` is called now and then, from the thread that made the call. Null: not
 * at all. It belongs to the run, not to the plan, which never changes: runs of one plan at once may have one each. A GPU
 * does not say how far it is. */
WEFT_API weft_status weft_plan_run_attention_with_progress(const weft_plan *plan, const weft_attention_data *data,
                                                           weft_progress progress, void *user, weft_message *message);
WEFT_API weft_status weft_plan_run_gemm_with_progress(const weft_plan *plan, const weft_gemm_data *data,
                                                      weft_progress progress, void *user, weft_message *message);

/** The schedule with every choice made. */
WEFT_API weft_schedule weft_plan_schedule(const weft_plan *plan);

/** What the workers walk: pass it to a kernel by value. Valid as long as the plan. */
WEFT_API const weft_walk *weft_plan_walk(const weft_plan *plan);

/* ---------------------------------------------------------------------------------------------------------------------
 * Devices: where a plan runs
 * ------------------------------------------------------------------------------------------------------------------ */

typedef enum weft_device_kind {
    WEFT_DEVICE_CPU = 0,
    WEFT_DEVICE_CUDA = 1 /**< an NVIDIA GPU; its driver is libcuda.so.1, or what the variable WEFT_CUDA_DRIVER names */
} weft_device_kind;

/** How a plan chooses what its schedule leaves open: see weft/tune.h. */
typedef enum weft_mode {
    WEFT_ESTIMATE = 0, /**< by the model, in microseconds */
    WEFT_MEASURE = 1,  /**< as it was tuned before, or else by timing candidates on the device for some seconds */
    WEFT_STORED = 2    /**< as it was tuned before; WEFT_NOT_FOUND when it was not */
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
    weft_mode mode;     /**< how to choose what the schedule leaves open; but for WEFT_ESTIMATE, with no machine given */
} weft_device;

/** The CPU. For a GPU: weft_device gpu = WEFT_DEVICE_INIT; gpu.kind = WEFT_DEVICE_CUDA; */
#define WEFT_DEVICE_INIT                                                                                                   \
    { sizeof(weft_device), WEFT_DEVICE_CPU, 0, NULL, WEFT_ESTIMATE }

/** Makes a plan for a device, as weft_plan_attention() does for the CPU.
 *
 * On a GPU, the schedule's workers are persistent CTAs (0: all that fit), tiles are those that kernels were compiled for,
 * and `machine` null is the GPU as its driver describes it. The plan loads its kernel, and belongs to the CUDA context that
 * is current in this thread, if that is one of the device, else to the device's primary context, which is what the CUDA
 * runtime and every framework use. The device memory that it owns is a table, if the schedule asks for one (4 bytes a
 * position), and 13 KiB of counters for dynamic dispatch. Plans may be made and destroyed while other threads capture
 * streams.
 *
 * WEFT_NOT_FOUND when there is no driver or no such device, WEFT_UNSUPPORTED when the driver is too old or no kernel fits
 * (the message says why), WEFT_FAILED when the driver fails. A null device is the CPU.
 */
WEFT_API weft_status weft_plan_attention_on(weft_plan **plan, const weft_attention *problem, const weft_schedule *schedule,
                                            const weft_machine *machine, const weft_device *device, weft_message *message);
WEFT_API weft_status weft_plan_gemm_on(weft_plan **plan, const weft_gemm *problem, const weft_schedule *schedule,
                                       const weft_machine *machine, const weft_device *device, weft_message *message);

/** Puts a run of a plan on a stream and returns at once; weft_plan_run_attention() and weft_plan_run_gemm() run it and
 * return when it is done.
 *
 * The buffers are in memory that the plan's GPU can read, aligned to 16 bytes (lse: 4), and stay valid until the stream has
 * passed the run. Nothing is allocated, copied or waited for, so the call can be captured in a CUDA graph. Threads may
 * enqueue one plan on many streams at once: under dynamic dispatch on at most 256 that have runs of it in flight; with the
 * other dispatches there is no limit. It can be part of any number of captures, and what was captured may run in any number
 * of executables and branches at once. A captured run of a GEMM or of the family "study" under dynamic dispatch deals out
 * its tiles statically, and by no side of the L2; the results are the same bits. The plan must outlive what was enqueued or
 * captured.
 *
 * The stream is a CUstream or cudaStream_t of the plan's context; null is the default stream. A plan for the CPU takes only
 * null, and has run when the call returns.
 */
WEFT_API weft_status weft_plan_enqueue_attention(const weft_plan *plan, const weft_attention_data *data, void *stream,
                                                 weft_message *message);
WEFT_API weft_status weft_plan_enqueue_gemm(const weft_plan *plan, const weft_gemm_data *data, void *stream,
                                            weft_message *message);

/** Describes a plan, in words or as one JSON object.
 *
 * Writes at most `size` bytes with the final null, and returns the length of the whole text without it (as snprintf does),
 * or 0 when memory ran out.
 */
WEFT_API size_t weft_plan_text(const weft_plan *plan, char *text, size_t size);
WEFT_API size_t weft_plan_json(const weft_plan *plan, char *text, size_t size);

/* ---------------------------------------------------------------------------------------------------------------------
 * Names
 * ------------------------------------------------------------------------------------------------------------------ */

/** A row of orders.def. */
typedef struct weft_order_info {
    const char *name, *text;
    weft_subject subject;
    weft_parameter parameter;
} weft_order_info;

/** A name and a line of explanation. */
typedef struct weft_name {
    const char *name, *text;
} weft_name;

/** Rows by number; null when there is no such number. */
WEFT_API const weft_order_info *weft_order_describe(int32_t kind);
WEFT_API const weft_name *weft_sweep_describe(int32_t sweep);
WEFT_API const weft_name *weft_dispatch_describe(int32_t dispatch);
WEFT_API const char *weft_dtype_name(weft_dtype dtype);

/** Numbers by name; -1 when there is none. */
WEFT_API int32_t weft_order_find(const char *name);
WEFT_API int32_t weft_sweep_find(const char *name);
WEFT_API int32_t weft_dispatch_find(const char *name);
WEFT_API int32_t weft_dtype_find(const char *name);

#ifdef __cplusplus
}
#endif

#endif
