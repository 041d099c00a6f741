/* SPDX-License-Identifier: Apache-2.0 */
/* Combining parts of attentions on a GPU, held to the reference: ragged sizes, all dtypes, misaligned tensors, parts that
 * have seen nothing and NaN. Exits 77, with one line, where there is no GPU.
 *
 *   combine_device [ROUNDS [MOST]]
 *
 * ROUNDS (200) is how many problems are drawn, MOST (300) the most queries. Built for the fake driver, the kernel runs on a
 * CPU: see emulate/emulate.h. */
#include "../combines.h"
#include "trial_checks.h"

static void trial(uint64_t *random, int round, int64_t most) {
    const weft_combine asked = draw_combine(random, most);
    const weft_combine *p;
    const int shifted = random_between(random, 0, 3) == 0, wants_lse = asked.into || random_between(random, 0, 3) != 0;
    held host, before, there; /* there: pointers to the GPU's memory, at times not aligned to 16 bytes */
    uint64_t memory[WEFT_BUFFERS];
    hold(&host, &asked);
    fill_terms(random, &host);
    hold_copy(&before, &host);
    there = host;
    p = &host.problem.combine;
    for (size_t i = 0; i < host.count; i++) {
        const size_t shift = shifted ? weft_dtype_bytes(host.list[i].dtype) : 0;
        DEMAND(driver->memory_new(&memory[i], host.bytes[i] + shift));
        DEMAND(driver->copy_in(memory[i] + shift, *held_at(&host, i), host.bytes[i]));
        *held_at(&there, i) = (void *)(uintptr_t)(memory[i] + shift);
    }
    weft_combine_data data = there.data;
    data.lse = wants_lse ? data.lse : NULL;
    weft_schedule s = WEFT_SCHEDULE_INIT;
    s.workers = random_between(random, 0, 1) ? 0 : random_between(random, 1, 9);
    s.order = random_between(random, 0, 3) ? WEFT_ORDER_CHOOSE : WEFT_ORDER_CUSTOM;
    s.dispatch = random_between(random, 0, 1) ? WEFT_DISPATCH_CHOOSE : WEFT_DISPATCH_GRID;
    weft_device gpu = WEFT_DEVICE_INIT;
    weft_message message = {""};
    weft_plan *plan;
    gpu.kind = WEFT_DEVICE_CUDA;
    if (plan_on(&plan, &asked, &s, NULL, &gpu, &message) || weft_plan_run(plan, &data, &message)) {
        CHECK(0, "round %d: %s", round, message.text);
    } else {
        for (size_t i = 0; i < host.count; i++) {
            DEMAND(driver->copy_out(*held_at(&host, i), (uint64_t)(uintptr_t)*held_at(&there, i), host.bytes[i]));
        }
        const int64_t wrong = count_wrong(p, &before.data, host.data.o, wants_lse ? host.data.lse : NULL);
        CHECK(wrong == 0, "round %d: %lld rows of %lld are wrong", round, (long long)wrong,
              (long long)weft_combine_rows(p));
        CHECK(is_untouched_between(&host), "round %d: something between rows is written", round);
    }
    weft_plan_destroy(plan);
    for (size_t i = 0; i < host.count; i++) {
        DEMAND(driver->memory_free(memory[i]));
    }
    let_go(&before);
    let_go(&host);
}

int main(int argc, char **argv) {
    weft_cuda_device device;
    const int rounds = argc > 1 ? atoi(argv[1]) : 200;
    const int64_t most = argc > 2 ? atoll(argv[2]) : 300;
    uint64_t random = random_seed(47);
    open_gpu(0, &device);
    if (device.capability < 80) {
        puts("skipped: the kernel is for compute capability 8.0 and later");
        return 77;
    }
    for (int round = 0; random_round(&random, &round, rounds) && failures < 5; round++) {
        const int before = failures;
        trial(&random, round, most);
        if (failures > before) {
            random_report();
        }
    }
    printf("combine_device: %d rounds, %d failed\n", rounds, failures);
    return failures != 0;
}
