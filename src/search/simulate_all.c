/* Many plans through the engine, over threads. */
#include <pthread.h>
#include <stdlib.h>
#include <weft/sim.h>

#include "base/status.h"
#include "base/struct.h"
#include "cpu/thread/team.h"

typedef struct many {
    const weft_plan *const *plans;
    weft_simulate_options options;
    weft_simulation *simulations;
    weft_status *statuses;
    int64_t steps;        /* of all plans, where the caller is told of progress */
    pthread_mutex_t lock; /* of what follows */
    int64_t done;         /* steps */
    int64_t first;        /* that failed */
    weft_status status;
    weft_message message;
} many;

/* How far one of them is. */
typedef struct part {
    many *of;
    int64_t told;
} part;

static void tell(void *user, int64_t done, int64_t total) {
    part *p = user;
    many *m = p->of;
    (void)total;
    pthread_mutex_lock(&m->lock);
    m->done += done - p->told;
    p->told = done;
    m->options.progress(m->options.progress_user, m->done, m->steps);
    pthread_mutex_unlock(&m->lock);
}

static void simulate_one(void *context, int64_t i) {
    many *m = context;
    weft_message message = {""};
    part p = {m, 0};
    weft_simulate_options options = m->options;
    options.progress = m->options.progress ? tell : NULL;
    options.progress_user = &p;
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

/* Steps that all plans take together. */
static int64_t count_steps(const weft_plan *const *plans, size_t count, uint64_t limit) {
    int64_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        const uint64_t steps = plans[i] ? weft_simulate_steps(plans[i]) : 0;
        sum += (int64_t)(limit > 0 && limit < steps ? limit : steps);
    }
    return sum;
}

weft_status weft_simulate_all(const weft_plan *const *plans, size_t count, const weft_simulate_options *options,
                              weft_simulation *simulations, weft_status *statuses, weft_message *message) {
    many m = {plans, WEFT_SIMULATE_INIT, simulations, statuses, 0, PTHREAD_MUTEX_INITIALIZER, 0, 0, WEFT_OK, {""}};
    const weft_status status =
        options ? weft_struct_take(&m.options, sizeof m.options, sizeof(size_t), options, "WEFT_SIMULATE_INIT", message)
                : WEFT_OK;
    if (status) {
        return status;
    }
    m.steps = m.options.progress ? count_steps(plans, count, m.options.limit) : 0;
    weft_cpu_for((int64_t)count, simulate_one, &m);
    return m.status ? weft_fail(message, m.status, "%s", m.message.text) : WEFT_OK;
}
