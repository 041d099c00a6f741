/* The files of machines/, as cmake/embed.cmake puts them into the library. */
#ifndef WEFT_MACHINE_EMBEDDED_H
#define WEFT_MACHINE_EMBEDDED_H

#include <stddef.h>

typedef struct weft_embedded {
    const char *name; /* the file's name without its ending */
    const char *text; /* the file's bytes, and a null after them */
    size_t length;    /* without that null */
} weft_embedded;

/* Sorted by name. */
extern const weft_embedded weft_embedded_machines[];
extern const size_t weft_embedded_machines_count;

#endif
