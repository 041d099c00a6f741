/* SPDX-License-Identifier: Apache-2.0 */
/* KV caches on a GPU, held to the reference: pages of any size, appended keys, rotation, packed queries over pages, with
 * every mask and feature; lists that name pages which are none. Exits 77, with one line, where there is no GPU.
 *
 *   cache_device [ROUNDS [MOST [KERNEL]]]
 *
 * ROUNDS (240) is how many problems are drawn, MOST (300) the most queries and keys of a sequence, KERNEL (study) the
 * family: study; decode, which takes few queries; hopper_attention; or mla, whose problems have qv. All but
 * the first leave out some problems. Built for the fake driver, the kernels run on a CPU: see emulate/emulate.h. */
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

/* A sequence's part of an array that has so many bytes for each. */
static const void *part_of(const void *array, int64_t number, int64_t bytes) {
    return array ? (const char *)array + number * bytes : NULL;
}

/* Each sequence of a packed batch by itself, as a batch of one, gives the same bits. The batch has been run. */
static void check_alone(cache_trial *x, const char *kernel, const char *what) {
    const weft_attention *p = &x->p;
    const weft_lengths none = {0, 0, 0, 0, 0};
    buffer o = {.bytes = x->b[O].bytes, .host = malloc(x->b[O].bytes)},
           lse = {.bytes = x->b[LSE].bytes, .host = malloc(x->b[LSE].bytes)};
    weft_device gpu = WEFT_DEVICE_INIT;
    gpu.kind = WEFT_DEVICE_CUDA;
    gpu.kernel = kernel;
    DEMAND(!o.host || !lse.host || driver->memory_new(&o.device, o.bytes) || driver->memory_new(&lse.device, lse.bytes));
    for (int64_t number = 0; number < p->sequences; number++) {
        const int64_t begin = p->lengths.q_starts[number], queries = p->lengths.q_starts[number + 1] - begin;
        weft_attention one = x->asked;
        weft_attention_data data = data_of(x);
        weft_message message = {""};
        weft_plan *plan = NULL;
        one.sequences = one.q_most = 0;
        one.seq = queries;
        one.extras &= WEFT_SINKS | WEFT_ALIBI | WEFT_QV;
        one.lengths = none;
        one.lengths.q_used = part_of(p->lengths.q_used, number, 4);
        one.lengths.kv_used = part_of(p->lengths.kv_used, number, 4);
        one.lengths.kv_pad = part_of(p->lengths.kv_pad, number, 4);
        data.lengths = none;
        data.q = part_of(data.q, begin, 2 * p->q_strides.seq);
        data.qv = part_of(data.qv, begin, 2 * p->qv_strides.seq);
        data.o = (void *)(uintptr_t)(o.device + (uint64_t)(2 * begin * p->o_strides.seq));
        data.lse = (float *)(uintptr_t)lse.device;
        data.alibi = part_of(data.alibi, number, 4 * p->alibi_stride);
        one.cache.append = keys_new(x, number); /* once more: they come to lie where they are */
        one.cache.new_starts = data.cache.new_starts = NULL;
        data.cache.k_new = part_of(data.cache.k_new, new_row(x, number, 0), 2 * p->cache.k_new_strides.seq);
        data.cache.v_new = part_of(data.cache.v_new, new_row(x, number, 0), 2 * p->cache.v_new_strides.seq);
        data.cache.table = part_of(data.cache.table, number, 4 * p->cache.table_stride);
        data.cache.positions = part_of(data.cache.positions, number, 4);
        if (queries == 0) {
            continue;
        }
        if (plan_on(&plan, &one, NULL, NULL, &gpu, &message) ||
            (is_there(weft_plan_kernel(plan)) && weft_plan_run(plan, &data, &message))) {
            CHECK(0, "%s, sequence %lld alone: %s", what, (long long)number, message.text);
            continue;
        }
        DEMAND(driver->copy_out(o.host, o.device, o.bytes) || driver->copy_out(lse.host, lse.device, lse.bytes));
        for (int64_t i = 0; is_there(weft_plan_kernel(plan)) && i < queries * p->heads; i++) {
            const int64_t query = i / p->heads, head = i % p->heads;
            const size_t at = weft_row_index(&p->o_strides, 0, begin + query, head);
            CHECK(memcmp((uint16_t *)o.host + at, (uint16_t *)x->b[O].host + at, (size_t)p->head_dim_v * 2) == 0 &&
                      memcmp((float *)lse.host + head * queries + query,
                             (float *)x->b[LSE].host + head * p->seq + begin + query, 4) == 0,
                  "%s: query %lld of sequence %lld, head %lld has other bits alone", what, (long long)query,
                  (long long)number, (long long)head);
        }
        weft_plan_destroy(plan);
    }
    DEMAND(driver->memory_free(o.device) || driver->memory_free(lse.device));
    free(o.host);
    free(lse.host);
}

static void rounds(int count, int64_t most, const char *kernel) {
    static const int64_t all_sizes[] = {16, 1, 64, 7, 32}, even_sizes[] = {16, 128, 64, 8, 32};
    const int64_t *sizes = wide ? even_sizes : all_sizes;
    uint64_t random = random_seed(131);
    for (int round = 0; random_round(&random, &round, count) && failures < 5; round++) {
        const int packed = round % 2, bad = round % 3 == 2;
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
        const int before = failures, runs_before = runs;
        cache_trial_run(x, &s, options, what);
        if ((few || latent) && packed && x->bad == 0 && runs > runs_before) {
            check_alone(x, options, what);
        }
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
