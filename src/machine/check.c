/* SPDX-License-Identifier: Apache-2.0 */
/* What the keys of a machine say together. Each finding is reported at the line of the key to look at. */
#include "machine/sheet.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/status.h"
#include "machine/machine.h"

/* A finding: where, and what. Empty when all is well. */
typedef struct finding {
    weft_key_id at;
    char text[128];
} finding;

static int divides(int64_t divisor, int64_t value) {
    return value % divisor == 0;
}

static finding find_domains(const weft_machine *m) {
    finding found = {WEFT_KEY_DOMAINS, ""};
    if (!divides(m->domains, m->workers)) {
        snprintf(found.text, sizeof found.text, "domains %" PRId64 " does not divide the %" PRId64 " workers", m->domains,
                 m->workers);
    } else if (m->l2_home == WEFT_HOME_NONE && m->domains > 1) {
        found.at = WEFT_KEY_L2_HOME;
        snprintf(found.text, sizeof found.text, "home = none needs one domain, and there are %" PRId64, m->domains);
    } else if (m->l2_home != WEFT_HOME_NONE && m->domains == 1) {
        found.at = WEFT_KEY_L2_HOME;
        snprintf(found.text, sizeof found.text, "home must be none where there is one domain");
    } else if (m->l2_home == WEFT_HOME_SPLIT && m->domains != 2) {
        found.at = WEFT_KEY_L2_HOME;
        snprintf(found.text, sizeof found.text, "home = split needs two domains, and there are %" PRId64, m->domains);
    } else if (m->handout == WEFT_HANDOUT_ROUND_ROBIN && m->domains == 1) {
        found.at = WEFT_KEY_HANDOUT;
        snprintf(found.text, sizeof found.text, "handout = round-robin needs more than one domain");
    } else if (m->handout_run > 1 && (m->handout == WEFT_HANDOUT_ROUND_ROBIN || m->domains == 1)) {
        found.at = WEFT_KEY_HANDOUT_RUN;
        snprintf(found.text, sizeof found.text, "run must be 1 where %s",
                 m->domains == 1 ? "there is one domain" : "handout is round-robin");
    }
    return found;
}

int64_t weft_machine_large_gpcs(const weft_machine *m) {
    for (int64_t large = 1; large <= m->gpcs; large++) {
        const int64_t others = m->gpcs - large, left = m->workers - large * m->gpc_workers;
        if (others == 0 ? left == 0 : left > 0 && divides(others, left) && left / others < m->gpc_workers) {
            return large;
        }
    }
    return 0;
}

static finding find_gpcs(const weft_machine *m) {
    finding found = {m->gpc_workers > 0 ? WEFT_KEY_GPC_WORKERS : WEFT_KEY_GPCS, ""}; /* the one that the file has */
    const int known = m->gpcs > 0 || m->gpc_workers > 0;
    if (m->gpc_workers > m->workers || (known && weft_machine_large_gpcs(m) == 0)) {
        snprintf(found.text, sizeof found.text,
                 "%" PRId64 " workers do not make %" PRId64 " gpcs, some of %" PRId64 " and the others equal", m->workers,
                 m->gpcs, m->gpc_workers);
    }
    return found;
}

static finding find_sizes(const weft_machine *m) {
    finding found = {WEFT_KEY_L2_SECTOR, ""};
    if (!divides(m->l2_sector, m->l2_line)) {
        snprintf(found.text, sizeof found.text, "sector %" PRId64 " does not divide line %" PRId64, m->l2_sector,
                 m->l2_line);
    } else if (!divides(m->l2_line, m->l2_bytes)) {
        found.at = WEFT_KEY_L2_BYTES;
        snprintf(found.text, sizeof found.text, "line %" PRId64 " does not divide bytes %" PRId64, m->l2_line, m->l2_bytes);
    } else if (m->l2_ways > 0 && !divides(m->l2_ways, m->l2_bytes / m->l2_line)) {
        found.at = WEFT_KEY_L2_WAYS;
        snprintf(found.text, sizeof found.text, "ways %" PRId64 " does not divide the %" PRId64 " lines of the L2",
                 m->l2_ways, m->l2_bytes / m->l2_line);
    } else if (!divides(m->l2_line, m->llc_bytes)) {
        found.at = WEFT_KEY_LLC_BYTES;
        snprintf(found.text, sizeof found.text, "line %" PRId64 " of the L2 does not divide bytes %" PRId64, m->l2_line,
                 m->llc_bytes);
    } else if ((m->llc_bytes > 0) != (m->llc_bandwidth > 0)) {
        found.at = WEFT_KEY_LLC_BANDWIDTH;
        snprintf(found.text, sizeof found.text, "bandwidth must be 0 exactly where bytes is 0");
    }
    return found;
}

static finding find_latencies(const weft_machine *m) {
    finding found = {WEFT_KEY_FAR_LATENCY, ""};
    int has_far = m->domains > 1 || m->llc_bytes > 0;
    if (has_far && m->far_latency < m->near_latency) {
        snprintf(found.text, sizeof found.text, "far must not be less than near");
    } else if (!has_far && m->far_latency > 0) {
        snprintf(found.text, sizeof found.text, "far must be 0 where there is one domain and no last-level cache");
    } else if (m->dram_latency < m->near_latency || m->dram_latency < m->far_latency) {
        found.at = WEFT_KEY_DRAM_LATENCY;
        snprintf(found.text, sizeof found.text, "dram must not be less than near or far");
    }
    return found;
}

/* What joins GPUs is told whole or not at all. */
static finding find_links(const weft_machine *m) {
    const double links = m->link_bandwidth + m->link_latency, network = m->network_bandwidth + m->network_latency;
    finding found = {WEFT_KEY_LINK_GPUS, ""};
    if (m->link_gpus > 1 && m->link_bandwidth <= 0) {
        snprintf(found.text, sizeof found.text, "gpus %" PRId64 " of a node need the bandwidth of their links",
                 m->link_gpus);
    } else if (m->link_gpus == 0 && links + network > 0) {
        found.at = m->link_bandwidth > 0      ? WEFT_KEY_LINK_BANDWIDTH
                   : m->link_latency > 0      ? WEFT_KEY_LINK_LATENCY
                   : m->network_bandwidth > 0 ? WEFT_KEY_NETWORK_BANDWIDTH
                                              : WEFT_KEY_NETWORK_LATENCY;
        snprintf(found.text, sizeof found.text, "links need gpus, the number of GPUs of a node");
    } else if (m->network_latency > 0 && m->network_bandwidth <= 0) {
        found.at = WEFT_KEY_NETWORK_LATENCY;
        snprintf(found.text, sizeof found.text, "network_latency needs network_bandwidth");
    }
    return found;
}

weft_status weft_sheet_check(const weft_sheet *sheet, const char *label, weft_message *message) {
    const finding found[] = {find_domains(&sheet->machine), find_gpcs(&sheet->machine), find_sizes(&sheet->machine),
                             find_latencies(&sheet->machine), find_links(&sheet->machine)};
    for (size_t i = 0; i < sizeof found / sizeof found[0]; i++) {
        if (found[i].text[0]) {
            return weft_fail(message, WEFT_INVALID, "%s:%d: %s", label, sheet->line[found[i].at], found[i].text);
        }
    }
    return WEFT_OK;
}
