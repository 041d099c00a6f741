/* SPDX-License-Identifier: Apache-2.0 */
/* Files, as cmake/embed.cmake puts them into the library. */
#ifndef WEFT_BASE_EMBEDDED_H
#define WEFT_BASE_EMBEDDED_H

#include <stddef.h>

typedef struct weft_embedded {
    const char *name; /* the file's name, without its ending if that is .ini */
    const char *text; /* the file's bytes, and a null after them */
    size_t length;    /* without that null */
} weft_embedded;

/* The files of machines/, of profiles/, and of src/report/page/ with the measured data of docs/results/; each sorted by
 * name. */
extern const weft_embedded weft_embedded_machines[];
extern const size_t weft_embedded_machines_count;
extern const weft_embedded weft_embedded_profiles[];
extern const size_t weft_embedded_profiles_count;
extern const weft_embedded weft_embedded_page[];
extern const size_t weft_embedded_page_count;

#endif
