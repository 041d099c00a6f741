/* SPDX-License-Identifier: Apache-2.0 */
/* What was tuned: showing it, forgetting it, carrying it elsewhere. */
#ifndef WEFT_CLI_TUNE_KEPT_H
#define WEFT_CLI_TUNE_KEPT_H

#include <jansson.h>

#include "options/options.h"

/* A schedule in a few words. What is open in it is left out; all open is the model's own choice. */
void tune_describe(const weft_schedule *s, char *text, size_t size);
json_t *tune_schedule_json(const weft_schedule *s);

/* weft tune --list, --forget (of a problem, or everything where no operation is named), --export and --import. Exit codes.
 */
int tune_list(const settings *s);
int tune_forget(const settings *s);
int tune_exchange(const settings *s);

#endif
