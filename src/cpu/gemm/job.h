/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the CPU's GEMM share: a job, its operands, and the memory of a thread. */
#ifndef WEFT_CPU_GEMM_JOB_H
#define WEFT_CPU_GEMM_JOB_H

#include "cpu/thread/walk.h"
#include "plan/plan.h"
#include "problem/problem.h"

/* An operand and how it is packed: slices of tile_k, in each slice panels of `lines` lines. */
typedef struct weft_cpu_gemm_operand {
    weft_cpu_operand layout;
    void (*pack)(const weft_cpu_source *source, void *to);
    weft_cpu_source source; /* all of it */
    int64_t gate;           /* gated: lines from a gate to its value; panels alternate between the two. 0: not gated */
    int64_t panels;         /* of a slice */
    size_t panel;           /* bytes */
    char *packed;           /* all slices; null where each thread packs what its tile needs */
} weft_cpu_gemm_operand;

typedef struct weft_cpu_gemm_job {
    const weft_plan *plan;
    const weft_gemm_data *data;
    const weft_cpu_kernel *kernel;
    int64_t slices;
    weft_cpu_gemm_operand a, b;
    int64_t first;           /* which product of the batch the data begins with */
    weft_cpu_taken *columns; /* columns of blocks taken, for each tile; null when threads do not share tiles */
    double *column_shares; /* (products, rows of tiles, columns of C): sums of a tile's columns; null: nobody wants them */
} weft_cpu_gemm_job;

/* The job of a plan's product, with nothing packed. */
weft_cpu_gemm_job weft_cpu_gemm_job_of(const weft_plan *plan, const weft_gemm_data *data);

/* One tile; `scratch` has what weft_cpu_gemm_lay_out() counts. */
void weft_cpu_gemm_tile(const weft_cpu_gemm_job *g, void *scratch, const weft_visit *visit);

/* Memory of one thread. */
typedef struct weft_cpu_gemm_buffers {
    char *a, *b;              /* panels of a tile, where they are not packed for all */
    float *sums;              /* blocks of a tile */
    float *block;             /* one, transposed */
    float *line;              /* of a tile */
    float *results, *vectors; /* with an epilogue: (rows, columns of C) of a tile; five lines of it, or a column */
} weft_cpu_gemm_buffers;

/* Carves them out of scratch memory; null: only counts the bytes. */
weft_cpu_gemm_buffers weft_cpu_gemm_lay_out(const weft_cpu_gemm_job *g, char *scratch, size_t *size);

/* Panels first .. end - 1 of A and B. A tile takes the panels that begin inside it; 0 when there are none. */
typedef struct weft_cpu_gemm_cut {
    int64_t row, row_end, col, col_end;
} weft_cpu_gemm_cut;

int weft_cpu_gemm_cut_tile(const weft_cpu_gemm_job *g, const weft_visit *visit, weft_cpu_gemm_cut *c);

/* Packs panels first .. end - 1 of a slice. */
void weft_cpu_gemm_pack(const weft_cpu_gemm_job *g, const weft_cpu_gemm_operand *o, int64_t slice, int64_t first,
                        int64_t end, char *to);

/* The block of a panel of A and one of B with A unpacked; only the ragged rest, of rows or of k, is packed, to `scratch`.
 * In columns.c. */
void weft_cpu_gemm_multiply_unpacked(const weft_cpu_gemm_job *g, int64_t panel, int64_t col, int64_t slice, const char *b,
                                     float *c, int add, char *scratch);

/* The first line of a panel, and how many lines there are from there on, of the gate or the value where they are gated. */
static inline int64_t weft_cpu_gemm_line(const weft_cpu_gemm_operand *o, int64_t panel) {
    return o->gate ? panel / 2 * o->layout.lines + panel % 2 * o->gate : panel * o->layout.lines;
}

static inline int64_t weft_cpu_gemm_lines_left(const weft_cpu_gemm_operand *o, int64_t panel) {
    return o->gate ? o->gate - panel / 2 * o->layout.lines : o->source.lines - panel * o->layout.lines;
}

/* Stores the sums of a tile's panels, or of a column of them, to C: C = alpha sums + beta C, where with beta 0 the old C is
 * not read, or all of the epilogue: epilogue.c. */
void weft_cpu_gemm_store(const weft_cpu_gemm_job *g, const weft_visit *visit, const weft_cpu_gemm_cut *cut,
                         const weft_cpu_gemm_buffers *w);
void weft_cpu_gemm_fuse(const weft_cpu_gemm_job *g, const weft_visit *visit, const weft_cpu_gemm_cut *cut,
                        const weft_cpu_gemm_buffers *w);

/* Memory for the tiles' shares of the sums of columns, 0 if there is none, freed by free(); and their sums, in the order of
 * the tiles. */
int weft_cpu_gemm_alloc_shares(weft_cpu_gemm_job *g);
void weft_cpu_gemm_add_shares(const weft_cpu_gemm_job *g);

#endif
