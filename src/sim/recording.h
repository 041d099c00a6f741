/* SPDX-License-Identifier: Apache-2.0 */
/* What happened in a run, for people to look at: every visit of a worker to a tile, and at equal distances in time (frames)
 * what the L2s hold, what they have counted, where the workers are, and how far back the data that they asked for was
 * touched last. */
#ifndef WEFT_SIM_RECORDING_H
#define WEFT_SIM_RECORDING_H

#include <weft/sim.h>

#include "sim/subject.h"

enum { WEFT_RECORDING_LINES = 2 };

/* One visit. The counts are those of all lookups that it caused, in its own domain and at homes elsewhere. */
typedef struct weft_recording_visit {
    int64_t worker, position, tile; /* tile: row by row over the grid; with clusters the first of the cluster */
    int64_t first, last, steps;     /* numbers of the steps it takes, and how many */
    int direction;
    int64_t line[WEFT_RECORDING_LINES]; /* of the first sections: which line of each it reads; -1: not one line */
    double begin, end;                  /* seconds */
    uint64_t hits, misses;
    uint64_t in_flight; /* of the hits, sectors that were on their way: merged before they are counted */
} weft_recording_visit;

/* A tensor, or a pair of them, as the maps show it: lines (heads, or tiles along m or n) of steps. */
typedef struct weft_recording_section {
    const char *name, *line; /* "K and V", "kv head" */
    int64_t lines;
    int64_t rows, first_row; /* of cells */
    uint32_t first, pieces;  /* the number of the first piece, and how many */
} weft_recording_section;

enum { WEFT_RECORDING_SECTIONS = WEFT_SIM_SECTIONS, WEFT_RECORDING_FULL = 3 };

/* What one domain's L2 holds at the end of a frame, in sectors. */
typedef struct weft_recording_use {
    int64_t streams, others; /* pieces that are read step by step; what is read once or written */
} weft_recording_use;

typedef struct weft_recording {
    weft_simulation sim;
    weft_traffic *totals; /* (domains) */
    int64_t frames, domains, workers;
    int64_t *domain_of;           /* (workers) */
    weft_recording_visit *visits; /* in the order of their beginning */
    size_t count, room;
    /* The maps: cells of lines_per_cell x steps_per_cell pieces, sections one below the other. */
    int sections;
    weft_recording_section section[WEFT_RECORDING_SECTIONS];
    const char *step, *read;            /* "key block", "blocks of K and V" */
    const char *tile_row, *tile_column; /* of the grid; or null */
    int64_t steps, lines_per_cell, steps_per_cell, rows, cols;
    uint8_t *resident;       /* (frames, domains, rows, cols) 0: nothing of it is there, WEFT_RECORDING_FULL: all */
    weft_recording_use *use; /* (frames, domains) */
    weft_traffic *traffic;   /* (frames, domains) counted so far */
    int32_t *place;          /* (frames, workers) the step a worker is at; -1: it has no tile */
    uint8_t *missed;         /* (frames, workers) 1: something that it asked for in this frame was not there */
    uint64_t *distances;     /* (frames, WEFT_PROFILE_BINS + 1) sectors read, by reuse distance */
} weft_recording;

/* Simulates as weft_simulate() does, and records it. Release the recording in any case. */
weft_status weft_recording_make(weft_recording *recording, const weft_sim_subject *subject,
                                const weft_simulate_options *options, int64_t frames, weft_message *message);
void weft_recording_release(weft_recording *recording);

#endif
