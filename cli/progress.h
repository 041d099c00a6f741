/* SPDX-License-Identifier: Apache-2.0 */
/* Progress: one line on standard error while a verb works, with what it does, how much of it is done and how long the rest
 * takes. It is shown on a terminal only, so a pipe sees nothing. */
#ifndef WEFT_CLI_PROGRESS_H
#define WEFT_CLI_PROGRESS_H

#include <stdint.h>

/* Whether anyone sees it: standard error is a terminal. */
int progress_seen(void);

/* Begins a piece of work of so many units; 0: nobody knows how many. Inside another piece, it stands for as much of that as
 * progress_next() has said. */
void progress_begin(const char *what, double units);
void progress_next(double units);

/* So many more units are done; any thread may call it. */
void progress_add(double units);

/* Ends the piece of work that began last, and wipes the line. */
void progress_end(void);

/* Wipes the line before something else is printed. The next step shows it again. */
void progress_wipe(void);

/* Shows a line in the caller's own words instead. */
void progress_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A part that reports by itself: pass progress_told() as a weft_progress and a progress_part as its user. */
typedef struct progress_part {
    double units; /* of the whole part */
    double told;  /* of these, begin with 0 */
} progress_part;

void progress_told(void *part, int64_t done, int64_t total);

/* Adds what the part has not told of. */
void progress_part_end(progress_part *part);

#endif
