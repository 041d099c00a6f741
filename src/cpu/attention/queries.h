/* A tile of queries against blocks of packed keys: what the forward pass and decode are made of. */
#ifndef WEFT_CPU_ATTENTION_QUERIES_H
#define WEFT_CPU_ATTENTION_QUERIES_H

#include "cpu/attention/kv.h"

typedef struct weft_cpu_attention_job {
    const weft_attention *p;
    const weft_attention_data *data;
    const weft_cpu_kernel *kernel;
    int64_t tile_m; /* queries of a tile */
    int64_t blocks; /* tiles of a head */
    weft_cpu_kv kv;
    const weft_cpu_kv_packing *held; /* each thread packs the head that it works on; null: all heads are packed first */
    unsigned char *begun;            /* for each tile, whether a thread has begun it; null when nobody steals */
    size_t q_panel;                  /* bytes */
    float factor;                    /* |scale| times log2(e): for a negative scale, the queries are negated */
} weft_cpu_attention_job;

void weft_cpu_attention_job_init(weft_cpu_attention_job *a, const weft_attention *problem, const weft_attention_data *data,
                                 int64_t tile_m, int64_t tile_n);

/* A tile of queries at work: memory of one thread. A panel has as many queries as the kernel's blocks have columns. */
typedef struct weft_cpu_query_tile {
    char *q;          /* packed panels of queries */
    float *out;       /* (panels, dims, width) */
    float *max, *sum; /* (panels, width) */
    float *scores;    /* (keys, width): scores, then weights */
    char *weights;    /* as the next product's operand */
    float *rescale;   /* (width) */
    weft_cpu_seen seen; /* (width) keys of the block that a query sees */
    float *rows;      /* (width, dims): the output of one panel, query by query */
} weft_cpu_query_tile;

/* Carves it out of scratch memory; null: only counts the bytes. */
weft_cpu_query_tile weft_cpu_queries_lay_out(const weft_cpu_attention_job *a, void *scratch, size_t *size);

/* Loads `rows` queries from `first` and starts their sums. Then each block of keys is visited once, in any order. */
void weft_cpu_queries_load(const weft_cpu_attention_job *a, const weft_cpu_query_tile *b, weft_tile tile, int64_t first,
                           int64_t rows);
void weft_cpu_queries_visit(const weft_cpu_attention_job *a, const weft_cpu_query_tile *b, weft_tile tile, int64_t first,
                            int64_t rows, const weft_cpu_kv_block *block, int64_t begin, int64_t keys);

/* The natural logarithm of sum times 2^max; -inf where no key was seen. */
float weft_cpu_lse(float max, float sum);

#endif
