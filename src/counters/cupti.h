/* SPDX-License-Identifier: Apache-2.0 */
/* The part of CUPTI that is used, declared here: weft is built where CUDA is not installed, and CUPTI's own header of the
 * host functions is C++. tests/counters/layout_device.cu holds every structure to CUPTI's where its headers are.
 *
 * Each structure begins with its size, by which a later CUPTI knows which fields its caller has; so a layout holds for
 * every later version, and an earlier one is refused by its number. */
#ifndef WEFT_COUNTERS_CUPTI_H
#define WEFT_COUNTERS_CUPTI_H

#include <weft/weft.h>

/* The first version with these layouts: CUDA 12.8. CUDA 13.0's is 130000. */
enum { WEFT_CUPTI_OLDEST = 26 };

/* Results that are told apart; every other is shown by CUPTI's own text. */
enum { WEFT_CUPTI_SUCCESS = 0, WEFT_CUPTI_INSUFFICIENT_PRIVILEGES = 35 };

enum { WEFT_CUPTI_SUPPORTED = 3 };   /* a level of support */
enum { WEFT_CUPTI_USER_RANGE = 2 };  /* begun and ended by the caller */
enum { WEFT_CUPTI_USER_REPLAY = 3 }; /* repeated by the caller */

/* The size that CUPTI expects of a structure that ends with the field `last`: no padding after it. */
#define WEFT_CUPTI_SIZE(type, last) (offsetof(type, last) + sizeof(((type *)0)->last))

/* Every structure: its size, then a null. `in` and `out` as CUPTI names them. */
#define WEFT_CUPTI_HEAD                                                                                                    \
    size_t size;                                                                                                           \
    void *reserved

typedef struct weft_cupti_initialize {
    WEFT_CUPTI_HEAD;
} weft_cupti_initialize;

typedef struct weft_cupti_device_supported {
    WEFT_CUPTI_HEAD;
    int32_t device;
    int32_t supported, architecture, sli, vgpu, confidential_compute, cmp, wsl; /* out: levels of support */
    int32_t api;                                                                /* 0: the range profiler */
} weft_cupti_device_supported;

typedef struct weft_cupti_chip_name {
    WEFT_CUPTI_HEAD;
    size_t device;
    const char *name; /* out */
} weft_cupti_chip_name;

typedef struct weft_cupti_availability {
    WEFT_CUPTI_HEAD;
    void *context;
    size_t bytes; /* in and out */
    uint8_t *image;
} weft_cupti_availability;

typedef struct weft_cupti_host_initialize {
    WEFT_CUPTI_HEAD;
    int32_t profiler; /* 0: the range profiler */
    const char *chip;
    const uint8_t *availability;
    void *host; /* out */
} weft_cupti_host_initialize;

typedef struct weft_cupti_host_deinitialize {
    WEFT_CUPTI_HEAD;
    void *host;
} weft_cupti_host_deinitialize;

typedef struct weft_cupti_add_metrics {
    WEFT_CUPTI_HEAD;
    void *host;
    const char **metrics;
    size_t count;
} weft_cupti_add_metrics;

typedef struct weft_cupti_config_size {
    WEFT_CUPTI_HEAD;
    void *host;
    size_t bytes; /* out */
} weft_cupti_config_size;

typedef struct weft_cupti_config_image {
    WEFT_CUPTI_HEAD;
    void *host;
    size_t bytes;
    uint8_t *image; /* out */
} weft_cupti_config_image;

typedef struct weft_cupti_passes {
    WEFT_CUPTI_HEAD;
    size_t bytes;
    uint8_t *config;
    size_t passes; /* out */
} weft_cupti_passes;

typedef struct weft_cupti_evaluate {
    WEFT_CUPTI_HEAD;
    void *host;
    const uint8_t *data;
    size_t data_bytes;
    size_t range;
    const char **metrics;
    size_t count;
    double *values; /* out */
} weft_cupti_evaluate;

typedef struct weft_cupti_enable {
    WEFT_CUPTI_HEAD;
    void *context;
    void *profiler; /* out */
} weft_cupti_enable;

/* Of disable, start and pop, which take nothing more. */
typedef struct weft_cupti_range {
    WEFT_CUPTI_HEAD;
    void *profiler;
} weft_cupti_range;

typedef struct weft_cupti_data_size {
    WEFT_CUPTI_HEAD;
    void *profiler;
    const char **metrics;
    size_t count;
    size_t ranges;
    uint32_t nodes; /* at least as many as ranges */
    size_t bytes;   /* out */
} weft_cupti_data_size;

typedef struct weft_cupti_data_initialize {
    WEFT_CUPTI_HEAD;
    void *profiler;
    size_t bytes;
    uint8_t *data;
} weft_cupti_data_initialize;

typedef struct weft_cupti_set_config {
    WEFT_CUPTI_HEAD;
    void *profiler;
    size_t config_bytes;
    const uint8_t *config;
    size_t data_bytes;
    uint8_t *data;
    int32_t range, replay;
    size_t ranges_per_pass;
    uint16_t nesting_levels, least_nesting;
    size_t pass;
    uint16_t target_nesting;
} weft_cupti_set_config;

typedef struct weft_cupti_stop {
    WEFT_CUPTI_HEAD;
    void *profiler;
    size_t pass, target_nesting; /* out */
    uint8_t all_submitted;       /* out: no pass is left */
} weft_cupti_stop;

typedef struct weft_cupti_push {
    WEFT_CUPTI_HEAD;
    void *profiler;
    const char *name;
} weft_cupti_push;

typedef struct weft_cupti_decode {
    WEFT_CUPTI_HEAD;
    void *profiler;
    size_t dropped; /* out: ranges */
} weft_cupti_decode;

/* The loaded library. */
typedef struct weft_cupti {
    void *library;
    uint32_t version;
    int (*result_string)(int result, const char **text);
#define SYMBOL(field, name, type) int (*field)(type * parameters);
#include "counters/cupti_symbols.def"
#undef SYMBOL
} weft_cupti;

/* Loads CUPTI from `path`; null: what the environment variable WEFT_CUPTI names, or where the system and CUDA keep it.
 * WEFT_NOT_FOUND when it is not there, WEFT_UNSUPPORTED when it is too old. */
weft_status weft_cupti_load(weft_cupti *cupti, const char *path, weft_message *message);
void weft_cupti_unload(weft_cupti *cupti);

/* The status that a result stands for, and a message that says what was being done. */
weft_status weft_cupti_check(const weft_cupti *cupti, int result, const char *doing, weft_message *message);

#endif
