/* SPDX-License-Identifier: Apache-2.0 */
/* Why a schedule is recommended, in sentences. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include <weft/report.h>

#include "search/search.h"

static double percent(double part, double whole) {
    return whole > 0 ? 100 * part / whole : 0;
}

/* What is busy for how much of the time. */
static int say_what_binds(const weft_search *f, char *text, size_t size) {
    const weft_search_entry *best = &f->all.list[0];
    const weft_simulation *s = &best->ranked.simulation;
    const weft_machine *m = &f->all.shown;
    const double sector = (double)m->l2_sector;
    if (!best->valid) {
        return snprintf(text, size, "the simulator does not take this schedule, so what binds is not known");
    }
    const struct {
        const char *name;
        double seconds;
    } units[] = {{"products", best->bound.products},
                 {"exponentials", best->bound.exponentials},
                 {"the L2", (double)s->total.sectors_from_sm * sector / m->l2_bandwidth},
                 {"DRAM", (double)(s->total.dram_read_bytes + s->total.dram_write_bytes) / m->dram_bandwidth}};
    enum { UNITS = sizeof units / sizeof *units };
    size_t most = 0;
    for (size_t i = 1; i < UNITS; i++) {
        most = units[i].seconds > units[most].seconds ? i : most;
    }
    const double idle = best->bound.waves > 1 ? 100 * (1 - 1 / best->bound.waves) : 0;
    const char *binds = percent(units[most].seconds, s->seconds) >= 50 ? units[most].name
                        : idle >= 25                                   ? "waves: there are too few tiles for all workers"
                                                                       : "latency: nothing is busy for half of the time";
    int used = snprintf(text, size, "what binds: %s (of %.4g ms:", binds, 1e3 * s->seconds);
    for (size_t i = 0; i < UNITS; i++) {
        if (units[i].seconds > 0) {
            const size_t at = (size_t)used < size ? (size_t)used : size;
            used += snprintf(text + at, size - at, " %s %.0f %%,", units[i].name, percent(units[i].seconds, s->seconds));
        }
    }
    const size_t at = (size_t)used < size ? (size_t)used : size;
    return used + snprintf(text + at, size - at, " workers idle in the last wave %.0f %%)", idle);
}

/* What the order changes against the plain one. */
static int say_what_it_gains(const weft_search *f, char *text, size_t size) {
    if (!f->summary.has_baseline) {
        return snprintf(text, size,
                        f->summary.count > 1 ? "the simulator takes no other schedule to compare with"
                                             : "it is the only schedule that the options leave");
    }
    const weft_simulation *best = &f->all.list[0].ranked.simulation, *other = &f->baseline.ranked.simulation;
    const double best_bytes = (double)best->total.dram_read_bytes, other_bytes = (double)other->total.dram_read_bytes;
    char name[WEFT_SEARCH_NAME];
    weft_search_name(&f->baseline.ranked, name, sizeof name);
    return snprintf(text, size,
                    "against the %s, %s: speed %+.1f %%, DRAM reads %+.1f %% (%s instead of %s), L2 hits %.2f "
                    "instead of %.2f %%",
                    f->summary.is_plain ? "plain schedule" : "next best", name, 100 * (other->seconds / best->seconds - 1),
                    other_bytes > 0 ? 100 * (best_bytes / other_bytes - 1) : 0, weft_traffic_text(best_bytes).text,
                    weft_traffic_text(other_bytes).text, percent((double)best->total.hits, (double)best->total.sectors),
                    percent((double)other->total.hits, (double)other->total.sectors));
}

static int say_rule(const weft_search *f, char *text, size_t size) {
    return snprintf(text, size, "rule: %s", f->summary.rule);
}

static int say_source(const weft_search *f, char *text, size_t size) {
    const weft_search_summary *u = &f->summary;
    char of[48] = "", last[64] = "";
    if (u->cost == WEFT_SEARCH_BY_MODEL) {
        return snprintf(text, size,
                        "ranked by the model of the kernels, which a plan's default and the tuner go by: %" PRId64
                        " schedules; traffic and times of the first %" PRId64 " are simulated",
                        u->schedules, u->last);
    }
    if (u->searched < u->schedules) {
        snprintf(of, sizeof of, " of %" PRId64, u->schedules);
    }
    if (u->count < u->searched) {
        snprintf(last, sizeof last, " in rounds; in the last %" PRId64, u->count);
    }
    int used =
        snprintf(text, size, "ranked by the simulator: %" PRId64 "%s schedules%s, simulated ", u->searched, of, last);
    const size_t at = (size_t)used < size ? (size_t)used : size;
    return used + (u->whole
                       ? snprintf(text + at, size - at, "whole")
                       : snprintf(text + at, size - at, "for about %" PRIu64 " steps each%s", f->limit,
                                  f->all.list[0].ranked.simulation.simulated < 1 ? "" : ", the recommended one whole"));
}

size_t weft_search_why(const weft_search *search, size_t number, char *text, size_t size) {
    static int (*const sentences[])(const weft_search *f, char *text, size_t size) = {say_what_it_gains, say_what_binds,
                                                                                      say_rule, say_source};
    if (size > 0) {
        text[0] = '\0';
    }
    const int length = number < sizeof sentences / sizeof *sentences && search->summary.count > 0
                           ? sentences[number](search, text, size)
                           : 0;
    return length > 0 ? (size_t)length : 0;
}

size_t weft_search_name(const weft_ranked *row, char *text, size_t size) {
    const weft_schedule *s = &row->schedule;
    char group[32] = "", cluster[64] = "", split[32] = "";
    if (weft_order_describe(s->order)->parameter & WEFT_PARAMETER_GROUP) {
        snprintf(group, sizeof group, "-%" PRId64, s->group);
    }
    if (s->cluster_m * s->cluster_n > 1) {
        snprintf(cluster, sizeof cluster, " cluster %" PRId64 "x%" PRId64, s->cluster_m, s->cluster_n);
    }
    if (s->split > 1) {
        snprintf(split, sizeof split, " split %" PRId64, s->split);
    }
    const int length = snprintf(text, size, "%" PRId64 "x%" PRId64 " %s%s %s %s%s%s", s->tile_m, s->tile_n,
                                weft_order_describe(s->order)->name, group, weft_sweep_describe(s->sweep)->name,
                                weft_dispatch_describe(s->dispatch)->name, cluster, split);
    return length > 0 ? (size_t)length : 0;
}
