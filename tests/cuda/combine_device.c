/* Combining parts of attentions on a GPU, held to the reference: ragged sizes, all dtypes, misaligned tensors, parts that
 * have seen nothing and NaN. Exits 77, with one line, where there is no GPU.
 *
 *   combine_device [ROUNDS [MOST]]
 *
 * ROUNDS (200) is how many problems are drawn, MOST (300) the most queries. Built for the fake driver, the kernel runs on a
 * CPU: see emulate/emulate.h. */
#include "../combines.h"
#include "trial_checks.h"

/* Memory here and on the GPU; all of it NaN at first. */
typedef struct buffer {
    size_t bytes;
    void *host;
    uint64_t device;
    void *there; /* where the tensor begins, at times not aligned to 16 bytes */
} buffer;

static buffer buffer_new(const weft_buffer *like, int shifted) {
    const size_t element = weft_dtype_bytes(like->dtype), shift = shifted ? element : 0;
    buffer b = {like->elements * element, malloc(like->elements * element), 0, NULL};
    DEMAND(!b.host);
    memset(b.host, 0xff, b.bytes);
    DEMAND(driver->memory_new(&b.device, b.bytes + shift));
    b.there = (void *)(uintptr_t)(b.device + shift);
    return b;
}

static void buffer_send(const buffer *b) {
    DEMAND(driver->copy_in((uint64_t)(uintptr_t)b->there, b->host, b->bytes));
}

static void trial(uint64_t *random, int round, int64_t most) {
    const weft_combine asked = draw_combine(random, most);
    weft_problem resolved;
    const weft_operation_row *row;
    DEMAND(weft_problem_resolve(&resolved, &row, &asked, NULL));
    const weft_combine *p = &resolved.combine;
    weft_buffer list[WEFT_BUFFERS];
    const size_t count = row->buffers(&resolved, list), o = count - 2;
    buffer b[WEFT_BUFFERS];
    void *parts[WEFT_MOST_PARTS];
    float *lses[WEFT_MOST_PARTS];
    weft_combine_data data = WEFT_COMBINE_DATA_INIT, host = WEFT_COMBINE_DATA_INIT;
    const int shifted = random_between(random, 0, 3) == 0, wants_lse = random_between(random, 0, 3) != 0;
    for (size_t i = 0; i < count; i++) {
        b[i] = buffer_new(&list[i], shifted);
    }
    for (int64_t i = 0; i < p->parts; i++) {
        parts[i] = b[i].host;
        lses[i] = b[p->parts + i].host;
        host.parts[i] = parts[i];
        host.lses[i] = lses[i];
        data.parts[i] = b[i].there;
        data.lses[i] = b[p->parts + i].there;
    }
    fill_parts(random, p, parts, lses);
    data.o = b[o].there;
    data.lse = wants_lse ? b[o + 1].there : NULL;
    for (size_t i = 0; i < count; i++) {
        buffer_send(&b[i]);
    }
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
        DEMAND(driver->copy_out(b[o].host, (uint64_t)(uintptr_t)b[o].there, b[o].bytes));
        DEMAND(driver->copy_out(b[o + 1].host, (uint64_t)(uintptr_t)b[o + 1].there, b[o + 1].bytes));
        const int64_t wrong = count_wrong(p, &host, b[o].host, wants_lse ? b[o + 1].host : NULL);
        CHECK(wrong == 0, "round %d: %lld rows of %lld are wrong", round, (long long)wrong,
              (long long)weft_combine_rows(p));
        CHECK(is_untouched_between(p, b[o].host, list[o].elements), "round %d: something between rows is written", round);
    }
    weft_plan_destroy(plan);
    for (size_t i = 0; i < count; i++) {
        DEMAND(driver->memory_free(b[i].device));
        free(b[i].host);
    }
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
