/* SPDX-License-Identifier: Apache-2.0 */
/* Results that are held to the reference. */
#ifndef WEFT_CLI_CHECKED_H
#define WEFT_CLI_CHECKED_H

#include <jansson.h>

#include <weft/check.h>

#include "options/options.h"
#include "progress.h"

/* All of a small problem; of a large one what is compared in two seconds, or with --check-all everything. `part` is null,
 * or what the check is of the progress that is shown. */
weft_check_options checked_options(const settings *s, progress_part *part);

/* What came out: a line of text, or an object. */
void checked_print(const weft_check *check);
json_t *checked_json(const weft_check *check);

#endif
