/* SPDX-License-Identifier: Apache-2.0 */
/* Parameter sweeps: a verb at every point of the axes, its results as a table, CSV, JSON or a plot. */
#ifndef WEFT_CLI_SWEEP_H
#define WEFT_CLI_SWEEP_H

#include "options/options.h"

/* Whether the options describe more than one point, or ask for what only sweeps have. */
int sweep_is_asked(const settings *s);

/* Runs a verb at every point. Returns an exit code, with the message printed. */
int sweep_run(const char *verb, const settings *s, const char *const *words, size_t count);

#endif
