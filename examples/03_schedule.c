/* SPDX-License-Identifier: Apache-2.0 */
/* Step 3: choosing the schedule, and what each worker of a GB10 would do with it. */
#include <stdio.h>

#include <weft/machine.h>

int main(void) {
    weft_attention problem = WEFT_ATTENTION_INIT;
    problem.seq = problem.kv_seq = 131072;
    problem.head_dim = 64;
    problem.dtype = WEFT_FP16;

    weft_schedule schedule = WEFT_SCHEDULE_INIT;
    schedule.tile_m = schedule.tile_n = 64;
    schedule.sweep = WEFT_SWEEP_SAWTOOTH;

    weft_machine machine = WEFT_MACHINE_INIT;
    weft_plan *plan = NULL;
    weft_message message;
    weft_plan_options options = WEFT_PLAN_OPTIONS_INIT;
    options.schedule = &schedule;
    options.machine = &machine;
    if (weft_machine_load(&machine, "gb10", &message) || weft_plan_create(&plan, &problem, &options, &message)) {
        fprintf(stderr, "%s\n", message.text);
        return 1;
    }
    char text[1024];
    weft_plan_text(plan, text, sizeof text);
    fputs(text, stdout);

    const weft_walk *walk = weft_plan_walk(plan, sizeof(weft_walk));
    weft_worker worker = weft_worker_start(walk, 7, NULL);
    weft_visit visit;
    for (int i = 0; i < 3 && weft_worker_next(walk, &worker, &visit); i++) {
        printf("worker 7: query block %lld, key blocks %lld to %lld\n", (long long)visit.tile.block, (long long)visit.first,
               (long long)visit.last);
    }
    weft_plan_destroy(plan);
    return 0;
}
