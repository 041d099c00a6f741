/* SPDX-License-Identifier: Apache-2.0 */
/* The plans of XLA's calls. XLA gives a handler no place for them, so they are the process's: made by the first call, kept
 * for good, shared by every call that asks for the same. */
#ifndef WEFT_XLA_KEPT_H
#define WEFT_XLA_KEPT_H

#include "problem/operation.h"

/* What a plan is made from. Cleared before it is filled: keys are compared byte by byte. */
typedef struct weft_xla_key {
    weft_device_kind kind;
    int32_t index;
    weft_schedule schedule;
    weft_problem problem;
} weft_xla_key;

/* The plan of a key, which the caller does not destroy. */
weft_status weft_xla_keep(const weft_plan **plan, const weft_xla_key *key, weft_message *message);

#endif
