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

/* For verbs that take plans or traces: EXIT_OK when the words are one operation's, with no option that only traces have;
 * else complains. */
int check_plan_words(const settings *s, const char *verb, const char *const *words, size_t count);

#endif
