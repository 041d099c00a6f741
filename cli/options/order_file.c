/* SPDX-License-Identifier: Apache-2.0 */
/* --order-file: the user's own order. */
#include "options/order_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

/* What was read, kept until the command ends: standard input can be read once, and several plans may ask. */
typedef struct table {
    weft_grid grid;
    int64_t count;
    uint32_t *entries;
    struct table *next;
} table;
static char *text;
static size_t length;
static table *tables;

static weft_status read_text(const char *path, weft_message *message) {
    enum { MOST = 1 << 30 };
    if (text) {
        return WEFT_OK;
    }
    const weft_status status = weft_file_read(strcmp(path, "-") == 0 ? NULL : path, MOST, &text, &length, message);
    return status == WEFT_IO ? WEFT_INVALID : status; /* an option is wrong */
}

/* Reads the order for a grid; null with a message when it cannot. */
static const table *read_table(const char *path, weft_grid grid, weft_status *status, weft_message *message) {
    const double entries = (double)grid.batch * (double)grid.rows * (double)grid.cols;
    table *t = calloc(1, sizeof *t);
    uint32_t *room = entries <= WEFT_MOST_IN_TABLE ? malloc((size_t)entries * sizeof *room) : NULL;
    *status = t && (room || entries > WEFT_MOST_IN_TABLE) ? WEFT_OK : WEFT_NO_MEMORY;
    if (*status) {
        snprintf(message->text, sizeof message->text, "no memory for an order of %.0f tiles", entries);
    } else {
        *status = weft_order_read(text, length, strcmp(path, "-") == 0 ? "standard input" : path, grid, room, message);
    }
    if (*status) {
        free(room);
        free(t);
        return NULL;
    }
    *t = (table){grid, (int64_t)entries, room, tables};
    tables = t;
    return t;
}

/* With clusters or pairs, the tiles of the file are those: says so. */
static void add_note(const weft_schedule *s, weft_message *message) {
    const size_t used = strlen(message->text);
    const size_t room = sizeof message->text - used;
    if (s->cluster_m * s->cluster_n > 1) {
        snprintf(message->text + used, room, " (with --cluster, a tile of the order is a cluster)");
    } else if (weft_sweep_pairs(s->sweep)) {
        snprintf(message->text + used, room, " (under the %s sweep, a tile of the order is a pair)",
                 weft_sweep_describe(s->sweep)->name);
    }
}

weft_status order_file_take(const settings *s, const void *problem, const weft_plan_options *options,
                            weft_schedule *schedule, weft_message *message) {
    weft_grid grid;
    if (s->order == WEFT_ORDER_CUSTOM && !s->order_file && !s->order_table) {
        snprintf(message->text, sizeof message->text, "%s needs --order-file",
                 s->order_hash ? "an order custom that is too long for JSON" : "--order custom");
        return WEFT_INVALID;
    }
    if (!s->order_file || (s->order != WEFT_ORDER_CHOOSE && s->order != WEFT_ORDER_CUSTOM)) {
        return WEFT_OK; /* also another schedule of --schedules */
    }
    weft_status status = read_text(s->order_file, message);
    if (status || (status = weft_plan_positions(problem, options, &grid, message))) {
        return status;
    }
    const table *t = tables;
    while (t && memcmp(&t->grid, &grid, sizeof grid) != 0) {
        t = t->next;
    }
    if (!t && !(t = read_table(s->order_file, grid, &status, message))) {
        add_note(schedule, message);
        return status;
    }
    schedule->order_table = t->entries;
    schedule->order_count = t->count;
    return WEFT_OK;
}
