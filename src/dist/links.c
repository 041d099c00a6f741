/* SPDX-License-Identifier: Apache-2.0 */
#include "dist/links.h"

#include <math.h>
#include <stdlib.h>

#include <weft/order.h>

#include "base/status.h"

/* The links of a rank: to its node's switch and back, or to its neighbours, or to each other GPU of the node; and to the
 * network and back. */
enum { OUT, IN, FORTH = OUT, BACK, DOWN, UP, NETWORK_OUT, NETWORK_IN, LINKS };

static int64_t gpus_of(const weft_links *links) {
    return links->machine->link_gpus;
}

/* Links of a rank; those to each other GPU come behind the others. */
static int64_t links_of_rank(const weft_links *links) {
    return LINKS + (links->machine->link_topology == WEFT_TOPOLOGY_FULL ? gpus_of(links) : 0);
}

/* The most columns that a mesh can have which is as square as may be. */
static int64_t columns_of(int64_t gpus) {
    int64_t columns = (int64_t)sqrt((double)gpus);
    while (columns > 1 && gpus % columns != 0) {
        columns--;
    }
    return columns > 1 ? columns : 1;
}

weft_status weft_links_open(weft_links *links, const weft_machine *machine, int64_t ranks, weft_message *message) {
    *links = (weft_links){machine, ranks, columns_of(machine->link_gpus), NULL};
    if (machine->link_gpus < 1) {
        return weft_fail(message, WEFT_UNSUPPORTED, "machine %s has no [links]: what joins several of it is not known",
                         machine->name);
    }
    if (ranks > machine->link_gpus && machine->network_bandwidth <= 0) {
        return weft_fail(message, WEFT_UNSUPPORTED,
                         "machine %s has no network_bandwidth in [links]: a node has %lld GPUs, fewer than %lld ranks",
                         machine->name, (long long)machine->link_gpus, (long long)ranks);
    }
    const int64_t gpus =
        (ranks + machine->link_gpus - 1) / machine->link_gpus * machine->link_gpus; /* ways go through all */
    links->busy = calloc((size_t)(gpus * links_of_rank(links)), sizeof *links->busy);
    return links->busy ? WEFT_OK
                       : weft_fail(message, WEFT_NO_MEMORY, "no memory for the links of %lld ranks", (long long)ranks);
}

void weft_links_close(weft_links *links) {
    free(links->busy);
    links->busy = NULL;
}

int weft_links_same_node(const weft_links *links, int64_t one, int64_t other) {
    return one / gpus_of(links) == other / gpus_of(links);
}

double weft_links_latency(const weft_links *links, int64_t one, int64_t other) {
    return weft_links_same_node(links, one, other) ? links->machine->link_latency : links->machine->network_latency;
}

/* What is asked of the links on a way, one after the other: when all are free, and then to be busy until a time. */
typedef struct way {
    weft_links *links;
    double free, until;
    int64_t count;
} way;

static void take_link(way *w, int64_t rank, int64_t link) {
    double *busy = &w->links->busy[rank * links_of_rank(w->links) + link];
    w->free = fmax(w->free, *busy);
    *busy = fmax(*busy, w->until);
    w->count++;
}

/* From neighbour to neighbour of a circle, the shorter way. */
static void go_around(way *w, int64_t from, int64_t to) {
    const int64_t gpus = gpus_of(w->links), node = from / gpus * gpus;
    const int64_t ahead = weft_wrap(to - from, gpus), step = 2 * ahead <= gpus ? 1 : -1;
    for (int64_t at = from - node; at != to - node; at = weft_wrap(at + step, gpus)) {
        take_link(w, node + at, step > 0 ? FORTH : BACK);
    }
}

/* Along the row of a mesh, then along the column. */
static void go_through(way *w, int64_t from, int64_t to) {
    const int64_t gpus = gpus_of(w->links), columns = w->links->columns, node = from / gpus * gpus;
    int64_t row = (from - node) / columns, column = (from - node) % columns;
    const int64_t to_row = (to - node) / columns, to_column = (to - node) % columns;
    for (; column != to_column; column += column < to_column ? 1 : -1) {
        take_link(w, node + row * columns + column, column < to_column ? FORTH : BACK);
    }
    for (; row != to_row; row += row < to_row ? 1 : -1) {
        take_link(w, node + row * columns + column, row < to_row ? DOWN : UP);
    }
}

static void go(way *w, int64_t from, int64_t to) {
    if (!weft_links_same_node(w->links, from, to)) {
        take_link(w, from, NETWORK_OUT);
        take_link(w, to, NETWORK_IN);
        w->count = 1;
        return;
    }
    switch (w->links->machine->link_topology) {
    case WEFT_TOPOLOGY_FULL:
        take_link(w, from, LINKS + to % gpus_of(w->links));
        break;
    case WEFT_TOPOLOGY_RING:
        go_around(w, from, to);
        break;
    case WEFT_TOPOLOGY_MESH:
        go_through(w, from, to);
        break;
    default:
        take_link(w, from, OUT);
        take_link(w, to, IN);
        w->count = 1;
    }
}

double weft_links_send(weft_links *links, int64_t from, int64_t to, double ready, double bytes) {
    const weft_machine *m = links->machine;
    const int near = weft_links_same_node(links, from, to);
    if (bytes <= 0 || from == to) {
        return ready;
    }
    way look = {links, ready, 0, 0};
    go(&look, from, to);
    const double end = look.free + bytes / (near ? m->link_bandwidth : m->network_bandwidth);
    way occupy = {links, 0, end, 0};
    go(&occupy, from, to);
    return end + (double)look.count * weft_links_latency(links, from, to);
}
