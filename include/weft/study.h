/** @file
 * What studies do with a GPU beyond running plans on it: counting what the hardware counts, and placing workers by the
 * sides of its L2.
 */
#ifndef WEFT_STUDY_H
#define WEFT_STUDY_H

#include "bench.h"
#include "machine.h"

#ifdef __cplusplus
extern "C" {
#endif

/** One for each row of counters.def. */
typedef enum weft_counter {
#define COUNTER(id, key, metric, unit, text) WEFT_COUNTER_##id,
#include "counters.def"
#undef COUNTER
    WEFT_COUNTERS
} weft_counter;

/** A row of counters.def. */
typedef struct weft_counter_info {
    const char *key, *metric, *unit, *text;
} weft_counter_info;

/** The row of a counter; null when there is no such number. */
WEFT_API const weft_counter_info *weft_counter_describe(int32_t counter);

/** The counter with a key; -1 when there is none. */
WEFT_API int32_t weft_counter_find(const char *key);

/** The command that reads counters from outside: `command` under ncu, clocks left alone.
 * @param wanted  the counters; null: all
 * @param count   how many are wanted
 * @param kernel  a regular expression for the kernels to look at; null: all
 *
 * Writes at most `size` bytes with the final null and returns the length of the whole text without it, as snprintf does. */
WEFT_API size_t weft_counters_ncu(const weft_counter *wanted, size_t count, const char *kernel, const char *command,
                                  char *text, size_t size);

/** A GPU that is studied. Used by one thread at a time. */
typedef struct weft_study weft_study;

/** Takes a GPU, as the driver numbers them. On failure *study is null. */
WEFT_API weft_status weft_study_open(weft_study **study, int32_t index, weft_message *message);

/** Releases it, before the plans that it has placed are run again; null is fine. */
WEFT_API void weft_study_close(weft_study *study);

/** The GPU's name and number. */
WEFT_API const char *weft_study_name(const weft_study *study);
WEFT_API int32_t weft_study_index(const weft_study *study);

/** Counts one run of a plan of the bench, which begins with an empty L2.
 *
 * @param wanted   the counters; null: all
 * @param count    how many are wanted
 * @param values   one for each wanted counter, in their order and in the units of counters.def; NaN for a counter that the
 *                 chip does not have
 *
 * The counters of a chip do not fit one pass, so the plan runs several times. WEFT_NOT_FOUND when there is no CUPTI;
 * WEFT_UNSUPPORTED when it is too old, the chip or its driver refuses, or none of the counters exists on the chip. */
WEFT_API weft_status weft_study_count(weft_study *study, weft_bench *bench, const weft_plan *plan,
                                      const weft_counter *wanted, size_t count, double *values, weft_message *message);

/** Makes the even workers of a plan of the bench run on one side of the L2 and the odd ones on the other, which is where
 * swizzled orders with two domains, and the simulator, suppose them; and makes sure that no tile is missing then.
 *
 * The plan is of the family "study", under static dispatch, with one CTA on every SM. The sides are measured when they are
 * first asked for. The plan must not run once the study is closed. */
WEFT_API weft_status weft_study_place_by_side(weft_study *study, weft_bench *bench, weft_plan *plan, weft_message *message);

/** What can be measured of a GPU: the sides of its L2, and latencies in cycles. */
enum { WEFT_PROBE_SMS = 1024 };
typedef struct weft_probe {
    size_t struct_size; /**< sizeof(weft_probe) */
    char name[96];      /**< that the driver gives it */
    int32_t capability; /**< 90: compute capability 9.0 */
    int32_t multiprocessors, l2_bytes;
    int32_t sides; /**< 1 or 2 */
    int32_t sms;
    int32_t members[2];                 /**< SMs of each side */
    double low[2], high[2];             /**< the least and the largest latency of each side */
    uint32_t sm[WEFT_PROBE_SMS];        /**< numbers of the SMs, ascending */
    double latency[WEFT_PROBE_SMS];     /**< of each */
    unsigned char side[WEFT_PROBE_SMS]; /**< of each */
    weft_machine machine;               /**< the GPU, with what was measured of it */
} weft_probe;

/** Measures a GPU. Takes about a second, and the whole GPU. Writes its machine file, at most `size` bytes with the final
 * null, to `text`; null: not wanted. WEFT_UNSUPPORTED when other work holds SMs for some seconds. */
WEFT_API weft_status weft_probe_gpu(int32_t index, weft_probe *probe, char *text, size_t size, weft_message *message);

/** Bytes that hold any machine file. */
enum { WEFT_MACHINE_FILE = 65536 };

#ifdef __cplusplus
}
#endif

#endif
