/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel of your own, simulated: a source computes what every step reads, so no trace is ever stored.
 *
 * The kernel is a stencil: tile (i, j) reads its block of the image and the eight around it, row by row, and writes its
 * own. How much of that the L2 serves depends on the order in which the tiles come. */
#include <stdio.h>
#include <stdlib.h>

#include <weft/source.h>

enum { SIDE = 256, BLOCK = 128 * 128 * 4, BAND = 16 }; /* tiles of a side; bytes of a block; columns of a band */

typedef struct stencil {
    int bands; /* 0: row by row over all columns; 1: in bands of columns */
    int64_t taken;
    weft_access access[4];
} stencil;

/* Back to the first tile: a simulation may take several runs. */
static int begin(void *user, const weft_machine *machine, int64_t workers) {
    (void)machine;
    (void)workers;
    ((stencil *)user)->taken = 0;
    return 1;
}

/* Whoever is free takes the next tile. */
static int next(void *user, int64_t worker, int64_t domain, weft_job *job) {
    stencil *s = user;
    (void)worker;
    (void)domain;
    job->number = s->taken++;
    const int64_t band = job->number / (SIDE * BAND), within = job->number % (SIDE * BAND);
    job->tile = s->bands ? within / BAND * SIDE + band * BAND + within % BAND : job->number;
    job->steps = 3;
    return job->number < SIDE * SIDE;
}

/* Step k reads three blocks of the row above, of the tile's own row, or of the row below. */
static void step(void *user, int64_t worker, const weft_job *job, int64_t k, weft_step *out) {
    stencil *s = user;
    const int64_t row = job->tile / SIDE + k - 1, col = job->tile % SIDE;
    (void)worker;
    if (k < 0) {
        return; /* nothing is read before the first step */
    }
    out->accesses = s->access;
    for (int64_t c = col - 1; row >= 0 && row < SIDE && c <= col + 1; c++) {
        if (c >= 0 && c < SIDE) {
            s->access[out->count++] = (weft_access){0, WEFT_READ, row * SIDE + c, BLOCK};
        }
    }
    if (k == 2) {
        s->access[out->count++] = (weft_access){1, WEFT_WRITE, job->tile, BLOCK};
    }
}

int main(void) {
    static const weft_source_tensor tensors[] = {{"in", SIDE * SIDE, BLOCK, 0}, {"out", SIDE * SIDE, BLOCK, 0}};
    weft_machine machine = WEFT_MACHINE_INIT;
    weft_message message = {""};
    if (weft_machine_load(&machine, "h200", &message) != WEFT_OK) {
        fprintf(stderr, "%s\n", message.text);
        return 1;
    }
    for (int bands = 0; bands < 2; bands++) {
        stencil s = {.bands = bands};
        weft_source source = WEFT_SOURCE_INIT;
        weft_simulation result = WEFT_SIMULATION_INIT;
        source.name = "stencil";
        source.tensors = tensors;
        source.tensor_count = 2;
        source.grid = 1;
        source.user = &s;
        source.begin = begin;
        source.next = next;
        source.step = step;
        if (weft_simulate_source(&source, &machine, NULL, &result, NULL, &message) != WEFT_OK) {
            fprintf(stderr, "%s\n", message.text);
            return 1;
        }
        printf("%-12s %.1f %% hits, %.2f GB from DRAM, at least %.2f\n", bands ? "in bands" : "row by row",
               100 * weft_hit_rate(&result.total), (double)result.total.dram_read_bytes / 1e9,
               (double)SIDE * SIDE * BLOCK / 1e9);
    }
    return 0;
}
