/* SPDX-License-Identifier: Apache-2.0 */
/* An operation from the inside: what weft must know of a kind of work to check it, lay it out in tiles, simulate it, tune
 * it and describe it. operations.def lists them; docs/adding-an-operation.md walks through a small one. */
#ifndef WEFT_PROBLEM_OPERATION_H
#define WEFT_PROBLEM_OPERATION_H

#include <stddef.h>

#include <weft/machine.h>

/* Any descriptor. Each begins with struct_size and operation. */
typedef union weft_problem {
    struct {
        size_t struct_size;
        int32_t operation;
    };
    weft_attention attention; /* forward and backward */
    weft_gemm gemm;
    weft_combine combine;
    weft_grouped_gemm grouped;
    int64_t room[64]; /* for descriptors that operations of other files have */
} weft_problem;

/* The data of any problem. */
typedef union weft_data {
    struct {
        size_t struct_size;
        int32_t operation;
    };
    weft_attention_data attention;
    weft_attention_gradients gradients;
    weft_gemm_data gemm;
    weft_combine_data combine;
    weft_grouped_gemm_data grouped;
    void *room[32];
} weft_data;

/* A piece of a stream that lies anywhere: its number counted from the first piece of its line, and its sectors. */
typedef struct weft_place {
    uint32_t piece, sectors;
} weft_place;

/* A problem cut into tiles: what the functions below need of a plan. */
typedef struct weft_tiling {
    const weft_problem *problem; /* resolved */
    const weft_schedule *schedule;
    int64_t heads_in_tile;    /* attention: query heads that share K and V in one tile, whose rows are (query, head) */
    int64_t products;         /* GEMM: products of the batch that one walk covers; 0: all */
    int64_t lead;             /* attention: rows that the first tile lacks, see weft_reach */
    int joined;               /* attention, packed: tiles are cut whatever sequences their rows are of, see weft_reach */
    int dq_pass;              /* attention backward: dQ has passes of its own over the keys, see weft_profile */
    const weft_place *places; /* attention, keys in pages, for the simulator: (batch, steps) of kv head 0, and behind them
                                 the most sectors that one has; else null */
} weft_tiling;

/* A side of a tile: a field of the schedule that the operation uses. */
typedef struct weft_tile_side {
    int64_t *size;                /* &schedule->tile_m, ... */
    const char *name, *dimension; /* "tile_m", "seq" */
    int64_t length, usual;        /* of the dimension; the tile's side when nobody chose one */
    int64_t of;                   /* above 0: the side divides this side of a mask's blocks */
} weft_tile_side;

enum { WEFT_TILE_SIDES = 3, WEFT_BUFFERS = 36, WEFT_SECTIONS = 2, WEFT_STREAMS = 32, WEFT_KEY_NUMBERS = 14 };

/* The pieces that the tiles of a tiling read and write, for the simulator and its pictures. Tensors that are read step by
 * step are sections: each has lines (heads, or tiles along one axis) of `steps` pieces. */
typedef struct weft_pieces {
    const char *refused; /* why the simulator cannot take the problem; null: it can */
    int sections;
    struct {
        const char *name, *line; /* "K and V", "kv head" */
        int64_t lines;
    } section[WEFT_SECTIONS];
    int64_t steps;
    const char *step;         /* "key block" */
    const char *read;         /* "blocks of K and V" */
    const char *row, *column; /* of the grid of tiles: "head", "query block" */
    int64_t per_piece;        /* tensors that a piece is made of */
    int64_t passes;           /* of a visit, each with streams, a beginning and an end of its own; 0: one */
    double largest;           /* sectors of the largest piece, at most */
    uint64_t distinct;        /* sectors that are read, each once */
    uint64_t written;         /* sectors that are written, each once */
    double room;    /* bytes of the lines under what is read to its own, and of what DRAM is asked for to its own: more */
    double fetched; /* than 1 where rows are short and their neighbours are not read with them; 0: 1 */
} weft_pieces;

/* What one pass of a visit reads and writes, in sectors. A step reads its piece of every stream. */
typedef struct weft_visit_reads {
    int64_t pass; /* which: set by who asks */
    int streams;
    struct {
        int64_t line;             /* over all sections, in their order */
        int64_t sectors, at_end;  /* of a piece; of the line's last piece */
        const weft_place *places; /* (steps) where its pieces lie, counted from the line; null: one behind the other */
        int64_t shared;           /* CTAs of the cluster that this one request serves */
    } stream[WEFT_STREAMS];
    struct {
        int64_t line, sectors, at_end; /* as of a stream */
    } sums;                            /* what a step adds to when it has computed; no sectors: nothing */
    int64_t first_sectors;             /* read once, when the tile begins */
    int64_t out_sectors;               /* written when it ends */
    int reads_out;                     /* 1: what is read first is the output itself */
    weft_dtype dtype;                  /* of the products */
    double flops, exponentials;        /* of one step of one CTA */
} weft_visit_reads;

/* A weft_buffer: the field of a struct of data, read (1), written (2) or both (3); optional as in weft_buffer: those with
 * the same number are given together. Results ON_REQUEST are as large as all scores: nobody has them by default. */
enum { WEFT_BUFFER_ON_REQUEST = 3 };
#define WEFT_BUFFER_OF(data, field, dtype, elements, alignment, access, optional)                                          \
    { sizeof(weft_buffer), #field, offsetof(data, field), dtype, elements, alignment, (access)&1, (access) >> 1, optional }

/* One kind of work. The pointers to functions may not be null unless it says so. */
typedef struct weft_operation_row {
    weft_operation_info info; /* what everyone may know: names.h */

    /* A descriptor with the defaults of its _INIT macro. */
    void (*init)(weft_problem *problem);

    /* Checks a descriptor, which has been copied over one from init(), and fills in what it leaves open. */
    weft_status (*resolve)(weft_problem *problem, weft_message *message);

    /* Copies what a resolved descriptor points to, so that it outlives the caller's; *memory is to be freed. Null: it
     * points to nothing. */
    weft_status (*keep)(weft_problem *problem, void **memory, weft_message *message);

    /* Bytes of that, which device memory gets a copy of. Null with keep. */
    size_t (*kept_bytes)(const weft_problem *problem);

    /* Where the data's struct has a weft_lengths; 0: it has none, and the problem is no attention. */
    size_t lengths;

    /* Where an attention's data has its weft_pairs. */
    size_t pairs;

    /* Where an attention's data has its weft_kv_cache_data; 0: it takes no cache. */
    size_t cache;

    /* Where an attention's data has dropout_seed. */
    size_t seed;

    /* The operation whose results are its optional inputs; 0: none. */
    int32_t after;

    /* Where the data has a workspace, which weft_plan_workspace() says the size of; 0: it needs none. */
    size_t workspace;

    /* Where the data has `prepared`; 0: its runs have nothing to prepare. */
    size_t prepared;

    double (*flops)(const weft_problem *problem);

    /* The buffers of a resolved problem, inputs and outputs, in the order of the data's fields; how many there are. */
    size_t (*buffers)(const weft_problem *problem, weft_buffer *list);

    /* Whether two buffers whose spans overlap share no element all the same, and one may be written: by their offsets in
     * the data. Null: no two do. */
    int (*apart)(const weft_problem *problem, const weft_data *data, size_t first, size_t second);

    /* The sides of a tile that it uses; how many. Others must be left at 0. */
    size_t (*sides)(const weft_tiling *tiling, weft_schedule *schedule, weft_tile_side *list);

    /* Chooses what is open in the schedule once tiles and workers are known. */
    void (*choose)(const weft_problem *problem, const weft_machine *machine, weft_schedule *schedule);

    /* The grid of tiles, and the steps of each. */
    void (*lay_out)(const weft_tiling *tiling, weft_grid *tiles, weft_reach *reach);

    /* For the simulator. */
    void (*pieces)(const weft_tiling *tiling, const weft_reach *reach, int64_t sector, weft_pieces *pieces);
    void (*reads)(const weft_tiling *tiling, const weft_reach *reach, const weft_visit *visit, int64_t sector,
                  weft_visit_reads *reads);

    /* Where the blocks of keys in pages lie, by a caller's lists of pages; null: pages lie apart, and nobody shares one.
     * *places is as in weft_tiling, and to be freed. Null: takes no cache. */
    weft_status (*place)(const weft_tiling *tiling, const int32_t *table, int64_t sector, weft_place **places,
                         weft_message *message);

    /* Bytes of what a worker must hold for a step: its own memory bounds the tiles that are worth trying. */
    double (*step_bytes)(const weft_tiling *tiling);

    /* The field of a weft_machine with the name of the profile that its kernels for this usually have; 0: there is none. */
    size_t profile;

    /* Why it cannot take one of the sweeps that only a backward pass has: "a causal mask"; null: it can. A null pointer: it
     * takes none of them. */
    const char *(*refused_sweep)(const weft_problem *problem, int32_t sweep);

    /* 1: clusters may reach over the edge of the grid, where the kernels do that. */
    int clusters_reach_over;

    /* 1: the CTAs that share a tile, as many as a schedule's split says, are rows of the grid, and of a cluster: each has a
     * part of the tile as its own. 0: the grid knows nothing of them. */
    int splits_into_tiles;

    /* A line for people ("attention  batch 1, ..."), and a title for a page. As snprintf. */
    int (*text)(const weft_problem *problem, char *text, size_t size);
    int (*title)(const weft_problem *problem, char *text, size_t size);

    /* The class of problems that a tuning is for: at most WEFT_KEY_NUMBERS numbers, lengths in buckets, and the same in
     * words. Returns how many numbers. */
    size_t (*key)(const weft_problem *problem, int64_t *numbers, char *text, size_t size);

    /* The work of one tile, without a kernel: for backends that have none of their own for this operation. Null: such
     * backends refuse it. */
    void (*tile)(const weft_tiling *tiling, const void *data, const weft_visit *visit);
} weft_operation_row;

/* The row of an operation; null when there is none. */
const weft_operation_row *weft_operation_at(int32_t operation);

/* Checks a caller's descriptor and copies it with every default filled in; *row is its operation's. */
weft_status weft_problem_resolve(weft_problem *resolved, const weft_operation_row **row, const void *problem,
                                 weft_message *message);

/* Refuses a problem with elements that are only simulated: "fp8 is not supported by cpu yet: ...". */
weft_status weft_problem_check_dtypes(const weft_problem *problem, const weft_operation_row *row, const char *by,
                                      weft_message *message);

/* Checks a caller's data for a resolved problem, and copies it: no pointer may be null that must not be, and nothing that
 * is written may overlap anything else. */
weft_status weft_data_check(weft_data *copy, const weft_operation_row *row, const weft_problem *problem, const void *data,
                            weft_message *message);

/* The same with other buffers than those of the problem: of a part of it. */
weft_status weft_data_check_buffers(weft_data *copy, const weft_operation_row *row, const weft_problem *problem,
                                    const weft_buffer *list, size_t count, const void *data, weft_message *message);

/* The same of what weft_plan_prepare() takes of it: lengths. All other buffers are null in the copy. */
weft_status weft_data_check_lengths(weft_data *copy, const weft_operation_row *row, const weft_problem *problem,
                                    const void *data, weft_message *message);

/* Names of dtypes and layouts as a field's choices; and 131072 as "128K", as people ask for it. */
const char *weft_dtype_choice(int32_t dtype);
const char *weft_layout_name(int32_t layout);
const char *weft_size_text(int64_t number, char *text, size_t size);

/* The largest tile of at most `most` that divides a block of so many rows or columns. */
int64_t weft_tile_dividing(int64_t block, int64_t most);

/* The bucket of a length: its least member. Lengths up to 16 are buckets of their own; from there on eight buckets to a
 * doubling, so that the largest member is at most an eighth longer than the least. */
int64_t weft_bucket(int64_t length);

#endif
