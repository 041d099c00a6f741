/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules ranked by simulation, and measured on a device. */
#ifndef WEFT_CLI_RANKING_H
#define WEFT_CLI_RANKING_H

#include <jansson.h>

#include <weft/search.h>

#include "options/options.h"

typedef struct ranking {
    weft_search *search;
    weft_search_summary summary;
    weft_ranked *rows; /* summary.count of them, the best first */
    double *measured;  /* seconds of each on the device, the median; 0: not measured */
    weft_ranked baseline;
} ranking;

/* Searches what the options leave open. Returns an exit code, with the message printed. Release it in any case. */
int ranking_make(const settings *s, weft_search_space space, ranking *r);
void ranking_release(ranking *r);

/* Runs every schedule on the device that the options name, in turns, checks each, and fills in what was measured. Returns
 * an exit code, with the message printed. */
int ranking_measure(const settings *s, ranking *r);

/* Makes the plan of a row. Returns an exit code, with the message printed. */
int ranking_plan(const settings *s, const weft_ranked *row, weft_plan **plan);

/* What a row would cost, with the name of the schedule; `measured` is 0 where nothing was. */
json_t *ranking_json(const weft_ranked *row, double measured);

/* The first `count` rows as a table, in which each column has one unit. `counted` is null, or what the hardware counted of
 * each, on a line of its own. Returns an exit code, with the message printed. */
struct device_case;
int ranking_print(const ranking *r, size_t count, int measured, const struct device_case *counted);

#endif
