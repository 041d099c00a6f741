/* SPDX-License-Identifier: Apache-2.0 */
/* The portable backward on a GPU, held to the reference: gradients of random attentions with every feature that a problem
 * may ask for, scores of 1e4 and scores that are all the same, queries without keys, the same bits in every run. Exits 77,
 * with one line, where there is no GPU.
 *
 *   study_backward_device [ROUNDS [MOST [DTYPE]]]
 *
 * ROUNDS (60) is how many problems are drawn, MOST (300) the most queries and keys they have; DTYPE (bf16 or fp16) picks
 * those of one dtype. Built for the fake driver, the kernels run on a CPU: see emulate/emulate.h. */
#include "backward_trial.h"

enum { ROUNDS = 60, MOST = 300 };

static const char *const variants[] = {
#define WEFT_STUDY_BACKWARD(symbol, ...) #symbol,
#include "cuda/study/backward/variants.def"
};

static weft_schedule draw_schedule(uint64_t *random) {
    weft_schedule s = WEFT_SCHEDULE_INIT;
    static int number;
    s.order = number++ % 3 == 1 ? WEFT_ORDER_CUSTOM : WEFT_ORDER_CHOOSE;
    s.sweep = (number + 2) % (WEFT_COMMON_SWEEPS + 1);
    s.dispatch = (int32_t)random_between(random, 0, WEFT_DISPATCHES);
    s.workers = random_between(random, 0, 2) ? 0 : random_between(random, 1, 9);
    return s;
}

/* Any mask, and the features of these bits (WEFT_HAS_). */
static weft_attention draw_problem(uint64_t *random, weft_dtype dtype, int32_t bits, int64_t most, drawn_lengths *lengths) {
    static const int64_t dims[] = {16, 40, 64, 64, 96, 128, 184, 248};
    weft_attention p = WEFT_ATTENTION_INIT;
    p.operation = WEFT_ATTENTION_BACKWARD;
    p.batch = random_between(random, 1, 2);
    p.kv_heads = random_between(random, 1, 2);
    p.heads = p.kv_heads * random_between(random, 1, 3);
    p.head_dim = dims[random_between(random, 0, 7)];
    const int64_t least = bits == 0 || (bits & WEFT_HAS_BLOCKS) ? most : 0; /* several steps */
    p.seq = least + random_between(random, 1, most);
    p.kv_seq = least + random_between(random, 1, most) + (bits & WEFT_HAS_BLOCKS ? 128 : 0); /* lists with gaps */
    p.dtype = dtype;
    p.layout = (weft_layout)random_between(random, 0, 1);
    p.scale = random_between(random, 0, 1) ? 0 : random_real_between(random, -0.3, 0.3);
    draw_mask(random, &p);
    draw_features(random, &p, bits & ~(WEFT_HAS_LARGE_DIM | WEFT_HAS_MAX), 64, lengths);
    p.head_dim_v = p.head_dim_v > 256 ? 256 : p.head_dim_v;
    return p;
}

/* What the first rounds have, so that a few of them have everything; 0: several steps. */
static const int32_t first_bits[] = {0,
                                     WEFT_HAS_WINDOW | WEFT_HAS_DROPOUT,
                                     WEFT_HAS_LENGTHS | WEFT_HAS_SOFTCAP,
                                     WEFT_HAS_BLOCKS | WEFT_HAS_DROPOUT,
                                     WEFT_HAS_CHUNK | WEFT_HAS_SINKS,
                                     WEFT_HAS_TREE | WEFT_HAS_ALIBI,
                                     WEFT_HAS_BIAS | WEFT_HAS_DROPOUT | WEFT_HAS_ODD_DIM,
                                     WEFT_HAS_BLOCKS,
                                     WEFT_HAS_LENGTHS | WEFT_HAS_DROPOUT | WEFT_HAS_ALIBI | WEFT_HAS_FP32_OUT,
                                     WEFT_HAS_BLOCKS | WEFT_HAS_SINKS,
                                     WEFT_HAS_PREFIX | WEFT_HAS_OTHER_DIM | WEFT_HAS_FP32_OUT,
                                     WEFT_HAS_LENGTHS | WEFT_HAS_SINKS | WEFT_HAS_SOFTCAP};
enum { FIRST = sizeof first_bits / sizeof *first_bits };

/* These, then every feature in turn with another at random. */
static void features(int rounds, int64_t most, const char *only) {
    uint64_t random = random_seed(102);
    static drawn_lengths lengths;
    for (int round = 0; random_round(&random, &round, rounds) && failures < 5; round++) {
        const weft_dtype dtype = round % 2 ? WEFT_BF16 : WEFT_FP16;
        const int32_t bits = round < FIRST ? first_bits[round] : draw_pair(&random, round);
        weft_attention p = draw_problem(&random, dtype, bits, most, &lengths);
        if ((only && strcmp(only, weft_dtype_name(dtype)) != 0) ||
            !is_there(&p, "study", variants, sizeof variants / sizeof *variants)) {
            continue;
        }
        gradients x =
            gradients_new(&p, &lengths, random_between(&random, 0, 1) ? 8 : random_between(&random, 0, 3), 1, &random);
        const weft_schedule s = draw_schedule(&random);
        const char *const kernels[] = {"study", "study:mask-every-block", "study:no-prefetch", "study:ctas=1"};
        gradients_try(&x, &s, kernels[random_between(&random, 0, 3)], (int)random_between(&random, 0, 1));
    }
}

int main(int argc, char **argv) {
    const int rounds = argc > 1 ? atoi(argv[1]) : ROUNDS;
    const int64_t most = argc > 2 ? atoll(argv[2]) : MOST;
    weft_cuda_device device;
    open_gpu(0, &device);
    if (device.capability < 80) {
        puts("skipped: the kernels are for compute capability 8.0 and later");
        return 77;
    }
    features(rounds, most, argc > 3 ? argv[3] : NULL);
    extremes(most, 64, "study");
    repeats(most, 128, WEFT_SINKS, "study", WEFT_DISPATCH_CHOOSE, rounds < ROUNDS ? 2 : 100);
    streams(most, "study", rounds < ROUNDS ? 2 : 200);
    printf("study_backward_device: %d runs, %d failed, error at most %.2f of what is allowed\n", runs, failures, worst);
    return failures != 0;
}
