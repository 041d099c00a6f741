/* SPDX-License-Identifier: Apache-2.0 */
/* The schedules that --schedules names, or that stand side by side when it is not given. */
#ifndef WEFT_CLI_SCHEDULES_H
#define WEFT_CLI_SCHEDULES_H

#include "options/options.h"

/* Fills `list`, at most `room` of them, with the user's options and each schedule's choices on top. Returns an exit code,
 * with the message printed. */
int schedules_read(const settings *s, settings *list, size_t room, size_t *count);

/* Reads the file of --schedule, if it is given, into what other options leave open. Returns an exit code, with the message
 * printed. */
int schedule_take(settings *s);

/* A short name for each: what tells it from the others, or order and sweep when it stands alone. */
void schedule_name(const weft_schedule *all, size_t count, size_t which, char *text, size_t size);

#endif
