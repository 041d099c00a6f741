/* SPDX-License-Identifier: Apache-2.0 */
/* What tests of attention over ranks share: the whole of a problem, its parts, what a rank does with its own, and what is
 * right. Ranks are threads in test_dist.c and processes in mpi_dist.c. */
#ifndef WEFT_TESTS_DIST_PARTS_H
#define WEFT_TESTS_DIST_PARTS_H

#include "cuda/driver/driver.h"
#include "shared.h"

#include "most_ranks.h"

/* A tensor of all rows, (batch, rows, heads, dim), and the part of it that a rank has. */
typedef struct tensor {
    int32_t of; /* rows of queries or of keys */
    int64_t rows, heads, dim;
    char *all;
} tensor;

enum { Q, K, V, O, GRAD_O, GRAD_Q, GRAD_K, GRAD_V, TENSORS };

typedef struct whole {
    shared_problem s;
    tensor t[TENSORS];
    float *lse; /* (batch, heads, seq) */
    float sinks[8], alibi[64], grad_sinks[8];
    char *bias;
    size_t element;
} whole;

/* What a rank has of it. */
typedef struct part {
    const whole *w;
    int32_t rank;
    int bhsd, keeps;             /* heads before rows; a backward pass begins with what the forward pass kept */
    double seconds;              /* that are waited; 0: 60 */
    const weft_cuda_driver *gpu; /* null: it computes on the CPU. A context is current */
    void *stream;                /* of the GPU */
    weft_status status;
    weft_message message;
    char *t[TENSORS];
    float *lse, grad_sinks[8];
    weft_dist_traffic expected[2], counted[2];
    weft_dist *dist[2]; /* forward, backward */
} part;

/* Draws a problem of at most so many rows, over ranks between these. */
void draw_whole(uint64_t *random, whole *w, int64_t most_rows, int64_t least_ranks, int64_t most_ranks);

/* Its tensors, with random inputs. */
void make_whole(whole *w, uint64_t *random);
void free_whole(whole *w);

/* A rank's part of it, and its run, forward and, if that is the problem, backward. */
part part_of(const whole *w, int32_t rank, int bhsd, int keeps);
weft_status run_part(part *m, const weft_transport *transport);
void free_part(part *m);

/* Bytes of a tensor of a part. */
size_t part_bytes(const part *m, int32_t rank, int i);

/* Makes a problem one that GPUs have kernels for. */
void suit_gpu(whole *w, uint64_t *random);

/* Puts the parts of all ranks together and holds them to the reference, in whole->t. */
void check_parts(whole *w, const part *parts);

/* A rank has sent and received what was expected. */
void check_counts(const part *m);

/* The same bits. */
void check_same(const part *a, const part *b);

#endif
