/* One self-contained HTML file: data as JSON, and everything that shows it. */
#ifndef WEFT_REPORT_PAGE_H
#define WEFT_REPORT_PAGE_H

#include <jansson.h>

#include <weft/weft.h>

/* Writes the page for an object of kind "view" or "report" to a file; WEFT_IO when that fails. */
weft_status weft_page_write(const json_t *data, const char *path, weft_message *message);

/* The text of one of the files that travel inside the library (see machine/embedded.h), or null. */
const char *weft_page_file(const char *name, size_t *length);

/* The name of the i-th of them, null past the last. */
const char *weft_page_file_name(size_t i);

#endif
