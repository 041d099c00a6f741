/* SPDX-License-Identifier: Apache-2.0 */
/* What a tuning belongs to: a device, its driver, this build of the library, a class of problems, and what the caller's
 * schedule had fixed. */
#ifndef WEFT_TUNE_KEY_H
#define WEFT_TUNE_KEY_H

#include "plan/plan.h"

/* As the store has it. */
typedef struct weft_tune_key {
    char device[128];
    int32_t driver; /* major version; 0 for the CPU */
    const char *build;
    char problem[256]; /* the class */
    char given[384];   /* words of the schedule and of the device's knobs; "" when all was open */
} weft_tune_key;

/* The same as numbers, for looking up in memory: no text is made and nobody is asked. */
typedef struct weft_tune_number {
    int64_t value[48];
    uint64_t hash;
} weft_tune_number;

/* Asks the driver for the device's name, once. */
weft_status weft_tune_key_make(weft_tune_key *key, const weft_plan *draft, weft_message *message);
void weft_tune_number_make(weft_tune_number *number, const weft_plan *draft);

#endif
