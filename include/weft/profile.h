/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Kernel profiles: what the simulator must know of a kernel beside its tiles, each number with where it comes from.
 */
#ifndef WEFT_PROFILE_H
#define WEFT_PROFILE_H

#include "machine.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A kernel profile. The fields are those of src/profile/keys.def, where each has its unit. Times are of one worker. */
typedef struct weft_profile {
    size_t struct_size; /**< set by WEFT_PROFILE_INIT */
    char name[32];
    char title[96];
    int64_t stages;      /**< steps requested ahead of the one that computes; 0: a step requests, waits, computes */
    double early;        /**< with no stages: share of a step before its end at which the next one's pieces are requested */
    double spread_step;  /**< relative standard deviation of a step's time, independent from step to step */
    double spread_tile;  /**< the same of a tile's time: all of its steps together */
    double spread_load;  /**< what spread_step grows by where the L2 is always busy; times the fourth power of its load */
    double merge;        /**< requests for a sector in flight that are counted as one */
    double matrix;       /**< share of the machine's matrix rate that the products of a step reach */
    double overlap;      /**< share of the exponentials that run beside products */
    double step_cycles;  /**< of a step, beside products and exponentials */
    double launch;       /**< seconds before the first tile begins */
    double prologue;     /**< cycles before a tile's first step */
    double epilogue;     /**< cycles after its last */
    double hidden;       /**< share of both that runs beside the tile before or after */
    double clock;        /**< share of the machine's clock that is left when the matrix units never pause */
    double spread_kept;  /**< share of spread_step that is left where a kernel holds its workers in step */
    int64_t dq_pass;     /**< attention backward: 1: passes of their own over the keys compute dQ; 0: adds to fp32 sums */
    double trips;        /**< round trips that a piece takes one after the other; 0: one */
    double score_cycles; /**< cycles of a step for each 1024 scores, beside their exponentials */
    double beside;       /**< share of a CTA's products that run beside other work of another CTA on its SM */
    int64_t in_turn;     /**< attention backward: 1: adds wait for their turns; 2: and the first stores; 0: as they come */
    double told;         /**< with turns: steps from an add until whoever is next may add, at least */
    int64_t runs;        /**< 1: decode: workers share the steps of all tiles in runs; 0: a worker takes whole tiles */
} weft_profile;

#define WEFT_PROFILE_INIT                                                                                                  \
    {                                                                                                                      \
        sizeof(weft_profile), "", "", 0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0, 0.0,     \
            0.0, 0.0, 0, 0.0, 0                                                                                            \
    }

/** Finds a profile: one of the built-in ones by name, in upper or lower case, or a file by path (anything with a '/' or
 * ending in ".ini").
 *
 * WEFT_NOT_FOUND when there is neither; WEFT_INVALID, with file and line, when a file is not right.
 */
WEFT_API weft_status weft_profile_load(weft_profile *profile, const char *name_or_path, weft_message *message);

/** Reads a profile from text, as a profile's file holds it; `label` stands for the file's name in messages. */
WEFT_API weft_status weft_profile_parse(weft_profile *profile, const char *text, size_t length, const char *label,
                                        weft_message *message);

/** Names of the built-in profiles by number; null past the last. */
WEFT_API const char *weft_profile_name(size_t number);

/** The name of the profile that a plan is simulated with when the caller gives none: that of the kernel which the plan
 * takes, or of the machine's usual kernel for the operation, or "generic". Valid as long as the plan. */
WEFT_API const char *weft_plan_profile(const weft_plan *plan);

/** As weft_machine_values(), of a profile. */
WEFT_API weft_status weft_profile_values(const char *name_or_path, weft_profile *profile, weft_machine_value *values,
                                         size_t room, size_t *count, weft_message *message);

#ifdef __cplusplus
}
#endif

#endif
