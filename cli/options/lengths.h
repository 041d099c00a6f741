/* Lists of lengths, as --lengths takes them. */
#ifndef WEFT_CLI_LENGTHS_H
#define WEFT_CLI_LENGTHS_H

#include "options/options.h"

/* Whether a text is a list of lengths like 100,2K,0 that add up to a dimension. Returns EXIT_OK, or EXIT_USAGE with a
 * message. */
int lengths_check(const option *o, const char *text, weft_message *message);

/* Where sequences of these lengths begin, and behind them where the last ends; with their number. The array stays until the
 * command ends. Null when memory ran out. */
const int32_t *lengths_starts(const char *text, int64_t *count);

#endif
