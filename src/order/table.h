/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of orders: how many entries a grid takes, and what is wrong with a table. */
#ifndef WEFT_ORDER_TABLE_H
#define WEFT_ORDER_TABLE_H

#include <weft/weft.h>

/* Writes where a position of the table comes from: "position 7", or the line of a file. */
typedef void (*weft_table_place)(const void *context, int64_t position, char *text, size_t size);

/* Tiles of a grid. WEFT_INVALID when a side is below 1, WEFT_UNSUPPORTED when there are more than a table can have. */
weft_status weft_table_entries(weft_grid grid, int64_t *entries, weft_message *message);

/* weft_order_check() with messages that name places in the caller's way; null: by position. */
weft_status weft_table_check(const uint32_t *table, int64_t count, weft_grid grid, weft_table_place place,
                             const void *context, weft_message *message);

/* A hash of the entries, by which two tables are told apart. */
uint64_t weft_table_hash(const uint32_t *table, int64_t count);

#endif
