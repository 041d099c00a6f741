/* SPDX-License-Identifier: Apache-2.0 */
#include "order/table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/status.h"

enum { PLACE = 40, TILE = 120 }; /* bytes of the text of a place, and of a tile */

weft_status weft_table_entries(weft_grid grid, int64_t *entries, weft_message *message) {
    *entries = 0;
    if (grid.batch < 1 || grid.rows < 1 || grid.cols < 1) {
        return weft_fail(message, WEFT_INVALID, "a grid of %" PRId64 " x %" PRId64 " x %" PRId64 " has no tiles",
                         grid.batch, grid.rows, grid.cols);
    }
    int64_t lines;
    if (!weft_multiply(grid.batch, grid.rows, &lines) || !weft_multiply(lines, grid.cols, entries) ||
        *entries > WEFT_MOST_IN_TABLE) {
        return weft_fail(message, WEFT_UNSUPPORTED,
                         "a table of %" PRId64 " x %" PRId64 " x %" PRId64 " tiles is more than %d entries", grid.batch,
                         grid.rows, grid.cols, WEFT_MOST_IN_TABLE);
    }
    return WEFT_OK;
}

static void name_position(const void *context, int64_t position, char *text, size_t size) {
    (void)context;
    snprintf(text, size, "position %" PRId64, position);
}

static void name_tile(int64_t tile, weft_grid grid, char *text, size_t size) {
    char batch[32] = "";
    const int64_t line = tile / grid.cols;
    if (grid.batch > 1) {
        snprintf(batch, sizeof batch, "batch %" PRId64 ", ", line / grid.rows);
    }
    snprintf(text, size, "tile %" PRId64 " (%srow %" PRId64 ", column %" PRId64 ")", tile, batch, line % grid.rows,
             tile % grid.cols);
}

static weft_status visited_twice(const uint32_t *table, int64_t position, weft_grid grid, weft_table_place place,
                                 const void *context, weft_message *message) {
    char first[PLACE], second[PLACE], tile[TILE];
    int64_t earlier = 0;
    while (table[earlier] != table[position]) {
        earlier++;
    }
    place(context, earlier, first, sizeof first);
    place(context, position, second, sizeof second);
    name_tile(table[position], grid, tile, sizeof tile);
    return weft_fail(message, WEFT_INVALID, "%s is visited twice, at %s and %s", tile, first, second);
}

/* Marks what is visited in `seen`, a bit for each tile. */
static weft_status check_visits(const uint32_t *table, int64_t count, weft_grid grid, int64_t tiles, unsigned char *seen,
                                weft_table_place place, const void *context, weft_message *message) {
    for (int64_t i = 0; i < count; i++) {
        const uint32_t tile = table[i];
        char at[PLACE];
        if (tile >= tiles) {
            place(context, i, at, sizeof at);
            return weft_fail(message, WEFT_INVALID,
                             "tile %" PRIu32 " at %s is not in the grid of %" PRId64 " x %" PRId64 " x %" PRId64
                             " = %" PRId64 " tiles",
                             tile, at, grid.batch, grid.rows, grid.cols, tiles);
        }
        if (seen[tile / 8] >> tile % 8 & 1) {
            return visited_twice(table, i, grid, place, context, message);
        }
        seen[tile / 8] |= (unsigned char)(1 << tile % 8);
    }
    for (int64_t tile = 0; tile < tiles; tile++) {
        if (!(seen[tile / 8] >> tile % 8 & 1)) {
            char text[TILE];
            name_tile(tile, grid, text, sizeof text);
            return weft_fail(message, WEFT_INVALID,
                             "%s is missing: the order has %" PRId64 " of %" PRId64 " x %" PRId64 " x %" PRId64
                             " = %" PRId64 " tiles",
                             text, count, grid.batch, grid.rows, grid.cols, tiles);
        }
    }
    return WEFT_OK;
}

weft_status weft_table_check(const uint32_t *table, int64_t count, weft_grid grid, weft_table_place place,
                             const void *context, weft_message *message) {
    int64_t tiles;
    const weft_status status = weft_table_entries(grid, &tiles, message);
    if (status) {
        return status;
    }
    if (count < 0 || (!table && count > 0)) {
        return weft_fail(message, WEFT_INVALID, "a table of %" PRId64 " entries is null or has no entries", count);
    }
    unsigned char *seen = calloc((size_t)(tiles / 8 + 1), 1);
    if (!seen) {
        return weft_fail(message, WEFT_NO_MEMORY, "no memory to check a table of %" PRId64 " tiles", tiles);
    }
    const weft_status outcome =
        check_visits(table, count, grid, tiles, seen, place ? place : name_position, context, message);
    free(seen);
    return outcome;
}

weft_status weft_order_check(const uint32_t *table, int64_t count, weft_grid grid, weft_message *message) {
    return weft_table_check(table, count, grid, NULL, NULL, message);
}

uint64_t weft_table_hash(const uint32_t *table, int64_t count) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a, an entry at a time */
    for (int64_t i = 0; i < count; i++) {
        hash = (hash ^ table[i]) * UINT64_C(0x100000001b3);
    }
    return hash;
}
