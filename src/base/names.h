/* SPDX-License-Identifier: Apache-2.0 */
/* Names as people write them. */
#ifndef WEFT_BASE_NAMES_H
#define WEFT_BASE_NAMES_H

#include <stddef.h>

/* Whether two names are the same but for case, hyphens and underscores: RTX5090 is rtx-5090. */
int weft_names_agree(const char *one, const char *other);

/* Whether a list, "a, b, c", has a name that agrees. */
int weft_names_list(const char *list, const char *name);

/* Bytes of the UTF-8 character at `text`, of which `room` bytes are there; 0 when it is none. */
size_t weft_character_bytes(const unsigned char *text, size_t room);

/* Whether a text is UTF-8, so that JSON can hold it. */
int weft_is_text(const char *text);

/* Whether it is a line of such text: without control characters, by which a terminal can be told to do things. */
int weft_is_line(const char *text);

/* Copies a text to a place of `size` bytes, cut behind its last character that fits whole. */
void weft_copy_text(char *to, size_t size, const char *text);

#endif
