/* SPDX-License-Identifier: Apache-2.0 */
/* The Hopper GEMM's parameters and variants: plain C for the host, and CUDA for the kernel.
 *
 * One source, src/cuda/sm90/gemm/kernel.cuh, multiplies 16-bit matrices with wgmma (sm_90a). variants.def lists what
 * is compiled of it. Order, sweep, dispatch, workers and clusters are in the walk; the fields below are the rest. */
#ifndef WEFT_CUDA_SM90_GEMM_PARAMS_H
#define WEFT_CUDA_SM90_GEMM_PARAMS_H

#include <weft/weft.h>

#include "cuda/driver/tensor_map.h"
#include "cuda/gemm/epilogue_params.h"
#include "order/deal.h"
#include "order/first.h"

/* Passed by value. D = alpha A B + beta D with A (m, k), B (k, n): D is C, or its transpose, for which A and B are in each
 * other's place and `swapped` is set.
 *
 * The boxes of a and b are 64 elements of k, and a_rows or b_rows of m or n (64 where those are contiguous); the contiguous
 * axis comes first, the batch last. The box of c is 128 bytes x 16 rows of D; of a transposed variant, whose D lies in C
 * column by column, 16 rows of D x 64 of its columns, or as many as a tile has.
 *
 * Launch: a one-dimensional grid of clusters of split * cluster_m * cluster_n CTAs, as many as walk.order.count under grid
 * dispatch, else walk.workers; threads and dynamic shared memory from the variant. */
typedef struct weft_gemm_params {
    weft_tensor_map a, b, c;
    weft_walk walk;            /* tiles of the variant's tile_m x tile_n (swapped: its n x m), steps of WEFT_GEMM_STEP */
    uint64_t *counter;         /* dynamic dispatch, or workers by side: 0 before the launch; else null */
    const uint8_t *side_of_sm; /* the side of the L2 that each SM is on, for workers by side; else null */
    /* How long the L2 is to keep what is read of A and B, and what of them the next wave reads again: see tensor_map.h. */
    uint64_t a_keep, b_keep, again_keep;
    float alpha, beta;
    int32_t c_dtype;        /* a weft_dtype */
    int32_t c_first;        /* 1: the L2 is to give up C first */
    int32_t swapped;        /* 1: the walk's rows are columns here */
    int32_t a_rows, b_rows; /* rows of A and columns of B in a box: multiples of 8 (of 64 where m or n is contiguous) */
    int32_t a_end, b_end;   /* and how many of a tile's are loaded, whole boxes: all, or as many as there are */
    /* Where tiles begin at the latest. Those at the ends of C then lie within it instead of reaching beyond it: the copy
     * engine takes 15 times as long for a line that is not there. They have rows or columns in common with others, which
     * compute the same there: all of these go forward, whatever the sweep. INT32_MAX: they do reach beyond it. */
    int32_t last_row, last_col;
    int32_t cluster_m, cluster_n; /* CTAs of a cluster along m and n: those along n share A, those along m share B */
    uint32_t *begun; /* tiles that are nearly loaded, of all workers; 0 before the launch; null: nobody waits for others */
    int32_t pace_steps; /* the steps that are left of a tile when it counts as that */
    int32_t band_waves; /* waves of a band, after which the walk turns; 0: nothing is known to be read again */
    int32_t wave_again; /* which of A and B the next wave of the band reads again: 1 A, 2 B */
    weft_first first;   /* m and n as the kernel sees them */
    int32_t split; /* so many times that many CTAs share out the steps of the same tiles, under grid dispatch, each at least
                      one */
} weft_gemm_params;

/* The phase of a row of A is where in a line of the L2 (128 bytes) it begins: rows c, c + count, c + 2 count, ... have the
 * same one. A tile then has rows of one phase, its steps begin so many elements of k before a multiple of 64 that what is
 * loaded of A is whole lines, and what lies before the row is read as zeros. Without a batch, whose axis of the tensor maps
 * is taken: the phases are that axis of a and c. Those from `longer` on have one row less, and maps of their own. */
typedef struct weft_gemm_phases {
    int32_t count;      /* 2, 4 or 8; 0: rows are taken as they lie, and the variant is one without phases */
    int32_t tiles;      /* of a phase */
    int32_t multiplier; /* 2^20 / tiles, rounded up: exact for what is below 2^10 */
    int32_t longer;     /* phases that have one row more */
    uint32_t order;     /* of the phases: four bits each */
    uint32_t shifts;    /* of the steps of each of them, in that order: four bits, in units of 8 elements */
} weft_gemm_phases;

/* What variants with phases take. */
typedef struct weft_gemm_phase_params {
    weft_gemm_params product; /* first, so that a variant without them can take the same */
    weft_tensor_map a_short, c_short;
    weft_gemm_phases phases;
} weft_gemm_phase_params;

/* What variants with an epilogue take: alpha is 1, and beta is what the box of `added` is multiplied by, the old C or the
 * residual. Gated, a tile's columns of B are half gates, then their values, and it has half as many columns of C. */
typedef struct weft_gemm_fused_params {
    weft_gemm_params product; /* first, as above */
    weft_tensor_map added;
    weft_gemm_epilogue epilogue;
} weft_gemm_fused_params;

/* What there is of a tile and a layout: the form of a variant. */
enum { WEFT_GEMM_PLAIN, WEFT_GEMM_BY_PHASE, WEFT_GEMM_FUSED, WEFT_GEMM_GROUPED, WEFT_GEMM_TRANSPOSED };

/* What an entry takes, by its form. */
#define WEFT_GEMM_TAKES_0 weft_gemm_params
#define WEFT_GEMM_TAKES_1 weft_gemm_phase_params
#define WEFT_GEMM_TAKES_2 weft_gemm_fused_params
#define WEFT_GEMM_TAKES_4 weft_gemm_params

/* k of a step; m or n of an atom of shared memory; warps that multiply, at most. */
enum { WEFT_GEMM_STEP = 64, WEFT_GEMM_ATOM = 64, WEFT_GEMM_MOST_WARPS = 8 };

/* Warpgroups that multiply: one for 64 rows, else two. Threads of a CTA, with the warpgroup that loads. */
#define WEFT_GEMM_GROUPS(tile_m)  ((tile_m) == 64 ? 1 : 2)
#define WEFT_GEMM_THREADS(tile_m) (128 * (WEFT_GEMM_GROUPS(tile_m) + 1))

/* What is compiled: a row of variants.def. */
typedef struct weft_gemm_variant {
    const char *symbol; /* the entry point */
    const char *module; /* the image that holds it */
    weft_dtype dtype;   /* of A and B */
    int32_t a_mn, b_mn; /* 1: contiguous along m or n; 0: along k */
    int32_t tile_m, tile_n;
    int32_t ctas;       /* that share an SM */
    int32_t by_phase;   /* 1: takes weft_gemm_phase_params */
    int32_t fused;      /* 1: takes weft_gemm_fused_params */
    int32_t transposed; /* 1: columns of its tiles lie in C one behind the other, not rows */
    uint32_t shared_bytes;
} weft_gemm_variant;

/* Tiles whose sums leave few registers: their workers take no tickets by side. */
#define WEFT_GEMM_LEAN(tile_m, tile_n) ((tile_m) * (tile_n) > 32768)

/* Tiles whose columns are whole pieces of C. Of other tiles the last piece begins within the piece before it and stores the
 * same bits once more, so these tiles take no old C, and there are only the plain and the transposed form of them. */
#define WEFT_GEMM_WHOLE_PIECES(tile_n) ((tile_n) % 64 == 0)

/* Tiles of which there is a variant with phases: not the small ones, which wait for their launch. */
#define WEFT_GEMM_HAS_PHASES(tile_m, tile_n) ((tile_m) * (tile_n) >= 16384 && WEFT_GEMM_WHOLE_PIECES(tile_n))

/* Tiles whose half is whole pieces of C, so that their columns can be gates and values. */
#define WEFT_GEMM_HAS_GATES(tile_n) ((tile_n) % 128 == 0)

/* CTAs of a cluster, at most. */
enum { WEFT_GEMM_MAX_CLUSTER = 8 };

/* Tiles whose steps CTAs of a cluster can share out. */
#define WEFT_GEMM_SPLITS(tile_m) ((tile_m) == 128)

/* Dynamic shared memory: a ring of stages, each a step of A and B; two pieces of C for each warp, 16 rows of 128 bytes; the
 * barriers. */
#define WEFT_GEMM_STAGE_BYTES(tile_m, tile_n) (2 * WEFT_GEMM_STEP * ((tile_m) + (tile_n)))
#define WEFT_GEMM_PIECE_BYTES                 2048
#define WEFT_GEMM_PIECES_BYTES(tile_m)        (2 * 4 * WEFT_GEMM_GROUPS(tile_m) * WEFT_GEMM_PIECE_BYTES)
#define WEFT_GEMM_SHARED_BYTES(tile_m, tile_n, stages)                                                                     \
    ((stages)*WEFT_GEMM_STAGE_BYTES(tile_m, tile_n) + WEFT_GEMM_PIECES_BYTES(tile_m) + 1024)

/* The initialiser of a weft_gemm_variant from a row: #define WEFT_GEMM(...) WEFT_GEMM_VARIANT(__VA_ARGS__), */
/* clang-format off */
#define WEFT_GEMM_VARIANT(symbol, module, DTYPE, a_mn, b_mn, tile_m, tile_n, stages, ctas, form)                           \
    { #symbol, #module, WEFT_##DTYPE, a_mn, b_mn, tile_m, tile_n, ctas, (form) == WEFT_GEMM_BY_PHASE,                      \
      (form) == WEFT_GEMM_FUSED, (form) == WEFT_GEMM_TRANSPOSED, WEFT_GEMM_SHARED_BYTES(tile_m, tile_n, stages) }
/* clang-format on */

#endif
