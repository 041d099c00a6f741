/* SPDX-License-Identifier: Apache-2.0 */
/* Problems to tune, from a CSV file. */
#ifndef WEFT_CLI_TUNE_FILE_H
#define WEFT_CLI_TUNE_FILE_H

#include "options/options.h"

/* Reads a file whose first line names options without their dashes ("seq", "heads", "causal"), with "subject" among them
 * unless the settings have an operation. Empty cells, and 0 for a flag, leave an option out; lines that begin with # are
 * passed over. Fills *list with the user's settings and each line's on top (the caller frees it) and *count. Returns an
 * exit code, with the message printed. */
int tune_file_read(const settings *s, const char *path, settings **list, size_t *count);

#endif
