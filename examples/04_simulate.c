/* SPDX-License-Identifier: Apache-2.0 */
/* Step 4: what a sweep costs before a kernel exists. FlashAttention over 128K keys on a GB10, whose L2 cannot hold K and V.
 */
#include <stdio.h>

#include <weft/sim.h>

int main(void) {
    weft_machine machine = WEFT_MACHINE_INIT;
    weft_message message;
    if (weft_machine_load(&machine, "gb10", &message)) {
        fprintf(stderr, "%s\n", message.text);
        return 1;
    }
    weft_attention problem = WEFT_ATTENTION_INIT;
    problem.seq = problem.kv_seq = 131072;
    problem.head_dim = 64;
    problem.dtype = WEFT_FP16;

    double misses[2];
    for (int sawtooth = 0; sawtooth < 2; sawtooth++) {
        weft_schedule schedule = WEFT_SCHEDULE_INIT;
        schedule.sweep = sawtooth ? WEFT_SWEEP_SAWTOOTH : WEFT_SWEEP_FORWARD;
        weft_plan_options options = WEFT_PLAN_OPTIONS_INIT;
        options.schedule = &schedule;
        options.machine = &machine;
        weft_plan *plan = NULL;
        weft_simulation sim = WEFT_SIMULATION_INIT;
        if (weft_plan_create(&plan, &problem, &options, &message) || weft_simulate(plan, NULL, &sim, NULL, &message)) {
            fprintf(stderr, "%s\n", message.text);
            weft_plan_destroy(plan);
            return 1;
        }
        misses[sawtooth] = (double)sim.total.misses / 1e6;
        printf("%-9s%7.1f M misses of %.0f M sectors, %.2f GB from DRAM, simulated in %.2f s\n",
               sawtooth ? "sawtooth" : "forward", misses[sawtooth], (double)sim.total.sectors / 1e6,
               (double)sim.total.dram_read_bytes / 1e9, sim.elapsed_seconds);
        weft_plan_destroy(plan);
    }
    return misses[1] < misses[0] / 2 ? 0 : 1;
}
