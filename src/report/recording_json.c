/* SPDX-License-Identifier: Apache-2.0 */
#include "report/recording_json.h"

#include <math.h>

#include "base/json.h"
#include "report/bytes.h"

enum { TICKS = 1 << 14, COLUMNS = 12, COUNTERS = 7 };

static int64_t ticks(const weft_recording *t, double seconds) {
    return t->sim.seconds > 0 ? llround(seconds / t->sim.seconds * TICKS) : 0;
}

static void visit_row(const weft_recording *t, const weft_recording_visit *v, int64_t row[COLUMNS]) {
    const int64_t begin = ticks(t, v->begin);
    const int64_t values[COLUMNS] = {
        v->worker, v->tile, v->position, begin,      ticks(t, v->end) - begin,       v->steps,
        v->first,  v->last, v->line[0],  v->line[1], (int64_t)(v->hits + v->misses), (int64_t)v->misses};
    for (int c = 0; c < COLUMNS; c++) {
        row[c] = values[c];
    }
}

static json_t *visits_json(const weft_recording *t) {
    weft_bytes bytes = {0};
    for (int column = 0; column < COLUMNS; column++) {
        int64_t before = 0;
        for (size_t i = 0; i < t->count; i++) {
            int64_t row[COLUMNS];
            visit_row(t, &t->visits[i], row);
            weft_bytes_signed(&bytes, row[column] - before);
            before = row[column];
        }
    }
    return weft_bytes_json(&bytes);
}

static json_t *map_json(const weft_recording *t) {
    json_t *sections = json_array();
    for (int i = 0; i < t->sections; i++) {
        const weft_recording_section *s = &t->section[i];
        weft_json_append(&sections, json_pack("{s:s, s:s, s:I, s:I, s:I}", "name", s->name, "line", s->line, "lines",
                                              (json_int_t)s->lines, "first_row", (json_int_t)s->first_row, "rows",
                                              (json_int_t)s->rows));
    }
    return json_pack("{s:I, s:s, s:s, s:I, s:I, s:I, s:I, s:i, s:o}", "steps", (json_int_t)t->steps, "step", t->step,
                     "read", t->read, "lines_per_cell", (json_int_t)t->lines_per_cell, "steps_per_cell",
                     (json_int_t)t->steps_per_cell, "rows", (json_int_t)t->rows, "cols", (json_int_t)t->cols, "full",
                     (int)WEFT_RECORDING_FULL, "sections", sections);
}

/* The cells of `now` that differ from `before` (null: from nothing at all), as runs of one level. */
static void put_changes(weft_bytes *bytes, const uint8_t *before, const uint8_t *now, int64_t cells) {
    int64_t done = 0;
    for (int64_t i = 0; i < cells;) {
        const uint8_t old = before ? before[i] : 0;
        if (now[i] == old) {
            i++;
            continue;
        }
        int64_t end = i + 1;
        while (end < cells && now[end] == now[i] && (before ? before[end] : 0) != now[end]) {
            end++;
        }
        weft_bytes_number(bytes, (uint64_t)(i - done));
        weft_bytes_number(bytes, (uint64_t)(end - i) * 8 + now[i]);
        done = i = end;
    }
    weft_bytes_number(bytes, (uint64_t)(cells - done));
}

static json_t *resident_json(const weft_recording *t) {
    weft_bytes bytes = {0};
    const int64_t cells = t->rows * t->cols;
    for (int64_t i = 0; i < t->frames * t->domains; i++) {
        const uint8_t *now = t->resident + i * cells;
        put_changes(&bytes, i < t->domains ? NULL : now - t->domains * cells, now, cells);
    }
    return weft_bytes_json(&bytes);
}

static json_t *place_json(const weft_recording *t) {
    weft_bytes bytes = {0};
    for (int64_t i = 0; i < t->frames * t->workers; i++) {
        const int64_t now = 2 * ((int64_t)t->place[i] + 1) + t->missed[i];
        const int64_t b = i - t->workers;
        weft_bytes_signed(&bytes, b < 0 ? now : now - (2 * ((int64_t)t->place[b] + 1) + t->missed[b]));
    }
    return weft_bytes_json(&bytes);
}

static int64_t counter(const weft_recording *t, int64_t at, int column, int64_t sector) {
    const weft_traffic *c = &t->traffic[at];
    const int64_t values[COUNTERS] = {(int64_t)c->sectors,
                                      (int64_t)c->hits,
                                      (int64_t)c->misses,
                                      (int64_t)c->fabric_sectors,
                                      (int64_t)c->dram_read_bytes / sector,
                                      t->use[at].streams,
                                      t->use[at].others};
    return values[column];
}

static json_t *counters_json(const weft_recording *t, int64_t sector) {
    weft_bytes bytes = {0};
    for (int column = 0; column < COUNTERS; column++) {
        for (int64_t i = 0; i < t->frames * t->domains; i++) {
            const int64_t before = i < t->domains ? 0 : counter(t, i - t->domains, column, sector);
            weft_bytes_signed(&bytes, counter(t, i, column, sector) - before);
        }
    }
    return weft_bytes_json(&bytes);
}

static json_t *reuse_json(const weft_recording *t, int64_t sector) {
    enum { STRIDE = WEFT_PROFILE_BINS + 1 };
    int first = WEFT_PROFILE_BINS, last = 0;
    uint64_t most = 1;
    for (int64_t i = 0; i < t->frames * STRIDE; i++) {
        const int bin = (int)(i % STRIDE);
        if (t->distances[i] > 0 && bin < WEFT_PROFILE_BINS) {
            first = bin < first ? bin : first;
            last = bin > last ? bin : last;
        }
        most = t->distances[i] > most ? t->distances[i] : most;
    }
    first = first > last ? last : first;
    weft_bytes bytes = {0};
    for (int64_t frame = 0; frame < t->frames; frame++) {
        for (int bin = first; bin <= last + 1; bin++) {
            const uint64_t sectors = t->distances[frame * STRIDE + (bin > last ? WEFT_PROFILE_FIRST : bin)];
            const uint8_t level = (uint8_t)fmin(255, ceil(255 * log1p((double)sectors) / log1p((double)most)));
            weft_bytes_put(&bytes, &level, 1);
        }
    }
    return json_pack("{s:i, s:i, s:I, s:I, s:o}", "first", first, "bins", last - first + 1, "sector", (json_int_t)sector,
                     "most", (json_int_t)most, "data", weft_bytes_json(&bytes));
}

static json_t *domains_json(const weft_recording *t) {
    json_t *array = json_array();
    for (int64_t i = 0; i < t->workers; i++) {
        weft_json_append(&array, json_integer((json_int_t)t->domain_of[i]));
    }
    return array;
}

json_t *weft_recording_json(const weft_recording *t, int64_t sector) {
    return json_pack("{s:f, s:I, s:I, s:I, s:I, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "seconds", t->sim.seconds,
                     "frames", (json_int_t)t->frames, "workers", (json_int_t)t->workers, "domains", (json_int_t)t->domains,
                     "visits", (json_int_t)t->count, "ticks", (int)TICKS, "domain_of", domains_json(t), "visit",
                     visits_json(t), "map", map_json(t), "resident", resident_json(t), "place", place_json(t), "counters",
                     counters_json(t, sector), "reuse", reuse_json(t, sector));
}
