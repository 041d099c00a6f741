/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Results held to the reference, which is plain, slow and fp64 inside.
 */
#ifndef WEFT_CHECK_H
#define WEFT_CHECK_H

#include "weft.h"

#ifdef __cplusplus
extern "C" {
#endif

/** How far a result is from the reference, and how far it may be. */
typedef struct weft_check {
    size_t struct_size; /**< set by WEFT_CHECK_INIT */
    double max_error;   /**< the largest difference to the reference */
    double bound;       /**< what is allowed: twice the error of a plain kernel in the same dtypes, or one rounding */
    int64_t checked;    /**< rows or elements that were compared */
    const char *unit;   /**< what was compared: "rows", "elements" */
    int32_t passed;     /**< 1: the error is within the bound, and nothing that should be finite is not */
    int32_t relative;   /**< 1: error and bound are relative to the largest element of each output */
    int64_t total;      /**< rows or elements that there are: more than were compared where these are a sample */
} weft_check;

#define WEFT_CHECK_INIT                                                                                                    \
    { sizeof(weft_check), 0.0, 0.0, 0, "", 0, 0, 0 }

/** Compares the result of a run with the reference.
 *
 * @param problem  what was computed
 * @param data     the struct of its operation after the run, all in the host's memory
 * @param before   the same before the run, where it reads what it writes (a GEMM with beta); null otherwise
 * @param check    what came out
 * @param message  null, or where to say what is wrong
 *
 * A result that is outside its bound is WEFT_OK, with check->passed 0. WEFT_UNSUPPORTED when the operation has no
 * reference. */
WEFT_API weft_status weft_check_result(const void *problem, const void *data, const void *before, weft_check *check,
                                       weft_message *message);

/** How much of a result is compared. A zero means the default.
 *
 * The reference is slow, so of a large problem it computes a sample, spread evenly over all rows or elements and drawn at
 * random between. Small problems, of less than a second, are compared whole in any case. */
typedef struct weft_check_options {
    size_t struct_size;     /**< set by WEFT_CHECK_OPTIONS_INIT */
    double operations;      /**< that the reference may take, about; 0: 4e9; HUGE_VAL: all is compared */
    double seconds;         /**< the sample ends after so long, wherever it is; 0: it does not */
    uint64_t seed;          /**< of the sample; 0: 1 */
    weft_progress progress; /**< null, or told how far it is, from any thread, one at a time */
    void *progress_user;    /**< its first argument */
} weft_check_options;

#define WEFT_CHECK_OPTIONS_INIT                                                                                            \
    { sizeof(weft_check_options), 0.0, 0.0, 0, NULL, NULL }

/** weft_check_result() of as much as the options say; null: the defaults. */
WEFT_API weft_status weft_check_sample(const void *problem, const void *data, const void *before,
                                       const weft_check_options *options, weft_check *check, weft_message *message);

#ifdef __cplusplus
}
#endif

#endif
