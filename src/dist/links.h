/* SPDX-License-Identifier: Apache-2.0 */
/* The links between ranks: which are on the way from one to another, and until when each is busy. */
#ifndef WEFT_DIST_LINKS_H
#define WEFT_DIST_LINKS_H

#include <weft/machine.h>

typedef struct weft_links {
    const weft_machine *machine;
    int64_t ranks;
    int64_t columns; /* of a node's mesh */
    double *busy;    /* of each link: until when */
} weft_links;

/* Refuses a machine of which no links are known, and more ranks than a node has where there is no network. */
weft_status weft_links_open(weft_links *links, const weft_machine *machine, int64_t ranks, weft_message *message);
void weft_links_close(weft_links *links);

/* Whether two ranks are in one node. */
int weft_links_same_node(const weft_links *links, int64_t one, int64_t other);

/* Of a message between two ranks, over one link. */
double weft_links_latency(const weft_links *links, int64_t one, int64_t other);

/* Sends a message that is ready at a time, behind those that were sent before over the same links. Returns when it has
 * come. */
double weft_links_send(weft_links *links, int64_t from, int64_t to, double ready, double bytes);

#endif
