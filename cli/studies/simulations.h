/* SPDX-License-Identifier: Apache-2.0 */
/* The simulations of a study. Rows ask for them twice: first they are gathered, the same one once; then all are run, each
 * once for every seed, over all cores; then the rows ask again, in the same order, and get the answers of one seed. */
#ifndef WEFT_CLI_SIMULATIONS_H
#define WEFT_CLI_SIMULATIONS_H

#include <weft/sim.h>
#include <weft/stream.h>

typedef struct simulation {
    char *key;       /* text that says all about it */
    weft_plan *plan; /* null: it is a stream */
    weft_machine machine;
    weft_stream stream;
    weft_simulate_options options; /* its profile is the next field, set when it is run */
    weft_profile profile;
    uint64_t steps;           /* of the whole */
    int in_part;              /* simulated until it has settled */
    weft_simulation *results; /* by seed; of a stream the traffic, and its distinct sectors as compulsory misses */
} simulation;

typedef struct simulations {
    uint64_t seed; /* the first */
    size_t seeds;
    simulation *list;
    size_t count, room;
    size_t *asked; /* which one each request is for, in the order of the requests */
    size_t requests, requests_room;
    weft_status status; /* of the first that failed */
    weft_message message;
} simulations;

/* Gathers a plan, which it takes over, or a stream. With `in_part` a plan is simulated until it has settled, see
 * sim/settle.h. Returns 0, with status and message set, when memory runs out. */
int simulations_ask(simulations *s, weft_plan *plan, const weft_machine *machine, const weft_stream *stream,
                    const weft_simulate_options *options, int in_part);

/* Steps of all that was gathered, about. */
double simulations_units(const simulations *s);

/* Runs everything. Returns 0, with status and message set, when one of them failed. */
int simulations_run(simulations *s);

/* The answer to a request, by its number, for the n-th seed. */
const weft_simulation *simulations_answer(const simulations *s, size_t request, size_t n);

void simulations_release(simulations *s);

#endif
