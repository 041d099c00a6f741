/* SPDX-License-Identifier: Apache-2.0 */
/* A tile of queries against blocks of packed keys: what the forward pass and decode are made of. */
#ifndef WEFT_CPU_ATTENTION_QUERIES_H
#define WEFT_CPU_ATTENTION_QUERIES_H

#include "cpu/attention/kv.h"
#include "cpu/attention/scores.h"

typedef struct weft_cpu_attention_job {
    const weft_attention *p;
    const weft_attention_data *data;
    const weft_cpu_kernel *kernel;
    int64_t tile_m; /* queries of a tile */
    const weft_walk *walk;
    weft_cpu_kv kv;
    weft_cpu_scores scores;          /* for a negative scale, the queries are negated */
    const weft_cpu_kv_packing *held; /* each thread packs the head that it works on; null: all heads are packed first */
    unsigned char *begun;            /* for each tile, whether a thread has begun it; null when nobody steals */
    size_t q_panel;                  /* bytes */
} weft_cpu_attention_job;

void weft_cpu_attention_job_init(weft_cpu_attention_job *a, const weft_attention *problem, const weft_attention_data *data,
                                 int64_t tile_m, int64_t tile_n);

/* A tile of queries at work: memory of one thread. A panel has as many queries as the kernel's blocks have columns. */
typedef struct weft_cpu_query_tile {
    char *q;            /* packed panels of queries */
    float *out;         /* (panels, dims, width) */
    float *max, *sum;   /* (panels, width) */
    float *scores;      /* (keys, width): scores, then weights */
    char *weights;      /* as the next product's operand */
    float *rescale;     /* (width) */
    float *kept;        /* (keys, width): what dropout multiplies weights by; empty without */
    weft_rows *runs;    /* (panels, width): keys that a query sees; those past the last see what it sees */
    weft_cpu_seen seen; /* (width) keys of the panel at hand that a query sees */
    float *rows;        /* (width, dims): the output of one panel, query by query */
} weft_cpu_query_tile;

/* Carves it out of scratch memory; null: only counts the bytes. */
weft_cpu_query_tile weft_cpu_queries_lay_out(const weft_cpu_attention_job *a, void *scratch, size_t *size);

/* Loads queries and starts their sums. Then each block of keys is visited once, in any order; `full`: all queries see all
 * of it, but for what the bits of a block mask hide, of which it has number bits_at: see weft_pairs. */
void weft_cpu_queries_load(const weft_cpu_attention_job *a, const weft_cpu_query_tile *b, const weft_cpu_queries *q);
void weft_cpu_queries_visit(const weft_cpu_attention_job *a, const weft_cpu_query_tile *b, const weft_cpu_queries *q,
                            const weft_cpu_kv_block *block, int64_t begin, int64_t keys, int full, int32_t bits_at);

/* How a query ends that has the sum of 2^(score - max), with a sink of so many units to base 2 or -inf: what its output is
 * multiplied by, and its LSE, which is -inf where there is neither key nor sink. */
typedef struct weft_cpu_row_end {
    float factor, lse;
} weft_cpu_row_end;
weft_cpu_row_end weft_cpu_end_row(float max, float sum, double sink);

#endif
