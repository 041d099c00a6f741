/* Many plans through the engine, over threads. */
#include <pthread.h>
#include <stdlib.h>
#include <weft/sim.h>

#include "base/status.h"
#include "cpu/thread/team.h"

typedef struct many {
    const weft_plan *const *plans;
    const weft_simulate_options *options;
    weft_simulation *simulations;
    weft_status *statuses;
    pthread_mutex_t lock; /* of what follows: the first that failed */
    int64_t first;
    weft_status status;
    weft_message message;
} many;

static void simulate_one(void *context, int64_t i) {
    many *m = context;
    weft_message message = {""};
    const weft_status status =
        m->plans[i] ? weft_simulate(m->plans[i], m->options, &m->simulations[i], NULL, &message) : WEFT_OK;
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
    many m = {plans, options, simulations, statuses, PTHREAD_MUTEX_INITIALIZER, 0, WEFT_OK, {""}};
    weft_cpu_for((int64_t)count, simulate_one, &m);
    return m.status ? weft_fail(message, m.status, "%s", m.message.text) : WEFT_OK;
}
