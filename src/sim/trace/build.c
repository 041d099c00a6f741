/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/trace/build.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

const char *weft_trace_column_name(int column) {
    static const char *const names[] = {"worker", "position", "tile", "step",   "tensor", "block",
                                        "bytes",  "op",       "time", "spread", "load"};
    return column >= 0 && column < WEFT_TRACE_COLUMNS ? names[column] : NULL;
}

weft_status weft_trace_build_start(weft_trace_builder *b, weft_message *message) {
    if (!weft_trace_has(b, WEFT_TRACE_WORKER) && !weft_trace_has(b, WEFT_TRACE_TILE)) {
        return weft_fail(message, WEFT_INVALID, "a trace has a column worker or a column tile");
    }
    if (weft_trace_has(b, WEFT_TRACE_POSITION) &&
        (weft_trace_has(b, WEFT_TRACE_WORKER) || !weft_trace_has(b, WEFT_TRACE_TILE))) {
        return weft_fail(message, WEFT_INVALID, "a column position needs a column tile, and none worker");
    }
    for (int i = WEFT_TRACE_TENSOR; i <= WEFT_TRACE_BYTES; i++) {
        if (!weft_trace_has(b, i)) {
            return weft_fail(message, WEFT_INVALID, "a trace has a column %s", weft_trace_column_name(i));
        }
    }
    if (weft_trace_has(b, WEFT_TRACE_WORKER) && b->options.dispatch != 0) {
        return weft_fail(message, WEFT_INVALID, "the trace says which worker does what: there is nothing to dispatch");
    }
    return WEFT_OK;
}

static weft_status no_memory(const weft_trace_builder *b, weft_message *message) {
    return weft_fail(message, WEFT_NO_MEMORY, "no memory for a trace of more than %zu records", b->record_count);
}

/* ---- units ---- */

static size_t hash_key(int64_t key) {
    const uint64_t x = (uint64_t)key * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(x ^ x >> 29);
}

static int add_unit(weft_trace_builder *b, int64_t key) {
    if (!weft_trace_grow(&b->units, &b->unit_room, b->unit_count + 1, sizeof *b->units)) {
        return 0;
    }
    b->units[b->unit_count++] = (weft_trace_unit){key, -1, -1, 0};
    return 1;
}

static int rehash_units(weft_trace_builder *b) {
    const size_t slots = b->unit_slots ? 2 * b->unit_slots : 1024;
    uint32_t *table = calloc(slots, sizeof *table);
    if (!table) {
        return 0;
    }
    for (size_t i = 0; i < b->unit_count; i++) {
        size_t at = hash_key(b->units[i].key) & (slots - 1);
        while (table[at] != 0) {
            at = (at + 1) & (slots - 1);
        }
        table[at] = (uint32_t)i + 1;
    }
    free(b->unit_table);
    b->unit_table = table;
    b->unit_slots = slots;
    return 1;
}

/* The unit of a position or a tile, new where it was not known. Returns 0 when memory ran out. */
static int find_unit(weft_trace_builder *b, int64_t key, uint32_t *unit) {
    if (b->unit_count > 0 && b->units[b->unit].key == key) {
        *unit = b->unit;
        return 1;
    }
    if (2 * (b->unit_count + 1) > b->unit_slots && !rehash_units(b)) {
        return 0;
    }
    size_t at = hash_key(key) & (b->unit_slots - 1);
    for (; b->unit_table[at] != 0; at = (at + 1) & (b->unit_slots - 1)) {
        if (b->units[b->unit_table[at] - 1].key == key) {
            *unit = b->unit_table[at] - 1;
            return 1;
        }
    }
    *unit = (uint32_t)b->unit_count;
    b->unit_table[at] = *unit + 1;
    return add_unit(b, key);
}

static int find_worker(weft_trace_builder *b, int64_t worker, uint32_t *unit) {
    int fine = 1;
    while (fine && (int64_t)b->unit_count <= worker) {
        fine = add_unit(b, -1);
    }
    *unit = (uint32_t)worker;
    return fine;
}

/* ---- records ---- */

static weft_status check(const weft_trace_builder *b, const weft_trace_record *r, weft_message *message) {
    static const struct {
        int column;
        int64_t least, most;
    } ranges[] = {{WEFT_TRACE_WORKER, 0, WEFT_TRACE_WORKERS - 1},
                  {WEFT_TRACE_POSITION, 0, INT64_MAX},
                  {WEFT_TRACE_TILE, 0, INT64_MAX},
                  {WEFT_TRACE_STEP, -1, INT32_MAX - 1},
                  {WEFT_TRACE_OP, WEFT_READ, WEFT_ADD}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        const int column = ranges[i].column;
        if (weft_trace_has(b, column) && (r->number[column] < ranges[i].least || r->number[column] > ranges[i].most)) {
            return weft_fail(message, WEFT_INVALID, "%s %lld is not between %lld and %lld", weft_trace_column_name(column),
                             (long long)r->number[column], (long long)ranges[i].least, (long long)ranges[i].most);
        }
    }
    for (int i = 0; i < 3; i++) {
        const int column = WEFT_TRACE_TIME + i;
        const double least = column == WEFT_TRACE_LOAD ? -1 : 0, most = column == WEFT_TRACE_LOAD ? 1 : 1e6;
        if (weft_trace_has(b, column) && !(r->real[i] >= least && r->real[i] <= most)) {
            return weft_fail(message, WEFT_INVALID, "%s %g is not between %g and %g", weft_trace_column_name(column),
                             r->real[i], least, most);
        }
    }
    if (b->record_count >= UINT32_MAX - 1) {
        return weft_fail(message, WEFT_UNSUPPORTED, "more records than the simulator can number (2^32)");
    }
    return WEFT_OK;
}

/* A job begins with a unit's first record, where the tile changes and where steps begin again. */
static int begins_job(const weft_trace_unit *u, int32_t step, int64_t tile) {
    return u->runs == 0 || u->tile != tile || step < u->last_step;
}

static int add_job(weft_trace_builder *b, int64_t tile, const double *real) {
    const int fine = weft_trace_grow(&b->jobs, &b->job_room, b->job_count + 1, sizeof *b->jobs);
    if (fine) {
        b->jobs[b->job_count++] = (weft_trace_job){0, 0, tile, real[1], real[2]};
    }
    return fine;
}

static int add_run(weft_trace_builder *b, uint32_t unit, int32_t step, uint32_t job) {
    const int fine = weft_trace_grow(&b->runs, &b->run_room, b->run_count + 1, sizeof *b->runs) &&
                     (!weft_trace_has(b, WEFT_TRACE_TIME) ||
                      weft_trace_grow(&b->seconds, &b->seconds_room, b->run_count + 1, sizeof *b->seconds));
    if (fine && b->seconds) {
        b->seconds[b->run_count] = 0;
    }
    if (fine) {
        b->runs[b->run_count++] = (weft_trace_run){(uint32_t)b->record_count, unit, step, job};
    }
    return fine;
}

weft_status weft_trace_build_add(weft_trace_builder *b, const weft_trace_record *r, weft_message *message) {
    const weft_status status = check(b, r, message);
    if (status) {
        return status;
    }
    weft_message why = {""};
    const int64_t piece = weft_trace_piece(&b->blocks, r->number[WEFT_TRACE_TENSOR], r->number[WEFT_TRACE_BLOCK],
                                           r->number[WEFT_TRACE_BYTES], &why);
    if (piece < 0) {
        return weft_fail(message, weft_trace_status(piece), "%s", why.text);
    }
    const int64_t tile = weft_trace_has(b, WEFT_TRACE_TILE) ? r->number[WEFT_TRACE_TILE] : -1;
    const int64_t key = weft_trace_has(b, WEFT_TRACE_POSITION) ? r->number[WEFT_TRACE_POSITION] : tile;
    const uint64_t kind = weft_trace_has(b, WEFT_TRACE_OP) ? (uint64_t)r->number[WEFT_TRACE_OP] : WEFT_READ;
    uint32_t unit;
    if (!(weft_trace_has(b, WEFT_TRACE_WORKER) ? find_worker(b, r->number[WEFT_TRACE_WORKER], &unit)
                                               : find_unit(b, key, &unit)) ||
        !weft_trace_grow(&b->records, &b->record_room, b->record_count + 1, sizeof *b->records)) {
        return no_memory(b, message);
    }
    weft_trace_unit *u = &b->units[unit];
    const int32_t step = weft_trace_has(b, WEFT_TRACE_STEP) ? (int32_t)r->number[WEFT_TRACE_STEP]
                         : u->last_step < INT32_MAX - 1     ? u->last_step + 1
                                                            : 0;
    const int fresh = begins_job(u, step, tile), moved = b->run_count > 0 && unit != b->unit;
    b->scattered |= moved && u->runs > 0;
    if (fresh && !add_job(b, tile, r->real)) {
        return no_memory(b, message);
    }
    if (fresh || moved || step != u->last_step) {
        if (!add_run(b, unit, step, fresh ? (uint32_t)b->job_count : 0)) {
            return no_memory(b, message);
        }
        u->runs++;
    }
    if (b->seconds && r->real[0] > b->seconds[b->run_count - 1]) { /* a step's time is the largest of its records */
        b->seconds[b->run_count - 1] = r->real[0];
    }
    u->tile = tile;
    u->last_step = step;
    b->unit = unit;
    b->records[b->record_count++] = (uint32_t)((uint64_t)piece | kind << (32 - WEFT_TRACE_KIND_BITS));
    return WEFT_OK;
}

void weft_trace_build_release(weft_trace_builder *b) {
    weft_trace_blocks_release(&b->blocks);
    free(b->records);
    free(b->runs);
    free(b->seconds);
    free(b->jobs);
    free(b->units);
    free(b->unit_table);
    memset(b, 0, sizeof *b);
}
