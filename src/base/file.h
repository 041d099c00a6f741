/* SPDX-License-Identifier: Apache-2.0 */
/* Reading and writing files whole or not at all; reading a line without memory. */
#ifndef WEFT_BASE_FILE_H
#define WEFT_BASE_FILE_H

#include <weft/weft.h>

/* Says, before work begins, whether a file could be written there: WEFT_IO when not. Creates nothing. */
weft_status weft_file_check(const char *path, weft_message *message);

/* Writes text to a file, or with a null path to standard output. A file that is there is replaced once the new one is
 * whole; a device, a pipe or a link is written in place. */
weft_status weft_file_write(const char *path, const void *text, size_t length, weft_message *message);

/* Reads a file whole, or with a null path standard input: *text is the caller's to free, never null when it succeeds, and
 * ends with a null that *length does not count. WEFT_IO when it cannot be read or is longer than `most` bytes. */
weft_status weft_file_read(const char *path, size_t most, char **text, size_t *length, weft_message *message);

/* Writes in parts, for what is too long to hold: end it in any case that it has begun in. */
typedef struct weft_file {
    const char *path;
    int file, replaces;
    int error; /* number of the first; 0: none */
    char beside[4096];
} weft_file;
weft_status weft_file_begin(weft_file *file, const char *path, weft_message *message);
void weft_file_put(weft_file *file, const void *text, size_t length);
weft_status weft_file_end(weft_file *file, weft_message *message);

/* Reads the beginning of a file, or of that its first line, cut to the size. Allocates nothing: what the system says of
 * itself must not depend on how much memory is left. Returns 0 when there is no such file, it is not ours to read, or it is
 * empty; and when reading fails: then *error, which is 0 until then, is the error's number. */
int weft_file_head(const char *path, char *text, size_t size, int *error);
int weft_file_line(const char *path, char *text, size_t size, int *error);

#endif
