/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Searching schedules by simulation: every way to order, sweep, dispatch and tile a problem that is left open, on any
 * machine, without running anything.
 */
#ifndef WEFT_SEARCH_H
#define WEFT_SEARCH_H

#include "sim.h"

#ifdef __cplusplus
extern "C" {
#endif

/** What to search. */
typedef enum weft_search_space {
    WEFT_SEARCH_ORDERS = 0, /**< orders and sweeps, each simulated whole */
    WEFT_SEARCH_ALL = 1     /**< also dispatches, groups and tiles that fit the machine, in rounds: each leaves
                                 the best for the next, which simulates more of their steps */
} weft_search_space;

/** What ranks schedules. */
typedef enum weft_search_cost {
    WEFT_SEARCH_BY_ANY = 0, /**< of WEFT_SEARCH_ALL: the model of the kernels where there is one, else the simulator */
    WEFT_SEARCH_BY_SIMULATOR = 1, /**< any machine, any schedule */
    WEFT_SEARCH_BY_MODEL = 2 /**< what the kernels here take on the device or machine that they were measured on: a plan's
                                  default and the tuner go by it, too */
} weft_search_cost;

/** How to search. A zero means the default. */
typedef struct weft_search_options {
    size_t struct_size;                    /**< set by WEFT_SEARCH_INIT */
    weft_search_space space;               /**< what is varied */
    const weft_simulate_options *simulate; /**< null: the defaults. Its progress is not used */
    weft_progress progress;                /**< null, or told how many steps are simulated of about how many, by one thread
                                              at a time */
    void *progress_user;                   /**< its first argument */
    uint64_t steps;        /**< of tiles that WEFT_SEARCH_ALL simulates, about; 0: as many as take seconds */
    weft_search_cost cost; /**< what ranks them */
} weft_search_options;

#define WEFT_SEARCH_INIT                                                                                                   \
    { sizeof(weft_search_options), WEFT_SEARCH_ORDERS, NULL, NULL, NULL, 0, WEFT_SEARCH_BY_ANY }

/** A schedule, and what it would cost. */
typedef struct weft_ranked {
    size_t struct_size;         /**< set by WEFT_RANKED_INIT */
    weft_schedule schedule;     /**< every choice made */
    weft_schedule given;        /**< the same as it was asked for: a plan chooses what is open in it */
    uint64_t limit;             /**< of its simulation, in steps; 0: none */
    weft_simulation simulation; /**< what it would cost; all 0 where the simulator does not take it */
    double model;               /**< seconds, or another unit on a CPU, by the model of the kernels; 0: there is none */
} weft_ranked;

#define WEFT_RANKED_INIT                                                                                                   \
    { sizeof(weft_ranked), WEFT_SCHEDULE_INIT, WEFT_SCHEDULE_INIT, 0, WEFT_SIMULATION_INIT, 0.0 }

/** How a search went. */
typedef struct weft_search_summary {
    size_t struct_size; /**< set by WEFT_SEARCH_SUMMARY_INIT */
    int64_t count;      /**< schedules that are ranked: by WEFT_SEARCH_BY_MODEL all, else those of the last round */
    int64_t schedules;  /**< that there are, of those that do the same only one */
    int64_t searched;   /**< of these, in the first round: fewer where a wave of each would take too long */
    int64_t last;       /**< of those that are ranked, the first so many were simulated: by WEFT_SEARCH_BY_SIMULATOR all */
    int32_t whole;      /**< 1: these were simulated whole */
    int32_t has_baseline;  /**< 0: there is no other schedule to compare with */
    int32_t is_plain;      /**< 1: the baseline is the plain schedule; 0: it is the next best */
    weft_search_cost cost; /**< what ranked them: WEFT_SEARCH_BY_SIMULATOR or WEFT_SEARCH_BY_MODEL */
    const char *rule;      /**< by which one is put before another, in words; a constant */
} weft_search_summary;

#define WEFT_SEARCH_SUMMARY_INIT                                                                                           \
    { sizeof(weft_search_summary), 0, 0, 0, 0, 0, 0, 0, WEFT_SEARCH_BY_ANY, NULL }

/** What was found. */
typedef struct weft_search weft_search;

/** Searches. On failure *search is null.
 *
 * @param search   what was found; the caller destroys it
 * @param problem  what to compute
 * @param plan     machine, device, and a schedule of which only what is open is varied; null: all open, this host
 * @param options  null: the defaults
 * @param message  null, or where to say what is wrong
 *
 * WEFT_INVALID or WEFT_UNSUPPORTED, with the reason, when no schedule can be simulated. */
WEFT_API weft_status weft_search_run(weft_search **search, const void *problem, const weft_plan_options *plan,
                                     const weft_search_options *options, weft_message *message);

/** Releases it; null is fine. */
WEFT_API void weft_search_destroy(weft_search *search);

WEFT_API weft_status weft_search_summarize(const weft_search *search, weft_search_summary *summary, weft_message *message);

/** The schedules in the order of the rule, the recommended one first. WEFT_NOT_FOUND past the last. */
WEFT_API weft_status weft_search_row(const weft_search *search, size_t index, weft_ranked *row, weft_message *message);

/** What the first is to be compared with: the plain schedule with its tile, simulated as it was; or the next best.
 * WEFT_NOT_FOUND when there is none. */
WEFT_API weft_status weft_search_baseline(const weft_search *search, weft_ranked *row, weft_message *message);

/** Why the first is recommended, in sentences: what it gains over the baseline, what binds it, the rule that it was chosen
 * by, and what ranked how many schedules.
 *
 * Writes the sentence of that number as snprintf() does and returns its length; 0 past the last. */
WEFT_API size_t weft_search_why(const weft_search *search, size_t number, char *text, size_t size);

/** What to set in another program to get the recommended schedule, or that it cannot be set there. Programs by number:
 * "cutlass", "triton", "flash-attention"; null past the last. As weft_search_why(); 0 for another program. */
WEFT_API const char *weft_elsewhere_name(size_t number);
WEFT_API size_t weft_search_elsewhere(const weft_search *search, const char *program, char *text, size_t size);

/** A schedule in a few words: "128x64 head-first sawtooth static". As snprintf(); WEFT_SEARCH_NAME bytes are enough. */
enum { WEFT_SEARCH_NAME = 192 };
WEFT_API size_t weft_search_name(const weft_ranked *row, char *text, size_t size);

/** The rule by which the simulator puts one schedule before another, in words. */
WEFT_API const char *weft_search_rule(void);

#ifdef __cplusplus
}
#endif

#endif
