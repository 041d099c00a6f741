/* SPDX-License-Identifier: Apache-2.0 */
/* Traces: kernels of the user's own, simulated and shown. */
#ifndef WEFT_CLI_TRACES_H
#define WEFT_CLI_TRACES_H

#include <weft/report.h>

#include "options/options.h"

/* weft simulate trace FILE. Exit codes, like the next. */
int simulate_trace(const settings *s, const char *path);

/* Opens the traces of weft view trace FILE..., at most WEFT_VIEW_SCHEDULES, simulates and records them, and calls show().
 */
int view_traces(const settings *s, const char *const *paths, size_t count,
                int (*show)(const settings *s, const weft_view *view));

#endif
