/* SPDX-License-Identifier: Apache-2.0 */
/* Structs that cross the boundary of the library: the one place that reads and writes the caller's struct_size.
 *
 * A caller that was compiled against an older header has shorter structs, one with a newer header longer ones. New fields
 * are added at the end, never in the padding of an older field. */
#ifndef WEFT_BASE_STRUCT_H
#define WEFT_BASE_STRUCT_H

#include <weft/weft.h>

/* Copies a caller's struct over ours of `known` bytes, which holds the defaults and keeps them where the caller's is
 * shorter. Where it is longer, what we do not know must be 0. `macro` is what initialises such a struct; `least` is the
 * shortest that was ever published. */
weft_status weft_struct_take(void *ours, size_t known, size_t least, const void *theirs, const char *macro,
                             weft_message *message);

/* The same of options that a caller may leave out: when theirs is null, ours stays as it is. */
weft_status weft_struct_take_options(void *ours, size_t known, const void *theirs, const char *macro,
                                     weft_message *message);

/* Copies ours to a caller's struct, as much of it as there is. The rest of a longer one becomes 0. */
weft_status weft_struct_give(void *theirs, const void *ours, size_t known, size_t least, const char *macro,
                             weft_message *message);

#endif
