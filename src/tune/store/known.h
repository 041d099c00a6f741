/* SPDX-License-Identifier: Apache-2.0 */
/* What was tuned, in memory: the hot path of looking it up. */
#ifndef WEFT_TUNE_KNOWN_H
#define WEFT_TUNE_KNOWN_H

#include <weft/tune.h>

#include "plan/plan.h"

/* In memory, else in the store. A class that has nothing is asked for again only when the file has changed. */
weft_status weft_known_find(const weft_plan *draft, weft_tuned *tuned, weft_message *message);

/* Remembers in this process alone: thousands of classes, of which the oldest are forgotten first. */
void weft_known_put(const weft_plan *draft, const weft_tuned *tuned);

/* Forgets what is in memory; the store is asked again. Returns the bytes that it took. */
size_t weft_known_clear(void);

#endif
