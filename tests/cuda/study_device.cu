/* SPDX-License-Identifier: Apache-2.0 */
/* The study kernel on a GPU, held to the reference: every variant under every combination of knobs, on random problems.
 *
 *   study_device [--only PART] [--quick]       check; PART of a symbol picks variants, --quick takes few combinations
 *   study_device --features ROUNDS [--most N]  check the general variants: every feature with another, in ROUNDS draws of
 *                                              up to N queries and keys
 *   study_device --bench [options]             time variants in turn (study_bench.cuh); options below
 *
 * Built a second time for the CPU (WEFT_EMULATED, emulate/emulate.h), it checks the same without a GPU.
 *
 * Linked with the variants' modules and, of the library, problem.c, status.c, names.c, dtype.c, attention_forward.c and
 * attention_naive.c. Exits 77, with one line, where there is no GPU. */
#include "study_trial.cuh"
#ifndef WEFT_EMULATED
#include "study_bench.cuh"
#endif

/* What a failure is to be found again by. */
static void say_trial(const weft_attention *p, const knobs *k) {
    fprintf(
        stderr,
        "batch %lld heads %lld/%lld seq %lld kv_seq %lld head dims %lld/%lld mask %d offset %lld left %lld right %lld "
        "chunk %lld prefix %lld scale %g softcap %g dropout %g extras %d bias_type %d sequences %lld lengths %d%d%d%d%d; "
        "order %d sweep %d dispatch %d workers %lld table %d mask_every_block %d no_prefetch %d by_sm %d\n",
        (long long)p->batch, (long long)p->heads, (long long)p->kv_heads, (long long)p->seq, (long long)p->kv_seq,
        (long long)p->head_dim, (long long)p->head_dim_v, (int)p->mask, (long long)p->offset, (long long)p->left,
        (long long)p->right, (long long)p->chunk, (long long)p->prefix, p->scale, p->softcap, p->dropout, (int)p->extras,
        (int)p->bias_type, (long long)p->sequences, p->lengths.q_starts != NULL, p->lengths.kv_starts != NULL,
        p->lengths.q_used != NULL, p->lengths.kv_used != NULL, p->lengths.kv_pad != NULL, (int)k->order, (int)k->sweep,
        (int)k->dispatch, (long long)k->workers, k->table, k->mask_every_block, k->no_prefetch, k->by_sm);
}

static int check_one(int variant, trial *t, const knobs *k, int with_lse, const lent *l, double *worst) {
    CHECK(cudaMemset(t->device.o, 0xff, t->size.o * out_bytes(&t->p)));
    CHECK(cudaMemset(t->device.lse, 0xff, t->size.lse * sizeof(float)));
    weft_attention_data data = t->device;
    data.lse = with_lse ? data.lse : NULL;
    if (data.max) {
        CHECK(cudaMemset(data.max, 0xff, t->size.lse * sizeof(float)));
    }
    weft_study_params s = study_params(variant, &t->p, &data, k, l);
    study_launch(variant, &s, k->more_shared);
    CHECK(cudaMemcpy(t->host.o, t->device.o, t->size.o * out_bytes(&t->p), cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(t->host.lse, t->device.lse, t->size.lse * sizeof(float), cudaMemcpyDeviceToHost));
    if (data.max) {
        CHECK(cudaMemcpy(t->host.max, t->device.max, t->size.lse * sizeof(float), cudaMemcpyDeviceToHost));
    }
    double error;
    const char *wrong = trial_compare(t, with_lse, &error);
    *worst = fmax(*worst, error / t->bound);
    if (wrong) {
        fprintf(stderr, "%s: %s: error %g, allowed %g; ", variants[variant].symbol, wrong, error, t->bound);
        say_trial(&t->p, k);
    }
    return wrong != NULL;
}

/* A schedule and knobs at random, under the c-th combination of sweep, dispatch, mask and prefetch. */
enum { COMBINATIONS = WEFT_COMMON_SWEEPS * WEFT_DISPATCHES * 4 };
static knobs draw_knobs(int variant, int c, uint64_t *random, const lent *l) {
    knobs k;
    do {
        k.order = (weft_order_kind)random_between(random, 1, WEFT_ORDER_KINDS);
    } while (weft_order_grid(k.order) != WEFT_GRID_HEADS);
    k.sweep = (weft_sweep)(1 + c % WEFT_COMMON_SWEEPS);
    k.dispatch = (weft_dispatch)(1 + c / WEFT_COMMON_SWEEPS % WEFT_DISPATCHES);
    k.mask_every_block = c / (WEFT_COMMON_SWEEPS * WEFT_DISPATCHES) % 2;
    k.no_prefetch = c / (2 * WEFT_COMMON_SWEEPS * WEFT_DISPATCHES);
    k.workers = random_between(random, 1, 20);
    k.group = random_between(random, 0, 4);
    k.domains = random_between(random, 1, 4);
    k.table = (int)random_between(random, 0, 2);
    k.more_shared = random_between(random, 0, 1) ? 4096 : 0;
    k.by_sm = k.dispatch == WEFT_DISPATCH_STATIC && l->sms > 0 && random_between(random, 0, 1);
    if (k.by_sm) { /* so much shared memory that no two CTAs share an SM */
        k.workers = l->sms;
        k.more_shared = variants[variant].shared_bytes < 118784 ? 118784 - variants[variant].shared_bytes : 0;
    }
    if (!variant_prepare(variant, k.more_shared)) {
        k.more_shared = 0;
        k.by_sm = 0;
    }
    return k;
}

/* Every sweep, dispatch, mask and prefetch; orders, workers, groups, domains and tables at random. */
static int check_variant(int variant, trial *trials, int count, uint64_t *random, int quick, const lent *l, int *runs,
                         double *worst) {
    int failed = 0;
    for (int i = 0; i < count && failed < 5; i++) {
        for (int c = 0; c < COMBINATIONS && failed < 5; c++) {
            if (quick && random_between(random, 0, 11) != 0) {
                continue;
            }
            const knobs k = draw_knobs(variant, c, random, l);
            if (!variant_prepare(variant, k.more_shared)) {
                return failed;
            }
            failed += check_one(variant, &trials[i], &k, random_between(random, 0, 3) != 0, l, worst);
            ++*runs;
        }
    }
    return failed;
}

/* Whether a plain variant is to be checked. */
static int is_asked(int variant, int head_dim, int dtype, const char *only) {
    const weft_study_variant *v = &variants[variant];
    return v->head_dim_v == 0 && v->head_dim == head_dim && v->dtype == (weft_dtype)dtype &&
           (!only || strstr(v->symbol, only));
}

static int has_any(int head_dim, int dtype, const char *only) {
    int any = 0;
    for (int v = 0; v < VARIANTS; v++) {
        any |= is_asked(v, head_dim, dtype, only);
    }
    return any;
}

static int check_all(const char *only, int quick) {
    enum { TRIALS = 6 };
    static const int head_dims[] = {56, 64, 80, 96, 128};
    uint64_t random = random_seed(21);
    int failed = 0, runs = 0, passed = 0;
    double worst = 0;
    const lent l = lend(4096);
    for (int d = 0; d < 5; d++) {
        for (int dtype = WEFT_FP16; dtype <= WEFT_BF16; dtype++) {
            trial trials[TRIALS];
            if (!has_any(head_dims[d], dtype, only)) {
                continue;
            }
            for (int i = 0; i < TRIALS; i++) {
                trials[i] = trial_new(&random, (weft_dtype)dtype, head_dims[d], i, quick ? 200 : 400);
            }
            for (int v = 0; v < VARIANTS; v++) {
                if (!is_asked(v, head_dims[d], dtype, only)) {
                    continue;
                }
                if (!variant_prepare(v, 0)) {
                    printf("%s: skipped, it needs %u bytes of shared memory\n", variants[v].symbol,
                           variants[v].shared_bytes);
                    continue;
                }
                const int wrong = check_variant(v, trials, TRIALS, &random, quick, &l, &runs, &worst);
                failed += wrong != 0;
                passed += wrong == 0;
            }
            for (int i = 0; i < TRIALS; i++) {
                trial_free(&trials[i]);
            }
        }
    }
    lend_back(&l);
    printf("study_device: %d passed, %d failed (%d launches, error at most %.2f of what is allowed)\n", passed, failed,
           runs, worst);
    return failed != 0 || passed == 0;
}

/* Whether a general variant is of the least head dims that have room for a problem. */
static int is_least(int variant, const weft_attention *p) {
    const weft_study_variant *v = &variants[variant];
    int least = 0;
    for (int i = 0; i < VARIANTS; i++) {
        if (variants[i].dtype == p->dtype && variants[i].head_dim >= p->head_dim &&
            variants[i].head_dim_v >= p->head_dim_v && (!least || variants[i].head_dim < least)) {
            least = variants[i].head_dim;
        }
    }
    return v->dtype == p->dtype && v->head_dim == least && v->head_dim_v >= p->head_dim_v;
}

/* Whether a tile or a step would cross the blocks of a block mask. */
static int crosses_blocks(int variant, const weft_attention *p) {
    const weft_study_variant *v = &variants[variant];
    return p->block_rows > 0 && ((p->seq > p->block_rows && p->block_rows % v->tile_m != 0) ||
                                 (p->kv_seq > p->block_columns && p->block_columns % v->tile_n != 0));
}

/* Every feature in turn, each with another at random, for every general variant that is meant for it. */
static int check_features(const char *only, int rounds, int64_t most) {
    uint64_t random = random_seed(23);
    int failed = 0, runs = 0;
    double worst = 0;
    const lent l = lend(4096);
    for (int round = 0; random_round(&random, &round, rounds) && failed < 5; round++) {
        const int32_t masks[] = {0, 0, 0, WEFT_HAS_BLOCKS, 0, 0, 0, WEFT_HAS_BLOCKS | WEFT_HAS_DROPOUT}; /* steps move */
        const int32_t bits = draw_pair(&random, round) | masks[round % 8];
        trial t = trial_with(&random, round % 2 ? WEFT_BF16 : WEFT_FP16, bits, most);
        for (int v = 0; v < VARIANTS; v++) {
            if (!is_least(v, &t.p) || crosses_blocks(v, &t.p) || (only && !strstr(variants[v].symbol, only)) ||
                !variant_prepare(v, 0)) {
                continue;
            }
            const knobs k = draw_knobs(v, (int)random_between(&random, 0, COMBINATIONS - 1), &random, &l);
            const int wrong = check_one(v, &t, &k, random_between(&random, 0, 3) != 0, &l, &worst);
            if (wrong) {
                random_report();
            }
            failed += wrong;
            runs++;
        }
        trial_free(&t);
    }
    lend_back(&l);
    printf("study_device: features: %d launches, %d failed (error at most %.2f of what is allowed)\n", runs, failed, worst);
    return failed != 0 || runs == 0;
}

int main(int argc, char **argv) {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
        puts("skipped: no GPU");
        return 77;
    }
#ifndef WEFT_EMULATED
    if (argc > 1 && !strcmp(argv[1], "--bench")) {
        return bench_main(argc - 2, argv + 2);
    }
#endif
    const char *only = NULL;
    int quick = 0, rounds = 0;
    int64_t most = 300;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--quick")) {
            quick = 1;
        } else if (!strcmp(argv[i], "--only") && i + 1 < argc) {
            only = argv[++i];
        } else if (!strcmp(argv[i], "--features") && i + 1 < argc) {
            rounds = atoi(argv[++i]);
        } else if (!strcmp(argv[i], "--most") && i + 1 < argc) {
            most = atoll(argv[++i]);
        } else {
            fprintf(stderr, "unknown option %s\n", argv[i]);
            return 2;
        }
    }
    return rounds > 0 ? check_features(only, rounds, most) : check_all(only, quick);
}
