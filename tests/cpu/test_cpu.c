/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU backend against the reference: random problems and schedules, every kernel that this processor can run. */
#include "attentions.h"

#include <sys/wait.h>
#include <unistd.h>

#include "cpu/kernel/kernel.h"
#include "plan/plan.h"

#ifdef _OPENMP
#include <omp.h>
#endif

static void attention(void **state) {
    (void)state;
    int usable;
    const weft_cpu_kernel *kernels;
    for (size_t i = 0; (kernels = weft_cpu_kernel_at(i, &usable)); i++) {
        uint64_t random = random_seed(10); /* every kernel has the same problems */
        assert_int_equal(setenv("WEFT_CPU", kernels->name, 1), 0);
        for (int round = 0; usable && random_round(&random, &round, 100); round++) {
            const weft_attention p = random_attention(&random, round);
            const weft_schedule s = random_schedule(&random, &p);
            tensors t = tensors_new(&random, &p);
            run(&t, &p, &s);
            compare(&t);
            tensors_check_borders(&t);
            tensors_free(&t);
        }
    }
}

/* One query, or a few that share a kv head, against keys enough for several parts. */
static void few(void **state) {
    (void)state;
    int usable;
    const weft_cpu_kernel *kernels;
    for (size_t i = 0; (kernels = weft_cpu_kernel_at(i, &usable)); i++) {
        uint64_t random = random_seed(60);
        assert_int_equal(setenv("WEFT_CPU", kernels->name, 1), 0);
        for (int round = 0; usable && random_round(&random, &round, 18); round++) {
            weft_attention p = random_attention(&random, round);
            p.batch = 1;
            p.head_dim =
                round % 3 == 2 ? 64 * random_between(&random, 1, 2) : 8 * random_between(&random, 1, round % 6 ? 5 : 32);
            p.seq = round % 2 ? 1 : random_between(&random, 1, 5);
            p.kv_seq = random_between(&random, 1537, 4000);
            p.heads = p.kv_heads * (round % 2 ? random_between(&random, 1, 12) : 1);
            draw_mask(&random, &p);
            const weft_strides packed = {0, 0, 0};
            p.q_strides = p.k_strides = p.v_strides = p.o_strides = packed;
            if (round % 3 == 0) {
                pad_problem(&p, 3);
            }
            weft_schedule s = random_schedule(&random, &p);
            s.tile_m = s.tile_n = 0;
            tensors t = tensors_new(&random, &p);
            run(&t, &p, round % 6 == 5 ? NULL : &s);
            compare(&t);
            tensors_check_borders(&t);
            tensors_free(&t);
        }
    }
    unsetenv("WEFT_CPU");
}

/* A masked key adds nothing, whatever it holds; a visible NaN spreads as in the reference. */
static void not_finite(void **state) {
    (void)state;
    uint64_t random = random_seed(20);
    unsetenv("WEFT_CPU");
    for (int round = 0; random_round(&random, &round, 100); round++) {
        weft_attention p = random_attention(&random, 3 * round);
        p.mask = round % 3 ? WEFT_MASK_CAUSAL : WEFT_MASK_WINDOW;
        p.offset = random_between(&random, -5, 20);
        p.left = p.right = p.mask == WEFT_MASK_WINDOW ? random_between(&random, 0, 30) : -1;
        if (round % 10 == 9) { /* few queries, many keys */
            p.heads = p.kv_heads;
            p.seq = random_between(&random, 1, 4);
            p.kv_seq = 1600;
            p.offset = random_between(&random, 1500, 1600);
            const weft_strides packed = {0, 0, 0};
            p.q_strides = p.k_strides = p.v_strides = p.o_strides = packed;
        }
        weft_schedule s = random_schedule(&random, &p);
        s.tile_m = round % 10 == 9 ? 0 : s.tile_m; /* decode has a tile of its own */
        s.tile_n = round % 10 == 9 ? 0 : s.tile_n;
        tensors t = tensors_new(&random, &p);
        spoil(&random, &t);
        run(&t, &p, &s);
        compare_spoilt(&t);
        tensors_free(&t);
    }
}

/* The same plan gives the same bits, whatever the number of threads. */
static void threads_change_nothing(void **state) {
    (void)state;
#ifdef _OPENMP
    uint64_t random = random_seed(30);
    for (int round = 0; random_round(&random, &round, 20); round++) {
        const weft_attention p = random_attention(&random, round);
        weft_schedule s = random_schedule(&random, &p);
        s.dispatch = round % 2 ? WEFT_DISPATCH_STATIC : WEFT_DISPATCH_GRID;
        tensors t = tensors_new(&random, &p);
        const size_t bytes = t.size.o * weft_dtype_bytes(p.dtype);
        void *first = malloc(bytes);
        assert_non_null(first);
        for (int threads = 1; threads <= 7; threads += 3) {
            omp_set_num_threads(threads);
            run(&t, &p, &s);
            if (threads == 1) {
                memcpy(first, t.data.o, bytes);
            }
            assert_memory_equal(first, t.data.o, bytes);
        }
        free(first);
        tensors_free(&t);
    }
#else
    skip();
#endif
}

/* Workers that have tiles of one head only pack it themselves, and help each other: the same bits as where all is packed
 * first and tiles are taken as threads come free. */
static void heads_are_held(void **state) {
    (void)state;
    int usable;
    const weft_cpu_kernel *kernels;
    for (size_t i = 0; (kernels = weft_cpu_kernel_at(i, &usable)); i++) {
        uint64_t random = random_seed(80);
        assert_int_equal(setenv("WEFT_CPU", kernels->name, 1), 0);
        for (int round = 0; usable && random_round(&random, &round, 24); round++) {
            weft_attention p = random_attention(&random, round);
            p.seq = random_between(&random, 256, 300); /* with two workers a head, 128 queries each */
            p.offset = p.mask == WEFT_MASK_CAUSAL ? random_between(&random, -40, 60) : 0;
            const weft_strides packed = {0, 0, 0};
            p.q_strides = p.k_strides = p.v_strides = p.o_strides = packed;
            weft_schedule s = WEFT_SCHEDULE_INIT;
            s.tile_m = random_between(&random, 1, 100);
            s.tile_n = random_between(&random, 1, p.kv_seq);
            s.sweep = WEFT_SWEEP_FORWARD;
            tensors t = tensors_new(&random, &p);
            if (round % 3 == 2) {
                weft_ref_store(p.dtype, t.v, t.size.v - 1, round % 2 ? NAN : INFINITY);
            }
            const size_t bytes = t.size.o * weft_dtype_bytes(p.dtype), sums = t.size.lse * sizeof(float);
            char *first = malloc(bytes + sums);
            assert_non_null(first);
            s.order = WEFT_ORDER_HEAD_FIRST;
            s.dispatch = WEFT_DISPATCH_DYNAMIC;
            run(&t, &p, &s);
            memcpy(first, t.data.o, bytes);
            memcpy(first + bytes, t.data.lse, sums);
            s.order = WEFT_ORDER_BLOCK_FIRST;
            s.dispatch = WEFT_DISPATCH_STATIC;
            s.workers = p.batch * p.heads * (1 + round % 2);
#ifdef _OPENMP
            omp_set_num_threads(1 + round % 7);
#endif
            run(&t, &p, &s);
            assert_memory_equal(first, t.data.o, bytes);
            assert_memory_equal(first + bytes, t.data.lse, sums);
            tensors_check_borders(&t);
            free(first);
            tensors_free(&t);
        }
    }
    unsetenv("WEFT_CPU");
}

static void backward(void **state) {
    (void)state;
    int usable;
    const weft_cpu_kernel *kernels;
    for (size_t i = 0; (kernels = weft_cpu_kernel_at(i, &usable)); i++) {
        uint64_t random = random_seed(50);
        assert_int_equal(setenv("WEFT_CPU", kernels->name, 1), 0);
        for (int round = 0; usable && random_round(&random, &round, 40); round++) {
            weft_attention p = random_attention(&random, round);
            p.seq = round % 8 ? p.seq : 200;                                  /* several blocks */
            p.kv_seq = round % 8 == 0 ? 250 : round % 16 == 6 ? 1 : p.kv_seq; /* one key: gradients of 0 */
            p.scale = round % 7 ? 0 : -0.2;
            if (round % 4 == 0) {
                const weft_strides packed = {0, 0, 0};
                p.q_strides = p.k_strides = p.v_strides = p.o_strides = packed;
                pad_problem(&p, 3);
            }
            tensors t = tensors_new(&random, &p);
            check_backward(&random, &t, &p, round);
            tensors_free(&t);
        }
    }
    unsetenv("WEFT_CPU");
}

/* Products by the kernel that WEFT_CPU names. */
static void check_gemm(void) {
    uint64_t random = random_seed(40);
    for (int round = 0; random_round(&random, &round, 100); round++) {
        weft_gemm p = WEFT_GEMM_INIT, r;
        p.m = random_between(&random, 1, 70);
        p.n = random_between(&random, 1, 70);
        p.k = random_between(&random, 1, 90);
        p.dtype = (weft_dtype)(round % 3);
        p.c_dtype = (weft_dtype)(round / 3 % 3);
        p.a_major = (weft_major)(round % 2);
        p.b_major = (weft_major)(round / 2 % 2);
        p.c_major = (weft_major)(round / 4 % 2);
        p.alpha = round % 5 ? 1 : -0.5;
        p.beta = round % 3 ? 0 : 0.75;
        p.ldc = p.c_major == WEFT_ROW_MAJOR ? p.n + 3 : p.m + 3;
        weft_schedule s = WEFT_SCHEDULE_INIT;
        s.tile_m = random_between(&random, 1, p.m);
        s.tile_n = random_between(&random, 1, p.n);
        s.tile_k = random_between(&random, 1, p.k);
        s.order = round % 4 == 1 ? WEFT_ORDER_CUSTOM : (int32_t)random_between(&random, 0, WEFT_ORDER_HILBERT);
        s.sweep = 1 + round % WEFT_COMMON_SWEEPS;
        s.dispatch = 1 + round / 3 % WEFT_DISPATCHES;
        s.workers = random_between(&random, 1, 4);
        assert_int_equal(resolve_gemm(&r, &p, NULL), WEFT_OK);
        const weft_gemm_extents size = gemm_sizes(&p);
        void *a = random_buffer(&random, p.dtype, size.a), *b = random_buffer(&random, p.dtype, size.b);
        void *c =
            p.beta != 0 ? random_buffer(&random, p.c_dtype, size.c) : guarded_new(size.c * weft_dtype_bytes(p.c_dtype));
        void *before = malloc(size.c * weft_dtype_bytes(p.c_dtype));
        assert_non_null(before);
        memcpy(before, c, size.c * weft_dtype_bytes(p.c_dtype));
        const weft_gemm_data data = gemm_data(a, b, c), old = gemm_data(a, b, before);
        weft_plan *plan;
        assert_int_equal(plan_for(&plan, &p, &s, NULL, NULL), WEFT_OK);
        assert_int_equal(weft_plan_run(plan, &data, NULL), WEFT_OK);
        weft_plan_destroy(plan);
        for (int64_t i = 0; i < p.m * p.n; i++) {
            const double exact = weft_ref_gemm_element(&r, &old, i / p.n, i % p.n);
            const double naive = weft_ref_gemm_element_naive(&r, &old, i / p.n, i % p.n);
            const double got = weft_ref_load(p.c_dtype, c, weft_matrix_index(r.c_major, r.ldc, i / p.n, i % p.n));
            const double half_ulp = p.c_dtype == WEFT_FP32 ? 0x1p-19 : p.c_dtype == WEFT_FP16 ? 0x1p-10 : 0x1p-7;
            assert_near(got, exact, fmax(2 * fabs(naive - exact), half_ulp * fmax(1, fabs(exact))));
        }
        free(before);
        guarded_free(a);
        guarded_free(b);
        guarded_free(c);
    }
}

static void gemm(void **state) {
    (void)state;
    int usable;
    const weft_cpu_kernel *kernels;
    for (size_t i = 0; (kernels = weft_cpu_kernel_at(i, &usable)); i++) {
        assert_int_equal(setenv("WEFT_CPU", kernels->name, 1), 0);
        if (usable) {
            check_gemm();
        }
    }
    unsetenv("WEFT_CPU");
}

/* One product of a batch by itself, as the batch's plan would. */
static void run_alone(const weft_gemm *batch, const weft_schedule *schedule, const weft_gemm_data *all, int64_t i,
                      void *c) {
    weft_gemm p = *batch;
    weft_plan *plan;
    const int64_t bytes = (int64_t)weft_dtype_bytes(p.dtype), c_bytes = (int64_t)weft_dtype_bytes(p.c_dtype);
    const weft_gemm_data one =
        gemm_data((const char *)all->a + i * p.a_stride * bytes, (const char *)all->b + i * p.b_stride * bytes,
                  (char *)c + i * p.c_stride * c_bytes);
    p.batch = 1;
    weft_schedule own = *schedule;
    own.order_hash = 0; /* an order of the caller's is for the whole batch */
    assert_int_equal(plan_for(&plan, &p, &own, NULL, NULL), WEFT_OK);
    assert_int_equal(weft_plan_run(plan, &one, NULL), WEFT_OK);
    weft_plan_destroy(plan);
}

/* A batch has the bits of its products, whether they come one after the other or at once, and leaves the gaps between them
 * alone. */
static void batches(void **state) {
    (void)state;
    uint64_t random = random_seed(60);
    int at_once = 0;
    for (int round = 0; random_round(&random, &round, 90); round++) {
        const int64_t most = round % 9 == 8 ? 400 : 60;
        weft_gemm p = WEFT_GEMM_INIT, r;
        p.m = random_between(&random, most / 2, most);
        p.n = random_between(&random, most / 2, most);
        p.k = random_between(&random, 1, most);
        p.batch = random_between(&random, 1, most > 60 ? 3 : 9);
        p.dtype = p.c_dtype = (weft_dtype)(round % 3);
        p.a_major = (weft_major)(round / 2 % 2);
        p.b_major = (weft_major)(round / 3 % 2);
        p.c_major = (weft_major)(round / 4 % 2);
        p.beta = round % 5 ? 0 : 0.5;
        p.ldc = p.c_major == WEFT_ROW_MAJOR ? p.n + 3 : p.m + 3;
        p.a_stride = round % 7 ? p.m * p.k + 5 : 0;
        p.c_stride = p.ldc * (p.c_major == WEFT_ROW_MAJOR ? p.m : p.n) + 7;
        weft_schedule s = WEFT_SCHEDULE_INIT;
        if (round % 2) {
            s.tile_m = random_between(&random, 1, p.m);
            s.order = round % 4 == 1 ? WEFT_ORDER_CUSTOM : (int32_t)random_between(&random, 0, WEFT_ORDER_HILBERT);
            s.sweep = 1 + round % WEFT_COMMON_SWEEPS;
            s.dispatch = 1 + round / 3 % WEFT_DISPATCHES;
            s.workers = random_between(&random, 1, 5);
        }
        assert_int_equal(resolve_gemm(&r, &p, NULL), WEFT_OK);
        const weft_gemm_extents size = gemm_sizes(&r);
        const size_t bytes = size.c * weft_dtype_bytes(p.c_dtype);
        void *a = random_buffer(&random, p.dtype, size.a), *b = random_buffer(&random, p.dtype, size.b),
             *c = random_buffer(&random, p.c_dtype, size.c), *want = malloc(bytes);
        assert_non_null(want);
        memcpy(want, c, bytes);
        const weft_gemm_data data = gemm_data(a, b, c);
        weft_plan *plan;
        assert_int_equal(plan_for(&plan, &p, &s, NULL, NULL), WEFT_OK);
        assert_int_equal(weft_plan_run(plan, &data, NULL), WEFT_OK);
        s = weft_plan_schedule(plan);
        s.order_table = NULL; /* the plan's, and of another grid: one product gets its own */
        at_once += plan->products > 1;
        weft_plan_destroy(plan);
        for (int64_t i = 0; i < p.batch; i++) {
            run_alone(&r, &s, &data, i, want);
        }
        assert_memory_equal(c, want, bytes);
        free(want);
        guarded_free(a);
        guarded_free(b);
        guarded_free(c);
    }
    assert_true(at_once >= random_rounds(90) * 7 / 30);
}

#ifdef _OPENMP
static void check_threads_of_product(void) {
    uint64_t random = random_seed(50);
    for (int round = 0; random_round(&random, &round, 24); round++) {
        weft_gemm p = WEFT_GEMM_INIT;
        weft_schedule s = WEFT_SCHEDULE_INIT;
        weft_plan *plan;
        p.m = random_between(&random, 1, 200);
        p.n = random_between(&random, 1, 200);
        p.k = random_between(&random, 1, 200);
        p.dtype = p.c_dtype = (weft_dtype)(round % 4 % 3);
        p.b_major = (weft_major)(round / 2 % 2);
        p.c_major = (weft_major)(round / 3 % 2);
        s.tile_m = (p.m + round % 3) / (1 + round % 3);
        s.tile_n = (p.n + round % 4) / (1 + round % 4);
        s.tile_k = round % 5 && p.k > 64 ? 64 : random_between(&random, 1, p.k);
        s.sweep = 1 + round % WEFT_COMMON_SWEEPS;
        s.dispatch = round % 2 ? WEFT_DISPATCH_STATIC : WEFT_DISPATCH_GRID;
        s.workers = 12;
        const weft_gemm_extents size = gemm_sizes(&p);
        const size_t bytes = size.c * weft_dtype_bytes(p.c_dtype);
        void *a = random_buffer(&random, p.dtype, size.a), *b = random_buffer(&random, p.dtype, size.b),
             *c = guarded_new(bytes), *first = malloc(bytes);
        assert_non_null(first);
        const weft_gemm_data data = gemm_data(a, b, c);
        for (int threads = 1; threads <= 16; threads *= 4) {
            omp_set_num_threads(threads);
            memset(c, 0x7f, bytes);
            assert_int_equal(plan_for(&plan, &p, &s, NULL, NULL), WEFT_OK);
            assert_int_equal(weft_plan_run(plan, &data, NULL), WEFT_OK);
            weft_plan_destroy(plan);
            if (threads == 1) {
                memcpy(first, c, bytes);
            }
            assert_memory_equal(first, c, bytes);
        }
        free(first);
        guarded_free(a);
        guarded_free(b);
        guarded_free(c);
    }
}
#endif

/* The same plan of a product gives the same bits, whatever the number of threads: with as many as there are tiles, or more,
 * they may share the tiles. */
static void threads_change_no_product(void **state) {
    (void)state;
#ifdef _OPENMP
    int usable;
    const weft_cpu_kernel *kernels;
    for (size_t i = 0; (kernels = weft_cpu_kernel_at(i, &usable)); i++) {
        assert_int_equal(setenv("WEFT_CPU", kernels->name, 1), 0);
        if (usable) {
            check_threads_of_product();
        }
    }
    unsetenv("WEFT_CPU");
#else
    skip();
#endif
}

/* A child of a process that has threads gets the same result, and does not wait for threads that it does not have. */
static void after_a_fork(void **state) {
    (void)state;
    uint64_t random = random_seed(70);
    weft_attention p = random_attention(&random, 0);
    p.seq = p.kv_seq = 200;
    const weft_strides packed = {0, 0, 0};
    p.q_strides = p.k_strides = p.v_strides = p.o_strides = packed;
    tensors t = tensors_new(&random, &p);
    run(&t, &p, NULL);
    void *first = malloc(t.size.o * sizeof(float));
    assert_non_null(first);
    memcpy(first, t.data.o, t.size.o * sizeof(float));
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(3600); /* ends a child that hangs */
        weft_plan *plan;
        tensors_poison_outputs(&t);
        const int failed = plan_for(&plan, &p, NULL, NULL, NULL) || weft_plan_run(plan, &t.data, NULL) ||
                           memcmp(first, t.data.o, t.size.o * sizeof(float)) != 0;
        _exit(failed);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    free(first);
    tensors_free(&t);
}

/* What a schedule leaves open is settled, what it says is kept. */
static void schedules_are_completed(void **state) {
    (void)state;
    for (int64_t n = 1; n <= 4096; n = n * 3 + 1) {
        weft_gemm p = WEFT_GEMM_INIT;
        weft_schedule s = WEFT_SCHEDULE_INIT, settled;
        weft_plan *plan;
        p.m = n;
        p.n = 4097 - n;
        p.k = n + 5;
        p.dtype = p.c_dtype = (weft_dtype)(n % 3);
        s.tile_n = n % 2 ? 0 : 1;
        s.dispatch = n % 2 ? WEFT_DISPATCH_CHOOSE : WEFT_DISPATCH_STATIC;
        assert_int_equal(plan_for(&plan, &p, &s, NULL, NULL), WEFT_OK);
        settled = weft_plan_schedule(plan);
        assert_true(settled.tile_m >= 1 && settled.tile_m <= p.m && settled.tile_k >= 1 && settled.tile_k <= p.k);
        assert_true(n % 2 ? settled.tile_n >= 1 && settled.tile_n <= p.n : settled.tile_n == 1);
        const int64_t down = (p.m + settled.tile_m - 1) / settled.tile_m,
                      across = (p.n + settled.tile_n - 1) / settled.tile_n;
        const int static_one = n % 2 == 0 || down * across <= settled.workers; /* said, or one tile for each worker */
        assert_int_equal(settled.dispatch, static_one ? WEFT_DISPATCH_STATIC : WEFT_DISPATCH_DYNAMIC);
        weft_plan_destroy(plan);
    }
}

/* As many workers for one head as for another, and all tiles alike: each keeps to its head, unless something else is said.
 */
static void workers_keep_to_a_head(void **state) {
    (void)state;
    for (int round = 0; round < 5; round++) {
        weft_attention p = WEFT_ATTENTION_INIT;
        weft_schedule s = WEFT_SCHEDULE_INIT;
        weft_plan *plan;
        p.heads = p.kv_heads = 4;
        p.seq = p.kv_seq = 300;
        p.head_dim = 16;
        p.mask = round == 1 ? WEFT_MASK_CAUSAL : WEFT_MASK_NONE;
        s.workers = round == 2 ? 6 : 8;
        s.order = round == 3 ? WEFT_ORDER_HEAD_FIRST : WEFT_ORDER_CHOOSE;
        s.dispatch = round == 4 ? WEFT_DISPATCH_DYNAMIC : WEFT_DISPATCH_CHOOSE;
        assert_int_equal(plan_for(&plan, &p, &s, NULL, NULL), WEFT_OK);
        const weft_schedule settled = weft_plan_schedule(plan);
        assert_int_equal(settled.dispatch, round == 0 ? WEFT_DISPATCH_STATIC : WEFT_DISPATCH_DYNAMIC);
        assert_int_equal(settled.order == WEFT_ORDER_BLOCK_FIRST, round == 0);
        weft_plan_destroy(plan);
    }
}

static void tiles_have_a_limit(void **state) {
    (void)state;
    weft_attention p = WEFT_ATTENTION_INIT;
    weft_schedule s = WEFT_SCHEDULE_INIT;
    weft_message message;
    weft_plan *plan;
    p.seq = p.kv_seq = 1 << 21;
    p.head_dim = 8;
    s.tile_m = s.tile_n = p.seq;
    float some[4] = {0};
    const weft_attention_data data = {.struct_size = sizeof(weft_attention_data),
                                      .operation = WEFT_ATTENTION,
                                      .q = &some[0],
                                      .k = &some[1],
                                      .v = &some[2],
                                      .o = (float *)(void *)((uintptr_t)some + (UINT64_C(1) << 40))};
    assert_int_equal(plan_for(&plan, &p, &s, NULL, NULL), WEFT_OK);
    assert_int_equal(weft_plan_run(plan, &data, &message), WEFT_UNSUPPORTED);
    assert_string_equal(message.text,
                        "a tile of 2097152x2097152 is too large for a thread: at most 2^28 elements, 2^20 a side");
    weft_plan_destroy(plan);
}

/* Tiles are chosen before those that are asked for are checked: any size may come by. */
static void huge_tiles_are_refused(void **state) {
    (void)state;
    for (int round = 0; round < 16; round++) {
        const int64_t huge = INT64_MAX - round / 8;
        weft_attention a = WEFT_ATTENTION_INIT;
        weft_gemm g = WEFT_GEMM_INIT;
        weft_schedule s = WEFT_SCHEDULE_INIT;
        weft_plan *plan;
        a.seq = a.kv_seq = g.m = g.n = g.k = 100;
        a.head_dim = 8;
        s.tile_m = round & 1 ? huge : 0;
        s.tile_n = round & 2 ? huge : 0;
        assert_int_equal(plan_for(&plan, &a, &s, NULL, NULL), round % 4 ? WEFT_INVALID : WEFT_OK);
        weft_plan_destroy(plan);
        s.tile_k = round & 4 ? huge : 0;
        assert_int_equal(plan_for(&plan, &g, &s, NULL, NULL), round % 8 ? WEFT_INVALID : WEFT_OK);
        weft_plan_destroy(plan);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(attention),
                                       cmocka_unit_test(few),
                                       cmocka_unit_test(not_finite),
                                       cmocka_unit_test(threads_change_nothing),
                                       cmocka_unit_test(heads_are_held),
                                       cmocka_unit_test(backward),
                                       cmocka_unit_test(gemm),
                                       cmocka_unit_test(batches),
                                       cmocka_unit_test(threads_change_no_product),
                                       cmocka_unit_test(after_a_fork),
                                       cmocka_unit_test(schedules_are_completed),
                                       cmocka_unit_test(workers_keep_to_a_head),
                                       cmocka_unit_test(tiles_have_a_limit),
                                       cmocka_unit_test(huge_tiles_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
