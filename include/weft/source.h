/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * A kernel of your own, simulated: a source tells what each worker reads, writes and computes, step by step.
 *
 * weft_trace.h fills a source from a file or from arrays. A source of your own computes its steps on the fly, from the
 * index arithmetic of the kernel, so it needs no memory for them:
 * @code
 *   static int next(void *user, int64_t worker, int64_t domain, weft_job *job) {
 *       kernel *k = user;
 *       job->tile = job->number = k->taken++;
 *       job->steps = k->steps;
 *       return job->tile < k->tiles;
 *   }
 *   static void step(void *user, int64_t worker, const weft_job *job, int64_t step, weft_step *out) { ... }
 * @endcode
 */
#ifndef WEFT_SOURCE_H
#define WEFT_SOURCE_H

#include "sim.h"

#ifdef __cplusplus
extern "C" {
#endif

/** What a step does with a block. */
typedef enum weft_access_kind {
    WEFT_READ = 0,
    WEFT_WRITE = 1,
    WEFT_ADD = 2 /**< an atomic add, in one transaction of the L2, which fetches the block where it has it not */
} weft_access_kind;

/** One block that a step reads or writes: four numbers, and never more. */
typedef struct weft_access {
    int32_t tensor; /**< its number in weft_source.tensors */
    int32_t kind;   /**< a weft_access_kind */
    int64_t block;  /**< its number in the tensor */
    int64_t bytes;  /**< of the block; the same whenever it is asked for */
} weft_access;

/** What a step does: its reads are requested together and ahead of time, its writes leave when it is over. Three values,
 * and never more. */
typedef struct weft_step {
    const weft_access *accesses; /**< yours, valid until the next call of weft_source.step */
    size_t count;
    double seconds; /**< that it computes; the loads from the L2 may take longer */
} weft_step;

/** What a worker does without a break: a tile. Requests do not reach ahead into the next one. */
typedef struct weft_job {
    int64_t steps;
    int64_t tile;   /**< which tile of the grid, row by row: where a view draws it */
    int64_t number; /**< of the job, in the order in which jobs are handed out */
    double spread;  /**< of its step times, as a share of the machine's drift; 0: 1 */
    double load;  /**< share of a step in which the L2 is busy with it, 0 to 1: busy L2s spread times; 0: the first step's;
                     negative: none */
    int64_t user; /**< yours */
    int64_t reserved[2];
} weft_job;

/** Something that steps read and write. */
typedef struct weft_source_tensor {
    const char *name;    /**< a line of UTF-8 */
    int64_t blocks;      /**< numbered from 0 */
    int64_t block_bytes; /**< of the largest block */
    int64_t bytes;       /**< of all blocks, at most; 0: blocks * block_bytes */
} weft_source_tensor;

/** A kernel: tensors, and functions that hand out what its workers do. One simulation at a time uses it. */
typedef struct weft_source {
    size_t struct_size; /**< set by WEFT_SOURCE_INIT */
    const char *name;   /**< for people: a line of UTF-8, or null */
    const weft_source_tensor *tensors;
    size_t tensor_count;
    int64_t workers;     /**< 0: the machine's */
    int64_t cluster;     /**< SMs that make up a worker, and share what it loads; 0: 1 */
    int64_t run;         /**< workers in a row on one domain; 0: as the machine places CTAs */
    int64_t rows, cols;  /**< of the grid of tiles, for views; 0: all jobs in one row */
    int64_t jobs;        /**< in all, for views; 0: not known */
    uint64_t steps;      /**< in all, for progress and limits; 0: not known */
    double flops;        /**< in all; 0: not known */
    const char *profile; /**< the kernel's, by name or file, where the options of a simulation give none; null: "generic" */
    double room;         /**< what blocks take of the L2, over their own size, where its lines hold more; 0: 1 */
    double fetched;      /**< what DRAM is asked for, over that size; 0: 1 */
    int32_t grid;        /**< 1: each job is a CTA of a grid, which ends before the next begins on its SM */
    void *user;          /**< the first argument of the functions */
    /** Null, or called before each run: back to the first job. A view or a curve takes several runs. Returns 0 when memory
     * ran out. */
    int (*begin)(void *user, const weft_machine *machine, int64_t workers);
    /** The next job of a worker, which sits on a domain; returns 0 when there is none. *job is all zeros. */
    int (*next)(void *user, int64_t worker, int64_t domain, weft_job *job);
    /** What step 0 .. job->steps - 1 does, or step -1, which comes before the first and takes no time of its own. May be
     * called several times for a step, and for steps ahead. *step is all zeros. */
    void (*step)(void *user, int64_t worker, const weft_job *job, int64_t step, weft_step *out);
} weft_source;

/** Set name, tensors, tensor_count, next and step. */
#define WEFT_SOURCE_INIT                                                                                                   \
    { sizeof(weft_source), NULL, NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0.0, NULL, 0.0, 0.0, 0, NULL, NULL, NULL, NULL }

/** Simulates a source on a machine, as weft_simulate() does a plan. WEFT_INVALID when the source asks for a block that its
 * tensors do not have, or for a block with different sizes. */
WEFT_API weft_status weft_simulate_source(const weft_source *source, const weft_machine *machine,
                                          const weft_simulate_options *options, weft_simulation *simulation,
                                          weft_traffic *domains, weft_message *message);

/** Misses for many sizes of the L2, as weft_simulate_curve(). */
WEFT_API weft_status weft_simulate_source_curve(const weft_source *source, const weft_machine *machine,
                                                const weft_simulate_options *options, weft_curve_point *points,
                                                size_t count, weft_message *message);

/** A simulation of a source as one JSON object, as weft_simulation_json(). */
WEFT_API size_t weft_source_simulation_json(const weft_source *source, const weft_machine *machine,
                                            const weft_simulation *simulation, const weft_traffic *domains, char *text,
                                            size_t size);

#ifdef __cplusplus
}
#endif

#endif
