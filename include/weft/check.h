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
    int64_t checked;    /**< rows or elements that were compared: a sample where the problem is large */
    const char *unit;   /**< what was compared: "rows", "elements" */
    int32_t passed;     /**< 1: the error is within the bound, and nothing that should be finite is not */
    int32_t relative;   /**< 1: error and bound are relative to the largest element of each output */
} weft_check;

#define WEFT_CHECK_INIT                                                                                                    \
    { sizeof(weft_check), 0.0, 0.0, 0, "", 0, 0 }

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

#ifdef __cplusplus
}
#endif

#endif
