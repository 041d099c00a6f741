/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/settle.h"

#include <math.h>
#include <string.h>

#include "base/status.h"
#include "base/struct.h"
#include "sim/sources.h"

static const double settled_hits = 0.01, settled_pace = 0.005;

enum {
    FIRST_WAVES = 4, /* that pass before the first mark: workers begin in step, and lose it over several tiles */
    DOUBLING = 2,    /* marks between two numbers of steps, the one twice the other */
    MARKS = 2 * DOUBLING + 1
};

static double hit_rate(const weft_sim_mark *from, const weft_sim_mark *to) {
    const double hits = (double)(to->traffic.hits - from->traffic.hits);
    const double misses = (double)(to->traffic.misses - from->traffic.misses);
    return hits + misses > 0 ? hits / (hits + misses) : 0;
}

static double seconds_a_step(const weft_sim_mark *from, const weft_sim_mark *to) {
    return to->steps > from->steps ? (to->seconds - from->seconds) / (double)(to->steps - from->steps) : 0;
}

int weft_sim_settled(const weft_sim_mark *begin, const weft_sim_mark *middle, const weft_sim_mark *end) {
    const double before = seconds_a_step(begin, middle), now = seconds_a_step(middle, end);
    return fabs(hit_rate(middle, end) - hit_rate(begin, middle)) < settled_hits &&
           fabs(now - before) < settled_pace * before;
}

weft_sim_mark weft_sim_forecast(const weft_sim_mark *middle, const weft_sim_mark *end, uint64_t steps) {
    const double windows = (double)(steps - end->steps) / (double)(end->steps - middle->steps);
    const weft_traffic *from = &middle->traffic, *to = &end->traffic;
    weft_sim_mark whole = *end;
    weft_traffic *t = &whole.traffic;
    const struct {
        uint64_t *count, before, now;
    } counts[] = {{&t->sectors_from_sm, from->sectors_from_sm, to->sectors_from_sm},
                  {&t->hits, from->hits, to->hits},
                  {&t->misses, from->misses, to->misses},
                  {&t->fabric_sectors, from->fabric_sectors, to->fabric_sectors},
                  {&t->llc_hits, from->llc_hits, to->llc_hits},
                  {&t->dram_read_bytes, from->dram_read_bytes, to->dram_read_bytes},
                  {&t->dram_write_bytes, from->dram_write_bytes, to->dram_write_bytes},
                  {&t->added, from->added, to->added}};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        *counts[i].count += (uint64_t)llround((double)(counts[i].now - counts[i].before) * windows);
    }
    t->sectors = t->hits + t->misses; /* each was rounded on its own */
    whole.steps = steps;
    whole.seconds += (end->seconds - middle->seconds) * windows;
    return whole;
}

/* The last marks, the newest first. */
typedef struct settling {
    weft_sim_watch watch; /* first: the engine passes it back */
    weft_sim_mark mark[MARKS];
    int settled;
} settling;

static int look(weft_sim_watch *watch, const weft_memory *memory, uint64_t steps, double now) {
    settling *s = (settling *)watch;
    const weft_sim_mark none = {steps, now, WEFT_TRAFFIC_INIT};
    memmove(&s->mark[1], &s->mark[0], (MARKS - 1) * sizeof *s->mark);
    s->mark[0] = none;
    for (int64_t d = 0; d < memory->domains; d++) {
        const weft_traffic t = weft_memory_traffic(memory, d);
        weft_traffic_add(&s->mark[0].traffic, &t);
    }
    watch->next = (uint64_t)((double)steps * pow(2, 1.0 / DOUBLING));
    s->settled = s->mark[MARKS - 1].steps > 0 && weft_sim_settled(&s->mark[MARKS - 1], &s->mark[DOUBLING], &s->mark[0]);
    return !s->settled;
}

/* Sets the steps of a wave: of as many tiles as there are workers, in the mean. */
static weft_status count_wave(const weft_plan *plan, const weft_sim_subject *subject, const weft_sim_settings *o,
                              uint64_t *steps, weft_message *message) {
    weft_sim_source source;
    const weft_status status = subject->open(subject, o, &source, message);
    if (status == WEFT_OK) {
        const double all = (double)weft_simulate_steps(plan) * (double)source.passes;
        const double ctas = (double)plan->walk.order.count * (double)weft_plan_tile_ctas(plan);
        *steps = 1 + (uint64_t)(all * (double)source.workers / ctas);
    }
    weft_sim_close(&source);
    return status;
}

static weft_status simulate(const weft_plan *plan, const weft_simulate_options *options, weft_simulation *simulation,
                            weft_message *message) {
    const weft_sim_subject subject = weft_sim_subject_of_plan(plan);
    settling s = {.watch = {.look = look}};
    weft_sim_settings o;
    weft_status status = weft_sim_settings_read(&o, options, subject.profile, message);
    if (status || (status = count_wave(plan, &subject, &o, &s.watch.next, message))) {
        return status;
    }
    s.watch.next *= FIRST_WAVES;
    o.limit = UINT64_MAX; /* none, but the share that was simulated is counted */
    o.watch = &s.watch;
    if ((status = weft_sim_simulate(&subject, &o, simulation, NULL, message)) || !s.settled) {
        return status;
    }
    const uint64_t steps = (uint64_t)llround((double)s.mark[0].steps / simulation->simulated);
    const weft_sim_mark whole = weft_sim_forecast(&s.mark[DOUBLING], &s.mark[0], steps);
    const double waited = (double)simulation->total.waited * whole.seconds / simulation->seconds;
    simulation->total = whole.traffic;
    simulation->total.waited = (uint64_t)llround(waited);
    simulation->tflops *= simulation->seconds / whole.seconds;
    simulation->seconds = whole.seconds;
    return WEFT_OK;
}

weft_status weft_simulate_settled(const weft_plan *plan, const weft_simulate_options *options, weft_simulation *simulation,
                                  weft_message *message) {
    if (!plan || !simulation) {
        return weft_fail(message, WEFT_INVALID, !plan ? "plan is null" : "simulation is null");
    }
    weft_simulation result = WEFT_SIMULATION_INIT;
    weft_status status =
        weft_struct_give(simulation, &result, sizeof result, sizeof(size_t), "WEFT_SIMULATION_INIT", message);
    if (status == WEFT_OK && (status = simulate(plan, options, &result, message)) == WEFT_OK) {
        status = weft_struct_give(simulation, &result, sizeof result, sizeof(size_t), "WEFT_SIMULATION_INIT", message);
    }
    return status;
}
