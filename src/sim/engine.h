/* SPDX-License-Identifier: Apache-2.0 */
/* The clockwork: workers that take jobs, request ahead, compute, and wait for what is late. It knows nothing of attention
 * or matrix products; a source hands out the jobs. */
#ifndef WEFT_SIM_ENGINE_H
#define WEFT_SIM_ENGINE_H

#include <weft/order.h>

#include "problem/operation.h"
#include "sim/memory.h"

/* At each step s a job reads piece base + s of each of its streams, or base + places[s].piece. */
typedef struct weft_sim_stream {
    uint32_t base;
    uint32_t weight, last_weight; /* sectors of a piece; of the piece of the last step that there is */
    const weft_place *places;     /* or null; then its sectors count, and `weight` is a usual piece's */
} weft_sim_stream;

enum { WEFT_SIM_STREAMS = 32, WEFT_SIM_STAGES = 16, WEFT_SIM_SECTIONS = 16 };

/* One tile (or cluster of tiles). */
typedef struct weft_sim_job {
    int64_t first, steps, last_step; /* the steps to take, and the number of the last one there is */
    int direction;
    int64_t ring_end;          /* 0, or the step at which a job that goes up wraps around to the first of its steps */
    const weft_blocks *blocks; /* null, or the block mask whose list, from entry `listed` on, the steps are numbers of */
    int64_t listed;
    int streams;
    weft_sim_stream stream[WEFT_SIM_STREAMS];
    weft_sim_stream sums; /* at each step, when it has computed, the job adds to piece base + s; weight 0: to none */
    double step_seconds;
    double spread;              /* of the steps' times, as a share of the drift; 1 but for clusters */
    double load;                /* share of a step in which the L2 is busy with its pieces */
    double jitter;              /* what waiting for a busy L2 adds to that spread */
    uint32_t lead, lead_weight; /* read once before the first step; weight 0: nothing */
    uint32_t out, out_weight;   /* written once after the last step */
    int64_t position, tile;     /* where in the order, and which tile of the grid, row by row */
} weft_sim_job;

/* The number of a job's i-th step among all that there are. */
static inline int64_t weft_sim_step(const weft_sim_job *job, int64_t i) {
    int64_t number = job->first + i * job->direction;
    number -= job->ring_end > 0 && number >= job->ring_end ? job->steps : 0;
    return job->blocks ? weft_blocks_step(job->blocks, job->listed, number) : number;
}

static inline uint32_t weft_sim_piece(const weft_sim_stream *stream, int64_t step) {
    return stream->base + (stream->places ? stream->places[step].piece : (uint32_t)step);
}

/* Sectors of the piece of a step that a job has. */
static inline uint32_t weft_sim_weight(const weft_sim_job *job, const weft_sim_stream *stream, int64_t step) {
    return stream->places ? stream->places[step].sectors : step == job->last_step ? stream->last_weight : stream->weight;
}

/* Someone who watches a run. Each call comes after what it tells of was asked of the memory, in the order of time to within
 * a bucket of the engine's wheel. */
typedef struct weft_sim_observer {
    void (*began)(void *context, int64_t worker, int64_t domain, const weft_sim_job *job, double now);
    void (*stepped)(void *context, int64_t worker, int64_t step, double now);
    void (*ended)(void *context, int64_t worker, double now);
    void *context;
} weft_sim_observer;

/* The steps of jobs that are no streams: what each reads and writes, and how long it takes. Steps are numbered from 0; step
 * -1 comes before the first and takes no time. A job's streams, lead and out are then not used. */
typedef struct weft_sim_listed {
    double (*read)(void *context, weft_memory *memory, int64_t worker, int64_t domain, int64_t step, double now);
    void (*write)(void *context, weft_memory *memory, int64_t worker, int64_t domain, int64_t step, double now);
    double (*seconds)(void *context, int64_t worker, int64_t step);
    int64_t (*place)(void *context, int64_t worker, int64_t step); /* the column of the map that it reads; see below */
} weft_sim_listed;

/* What pictures show of the pieces: sections one below the other, each of lines of `columns` pieces. */
typedef struct weft_sim_map {
    int sections;
    struct {
        const char *name, *line; /* "K and V", "kv head" */
        uint32_t first, pieces;  /* the number of the first, and how many */
    } section[WEFT_SIM_SECTIONS];
    int64_t columns;
    const char *column, *read;          /* "key block", "blocks of K and V" */
    const char *tile_row, *tile_column; /* of the grid; null: nothing is known of it */
} weft_sim_map;

typedef struct weft_sim_source {
    int64_t workers;
    int64_t seats; /* SMs: workers beyond that many are second CTAs on them */
    int64_t run;   /* workers in a row on one domain */
    uint32_t pieces;
    double edges;         /* seconds before a worker's first tile and after its last */
    double between;       /* seconds between two of its tiles */
    double least;         /* seconds of all, at least */
    double room, fetched; /* see weft_pieces; 0: 1 */
    uint64_t steps;       /* of all jobs, for whoever wants to know of progress; 0: not counted */
    /* The next job of a worker of a domain; returns 0 when there is none. */
    int (*next)(void *context, int64_t worker, int64_t domain, weft_sim_job *job);
    void *context;
    /* Null, or in which turn a worker's job adds to the sums of a step, counted from 0: it waits until that many others
     * have added there. */
    int64_t (*turn)(void *context, int64_t worker, int64_t step);
    double add_seconds;                /* that a sector takes which is added in turn */
    double told;                       /* with turns: steps from an add until the next may come, at least */
    int stores_first;                  /* with turns: the first stores what others add to */
    const weft_sim_observer *observer; /* or null */
    const weft_sim_listed *listed;     /* or null: jobs are streams */
    weft_sim_map map;
    uint64_t sectors;           /* of all pieces, at most */
    uint64_t distinct, written; /* sectors that are read first, and that are written, each once */
    uint64_t visits;            /* pieces read by listed steps */
    int64_t per_piece;          /* tensors that a piece is made of */
    int64_t passes;             /* over each tile that the subject's steps count once; 0: one */
    /* After a run: sets the three counts above where only a run shows them, or says what was wrong with a job. Or null. */
    weft_status (*end)(struct weft_sim_source *source, weft_message *message);
    void (*release)(void *context); /* or null */
} weft_sim_source;

typedef struct weft_sim_outcome {
    double seconds;
    uint64_t steps;  /* taken by all workers */
    uint64_t pieces; /* asked for in these steps */
    double waited;   /* seconds that a worker has waited for its turns to add, in the mean */
} weft_sim_outcome;

/* Someone who looks at a run after so many steps, when a tile ends, and may end it there. */
typedef struct weft_sim_watch {
    uint64_t next; /* the number of steps to look at */
    /* Sets `next`; returns 0 when it has seen enough. */
    int (*look)(struct weft_sim_watch *watch, const weft_memory *memory, uint64_t steps, double now);
} weft_sim_watch;

/* How to simulate: the caller's options, and the profile with what they override in it. */
typedef struct weft_sim_settings {
    weft_profile profile;
    uint64_t seed, limit;
    weft_sim_watch *watch;  /* or null */
    weft_progress progress; /* or null */
    void *progress_user;
    const int32_t *page_table; /* see weft_simulate_options */
} weft_sim_settings;

/* The settings that apply, or what is wrong with the options; null gives the defaults. `usual` is the name of the profile
 * where the caller gives none. */
weft_status weft_sim_settings_read(weft_sim_settings *settings, const weft_simulate_options *given, const char *usual,
                                   weft_message *message);

/* Runs all jobs. WEFT_NO_MEMORY, or WEFT_UNSUPPORTED where workers wait for turns that never come. */
weft_status weft_sim_run(weft_memory *memory, const weft_sim_source *source, const weft_sim_settings *settings,
                         weft_sim_outcome *outcome, weft_message *message);

#endif
