#include "sim/trace/build.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "sim/trace/play.h"

const char *weft_trace_column_name(int column) {
    static const char *const names[] = {"worker", "position", "tile", "step",   "tensor", "block",
                                        "bytes",  "op",       "time", "spread", "jitter"};
    return column >= 0 && column < WEFT_TRACE_COLUMNS ? names[column] : NULL;
}

static int has(const weft_trace_builder *b, int column) {
    return b->has >> column & 1;
}

weft_status weft_trace_build_start(weft_trace_builder *b, weft_message *message) {
    if (!has(b, WEFT_TRACE_WORKER) && !has(b, WEFT_TRACE_TILE)) {
        return weft_fail(message, WEFT_INVALID, "a trace has a column worker or a column tile");
    }
    if (has(b, WEFT_TRACE_POSITION) && (has(b, WEFT_TRACE_WORKER) || !has(b, WEFT_TRACE_TILE))) {
        return weft_fail(message, WEFT_INVALID, "a column position needs a column tile, and none worker");
    }
    for (int i = WEFT_TRACE_TENSOR; i <= WEFT_TRACE_BYTES; i++) {
        if (!has(b, i)) {
            return weft_fail(message, WEFT_INVALID, "a trace has a column %s", weft_trace_column_name(i));
        }
    }
    if (has(b, WEFT_TRACE_WORKER) && b->options.dispatch != 0) {
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
        if (has(b, column) && (r->number[column] < ranges[i].least || r->number[column] > ranges[i].most)) {
            return weft_fail(message, WEFT_INVALID, "%s %lld is not between %lld and %lld", weft_trace_column_name(column),
                             (long long)r->number[column], (long long)ranges[i].least, (long long)ranges[i].most);
        }
    }
    for (int i = 0; i < 3; i++) {
        const int column = WEFT_TRACE_TIME + i;
        const double least = column == WEFT_TRACE_JITTER ? -1 : 0;
        if (has(b, column) && !(r->real[i] >= least && r->real[i] <= 1e6)) {
            return weft_fail(message, WEFT_INVALID, "%s %g is not between %g and 1e6", weft_trace_column_name(column),
                             r->real[i], least);
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

static int add_job(weft_trace_builder *b, int64_t tile) {
    const int fine = weft_trace_grow(&b->job_tiles, &b->job_room, b->job_count + 1, sizeof *b->job_tiles);
    if (fine) {
        b->job_tiles[b->job_count++] = tile;
    }
    return fine;
}

static int add_run(weft_trace_builder *b, uint32_t unit, int32_t step, uint32_t job, const double *real) {
    int fine = weft_trace_grow(&b->runs, &b->run_room, b->run_count + 1, sizeof *b->runs);
    for (int i = 0; i < 3 && fine; i++) {
        if (has(b, WEFT_TRACE_TIME + i)) {
            fine = weft_trace_grow(&b->real[i], &b->real_room[i], b->run_count + 1, sizeof(double));
            if (fine) {
                b->real[i][b->run_count] = real[i];
            }
        }
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
    const int64_t tile = has(b, WEFT_TRACE_TILE) ? r->number[WEFT_TRACE_TILE] : -1;
    const int64_t key = has(b, WEFT_TRACE_POSITION) ? r->number[WEFT_TRACE_POSITION] : tile;
    const uint64_t kind = has(b, WEFT_TRACE_OP) ? (uint64_t)r->number[WEFT_TRACE_OP] : WEFT_READ;
    uint32_t unit;
    if (!(has(b, WEFT_TRACE_WORKER) ? find_worker(b, r->number[WEFT_TRACE_WORKER], &unit) : find_unit(b, key, &unit)) ||
        !weft_trace_grow(&b->records, &b->record_room, b->record_count + 1, sizeof *b->records)) {
        return no_memory(b, message);
    }
    weft_trace_unit *u = &b->units[unit];
    const int32_t step = has(b, WEFT_TRACE_STEP)        ? (int32_t)r->number[WEFT_TRACE_STEP]
                         : u->last_step < INT32_MAX - 1 ? u->last_step + 1
                                                        : 0;
    const int fresh = begins_job(u, step, tile), moved = b->run_count > 0 && unit != b->unit;
    b->scattered |= moved && u->runs > 0;
    if (fresh && !add_job(b, tile)) {
        return no_memory(b, message);
    }
    if (fresh || moved || step != u->last_step) {
        if (!add_run(b, unit, step, fresh ? (uint32_t)b->job_count : 0, r->real)) {
            return no_memory(b, message);
        }
        u->runs++;
    }
    for (int i = 0; i < 3; i++) { /* the time of a step is the largest of its records */
        double *last = has(b, WEFT_TRACE_TIME + i) ? &b->real[i][b->run_count - 1] : NULL;
        if (last && r->real[i] > *last) {
            *last = r->real[i];
        }
    }
    u->tile = tile;
    u->last_step = step;
    b->unit = unit;
    b->records[b->record_count++] = (uint32_t)((uint64_t)piece | kind << (32 - WEFT_TRACE_KIND_BITS));
    return WEFT_OK;
}

/* ---- the end ---- */

/* Puts runs, and the records of each, in the order of their units; within a unit they stay as they are. */
static int gather(weft_trace_builder *b) {
    weft_trace_run *runs = malloc((b->run_count + 1) * sizeof *runs);
    uint32_t *records = malloc(b->record_count * sizeof *records);
    size_t *next = calloc(b->unit_count + 1, sizeof *next);
    double *real[3] = {NULL, NULL, NULL};
    int fine = runs && records && next;
    for (int i = 0; i < 3 && fine; i++) {
        real[i] = b->real[i] ? malloc(b->run_count * sizeof(double)) : NULL;
        fine = !b->real[i] || real[i];
    }
    if (fine) {
        for (size_t i = 0; i < b->run_count; i++) {
            next[b->runs[i].unit + 1]++;
        }
        for (size_t i = 0; i < b->unit_count; i++) {
            next[i + 1] += next[i];
        }
        for (size_t i = 0; i < b->run_count; i++) {
            const size_t at = next[b->runs[i].unit]++;
            runs[at] = b->runs[i];
            runs[at].unit = (uint32_t)i; /* for the moment: where it was */
            for (int k = 0; k < 3; k++) {
                if (real[k]) {
                    real[k][at] = b->real[k][i];
                }
            }
        }
        uint32_t count = 0;
        for (size_t i = 0; i < b->run_count; i++) {
            const size_t was = runs[i].unit;
            const uint32_t from = b->runs[was].first;
            const uint32_t to = was + 1 < b->run_count ? b->runs[was + 1].first : (uint32_t)b->record_count;
            runs[i].unit = b->runs[was].unit;
            runs[i].first = count;
            memcpy(records + count, b->records + from, (to - from) * sizeof *records);
            count += to - from;
        }
        free(b->runs);
        free(b->records);
        b->runs = runs;
        b->records = records;
        for (int k = 0; k < 3; k++) {
            free(b->real[k]);
            b->real[k] = real[k];
        }
    } else {
        free(runs);
        free(records);
        free(real[0]);
        free(real[1]);
        free(real[2]);
    }
    free(next);
    return fine;
}

/* Makes one run of those that are one step. */
static void merge(weft_trace_builder *b) {
    size_t count = 0;
    for (size_t i = 0; i < b->run_count; i++) {
        const weft_trace_run *run = &b->runs[i], *last = count > 0 ? &b->runs[count - 1] : NULL;
        const int same = last && last->unit == run->unit && last->step == run->step && run->job == 0;
        count += !same;
        for (int k = 0; k < 3; k++) {
            if (b->real[k] && (!same || b->real[k][i] > b->real[k][count - 1])) {
                b->real[k][count - 1] = b->real[k][i];
            }
        }
        if (!same) {
            b->runs[count - 1] = *run;
        }
    }
    b->run_count = count;
}

/* The jobs of each unit, and where each begins. */
static int list_jobs(weft_trace_builder *b, weft_trace *t) {
    t->jobs = calloc(b->job_count + 1, sizeof *t->jobs);
    t->units = calloc(b->unit_count + 1, sizeof *t->units);
    if (!t->jobs || !t->units) {
        return 0;
    }
    uint32_t unit = 0;
    for (uint32_t i = 0; i < b->run_count; i++) {
        const weft_trace_run *run = &b->runs[i];
        if (run->job != 0) {
            while (unit < run->unit) { /* workers may have nothing to do */
                t->units[++unit] = t->job_count;
            }
            t->jobs[t->job_count++] = (weft_trace_job){i, run->step == -1, b->job_tiles[run->job - 1]};
        }
    }
    while (unit < b->unit_count) {
        t->units[++unit] = t->job_count;
    }
    t->jobs[t->job_count].first = (uint32_t)b->run_count;
    return 1;
}

/* Gives the records the final numbers of their blocks. */
static int number_blocks(weft_trace_builder *b) {
    const uint32_t mask = UINT32_MAX >> WEFT_TRACE_KIND_BITS;
    uint32_t *number = malloc((b->blocks.pieces + 1) * sizeof *number);
    const int fine = number && weft_trace_sort_blocks(&b->blocks, number);
    for (size_t i = 0; fine && i < b->record_count; i++) {
        b->records[i] = (b->records[i] & ~mask) | number[b->records[i] & mask];
    }
    free(number);
    return fine;
}

/* Moves what was built into the trace. */
static int hand_over(weft_trace_builder *b, weft_trace *t) {
    weft_trace_run *end = b->run_count < b->run_room ? b->runs : realloc(b->runs, (b->run_count + 1) * sizeof *end);
    if (!end) {
        return 0;
    }
    b->runs = end;
    b->runs[b->run_count] = (weft_trace_run){(uint32_t)b->record_count, UINT32_MAX, 0, 0};
    t->tensors = weft_trace_tensors(&b->blocks);
    if (!t->tensors) {
        return 0;
    }
    t->tensor_count = b->blocks.tensors;
    t->names = b->blocks.names;
    t->blocks = b->blocks.blocks;
    t->records = b->records;
    t->runs = b->runs;
    t->seconds = b->real[0];
    t->spread = b->real[1];
    t->jitter = b->real[2];
    b->blocks.names = NULL;
    b->blocks.blocks = NULL;
    b->records = NULL;
    b->runs = NULL;
    memset(b->real, 0, sizeof b->real);
    t->record_count = (uint32_t)b->record_count;
    t->run_count = (uint32_t)b->run_count;
    t->unit_count = (uint32_t)b->unit_count;
    t->by_worker = has(b, WEFT_TRACE_WORKER);
    return 1;
}

weft_status weft_trace_build_end(weft_trace_builder *b, const char *name, weft_trace **trace, weft_message *message) {
    *trace = NULL;
    if (b->record_count == 0) {
        return weft_fail(message, WEFT_INVALID, "there is no record");
    }
    weft_trace *t = calloc(1, sizeof *t);
    if (!t || (b->scattered && !gather(b)) || !number_blocks(b)) {
        free(t);
        return no_memory(b, message);
    }
    merge(b);
    snprintf(t->name, sizeof t->name, "%s", b->options.name ? b->options.name : name);
    if (!list_jobs(b, t) || !hand_over(b, t)) {
        weft_trace_destroy(t);
        return no_memory(b, message);
    }
    const weft_status status = weft_trace_set_source(t, &b->options, message);
    if (status) {
        weft_trace_destroy(t);
        return status;
    }
    *trace = t;
    return WEFT_OK;
}

void weft_trace_build_release(weft_trace_builder *b) {
    weft_trace_blocks_release(&b->blocks);
    free(b->records);
    free(b->runs);
    for (int i = 0; i < 3; i++) {
        free(b->real[i]);
    }
    free(b->job_tiles);
    free(b->units);
    free(b->unit_table);
    memset(b, 0, sizeof *b);
}
