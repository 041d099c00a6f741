/* Problems to tune, from a CSV file. */
#ifndef WEFT_CLI_TUNE_FILE_H
#define WEFT_CLI_TUNE_FILE_H

#include "options/options.h"

typedef struct tune_problem {
    weft_subject subject;
    settings chosen; /* the user's options with the line's on top */
} tune_problem;

/* Reads a file whose first line names options without their dashes ("seq", "heads", "causal"), with "subject" among them
 * unless `subject` is given (-1: it is not). Empty cells, and 0 for a flag, leave an option out; lines that begin with #
 * are passed over. Fills *list (the caller frees it) and *count. Returns an exit code, with the message printed. */
int tune_file_read(const settings *s, const char *path, int subject, tune_problem **list, size_t *count);

#endif
