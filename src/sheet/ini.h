/* SPDX-License-Identifier: Apache-2.0 */
/* One line of an INI file, checked and split: `[name]`, `key = value`, a comment or nothing. */
#ifndef WEFT_SHEET_INI_H
#define WEFT_SHEET_INI_H

#include <stddef.h>

enum { WEFT_INI_MAX_LINE = 197 }; /* bytes, without the end of the line */

typedef enum weft_ini_kind { WEFT_INI_WRONG, WEFT_INI_BLANK, WEFT_INI_SECTION, WEFT_INI_KEY } weft_ini_kind;

typedef struct weft_ini_line {
    char text[WEFT_INI_MAX_LINE + 1]; /* what `name` and `value` point into */
    const char *name;                 /* of the section or the key */
    const char *value;                /* of the key, without the blanks around it */
    const char *wrong;                /* what is wrong with the line */
} weft_ini_line;

/* Reads `length` bytes that have no line feed; a final carriage return is dropped. Whatever could be read in two ways is
 * wrong: values that seem continued, comments behind a value, text behind a section. */
weft_ini_kind weft_ini_read(weft_ini_line *line, const char *start, size_t length);

#endif
