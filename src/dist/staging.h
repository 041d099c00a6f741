/* SPDX-License-Identifier: Apache-2.0 */
/* A transport for a GPU's memory over one of the host's. */
#ifndef WEFT_DIST_STAGING_H
#define WEFT_DIST_STAGING_H

#include <weft/dist.h>

typedef struct weft_staging weft_staging;

enum { WEFT_STAGING_BYTES = 4 << 20 }; /* of a pinned buffer: copying it takes longer than asking after it */

/* Lays a transport of WEFT_DEVICE_MEMORY over `host`, whose ranks exchange words by `host` itself.
 *
 * Over WEFT_HOST_MEMORY messages go through pinned memory, piece by piece: of each neighbour and direction one piece is
 * copied while another is sent or received. Both ends of a message have pieces of `bytes` (0: WEFT_STAGING_BYTES). Over
 * WEFT_ANY_MEMORY messages are handed on as soon as the stream has come so far. */
weft_status weft_staging_open(weft_staging **staging, int index, const weft_transport *host, size_t bytes,
                              weft_transport *transport, weft_message *message);

/* When nothing is under way, or all has been given up. */
void weft_staging_close(weft_staging *staging);

#endif
