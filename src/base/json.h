/* SPDX-License-Identifier: Apache-2.0 */
/* Building JSON when memory may run out. Null stands for a value that could not be built, and whatever should have held it
 * becomes null too: here, and in json_pack(). So only the outermost value needs a test. */
#ifndef WEFT_BASE_JSON_H
#define WEFT_BASE_JSON_H

#include <jansson.h>

/* Put a value, whose reference they take, into *object or at the end of *list. When that fails, the object or list is
 * released and becomes null. */
void weft_json_set(json_t **object, const char *key, json_t *value);
void weft_json_append(json_t **list, json_t *value);

/* The value as text, with jansson's flags (the caller frees it); null for null, and when memory ran out. jansson's own
 * json_dumps() leaves out what it has no memory for and says nothing. */
char *weft_json_text(const json_t *value, size_t flags);

/* Writes the value, whose reference it takes, with sorted keys to a text of a size, as snprintf does; 0 when memory ran
 * out. */
size_t weft_json_print(json_t *value, char *text, size_t size);

/* Reads a text as json_loadb() does, and reads nothing wrong when memory runs out: jansson leaves out letters of a number
 * or a name that it has no memory for, and says nothing. */
json_t *weft_json_read(const char *text, size_t length, size_t flags, json_error_t *error);

/* Whether a text could not be read because memory ran out, and not for what is in it: jansson names no line then. */
int weft_json_lacked_memory(const json_error_t *error);

#endif
