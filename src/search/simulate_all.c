/* SPDX-License-Identifier: Apache-2.0 */
/* Many plans through the engine, over threads. */
#include <pthread.h>
#include <stdlib.h>
#include <weft/sim.h>

#include "base/status.h"
#include "base/struct.h"
#include "base/tally.h"
#include "cpu/thread/team.h"

typedef struct many {
    const weft_plan *const *plans;
    weft_simulate_options options;
    weft_simulation *simulations;
    weft_status *statuses;
    weft_tally tally;     /* of steps */
    pthread_mutex_t lock; /* of what follows */
    int64_t first;        /* that failed */
    weft_status status;
    weft_message message;
} many;

/* Steps that a plan takes. */
static double steps_of(const weft_plan *plan, uint64_t limit) {
    const uint64_t steps = plan ? weft_simulate_steps(plan) : 0;
    return (double)(limit > 0 && limit < steps ? limit : steps);
}

static void simulate_one(void *context, int64_t i) {
    many *m = context;
    weft_message message = {""};
    weft_simulate_options options = m->options;
    weft_tally_part part = {&m->tally, options.progress ? steps_of(m->plans[i], options.limit) : 0, 0};
    options.progress = options.progress ? weft_tally_told : NULL;
    options.progress_user = &part;
    const weft_status status =
        m->plans[i] ? weft_simulate(m->plans[i], &options, &m->simulations[i], NULL, &message) : WEFT_OK;
    if (m->statuses) {
        m->statuses[i] = status;
    }
    pthread_mutex_lock(&m->lock);
    if (status && (m->status == WEFT_OK || i < m->first)) {
        m->first = i;
        m->status = status;
        m->message = message;
    }
    pthread_mutex_unlock(&m->lock);
}

weft_status weft_simulate_all(const weft_plan *const *plans, size_t count, const weft_simulate_options *options,
                              weft_simulation *simulations, weft_status *statuses, weft_message *message) {
    many m = {
        plans, WEFT_SIMULATE_INIT, simulations, statuses, WEFT_TALLY(NULL, NULL, 0), PTHREAD_MUTEX_INITIALIZER, 0, WEFT_OK,
        {""}};
    const weft_status status =
        weft_struct_take_options(&m.options, sizeof m.options, options, "WEFT_SIMULATE_INIT", message);
    if (status) {
        return status;
    }
    m.tally.progress = m.options.progress;
    m.tally.user = m.options.progress_user;
    for (size_t i = 0; i < count && m.tally.progress; i++) {
        m.tally.planned += steps_of(plans[i], m.options.limit);
    }
    weft_cpu_for((int64_t)count, simulate_one, &m);
    return m.status ? weft_fail(message, m.status, "%s", m.message.text) : WEFT_OK;
}
