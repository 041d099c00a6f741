/* SPDX-License-Identifier: Apache-2.0 */
/* What `weft machines` and `weft profiles` share. */
#ifndef WEFT_CLI_VALUES_H
#define WEFT_CLI_VALUES_H

#include <weft/profile.h>

#include "options/options.h"

enum { MAX_VALUES = 64 };

/* Prints a machine's or a profile's values with their sources, or writes them to --output as a file that --`option` takes.
 */
int print_values(const settings *s, const char *name, const char *title, const weft_machine_value *values, size_t count,
                 const char *option);

#endif
