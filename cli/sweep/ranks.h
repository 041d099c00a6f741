/* Columns of a sweep over ranks. */
#ifndef WEFT_CLI_SWEEP_RANKS_H
#define WEFT_CLI_SWEEP_RANKS_H

#include <weft/dist.h>

#include "table.h"

/* The head of the i-th column or null past the last, its cell, and all as comma-separated values. */
const char *sweep_ranks_head(size_t i);
table_column sweep_ranks_column(size_t i);
void sweep_ranks_cell(const weft_dist_ranked *row, size_t i, char *text, size_t size);
void sweep_ranks_csv_heads(void);
void sweep_ranks_csv(const weft_dist_ranked *row);

#endif
