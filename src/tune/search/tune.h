/* SPDX-License-Identifier: Apache-2.0 */
/* Tuning from the inside: the public calls, for a draft of any operation. */
#ifndef WEFT_TUNE_TUNE_H
#define WEFT_TUNE_TUNE_H

#include <weft/tune.h>

#include "plan/plan.h"

weft_status weft_tune_draft(const weft_plan *draft, const weft_tune_options *options, weft_tuned *tuned,
                            weft_tune_state *state, weft_message *message);

/* What the modes of a plan make of it: see weft_registry. */
weft_status weft_tune_registered(weft_plan *draft, weft_message *message);

#endif
