/* SPDX-License-Identifier: Apache-2.0 */
/* What describe.c has for other files: a simulation in JSON. */
#ifndef WEFT_DIST_DESCRIBE_H
#define WEFT_DIST_DESCRIBE_H

#include <jansson.h>

#include "dist/dist.h"

/* New objects (the caller's to release), or null when memory ran out. */
json_t *weft_ranks_object(const weft_ranks *ranks);
json_t *weft_dist_simulation_object(const weft_dist_simulation *simulation);

#endif
