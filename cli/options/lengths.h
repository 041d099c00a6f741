/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of lengths, as --lengths takes them. */
#ifndef WEFT_CLI_LENGTHS_H
#define WEFT_CLI_LENGTHS_H

#include <stdint.h>

/* Where sequences of these lengths begin, and behind them where the last ends; with their number. The array stays until the
 * command ends. Null when memory ran out. */
const int32_t *lengths_starts(const char *text, int64_t *count);

/* The same lengths themselves. */
const int32_t *lengths_counts(const char *text, int64_t *count);

#endif
