/* SPDX-License-Identifier: Apache-2.0 */
/* What sharing work among ranks of one machine costs: one process with a thread on each core beside ranks of one thread
 * each, in turns, so that both meet the same machine. Medians of rounds: GFLOP/s of both, and the ranks' share of the
 * process's speed; by the clock, and by the time that the processors worked for them, which others on the machine change
 * less. tests/dist/mpirun.sh -n RANKS bench_ranks [--rounds N] [--threads N] [--size N] [WORDS...]    rows with each of
 * WORDS */
#include <math.h>
#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <weft/dist_mpi.h>
#include <weft/weft.h>

#include "base/clock.h"

enum { MOST_ROUNDS = 99, HEADS = 8, DIM = 64 };

static const struct {
    const char *name;
    int is_product, back;
    int32_t cut, exchange;
} rows[] = {
    {"attention forward zigzag ring", 0, 0, WEFT_CUT_ZIGZAG, WEFT_EXCHANGE_RING},
    {"attention backward zigzag ring", 0, 1, WEFT_CUT_ZIGZAG, WEFT_EXCHANGE_RING},
    {"product m ring", 1, 0, WEFT_CUT_M, WEFT_EXCHANGE_RING},
    {"product m all-gather", 1, 0, WEFT_CUT_M, WEFT_EXCHANGE_ALL_GATHER},
    {"product k ring", 1, 0, WEFT_CUT_K, WEFT_EXCHANGE_RING},
    {"product k all-gather", 1, 0, WEFT_CUT_K, WEFT_EXCHANGE_ALL_GATHER},
};

static weft_transport by_mpi = WEFT_TRANSPORT_INIT;
static weft_message message;
static int rounds = 9, threads = 2;
static int64_t size = 1536;

static void check(weft_status status) {
    if (status) {
        fprintf(stderr, "%s: %s\n", weft_status_name(status), message.text);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

/* All ranks come, and those that wait leave the cores to others: MPI's own barrier would take them. */
static void meet(void) {
    MPI_Request request;
    int done = 0;
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    while (MPI_Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done) {
        weft_pause(1e-3);
    }
}

static float *filled(int64_t count) {
    float *data = aligned_alloc(64, ((size_t)count * sizeof *data + 63) / 64 * 64);
    if (!data) {
        fprintf(stderr, "no memory\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    uint32_t random = 1;
    for (int64_t i = 0; i < count; i++) {
        random = random * 1664525u + 1013904223u;
        data[i] = (float)(random >> 8) / 0x1p24f - 0.5f;
    }
    return data;
}

static double processor_seconds(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

/* ---- a problem, and the data of one rank or of all ---- */

typedef union problem {
    weft_attention attention;
    weft_gemm gemm;
} problem;

typedef union data {
    weft_attention_data forward;
    weft_attention_gradients backward;
    weft_gemm_data gemm;
} data;

enum { TENSORS = 9 };

static problem problem_of(size_t row) {
    problem p = {.attention = WEFT_ATTENTION_INIT};
    if (rows[row].is_product) {
        p.gemm = (weft_gemm)WEFT_GEMM_INIT;
        p.gemm.m = p.gemm.n = p.gemm.k = size;
        return p;
    }
    p.attention.operation = rows[row].back ? WEFT_ATTENTION_BACKWARD : WEFT_ATTENTION;
    p.attention.heads = p.attention.kv_heads = HEADS;
    p.attention.seq = p.attention.kv_seq = 2 * size;
    p.attention.head_dim = DIM;
    p.attention.mask = WEFT_MASK_CAUSAL;
    return p;
}

/* `a`, `b` and `c`: elements of the product's matrices, or those of an attention's tensors, and of its LSE. */
static data data_of(size_t row, int64_t a, int64_t b, int64_t c, float **t) {
    data d = {.forward = WEFT_ATTENTION_DATA_INIT};
    for (int i = 0; i < TENSORS; i++) {
        t[i] = filled(rows[row].is_product ? i == 0 ? a : i == 1 ? b : i == 2 ? c : 1 : i < TENSORS - 1 ? a : c);
    }
    if (rows[row].is_product) {
        d.gemm = (weft_gemm_data)WEFT_GEMM_DATA_INIT;
        d.gemm.a = t[0], d.gemm.b = t[1], d.gemm.c = t[2];
    } else if (rows[row].back) {
        d.backward = (weft_attention_gradients)WEFT_ATTENTION_GRADIENTS_INIT;
        d.backward.q = t[0], d.backward.k = t[1], d.backward.v = t[2], d.backward.o = t[3], d.backward.grad_o = t[4];
        d.backward.grad_q = t[5], d.backward.grad_k = t[6], d.backward.grad_v = t[7], d.backward.lse = t[8];
    } else {
        d.forward.q = t[0], d.forward.k = t[1], d.forward.v = t[2], d.forward.o = t[3], d.forward.lse = t[8];
    }
    return d;
}

static void free_all(float **t) {
    for (int i = 0; i < TENSORS; i++) {
        free(t[i]);
    }
}

/* ---- a row ---- */

typedef struct taken {
    double seconds, processors;
} taken;

/* One process, while the others sleep. */
static taken run_alone(const weft_plan *plan, const data *d) {
    taken t = {0, 0};
    meet();
    if (plan) {
        omp_set_num_threads(threads);
        const double begin = weft_now(), before = processor_seconds();
        check(weft_plan_run(plan, d, &message));
        t = (taken){weft_now() - begin, processor_seconds() - before};
        omp_set_num_threads(1);
        weft_pause(0.02); /* until the threads of its team sleep */
    }
    meet();
    return t;
}

/* From when the first begins until the last is done. */
static taken run_shared(weft_dist *dist, const data *d) {
    meet();
    const double before = processor_seconds(), begin = weft_now();
    check(weft_dist_run(dist, d, NULL, &message));
    const double mine[] = {-begin, weft_now()}, worked = processor_seconds() - before;
    double all[2], all_worked;
    meet();
    MPI_Allreduce(mine, all, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    MPI_Allreduce(&worked, &all_worked, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return (taken){all[0] + all[1], all_worked};
}

static int ascending(const void *a, const void *b) {
    return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

static double median(double *list) {
    qsort(list, (size_t)rounds, sizeof *list, ascending);
    return rounds % 2 ? list[rounds / 2] : (list[rounds / 2 - 1] + list[rounds / 2]) / 2;
}

static void time_row(size_t row) {
    const problem p = problem_of(row);
    weft_ranks ranks = WEFT_RANKS_INIT;
    weft_dist_options options = WEFT_DIST_OPTIONS_INIT;
    weft_dist *dist;
    weft_plan *plan = NULL;
    float *mine[TENSORS], *all[TENSORS];
    data whole = {.forward = WEFT_ATTENTION_DATA_INIT};
    ranks.cut = rows[row].cut;
    ranks.exchange = rows[row].exchange;
    options.ranks = &ranks;
    options.transport = &by_mpi;
    omp_set_num_threads(1);
    check(weft_dist_create(&dist, &p, &options, &message));
    const int64_t own = weft_dist_rows(dist, by_mpi.rank, WEFT_QUERY_ROWS),
                  part = weft_dist_rows(dist, by_mpi.rank, WEFT_KEY_ROWS);
    const int by_k = rows[row].cut == WEFT_CUT_K;
    const data share = rows[row].is_product
                           ? data_of(row, size * (by_k ? own : part), size * own, size * (by_k ? part : own), mine)
                           : data_of(row, own * HEADS * DIM, 0, own * HEADS, mine);
    if (by_mpi.rank == 0) {
        omp_set_num_threads(threads);
        check(weft_plan_create(&plan, &p, NULL, &message));
        whole = rows[row].is_product ? data_of(row, size * size, size * size, size * size, all)
                                     : data_of(row, 2 * size * HEADS * DIM, 0, 2 * size * HEADS, all);
    }
    double rate[2][MOST_ROUNDS], ratio[2][MOST_ROUNDS];
    run_alone(plan, &whole);
    run_shared(dist, &share);
    for (int i = 0; i < rounds; i++) {
        const taken first = i % 2 ? run_shared(dist, &share) : run_alone(plan, &whole);
        const taken second = i % 2 ? run_alone(plan, &whole) : run_shared(dist, &share);
        const taken alone = i % 2 ? second : first, shared = i % 2 ? first : second;
        const double flops = weft_problem_flops(&p);
        rate[0][i] = flops / alone.seconds / 1e9;
        rate[1][i] = flops / shared.seconds / 1e9;
        ratio[0][i] = alone.seconds / shared.seconds;
        ratio[1][i] = alone.processors / shared.processors;
    }
    if (by_mpi.rank == 0) {
        const double middle = median(ratio[0]); /* which sorts them */
        printf("%-32s %8.1f %8.1f %8.3f", rows[row].name, median(rate[0]), median(rate[1]), middle);
        printf("  %.2f .. %.2f %8.3f\n", ratio[0][0], ratio[0][rounds - 1], median(ratio[1]));
        fflush(stdout);
        free_all(all);
    }
    weft_plan_destroy(plan);
    weft_dist_destroy(dist);
    free_all(mine);
}

int main(int argc, char **argv) {
    weft_mpi mpi;
    int level, words = argc;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
    for (words = 1; words + 1 < argc && strncmp(argv[words], "--", 2) == 0; words += 2) {
        const long long value = atoll(argv[words + 1]);
        if (!strcmp(argv[words], "--rounds")) {
            rounds = value < 1 ? 1 : value > MOST_ROUNDS ? MOST_ROUNDS : (int)value;
        } else if (!strcmp(argv[words], "--threads")) {
            threads = (int)value;
        } else if (!strcmp(argv[words], "--size")) {
            size = value;
        }
    }
    check(weft_mpi_open(&mpi, MPI_COMM_WORLD, &by_mpi, &message));
    if (by_mpi.rank == 0) {
        printf("%d ranks of one thread, one process of %d threads, size %lld, medians of %d rounds\n", by_mpi.size, threads,
               (long long)size, rounds);
        printf("%-32s %8s %8s %8s  %12s %8s\n", "GFLOP/s", "process", "ranks", "share", "least, most", "by time");
    }
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int wanted = 1;
        for (int w = words; w < argc; w++) {
            wanted &= strstr(rows[i].name, argv[w]) != NULL;
        }
        if (wanted) {
            time_row(i);
        }
    }
    weft_mpi_close(&mpi);
    return MPI_Finalize();
}
