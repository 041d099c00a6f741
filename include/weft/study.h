/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * What studies do with a GPU beyond running plans on it: counting what the hardware counts, measuring energy, and placing
 * workers by the sides of its L2.
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
 * @param command the program to count, with its arguments
 * @param text    null, or where the text goes
 * @param size    of text
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
 * @param study    from weft_study_open()
 * @param bench    that the plan belongs to
 * @param plan     what to run
 * @param wanted   the counters; null: all
 * @param count    how many are wanted
 * @param values   one for each wanted counter, in their order and in the units of counters.def; NaN for a counter that the
 *                 chip does not have
 * @param message  null, or where to say what is wrong
 *
 * The counters of a chip do not fit one pass, so the plan runs several times. WEFT_NOT_FOUND when there is no CUPTI;
 * WEFT_UNSUPPORTED when it is too old, the chip or its driver refuses, or none of the counters exists on the chip. */
WEFT_API weft_status weft_study_count(weft_study *study, weft_bench *bench, const weft_plan *plan,
                                      const weft_counter *wanted, size_t count, double *values, weft_message *message);

/** What runs of a plan take, one after the other, once clocks have settled. */
typedef struct weft_energy {
    size_t struct_size; /**< set by WEFT_ENERGY_INIT */
    double joules;      /**< of one run, in the mean */
    double seconds;     /**< of one run, in the mean */
    double watts;       /**< of the GPU with its memory, as NVML counts it */
    int64_t runs;       /**< that were measured */
    int32_t settled; /**< 1: before, two half seconds in a row took the same to 0.5 %; 0: clocks still moved after 10 s */
} weft_energy;

#define WEFT_ENERGY_INIT                                                                                                   \
    { sizeof(weft_energy), 0.0, 0.0, 0.0, 0, 0 }

/** Whether the GPU tells its energy: without running anything. WEFT_NOT_FOUND when there is no NVML, or it does not know
 * the GPU; WEFT_UNSUPPORTED when it is too old, or the GPU has no counter. */
WEFT_API weft_status weft_study_check_energy(weft_study *study, weft_message *message);

/** Whether libraries are there that studies load, where no GPU is asked: CUPTI, which reads the hardware counters (its
 * own version: 130001), and NVML, which tells the energy. WEFT_NOT_FOUND, or WEFT_UNSUPPORTED when one is too old. */
WEFT_API weft_status weft_study_find_cupti(int32_t *version, weft_message *message);
WEFT_API weft_status weft_study_find_nvml(weft_message *message);

/** Measures the energy of runs of a plan of the bench: at least a second for clocks to settle, then `seconds` or more
 * (0: 2 s), as many as make the counter's resolution cost less than 2 %.
 *
 * The statuses of weft_study_check_energy(); WEFT_FAILED when the counter stands still. */
WEFT_API weft_status weft_study_energy(weft_study *study, weft_bench *bench, const weft_plan *plan, double seconds,
                                       weft_energy *energy, weft_message *message);

/** Makes the even workers of a plan of the bench run on one side of the L2 and the odd ones on the other, which is where
 * swizzled orders with two domains, and the simulator, suppose them; and makes sure that no tile is missing then.
 *
 * The plan is of the family "study", under static dispatch, with one CTA on every SM. The sides are measured when they are
 * first asked for. The plan must not run once the study is closed. Families whose workers find their sides themselves,
 * where the order has two domains, are left as they are; WEFT_UNSUPPORTED where they do not. */
WEFT_API weft_status weft_study_place_by_side(weft_study *study, weft_bench *bench, weft_plan *plan, weft_message *message);

/** An SM as it was measured: its number, its side of the L2, and its latency in cycles. Three numbers, and never more. */
typedef struct weft_probed_sm {
    uint32_t number;
    int32_t side;
    double latency;
} weft_probed_sm;

/** What can be measured of a GPU. */
typedef struct weft_probe {
    size_t struct_size; /**< set by WEFT_PROBE_INIT */
    char name[96];      /**< that the driver gives it */
    int32_t capability; /**< 90: compute capability 9.0 */
    int32_t multiprocessors, l2_bytes;
    int32_t sides;          /**< of the L2: 1 or 2 */
    int32_t members[2];     /**< SMs of each side */
    double low[2], high[2]; /**< the least and the largest latency of each side */
    weft_machine machine;   /**< the GPU, with what was measured of it */
} weft_probe;

#define WEFT_PROBE_INIT                                                                                                    \
    { sizeof(weft_probe), "", 0, 0, 0, 0, {0, 0}, {0.0, 0.0}, {0.0, 0.0}, WEFT_MACHINE_INIT }

/** Measures a GPU. Takes about a second, and the whole GPU.
 *
 * @param index  which GPU, as the driver numbers them
 * @param probe  what came out
 * @param sms    null, or room for each SM, ascending by number
 * @param room   of sms
 * @param count  null, or how many SMs there are
 * @param text   null, or room for its machine file, with the final null
 * @param size   of text: WEFT_MACHINE_FILE is always enough
 * @param message  null, or where to say what is wrong
 *
 * WEFT_UNSUPPORTED when other work holds SMs for some seconds. */
WEFT_API weft_status weft_probe_gpu(int32_t index, weft_probe *probe, weft_probed_sm *sms, size_t room, size_t *count,
                                    char *text, size_t size, weft_message *message);

/** Bytes that hold any machine file. */
enum { WEFT_MACHINE_FILE = 65536 };

#ifdef __cplusplus
}
#endif

#endif
