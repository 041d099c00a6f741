/* SPDX-License-Identifier: Apache-2.0 */
/* Ways to share a problem among ranks, and their numbers, as columns of a table or of CSV. */
#ifndef WEFT_CLI_SWEEP_RANKS_H
#define WEFT_CLI_SWEEP_RANKS_H

#include <weft/dist.h>
#include <weft/report.h>

#include "table.h"

/* The columns of a table: each has one unit, and choices that no row has made have none. Begin with zeros, look at every
 * row, then ask for the columns. */
typedef struct sweep_ranks {
    int has_heads, has_mesh, has_sweep, has_most;
    double least_rate, least_sent, least_memory;
    weft_unit rate, sent, memory;
    char heads[3][24];
    int which[TABLE_COLUMNS];
    size_t count;
} sweep_ranks;

void sweep_ranks_look(sweep_ranks *c, const weft_dist_ranked *row);

/* Writes the columns behind those that a table has. Returns how many. They point into `c`. */
size_t sweep_ranks_columns(sweep_ranks *c, table_column *columns);
void sweep_ranks_add(const sweep_ranks *c, table *t, const weft_dist_ranked *row);

/* All of a row as comma-separated values. */
void sweep_ranks_csv_heads(void);
void sweep_ranks_csv(const weft_dist_ranked *row);

#endif
