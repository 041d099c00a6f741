/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The simulator: what a plan costs in cache traffic and time, before a kernel exists.
 *
 * Each worker of the plan's machine walks its tiles step by step and asks its L2 domain for the tile's pieces; a miss goes
 * to the home domain over the fabric, to the last-level cache, to DRAM. The counts are those that profilers show, in
 * sectors.
 */
#ifndef WEFT_SIM_H
#define WEFT_SIM_H

#include "profile.h"

#ifdef __cplusplus
extern "C" {
#endif

/** What a profiler counts, for one domain or for all. */
typedef struct weft_traffic {
    size_t struct_size;       /**< set by WEFT_TRAFFIC_INIT */
    uint64_t sectors;         /**< looked up in the L2: from workers and over the fabric */
    uint64_t sectors_from_sm; /**< of these, asked for by workers */
    uint64_t hits, misses;    /**< of the sectors looked up */
    uint64_t fabric_sectors;  /**< that crossed between domains */
    uint64_t llc_hits;        /**< misses served by the last-level cache */
    uint64_t dram_read_bytes, dram_write_bytes;
    uint64_t added;  /**< of the sectors asked for by workers, those added to sums in memory: attention backward's dQ */
    uint64_t waited; /**< in the total: nanoseconds that a worker waits for its turns to add, in the mean */
    uint64_t reserved[5]; /**< 0: other structs hold this one by value, so its size never changes */
} weft_traffic;

#define WEFT_TRAFFIC_INIT                                                                                                  \
    {                                                                                                                      \
        sizeof(weft_traffic), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, {                                                              \
            0                                                                                                              \
        }                                                                                                                  \
    }

/** How to simulate. A zero means the default. */
typedef struct weft_simulate_options {
    size_t struct_size; /**< set by WEFT_SIMULATE_INIT */
    double drift;   /**< relative spread of step times, and nothing else that spreads; 0: the profile's; negative: none */
    uint64_t seed;  /**< of the drift and of the replacement; 0: 1 */
    int64_t stages; /**< steps that a worker requests ahead of the one it computes; 0: the profile's; negative: none */
    uint64_t limit; /**< start no tile after this many steps, and scale what was counted; 0: simulate all */
    weft_progress progress; /**< null, or called now and then, from the thread that simulates, with steps done and in all */
    void *progress_user;    /**< its first argument */
    const weft_profile *profile; /**< of the kernel; null: weft_plan_profile() */
    const int32_t *page_table;   /**< attention with cache.page: as weft_kv_cache_data.table; null: pages lie apart, and
                                      nobody shares one */
} weft_simulate_options;

#define WEFT_SIMULATE_INIT                                                                                                 \
    { sizeof(weft_simulate_options), 0.0, 0, 0, 0, NULL, NULL, NULL, NULL }

/** What came out. */
typedef struct weft_simulation {
    size_t struct_size; /**< set by WEFT_SIMULATION_INIT */
    weft_traffic total;
    uint64_t compulsory_misses; /**< distinct sectors: what an infinite cache would miss */
    uint64_t piece_visits;      /**< how often a worker asked for a piece (K and V of a block count as two) */
    double seconds, tflops;     /**< predicted */
    double elapsed_seconds;     /**< that the simulation took */
    uint64_t seed;
    double simulated; /**< share of the steps that was simulated; 1 without a limit */
    char profile[32]; /**< the name of the kernel's */
} weft_simulation;

#define WEFT_SIMULATION_INIT                                                                                               \
    { sizeof(weft_simulation), WEFT_TRAFFIC_INIT, 0, 0, 0.0, 0.0, 0.0, 0, 0.0, "" }

/** Simulates a plan on its machine.
 *
 * @param plan        from weft_plan_create()
 * @param options     null: the defaults
 * @param simulation  what came out
 * @param domains     null, or room for as many as the machine has domains, all with struct_size set
 * @param message     null, or where to say what is wrong
 */
WEFT_API weft_status weft_simulate(const weft_plan *plan, const weft_simulate_options *options, weft_simulation *simulation,
                                   weft_traffic *domains, weft_message *message);

/** Simulates a plan until it has settled: until its last steps hit as often and go as fast as those before. They are then
 * taken to go on to the end. The limit of the options is not used; `simulated` says how much was simulated.
 *
 * @param plan        from weft_plan_create()
 * @param options     null: the defaults
 * @param simulation  what came out
 * @param message     null, or where to say what is wrong
 */
WEFT_API weft_status weft_simulate_settled(const weft_plan *plan, const weft_simulate_options *options,
                                           weft_simulation *simulation, weft_message *message);

/** Simulates many plans over threads. Nulls among them are passed over. Progress counts the steps of all of them, and is
 * told by one thread at a time.
 *
 * @param plans        from weft_plan_create(), or null
 * @param count        of plans
 * @param options      null: the defaults
 * @param simulations  what came out, `count` of them, all with struct_size set
 * @param statuses     null, or how each went
 * @param message      null, or where to say what is wrong
 *
 * Returns the status of the first that failed, with its message. */
WEFT_API weft_status weft_simulate_all(const weft_plan *const *plans, size_t count, const weft_simulate_options *options,
                                       weft_simulation *simulations, weft_status *statuses, weft_message *message);

/** The share of the sectors looked up that were there. */
WEFT_API double weft_hit_rate(const weft_traffic *traffic);

/** The share of its time that a worker waits for its turns to add, in the mean. */
WEFT_API double weft_waiting_share(const weft_simulation *simulation);

/** Steps of all tiles of a plan: what a simulation takes, and what its limit is of. */
WEFT_API uint64_t weft_simulate_steps(const weft_plan *plan);

/** What each part of a machine needs for a plan, in seconds, if nothing else took time. */
typedef struct weft_bounds {
    size_t struct_size;  /**< set by WEFT_BOUNDS_INIT */
    double products;     /**< matrix products of all steps, at the machine's rate */
    double exponentials; /**< of all steps, at the machine's rate */
    double steps;        /**< the busiest worker's steps, as the simulator times them: no schedule of the tile beats it */
    double l2;           /**< what all steps load, at the bandwidth of the L2 */
    double dram;         /**< what is read at least once, at the bandwidth of DRAM */
    double waves;        /**< no time: tiles of the busiest worker over the mean; 1: none idles at the end */
} weft_bounds;

#define WEFT_BOUNDS_INIT                                                                                                   \
    { sizeof(weft_bounds), 0.0, 0.0, 0.0, 0.0, 0.0, 0.0 }

/** How fast a plan could be at best. Nothing is simulated.
 *
 * @param plan     from weft_plan_create()
 * @param options  null: the defaults; of them, the profile matters
 * @param bounds   what came out
 * @param message  null, or where to say what is wrong
 */
WEFT_API weft_status weft_simulate_bounds(const weft_plan *plan, const weft_simulate_options *options, weft_bounds *bounds,
                                          weft_message *message);

/** A simulation as one JSON object, with what each domain did where `domains` is not null. As weft_plan_json(). */
WEFT_API size_t weft_simulation_json(const weft_plan *plan, const weft_simulation *simulation, const weft_traffic *domains,
                                     char *text, size_t size);

/** A point of the miss curve: two numbers, and never more. */
typedef struct weft_curve_point {
    int64_t l2_bytes; /**< of one domain */
    uint64_t misses;
} weft_curve_point;

/** Misses for many sizes of the L2, from almost nothing to all of the data, workers in step, strict LRU.
 *
 * One domain, or private L2s: one pass over the reuse distances, exact for every size to 8 sectors. Two sides that keep
 * copies of each other's lines (home = split) are simulated size by size, as no single pass is exact there.
 *
 * @param plan     the plan
 * @param options  null: the defaults; drift is not used
 * @param points   what came out: `count` of them, at equal distances
 * @param count    at least 2
 * @param message  null, or where to say what is wrong
 */
WEFT_API weft_status weft_simulate_curve(const weft_plan *plan, const weft_simulate_options *options,
                                         weft_curve_point *points, size_t count, weft_message *message);

#ifdef __cplusplus
}
#endif

#endif
