/* SPDX-License-Identifier: Apache-2.0 */
/* The simulator counts the steps that the Hopper attention kernel does: its own source is run, emulated, and every block of
 * K that it copies is counted. With and without a first tile that is short. */
#include "../attention_trial.h"

#include <dlfcn.h>

#include <weft/sim.h>

#include "sim/sources.h"

typedef struct sample {
    int64_t tile_m, tile_n, seq, kv_seq, offset;
    weft_mask mask;
    int is_short; /* whether the first tile has fewer queries than others */
} sample;

static const sample samples[] = {
    {192, 128, 384, 384, 0, WEFT_MASK_CAUSAL, 0},   {192, 128, 300, 500, 0, WEFT_MASK_CAUSAL, 1},
    {192, 128, 200, 130, 20, WEFT_MASK_CAUSAL, 1},  {192, 128, 250, 400, -90, WEFT_MASK_CAUSAL, 1},
    {256, 64, 320, 320, 0, WEFT_MASK_CAUSAL, 1},    {256, 64, 300, 700, 0, WEFT_MASK_CAUSAL_BOTTOM_RIGHT, 1},
    {256, 64, 512, 512, -200, WEFT_MASK_CAUSAL, 0}, {192, 128, 200, 300, 0, WEFT_MASK_NONE, 0},
    {192, 128, 190, 900, 100, WEFT_MASK_CAUSAL, 0},
};
enum { SAMPLES = sizeof samples / sizeof *samples };

static uint64_t (*steps_done)(void);

/* Steps of the same walk, had it no short first tile. */
static uint64_t steps_without_lead(const weft_plan *plan) {
    weft_plan other = *plan;
    other.walk.reach.lead = 0;
    return weft_simulate_steps(&other);
}

static uint64_t check(const sample *s, int32_t dispatch, uint64_t *random) {
    weft_attention p = attention(1, 2, 1, s->seq, s->kv_seq, 64, WEFT_BF16, s->mask);
    p.offset = s->offset;
    weft_schedule schedule = WEFT_SCHEDULE_INIT;
    schedule.tile_m = s->tile_m;
    schedule.tile_n = s->tile_n;
    schedule.dispatch = dispatch;
    schedule.workers = 3;
    problem x = problem_new(&p, random);
    weft_plan *plan = plan_new(&x.p, &schedule, "hopper_attention");
    weft_message message = {""};
    weft_simulation simulation = WEFT_SIMULATION_INIT;
    const uint64_t before = steps_done();
    poison(&x);
    CHECK(weft_plan_run(plan, &x.device, &message) == WEFT_OK, "%s", message.text);
    fetch(&x);
    compare(&x, "a problem whose steps are counted");
    const uint64_t done = steps_done() - before, counted = weft_simulate_steps(plan), other = steps_without_lead(plan);
    CHECK(done > 0 && counted == done, "seq %lld: %llu steps counted, %llu done", (long long)s->seq,
          (unsigned long long)counted, (unsigned long long)done);
    CHECK(weft_simulate(plan, NULL, &simulation, NULL, &message) == WEFT_OK, "%s", message.text);
    CHECK(simulation.piece_visits == 2 * done, "seq %lld: %llu blocks of K and V simulated, %llu steps done",
          (long long)s->seq, (unsigned long long)simulation.piece_visits, (unsigned long long)done);
    CHECK((plan->walk.reach.lead > 0) == s->is_short, "seq %lld: lead is %lld", (long long)s->seq,
          (long long)plan->walk.reach.lead);
    weft_plan_destroy(plan);
    problem_free(&x);
    return other - done;
}

int main(void) {
    weft_cuda_device device;
    uint64_t random = 8, saved = 0;
    open_gpu(90, &device);
    void *library = dlopen(getenv("WEFT_CUDA_DRIVER"), RTLD_NOW);
    DEMAND(!library);
    *(void **)&steps_done = dlsym(library, "emulated_attention_steps");
    DEMAND(!steps_done);
    for (int i = 0; i < SAMPLES; i++) {
        static const int32_t dispatches[] = {WEFT_DISPATCH_GRID, WEFT_DISPATCH_STATIC, WEFT_DISPATCH_DYNAMIC};
        saved += check(&samples[i], dispatches[i % 3], &random);
    }
    CHECK(saved > 0, "no short first tile saves a step");
    printf("steps_emulated: %d problems, %d failed\n", (int)SAMPLES, failures);
    return failures != 0;
}
