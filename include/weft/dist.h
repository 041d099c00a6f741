/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Beyond one GPU: attention and products over the ranks of a program, each a GPU or a process.
 *
 * A sequence is cut into chunks, and every rank has some of them: their queries, keys and values. The keys come by all
 * ranks that need them, part by part, in an order that is a pure function (order/ranks.h), while each computes. A hop is a
 * step of a sweep, and a rank is a domain: one level up from what plans do inside of a chip.
 *
 * How ranks talk is a transport, a small table of functions that a program brings: MPI (dist_mpi.h), NCCL (nccl.h), threads
 * of one process (weft_threads_create()), or its own. libweft needs none of them.
 */
#ifndef WEFT_DIST_H
#define WEFT_DIST_H

#include "sim.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------------------------------------------------------------
 * Transports: how ranks talk
 * ------------------------------------------------------------------------------------------------------------------ */

/** Which memory a transport sends and receives. */
enum {
    WEFT_HOST_MEMORY = 0,   /**< of the host: for ranks with a GPU weft stages it, by pinned memory */
    WEFT_DEVICE_MEMORY = 1, /**< of a CUDA device, by rounds: see begin() */
    WEFT_ANY_MEMORY = 2     /**< of either, given when it is ready: an MPI that knows CUDA */
};

/** How ranks send each other memory. Functions are called by the thread that runs a weft_dist, and by one at a time.
 *
 * Between two ranks messages of a tag arrive in the order in which they were sent; those of other tags may overtake them. A
 * receive has exactly as many bytes as its send; that it has not is a failure of the receive. A message of up to 64 bytes
 * is sent whether or not somebody has begun to receive it: by such words ranks tell each other that they are there.
 * `request` stands for what has begun: a null one has been finished at once, as all messages of no bytes are. A failure is
 * WEFT_FAILED and a message, which may be null.
 */
typedef struct weft_transport {
    size_t struct_size; /**< set by WEFT_TRANSPORT_INIT */
    void *self;         /**< first argument of all functions */
    int32_t rank, size; /**< this rank, of so many */
    int32_t on_device;  /**< WEFT_HOST_MEMORY, WEFT_DEVICE_MEMORY or WEFT_ANY_MEMORY */
    weft_status (*send)(void *self, const void *buffer, size_t bytes, int32_t to, int32_t tag, void **request,
                        weft_message *message);
    weft_status (*receive)(void *self, void *buffer, size_t bytes, int32_t from, int32_t tag, void **request,
                           weft_message *message);

    /** Whether what has begun has ended: *done is 1, and the request is gone; or 0. When it has failed, it is gone, too.
     * Does not wait, and lets others go on. */
    weft_status (*test)(void *self, void *request, int32_t *done, weft_message *message);

    /** Gives up what has begun and will not end. Returns 1 when nobody will touch its buffer any more; 0 when the transport
     * cannot say so: the buffer is then left alone for as long as the process lives. */
    int32_t (*cancel)(void *self, void *request);

    /** Null, or around the sends and receives of a round, which may be handed over together. They read and write buffers
     * after what `stream` has so far, and test() says when they have ended. A message is in the same round at its sender
     * and its receiver: all ranks have the same rounds in the same order, and leave out those without a message of theirs.
     */
    weft_status (*begin)(void *self, void *stream, weft_message *message);
    weft_status (*end)(void *self, weft_message *message);

    const struct weft_transport *words; /**< null, or a transport of the same ranks for the host's memory, by which they
                                           tell each other that they are there, where this one sends a device's. Without it,
                                             whoever is waited for in vain is named, whether it is lost or waits itself */
} weft_transport;

#define WEFT_TRANSPORT_INIT                                                                                                \
    { sizeof(weft_transport), NULL, 0, 1, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL }

/** Tags that a weft_dist uses: WEFT_FIRST_TAG and above, less than WEFT_FIRST_TAG + WEFT_TAGS. */
enum { WEFT_FIRST_TAG = 7000, WEFT_TAGS = 64 };

/** Ranks that are threads of one process, for tests, for first steps, and for a machine with several memories. */
typedef struct weft_threads weft_threads;

/** Makes a meeting place of `size` ranks, 1 to 4096. */
WEFT_API weft_status weft_threads_create(weft_threads **threads, int32_t size, weft_message *message);
WEFT_API void weft_threads_destroy(weft_threads *threads);

/** The transport of a rank. Each rank's is for one thread. It is valid as long as the meeting place. */
WEFT_API weft_status weft_threads_transport(weft_threads *threads, int32_t rank, weft_transport *transport,
                                            weft_message *message);

/* ---------------------------------------------------------------------------------------------------------------------
 * How work is shared among ranks
 * ------------------------------------------------------------------------------------------------------------------ */

/** Which rows of a sequence a rank has. Ranks have equally many, but for what an even cut leaves over. */
typedef enum weft_rank_cut {
    WEFT_CUT_CHOOSE = 0,
    WEFT_CUT_CONTIGUOUS = 1, /**< rank r has the r-th run of rows */
    WEFT_CUT_STRIPED = 2,    /**< rank r has the rows r, r + ranks, r + 2 ranks, ... */
    WEFT_CUT_ZIGZAG = 3,     /**< of 2 ranks runs rank r has run r and run 2 ranks - 1 - r: equal shares of a causal mask */
    WEFT_CUT_BALANCED = 4,   /**< of 8 ranks runs each has 8, dealt by the pairs that their queries see */
    WEFT_CUT_M = 5, /**< a product, by all-gather: rank r has the r-th run of rows of A and of columns of B and C */
    WEFT_CUT_K = 6  /**< a product, by reduce-scatter: rank r has the r-th run of k, and of rows of C */
} weft_rank_cut;

/** How the keys of all ranks come by each. */
typedef enum weft_exchange {
    WEFT_EXCHANGE_CHOOSE = 0,
    WEFT_EXCHANGE_RING = 1,       /**< part by part, from whoever had it before: a rank holds three parts */
    WEFT_EXCHANGE_ALL_GATHER = 2, /**< from whose they are, all at once: a rank holds what it needs of all parts */
    WEFT_EXCHANGE_HEADS = 3       /**< all-to-all: each rank has all rows of some heads */
} weft_exchange;

/** What is shared, and how. A zero means: choose for me. */
typedef struct weft_ranks {
    size_t struct_size; /**< set by WEFT_RANKS_INIT */
    int64_t ranks;      /**< as many as the transport has; without a transport, on paper, at least 1 */
    int32_t cut;        /**< a weft_rank_cut */
    int32_t exchange;   /**< a weft_exchange */
    int32_t order;      /**< a weft_rank_order */
    int32_t sweep; /**< backward: WEFT_SWEEP_FORWARD; or WEFT_SWEEP_SAWTOOTH: the steps of the forward pass from last to
                        first, so that it begins with the part that the forward pass ended on, and ends with its own */
    int64_t head_ranks; /**< so many neighbouring ranks exchange heads among them, and parts with the others: ring x heads.
                           It divides ranks; WEFT_EXCHANGE_HEADS: ranks */
    int64_t columns;    /**< of the mesh that ranks lie in; 0: as square as may be */
    int64_t most_keys;  /**< of a hop: parts that have more come in several, each from whose it is; 0: parts are whole */
} weft_ranks;

#define WEFT_RANKS_INIT                                                                                                    \
    { sizeof(weft_ranks), 0, 0, 0, 0, 0, 0, 0, 0 }

WEFT_API const char *weft_rank_cut_name(int32_t cut);      /**< null past the last */
WEFT_API const char *weft_exchange_name(int32_t exchange); /**< null past the last */
WEFT_API const weft_name *weft_rank_order_describe(int32_t order);
WEFT_API int32_t weft_rank_cut_find(const char *name); /**< 0 when there is none */
WEFT_API int32_t weft_exchange_find(const char *name);
WEFT_API int32_t weft_rank_order_find(const char *name);

/** Rows that a rank has: begin, begin + stride, ... */
typedef struct weft_chunk {
    int64_t begin, count, stride;
} weft_chunk;

/* ---------------------------------------------------------------------------------------------------------------------
 * Problems over ranks
 * ------------------------------------------------------------------------------------------------------------------ */

/** Work of all ranks together: a problem, who has which rows, and what each does at each step. */
typedef struct weft_dist weft_dist;

typedef struct weft_dist_options {
    size_t struct_size;              /**< set by WEFT_DIST_OPTIONS_INIT */
    const weft_ranks *ranks;         /**< null: all chosen */
    const weft_transport *transport; /**< null: on paper, for ranks that are not here */
    const weft_device *device;       /**< null: the CPU */
    const weft_schedule *schedule;   /**< of the plans inside of a rank; null: chosen */
    double seconds; /**< that a rank waits for ranks of which none is known to compute, before it gives up; 0: 60 */
} weft_dist_options;

#define WEFT_DIST_OPTIONS_INIT                                                                                             \
    { sizeof(weft_dist_options), NULL, NULL, NULL, NULL, 0.0 }

/** Shares a problem, whose sizes are those of all ranks together: a weft_attention of either operation, or a weft_gemm.
 *
 * Every rank makes it with the same problem and the same weft_ranks. Nothing is sent. Tensors of a run then have this
 * rank's rows alone: seq is weft_dist_rows(), and strides of the problem that are not all 0 are those of a rank's tensors.
 *
 * Masks are none, causal, windows, chunks, a prefix and packed batches of lengths known now; scores may have a softcap,
 * sinks, slopes and, forward, a bias of (this rank's rows, all keys). What positions do not say once rows are cut is
 * refused by name: dropout, maxima, trees, block masks, used lengths, padding and caches.
 *
 * Of a product, a run's matrices are those of this rank, and bias and column scales are of the columns of its C. Row scales
 * are of all m. Refused are gated products, column sums and functions, and of cut k beta, residuals and activations.
 *
 * It holds buffers for what comes and goes. Running one allocates nothing.
 */
WEFT_API weft_status weft_dist_create(weft_dist **dist, const void *problem, const weft_dist_options *options,
                                      weft_message *message);
WEFT_API void weft_dist_destroy(weft_dist *dist);

/** The choices made. */
WEFT_API weft_ranks weft_dist_ranks(const weft_dist *dist);

/** Which rows: of the queries (0), which are also those of O, or of the keys (1). Of a product: the lines that a rank has
 * for itself, cut m columns of B and C, cut k its share of k (0); and rows of m, cut m of A, cut k of C (1). */
enum { WEFT_QUERY_ROWS = 0, WEFT_KEY_ROWS = 1, WEFT_OWN_LINES = 0, WEFT_PART_ROWS = 1 };

/** How many rows of a kind a rank has. */
WEFT_API int64_t weft_dist_rows(const weft_dist *dist, int64_t rank, int32_t of);

/** A chunk of a rank's rows by number, in the order in which they lie in its tensors. Returns 0 past the last. */
WEFT_API int weft_dist_chunk(const weft_dist *dist, int64_t rank, int32_t of, int64_t number, weft_chunk *chunk);

/** What a run takes beside its data. */
typedef struct weft_dist_run_options {
    size_t struct_size; /**< set by WEFT_DIST_RUN_INIT */
    void *stream;       /**< of a device: what is done is in order with it */
    void *kept; /**< null, or weft_dist_kept() bytes of the device: a forward run leaves the part there that it ended on,
                   and a backward run of a sawtooth sweep begins with it */
} weft_dist_run_options;

#define WEFT_DIST_RUN_INIT                                                                                                 \
    { sizeof(weft_dist_run_options), NULL, NULL }

/** Bytes of what a run may keep. 0: there is nothing to keep. */
WEFT_API size_t weft_dist_kept(const weft_dist *dist);

/** Runs this rank's share and returns when it is done. All ranks do it, with data as a plan of the operation would take it.
 *
 * A run that fails at one rank fails at all that still wait for something: a rank that waits for long asks those that it
 * waits for whether they are there, and a rank in a run answers, also while it computes. When one does not answer within
 * the time limit, every other returns WEFT_FAILED and a message that names it. The transport is then of no further use, and
 * the data stays where it is until the transport is closed: messages that are under way may still be read from K and V.
 *
 * The same number of ranks and the same choices give the same bits each time.
 */
WEFT_API weft_status weft_dist_run(weft_dist *dist, const void *data, const weft_dist_run_options *options,
                                   weft_message *message);

/** Copies a rank's rows out of a tensor of all rows, or back into it, in the host's memory.
 *
 * @param dist    which rows
 * @param rank    whose
 * @param of      WEFT_QUERY_ROWS or WEFT_KEY_ROWS
 * @param all     rows of all ranks
 * @param pitch   bytes from one of them to the next
 * @param part    the rank's rows
 * @param part_pitch  bytes from one of these to the next
 * @param bytes   of a row
 */
WEFT_API void weft_dist_pick(const weft_dist *dist, int64_t rank, int32_t of, const void *all, size_t pitch, void *part,
                             size_t part_pitch, size_t bytes);
WEFT_API void weft_dist_put(const weft_dist *dist, int64_t rank, int32_t of, void *all, size_t pitch, const void *part,
                            size_t part_pitch, size_t bytes);

/** What ranks send. */
typedef struct weft_dist_traffic {
    size_t struct_size;      /**< set by WEFT_DIST_TRAFFIC_INIT */
    uint64_t sent, received; /**< bytes */
    uint64_t messages;       /**< sent */
} weft_dist_traffic;

#define WEFT_DIST_TRAFFIC_INIT                                                                                             \
    { sizeof(weft_dist_traffic), 0, 0, 0 }

/** What a rank sends and receives in a run, by the steps that it will take; and what this rank has sent so far, counted
 * where it was sent. Short words by which ranks tell each other that they are there are not counted. */
WEFT_API weft_status weft_dist_expect(const weft_dist *dist, int64_t rank, int32_t kept, weft_dist_traffic *traffic,
                                      weft_message *message);
WEFT_API void weft_dist_counted(const weft_dist *dist, weft_dist_traffic *traffic);

/* ---------------------------------------------------------------------------------------------------------------------
 * Predicting
 * ------------------------------------------------------------------------------------------------------------------ */

/** A step of a rank: when it computed, and with whose keys. Times are in seconds. */
typedef struct weft_rank_step {
    int64_t rank, step;
    int64_t part;      /**< whose keys: the first rank of those that exchange heads with them */
    double begin, end; /**< of computing; before it, the rank waits */
} weft_rank_step;

/** Told of steps as they are simulated, a step of all ranks after the other. */
typedef void (*weft_dist_told)(void *user, const weft_rank_step *step);

/** How to simulate a problem over ranks. A zero means the default. */
typedef struct weft_dist_simulate_options {
    size_t struct_size;                    /**< set by WEFT_DIST_SIMULATE_INIT */
    const weft_machine *machine;           /**< that every rank is. It says what joins them: [links] */
    const weft_schedule *schedule;         /**< of the attentions that ranks compute; null: chosen */
    const weft_device *device;             /**< null, or with WEFT_PAPER the kernels that were measured on the machine */
    const weft_simulate_options *simulate; /**< of these attentions; null: the defaults. Its progress is not used */
    double adding;          /**< what adding results to sums takes, in times of what weft_combine would; 0: 1 */
    int32_t heads_apart;    /**< attention backward: 1: the kernel has tiles for each query head, 0: for each kv head */
    weft_progress progress; /**< null, or told how many steps of how many are simulated */
    void *progress_user;    /**< its first argument */
    weft_dist_told told;    /**< null, or told of each step of each rank; a search tells of none */
    void *told_user;        /**< its first argument */
} weft_dist_simulate_options;

#define WEFT_DIST_SIMULATE_INIT                                                                                            \
    { sizeof(weft_dist_simulate_options), NULL, NULL, NULL, NULL, 0.0, 0, NULL, NULL, NULL, NULL }

/** What came out: predicted, not measured. Of ranks: the mean, and the one with the most. */
typedef struct weft_dist_simulation {
    size_t struct_size;               /**< set by WEFT_DIST_SIMULATION_INIT */
    double seconds;                   /**< until the last rank is done */
    double tflops;                    /**< of a GPU: the problem's operations over ranks and seconds */
    double ideal_seconds;             /**< of the whole problem on one such GPU, over ranks */
    double efficiency;                /**< ideal_seconds / seconds */
    double computing, computing_most; /**< seconds that a rank computes */
    double waiting, waiting_most; /**< seconds until it is done in which it does not: communication that nothing hides, and
                                       ranks that others are late for */
    double imbalance;             /**< pairs of queries and keys of the rank with the most, over the mean */
    double sent;                  /**< bytes */
    uint64_t sent_most;
    double network;         /**< of the bytes sent, those that leave a node: the share */
    uint64_t memory;        /**< bytes of a rank's tensors and buffers, of the rank with the most; without workspaces
                                 of kernels */
    uint64_t kernels;       /**< distinct ones that were simulated for it */
    double elapsed_seconds; /**< that the simulation took */
} weft_dist_simulation;

#define WEFT_DIST_SIMULATION_INIT                                                                                          \
    { sizeof(weft_dist_simulation), 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0, 0.0, 0, 0, 0.0 }

/** Simulates the steps of all ranks: what each computes, what is sent for it, and which links are busy with that.
 *
 * @param dist        from weft_dist_create(), with a transport or on paper
 * @param options     with a machine whose file has [links]
 * @param simulation  what came out
 * @param message     null, or where to say what is wrong
 */
WEFT_API weft_status weft_dist_simulate(const weft_dist *dist, const weft_dist_simulate_options *options,
                                        weft_dist_simulation *simulation, weft_message *message);

/** Choices in a few words ("cut zigzag, exchange ring, order ring"), as one JSON object, and as assignments in C: all of
 * them made, as weft_dist_ranks() has them. As weft_plan_text(). */
WEFT_API size_t weft_ranks_text(const weft_ranks *ranks, char *text, size_t size);
WEFT_API size_t weft_ranks_json(const weft_ranks *ranks, char *text, size_t size);
WEFT_API size_t weft_ranks_c(const weft_ranks *ranks, char *text, size_t size);

/** Ways to share a problem, simulated and put in order. */
typedef struct weft_dist_search weft_dist_search;

typedef struct weft_dist_ranked {
    size_t struct_size; /**< set by WEFT_DIST_RANKED_INIT */
    weft_ranks ranks;   /**< every choice made */
    weft_dist_simulation simulation;
} weft_dist_ranked;

#define WEFT_DIST_RANKED_INIT                                                                                              \
    { sizeof(weft_dist_ranked), WEFT_RANKS_INIT, WEFT_DIST_SIMULATION_INIT }

/** Simulates every way to share a problem that is open in `ranks`: cut, exchange, order, ranks that exchange heads. On
 * failure *search is null. Those within 1 % of the fastest are put in order by what the rank with the most sends, then by
 * memory.
 *
 * @param search   what was found; the caller destroys it
 * @param problem  of all ranks together
 * @param ranks    how many, and what is not open
 * @param options  as of weft_dist_simulate()
 * @param message  null, or where to say what is wrong
 */
WEFT_API weft_status weft_dist_search_run(weft_dist_search **search, const void *problem, const weft_ranks *ranks,
                                          const weft_dist_simulate_options *options, weft_message *message);
WEFT_API void weft_dist_search_destroy(weft_dist_search *search);

/** The ways in their order, the recommended one first. WEFT_NOT_FOUND past the last. */
WEFT_API weft_status weft_dist_search_row(const weft_dist_search *search, size_t index, weft_dist_ranked *row,
                                          weft_message *message);

/** Why the first is recommended, in sentences. Writes the sentence of that number as snprintf() does and returns its
 * length; 0 past the last. */
WEFT_API size_t weft_dist_search_why(const weft_dist_search *search, size_t number, char *text, size_t size);

/** A simulation as one JSON object. As weft_plan_json(). */
WEFT_API size_t weft_dist_simulation_json(const weft_dist *dist, const weft_dist_simulation *simulation, char *text,
                                          size_t size);

/** Describes it, in words or as one JSON object. As weft_plan_text(). */
WEFT_API size_t weft_dist_text(const weft_dist *dist, char *text, size_t size);
WEFT_API size_t weft_dist_json(const weft_dist *dist, char *text, size_t size);

#ifdef __cplusplus
}
#endif

#endif
