/* SPDX-License-Identifier: Apache-2.0 */
#include "report/still.h"

#include <math.h>
#include <stdlib.h>

#include "report/simulation_json.h"

void weft_still_place(const weft_still_grid *grid, const weft_view_schedule *s, int64_t tile, int64_t *col, int64_t *line) {
    const weft_view_grid *g = &s->grid;
    const int64_t row = tile / g->cols, at = tile % g->cols;
    *col = (row / g->rows_of_bank * g->fold + at % g->fold) / grid->col_tiles;
    *line = (row % g->rows_of_bank * g->lines + at / g->fold) / grid->row_lines;
}

int weft_still_grid_make(weft_still_grid *grid, const weft_view_schedule *s, int64_t cols, int64_t lines) {
    const weft_view_grid *g = &s->grid;
    const int64_t all = g->rows_of_bank * g->lines, wide = g->banks * g->fold;
    grid->col_tiles = weft_ceil_divide(wide, cols);
    grid->row_lines = weft_ceil_divide(all, lines);
    grid->cols = weft_ceil_divide(wide, grid->col_tiles);
    grid->lines = weft_ceil_divide(all, grid->row_lines);
    grid->share = malloc((size_t)(grid->cols * grid->lines) * sizeof *grid->share);
    if (!grid->share) {
        return 0;
    }
    for (int64_t i = 0; i < grid->cols * grid->lines; i++) {
        grid->share[i] = -1;
    }
    const double last = g->positions > 1 ? (double)(g->positions - 1) : 1.0;
    for (size_t i = 0; i < s->recording.count; i++) {
        const weft_recording_visit *v = &s->recording.visits[i];
        for (int64_t t = 0; t < g->cluster_rows * g->cluster_cols; t++) {
            int64_t col, line;
            weft_still_place(grid, s, v->tile + t / g->cluster_cols * g->cols + t % g->cluster_cols, &col, &line);
            double *share = &grid->share[line * grid->cols + col];
            const double ours = (double)v->position / last;
            *share = *share < 0 || ours < *share ? ours : *share;
        }
    }
    return 1;
}

double weft_still_held(const weft_recording *t, int64_t col, int64_t cols, int64_t step, int64_t steps) {
    const int64_t frame = (col * 2 + 1) * t->frames / (2 * cols), cells = t->rows * t->cols;
    const int64_t from = step * t->cols / steps, to = (step + 1) * t->cols / steps;
    double most = 0;
    for (int64_t i = 0; i < t->domains * t->rows; i++) {
        const uint8_t *row = t->resident + frame * t->domains * cells + i * t->cols;
        double sum = 0;
        for (int64_t c = from; c < (to > from ? to : from + 1); c++) {
            sum += row[c];
        }
        most = fmax(most, sum / (double)(to > from ? to - from : 1) / WEFT_RECORDING_FULL);
    }
    return most;
}

weft_traffic weft_still_traffic(const weft_recording *t, int64_t frame) {
    weft_traffic sum = WEFT_TRAFFIC_INIT;
    for (int64_t d = 0; frame >= 0 && d < t->domains; d++) {
        const weft_traffic *c = &t->traffic[frame * t->domains + d];
        sum.sectors += c->sectors;
        sum.hits += c->hits;
        sum.misses += c->misses;
        sum.fabric_sectors += c->fabric_sectors;
        sum.dram_read_bytes += c->dram_read_bytes;
    }
    return sum;
}

double weft_still_hits(const weft_recording *t, int64_t col, int64_t cols) {
    const weft_traffic from = weft_still_traffic(t, col * t->frames / cols - 1);
    const weft_traffic to = weft_still_traffic(t, (col + 1) * t->frames / cols - 1);
    const uint64_t lookups = to.hits + to.misses - from.hits - from.misses;
    return lookups > 0 ? (double)(to.hits - from.hits) / (double)lookups : NAN;
}
