/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Tuning: choosing a schedule by timing, and keeping what was found.
 *
 * A plan chooses what its schedule leaves open in one of three modes (weft_device.mode). WEFT_ESTIMATE asks the model and
 * costs microseconds. WEFT_MEASURE takes what was tuned before, or else times candidates on the device and keeps the best.
 * WEFT_STORED takes only what was tuned before. This header is for those who want to tune ahead of time, to see how it
 * goes, or to look after the store.
 *
 * The store is one SQLite file: the one that the environment variable WEFT_TUNING_DB names, else weft/tuning.db in the
 * user's cache folder ($XDG_CACHE_HOME or ~/.cache). Any number of processes may use it at once. What was tuned belongs to
 * a device, the major version of its driver, this build of the library, and a class of problems: lengths fall into buckets
 * of a sixteenth to an eighth of their size, so that a new length does not mean tuning again.
 */
#ifndef WEFT_TUNE_H
#define WEFT_TUNE_H

#include "weft.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A schedule that was timed. */
typedef struct weft_tuned {
    size_t struct_size;     /**< set by WEFT_TUNED_INIT */
    weft_schedule schedule; /**< what a plan is to take; it leaves open what depends on the length */
    double seconds;         /**< of a run, the median */
    double spread;          /**< between the quartiles of the runs, relative to the median */
    int64_t runs;           /**< that were timed */
    int64_t date;           /**< of the last of them, in seconds since 1970 */
    int32_t whole;          /**< 1: tuning ran to completion; 0: it was stopped early */
} weft_tuned;

#define WEFT_TUNED_INIT                                                                                                    \
    { sizeof(weft_tuned), WEFT_SCHEDULE_INIT, 0.0, 0.0, 0, 0, 0 }

/** How tuning goes; what weft_tune_progress is told. */
typedef struct weft_tune_state {
    size_t struct_size;   /**< set by WEFT_TUNE_STATE_INIT */
    int64_t candidates;   /**< distinct schedules that the device can run */
    int64_t same;         /**< besides: schedules that visit the same tiles in the same way as one of these */
    int64_t dropped;      /**< of the candidates, those that the model puts far behind, which are not timed */
    double dropped_from;  /**< how far behind the nearest of these is: 1.4 is 40 % slower than the best */
    int64_t refused;      /**< besides: schedules that the device cannot run */
    int64_t untimed;      /**< of the candidates, those for which no time was left */
    int64_t racing;       /**< of the candidates, those that are still being timed */
    int64_t runs;         /**< timed so far */
    int64_t disturbed;    /**< besides: runs that were done again because other programs had the cores; known at the end */
    double elapsed, left; /**< seconds so far, and seconds that remain, about */
    const weft_tuned *best; /**< so far; null before the first run */
    double estimate;        /**< seconds of the schedule that WEFT_ESTIMATE takes; 0 until it was timed */
} weft_tune_state;

#define WEFT_TUNE_STATE_INIT                                                                                               \
    { sizeof(weft_tune_state), 0, 0, 0, 0.0, 0, 0, 0, 0, 0, 0.0, 0.0, NULL, 0.0 }

/** Called from the thread that tunes, after every few runs. Anything but 0 stops: what was measured is kept. */
typedef int (*weft_tune_progress)(void *user, const weft_tune_state *state);

/** A candidate and its time, for those who want to see them all. */
typedef struct weft_tune_figures {
    size_t struct_size;
    const weft_tuned *tuned;     /**< its schedule as it would be stored; seconds is 0 where it was not timed */
    const weft_schedule *chosen; /**< the same with every choice made, for this problem */
    const char *kernel;
    double model;                 /**< what the model says, in any unit; 0 where it was not asked or cannot tell */
    int32_t is_estimate, is_also; /**< the one that WEFT_ESTIMATE takes; one that the caller asked for */
    int32_t is_final;             /**< it was in the final; only such are to be compared where there are any */
} weft_tune_figures;

/** Called once for each candidate when tuning ends. */
typedef void (*weft_tune_candidate)(void *user, const weft_tune_figures *figures);

/** How to tune. A zero means the default. */
typedef struct weft_tune_options {
    size_t struct_size;        /**< set by WEFT_TUNE_INIT */
    double seconds;            /**< to spend at most, about; 0: 10 */
    double behind;             /**< drop what the model puts further behind its best than this; 0: 1.3, that is 30 % */
    double patience;           /**< seconds to wait, in all, for moments in which no other program disturbs a run */
    int32_t exhaustive;        /**< 1: drop nothing, time everything */
    int32_t again;             /**< 1: time even what was tuned before */
    int32_t forgetful;         /**< 1: leave the store alone */
    const weft_schedule *also; /**< schedules to time besides, which stay to the end; null: none */
    size_t also_count;
    weft_tune_progress progress;   /**< null: none */
    weft_tune_candidate candidate; /**< null: none */
    void *user;
} weft_tune_options;

#define WEFT_TUNE_INIT                                                                                                     \
    { sizeof(weft_tune_options), 0.0, 0.0, 0.0, 0, 0, 0, NULL, 0, NULL, NULL, NULL }

/** Times the candidates for a problem on a device, stores the best and says which it is.
 *
 * @param problem   what to compute; it stands for its class
 * @param schedule  what is not open in it stays as it is; null: all open
 * @param device    null: the CPU. Its mode is not used
 * @param options   null: the defaults
 * @param tuned     the best
 * @param state     null, or how it went
 * @param message   null, or where to say what is wrong
 *
 * WEFT_OK also when the progress function stopped it after something was timed (tuned->whole is 0; tuning the same again
 * goes on where it stopped). WEFT_IO when the best was found and could not be stored: `tuned` holds it.
 */
WEFT_API weft_status weft_tune(const void *problem, const weft_schedule *schedule, const weft_device *device,
                               const weft_tune_options *options, weft_tuned *tuned, weft_tune_state *state,
                               weft_message *message);

/** What was tuned for a problem's class: WEFT_NOT_FOUND when nothing was. The first call reads the store; later ones look
 * in memory, and read again only when nothing is found and the file has changed. */
WEFT_API weft_status weft_tuned_find(const void *problem, const weft_schedule *schedule, const weft_device *device,
                                     weft_tuned *tuned, weft_message *message);

/** A schedule as words: "tile_m=96 tile_n=480 order=head-first". What is open is left out. */
enum { WEFT_WORDS = 320 }; /**< bytes that hold any schedule, with the final null */
WEFT_API void weft_schedule_write(const weft_schedule *schedule, char text[WEFT_WORDS]);

/** The other way round: fields that no word names are open. WEFT_INVALID when a word is not known. */
WEFT_API weft_status weft_schedule_read(weft_schedule *schedule, const char *text, weft_message *message);

/** Whether two schedules have the same choices made, and the same ones open. */
WEFT_API int weft_schedule_same(const weft_schedule *a, const weft_schedule *b);

/** A row of the store. Strings belong to the call that gives them. */
typedef struct weft_tuning {
    size_t struct_size;
    const char *device;  /**< "NVIDIA H200, 132 SMs" */
    int32_t driver;      /**< major version of its driver; 0 for the CPU */
    const char *build;   /**< of the library: see weft_build() */
    const char *problem; /**< the class: "attention bf16 d128 causal ..." */
    const char *given;   /**< what the schedule had fixed; "" when all was open */
    weft_tuned tuned;
} weft_tuning;

/** Calls `row` for every row of the store, in order of device and class, until it returns anything but 0. */
WEFT_API weft_status weft_tunings_list(int (*row)(void *user, const weft_tuning *tuning), void *user,
                                       weft_message *message);

/** Forgets what was tuned: all of it with weft_tunings_forget(), or a problem's class on a device. *count: rows forgotten.
 */
WEFT_API weft_status weft_tunings_forget(int64_t *count, weft_message *message);
WEFT_API weft_status weft_tuned_forget(const void *problem, const weft_schedule *schedule, const weft_device *device,
                                       int64_t *count, weft_message *message);

/** Writes the whole store to a JSON file, and reads such a file into the store: of two rows for the same, the later stays.
 * A path of "-" is standard output or input. A file that is not right changes nothing. *count: rows written or taken. */
WEFT_API weft_status weft_tunings_export(const char *path, int64_t *count, weft_message *message);
WEFT_API weft_status weft_tunings_import(const char *path, int64_t *count, weft_message *message);

/** Where the store is, or would be; returns the length of the whole path, as snprintf does. 0: nowhere. */
WEFT_API size_t weft_tunings_path(char *path, size_t size);

/** What happened to the store that its owner should know, such as a damaged file that was set aside: copied to `notice`,
 * then forgotten. Returns 0 when there is nothing. */
WEFT_API int weft_tunings_notice(weft_message *notice);

/** This build of the library for a kind of device: its version and a digest of what schedules and kernels are made of
 * there, "0.1.0-1f2e3d4c5b6a". Comments and formatting do not change it, nor does one kind's code change the other's. */
WEFT_API const char *weft_build(weft_device_kind kind);

#ifdef __cplusplus
}
#endif

#endif
