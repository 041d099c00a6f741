/* KV caches on a GPU, held to the reference: pages of any size, appended keys, rotation, packed queries over pages, with
 * every mask and feature; lists that name pages which are none. Exits 77, with one line, where there is no GPU.
 *
 *   cache_device [ROUNDS [MOST [KERNEL]]]
 *
 * ROUNDS (240) is how many problems are drawn, MOST (300) the most queries and keys of a sequence, KERNEL (study) the
 * family: study; decode, which takes few queries; hopper_attention; or mla, whose problems have qv, and whose sequences,
 * where they are not packed, are computed alone, too. All but the first leave out some problems. Built for the fake driver,
 * the kernels run on a CPU: see emulate/emulate.h. */
#include "cache_trial.h"

enum { ROUNDS = 240, MOST = 300 };

/* Features that the decode kernel has. */
enum { DECODED = WEFT_HAS_SOFTCAP | WEFT_HAS_SINKS | WEFT_HAS_ALIBI | WEFT_HAS_CHUNK };

/* Features that the Hopper kernel has beside a cache. */
enum { HOPPER = DECODED | WEFT_HAS_PREFIX };

/* Features that the kernel for multi-head latent attention has. */
enum { LATENT = WEFT_HAS_SOFTCAP | WEFT_HAS_SINKS | WEFT_HAS_CHUNK };

static weft_schedule draw_schedule(uint64_t *random) {
    weft_schedule s = WEFT_SCHEDULE_INIT;
    if (few || latent) {
        s.workers = random_between(random, 0, 1) ? 0 : random_between(random, 1, 9);
        return s;
    }
    s.order = random_between(random, 0, 2) ? WEFT_ORDER_CHOOSE : WEFT_ORDER_CUSTOM;
    s.sweep = (int32_t)random_between(random, 0, WEFT_COMMON_SWEEPS);
    s.dispatch = (int32_t)random_between(random, 0, WEFT_DISPATCHES);
    s.workers = random_between(random, 0, 2) ? 0 : random_between(random, 1, 9);
    return s;
}

/* What the cache of a round is: every kind comes with every other. */
static int32_t cache_bits(int round, int packed) {
    const int appends = round / 2 % 2, rotates = round / 4 % 2;
    const int pages = packed || round % 7 != 6; /* at times keys are as in any tensor, and grow */
    if (latent) {
        return pages ? WEFT_HAS_PAGES : 0;
    }
    return (pages ? WEFT_HAS_PAGES : 0) | (appends || !pages ? WEFT_HAS_APPEND : 0) | (rotates ? WEFT_HAS_ROTARY : 0);
}

/* Features in turn, each with another. */
static int32_t feature_bits(uint64_t *random, int round) {
    static const int32_t bits[] = {0,
                                   WEFT_HAS_SOFTCAP,
                                   WEFT_HAS_SINKS,
                                   WEFT_HAS_ALIBI,
                                   WEFT_HAS_CHUNK,
                                   WEFT_HAS_MAX,
                                   WEFT_HAS_ODD_DIM,
                                   WEFT_HAS_PREFIX,
                                   WEFT_HAS_OTHER_DIM,
                                   WEFT_HAS_DROPOUT,
                                   WEFT_HAS_BIAS,
                                   WEFT_HAS_TREE,
                                   WEFT_HAS_BLOCKS,
                                   WEFT_HAS_LARGE_DIM};
    enum { COUNT = sizeof bits / sizeof *bits };
    return bits[round % COUNT] | bits[random_between(random, 0, COUNT - 1)];
}

static void rounds(int count, int64_t most, const char *kernel) {
    static const int64_t all_sizes[] = {16, 1, 64, 7, 32}, even_sizes[] = {16, 128, 64, 8, 32};
    const int64_t *sizes = wide ? even_sizes : all_sizes;
    uint64_t random = random_seed(131);
    for (int round = 0; random_round(&random, &round, count) && failures < 5; round++) {
        const int packed = round % 2 && !few, bad = round % 3 == 2;
        const int64_t page = round % 9 == 8 ? random_between(&random, 1, most) : sizes[round / 2 % 5];
        const int32_t features = feature_bits(&random, round) & (few      ? DECODED
                                                                 : latent ? LATENT
                                                                 : wide   ? HOPPER
                                                                 : bad ? ~(WEFT_HAS_BIAS | WEFT_HAS_TREE | WEFT_HAS_BLOCKS)
                                                                       : ~0);
        cache_trial *x = cache_trial_new(&random, random_between(&random, 0, 1) ? WEFT_BF16 : WEFT_FP16,
                                         cache_bits(round, packed) | features, packed, page, most, bad);
        const weft_schedule s = draw_schedule(&random);
        char what[160], options[64];
        static const char *const knobs[] = {"", "", ":mask-every-block", ":no-prefetch"};
        snprintf(options, sizeof options, "%s%s", kernel,
                 few || wide || latent ? "" : knobs[random_between(&random, 0, 3)]);
        snprintf(what, sizeof what, "round %d, %s, %s, page %lld, append %lld, rotary %lld, %lld bad entries", round,
                 options, packed ? "packed" : "batches", (long long)x->p.cache.page, (long long)x->p.cache.append,
                 (long long)x->p.cache.rotary_dim, (long long)x->bad);
        const int before = failures;
        cache_trial_run(x, &s, options, what);
        if (failures > before) {
            random_report();
        }
        cache_trial_free(x);
    }
}

int main(int argc, char **argv) {
    weft_cuda_device device;
    open_gpu(0, &device);
    if (device.capability < 80) {
        puts("skipped: the kernels are for compute capability 8.0 and later");
        return 77;
    }
    few = argc > 3 && strcmp(argv[3], "decode") == 0;
    wide = argc > 3 && strcmp(argv[3], "hopper_attention") == 0;
    latent = argc > 3 && strcmp(argv[3], "mla") == 0;
    if ((wide || latent) && device.capability != 90) {
        puts("skipped: the kernels are for compute capability 9.0");
        return 77;
    }
    rounds(argc > 1 ? atoi(argv[1]) : ROUNDS, argc > 2 ? atoll(argv[2]) : MOST, argc > 3 ? argv[3] : "study");
    printf("cache_device: %d runs, %d left out, %d failed, error at most %.2f of what is allowed\n", runs, left_out,
           failures, worst);
    return failures != 0 || 4 * runs <= left_out;
}
