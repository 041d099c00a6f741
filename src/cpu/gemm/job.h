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
    weft_cpu_taken *columns; /* columns of blocks taken, for each tile; null when threads do not share tiles */
} weft_cpu_gemm_job;

/* Memory of one thread. */
typedef struct weft_cpu_gemm_buffers {
    char *a, *b;  /* panels of a tile, where they are not packed for all */
    float *sums;  /* blocks of a tile */
    float *block; /* one, transposed */
    float *line;  /* of a tile */
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

/* C = alpha sums + beta C for the rows and columns of a tile, or of a column of blocks; with beta 0 the old C is not read.
 */
void weft_cpu_gemm_store(const weft_cpu_gemm_job *g, int64_t row, int64_t row_end, int64_t col, int64_t col_end,
                         const weft_cpu_gemm_buffers *w);

#endif
