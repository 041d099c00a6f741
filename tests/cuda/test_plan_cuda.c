/* SPDX-License-Identifier: Apache-2.0 */
/* Plans on a GPU, with the fake driver: which kernel is taken, what is refused, and that the parameters of a launch
 * describe the problem, because the fake runs the reference from nothing else. */
#include "fake_images.h"

#include <pthread.h>
#include <stdio.h>

#include "../plans.h"
#include "../ref/tensors.h"
#include "cuda/plan/backend.h"

/* The study kernel, which has every knob. */
static weft_device gpu(void) {
    weft_device device = WEFT_DEVICE_INIT;
    device.kind = WEFT_DEVICE_CUDA;
    device.kernel = "study";
    return device;
}

static weft_attention small(void) {
    weft_attention p = WEFT_ATTENTION_INIT;
    p.batch = p.kv_heads = 2;
    p.heads = 4;
    p.seq = p.kv_seq = 200;
    p.head_dim = 64;
    p.dtype = WEFT_BF16;
    return p;
}

/* The tensors' buffers in the fake's device memory. */
typedef struct buffers {
    const weft_cuda_driver *driver;
    uint64_t q, k, v, o, lse;
    weft_attention_data data;
} buffers;

static uint64_t there(const weft_cuda_driver *d, const void *from, size_t bytes) {
    uint64_t to = 0;
    assert_int_equal(d->memory_new(&to, bytes), 0);
    d->copy_in(to, from, bytes);
    return to;
}

static buffers buffers_new(const tensors *t) {
    buffers b;
    const size_t bytes = weft_dtype_bytes(t->p.dtype);
    assert_int_equal(weft_cuda_driver_get(&b.driver, NULL), WEFT_OK);
    b.q = there(b.driver, t->q, t->size.q * bytes);
    b.k = there(b.driver, t->k, t->size.k * bytes);
    b.v = there(b.driver, t->v, t->size.v * bytes);
    b.o = there(b.driver, t->data.o, t->size.o * bytes);
    b.lse = there(b.driver, t->data.lse, t->size.lse * sizeof(float));
    b.data = (weft_attention_data){.struct_size = sizeof(weft_attention_data),
                                   .operation = WEFT_ATTENTION,
                                   .q = (void *)(uintptr_t)b.q,
                                   .k = (void *)(uintptr_t)b.k,
                                   .v = (void *)(uintptr_t)b.v,
                                   .o = (void *)(uintptr_t)b.o,
                                   .lse = (float *)(uintptr_t)b.lse};
    return b;
}

static void buffers_free(const buffers *b) {
    const uint64_t all[] = {b->q, b->k, b->v, b->o, b->lse};
    for (int i = 0; i < 5; i++) {
        b->driver->memory_free(all[i]);
    }
}

static void nothing_left(void) {
    assert_int_equal(counts()->allocations, 0);
    assert_int_equal(counts()->contexts, 0);
    assert_int_equal(counts()->pushed, 0);
    assert_int_equal(counts()->streams, 0);
    assert_int_equal(counts()->captures_ended, 0);
}

/* The fake's result in t->data against the reference: alike but for the scale, which a launch carries in fp32. */
static void compare(tensors *t) {
    const size_t bytes = weft_dtype_bytes(t->p.dtype);
    void *o = malloc(t->size.o * bytes);
    float *lse = malloc(t->size.lse * sizeof *lse);
    assert_true(o && lse);
    memcpy(o, t->data.o, t->size.o * bytes);
    memcpy(lse, t->data.lse, t->size.lse * sizeof *lse);
    tensors_check_borders(t);
    assert_int_equal(weft_ref_attention(&t->p, &t->data, NULL), WEFT_OK);
    char *owned = owned_bytes(&t->p, &t->p.o_strides, t->p.seq, t->p.heads, t->size.o);
    for (size_t i = 0; i < t->size.o; i++) {
        if (owned[i * bytes]) {
            assert_near(weft_ref_load(t->p.dtype, o, i), weft_ref_load(t->p.dtype, t->data.o, i), 0.02);
        }
    }
    for (size_t i = 0; i < t->size.lse; i++) {
        assert_true(lse[i] == t->data.lse[i] || fabsf(lse[i] - t->data.lse[i]) < 1e-4f);
    }
    free(owned);
    free(o);
    free(lse);
}

static weft_attention random_attention(uint64_t *random, int round) {
    static const int64_t dims[] = {56, 64, 80, 96, 128};
    weft_attention p = WEFT_ATTENTION_INIT;
    p.batch = random_between(random, 1, 2);
    p.kv_heads = random_between(random, 1, 2);
    p.heads = p.kv_heads * random_between(random, 1, 2);
    p.seq = random_between(random, 1, 200);
    p.kv_seq = random_between(random, 1, 60);
    p.head_dim = dims[round % 5];
    p.dtype = round % 2 ? WEFT_BF16 : WEFT_FP16;
    p.mask = (weft_mask)random_between(random, 0, 2);
    p.offset = p.mask == WEFT_MASK_CAUSAL ? random_between(random, -40, 60) : 0;
    p.scale = round % 4 == 0 ? -0.1 : 0;
    p.layout = (weft_layout)random_between(random, 0, 1);
    if (round % 3 == 0) {
        p.q_strides = padded_strides(p.layout, p.seq, p.heads, p.head_dim, 8);
        p.k_strides = padded_strides(p.layout, p.kv_seq, p.kv_heads, p.head_dim, 16);
        p.v_strides = padded_strides(p.layout, p.kv_seq, p.kv_heads, p.head_dim, 24);
        p.o_strides = padded_strides(p.layout, p.seq, p.heads, p.head_dim, 32);
    }
    return p;
}

/* Every order, sweep and dispatch, computed and from a table, problems smaller than a tile too. */
static void parameters(void **state) {
    (void)state;
    uint64_t random = random_seed(50);
    script(NULL);
    const weft_device device = gpu();
    for (int round = 0; random_round(&random, &round, 45); round++) {
        const weft_attention p = random_attention(&random, round);
        weft_schedule s = WEFT_SCHEDULE_INIT;
        s.order = (int32_t)random_between(&random, WEFT_ORDER_BLOCK_FIRST, WEFT_ORDER_CUSTOM);
        s.sweep = 1 + round % WEFT_COMMON_SWEEPS;
        s.dispatch = 1 + round / 3 % WEFT_DISPATCHES;
        s.workers = random_between(&random, 0, 7);
        s.table = round % 2;
        s.tile_m = round % 5 == 1 ? 64 : 0;
        s.tile_n = s.tile_m;
        tensors t = tensors_new(&random, &p);
        const buffers b = buffers_new(&t);
        weft_message message = {""};
        weft_plan *plan;
        if (plan_on(&plan, &p, &s, NULL, &device, &message) || weft_plan_run(plan, &b.data, &message)) {
            fail_msg("round %d: %s", round, message.text);
        }
        assert_int_equal(plan->schedule.tile_m, plan->walk.reach.tile_rows);
        b.driver->copy_out(t.data.o, b.o, t.size.o * weft_dtype_bytes(p.dtype));
        b.driver->copy_out(t.data.lse, b.lse, t.size.lse * sizeof(float));
        compare(&t);
        weft_plan_destroy(plan);
        buffers_free(&b);
        tensors_free(&t);
        nothing_left();
    }
}

/* An order of the caller's is in the GPU's memory as it was given, also by side of the L2, and is freed with the plan. */
static void own_orders(void **state) {
    (void)state;
    uint64_t random = random_seed(51);
    script(NULL);
    weft_device device = gpu();
    device.kernel = NULL;
    for (int round = 0; round < 2; round++) {
        weft_gemm p = WEFT_GEMM_INIT;
        weft_schedule s = WEFT_SCHEDULE_INIT;
        weft_plan *plan;
        weft_grid grid;
        p.m = p.n = 1000;
        p.k = 64;
        p.dtype = WEFT_BF16;
        s.dispatch = WEFT_DISPATCH_DYNAMIC;
        s.domains = 1 + round;
        s.tile_m = s.tile_n = 128;
        const weft_plan_options options = {sizeof options, &s, NULL, &device, 0};
        assert_int_equal(weft_plan_positions(&p, &options, &grid, NULL), WEFT_OK);
        assert_true(grid.batch == 1 && grid.rows == 8 && grid.cols == 8); /* no clusters that nobody asks for */
        nothing_left();
        uint32_t *table = random_table(&random, 64), there[64];
        s.order_table = table;
        s.order_count = 64;
        assert_int_equal(weft_plan_create(&plan, &p, &options, NULL), WEFT_OK);
        const weft_cuda_plan *c = plan->placed;
        assert_true(c->table && c->main->walk.order.table == (const uint32_t *)(uintptr_t)c->table);
        c->driver->copy_out(there, c->table, sizeof there);
        assert_memory_equal(there, table, sizeof there);
        assert_int_equal(c->side_of_sm != 0, round);
        free(table);
        weft_plan_destroy(plan);
        nothing_left();
    }
}

static void refused(const char *scripted, const weft_attention *p, const weft_schedule *s, const weft_device *device,
                    weft_status expected, const char *text) {
    weft_message message = {""};
    weft_plan *plan;
    script(scripted);
    assert_int_equal(plan_on(&plan, p, s, NULL, device, &message), expected);
    assert_null(plan);
    if (!strstr(message.text, text)) {
        fail_msg("\"%s\" is not in \"%s\"", text, message.text);
    }
    script(NULL);
    nothing_left();
}

static void no_kernel_fits(void **state) {
    (void)state;
    weft_attention p = small();
    weft_schedule s = WEFT_SCHEDULE_INIT;
    weft_device device = gpu();
    refused("capability=75", &p, NULL, &device, WEFT_UNSUPPORTED,
            "no CUDA kernel fits: study: NVIDIA Fake H200 is of compute capability 7.5, and 8.0 is needed");
    p.dtype = WEFT_FP32;
    refused(NULL, &p, NULL, &device, WEFT_UNSUPPORTED, "no CUDA kernel fits: study: dtype fp32 is not fp16 or bf16");
    p = small();
    p.head_dim = 576;
    refused(NULL, &p, NULL, &device, WEFT_UNSUPPORTED,
            "head_dim 576 (V: 576) with fast math is not compiled; there is up to 576 (V: 512)");
    device.kernel = "study:precise";
    p.head_dim = 129;
    refused(NULL, &p, NULL, &device, WEFT_UNSUPPORTED, "head_dim 129 (V: 129) with precise math is not compiled");
    device = gpu();
    p = small();
    s.tile_m = 48;
    s.tile_n = 64;
    refused(NULL, &p, &s, &device, WEFT_UNSUPPORTED, "tile 48x64 is not compiled; with fast math there are 32x32");
    s.tile_m = 64;
    s.cluster_m = 2;
    refused(NULL, &p, &s, &device, WEFT_UNSUPPORTED, "it has no clusters");
    s.cluster_m = 0;
    refused("shared=20000", &p, &s, &device, WEFT_UNSUPPORTED, "tile 64x64 needs more shared memory than this GPU has");
    p.head_dim = 576;
    p.head_dim_v = 512;
    s = (weft_schedule)WEFT_SCHEDULE_INIT;
    refused("shared=60000", &p, &s, &device, WEFT_UNSUPPORTED,
            "needs more shared memory than this GPU has (fast math: 64x32 32x16)");
    p = small();
    device.kernel = "study:ctas=9";
    refused(NULL, &p, NULL, &device, WEFT_UNSUPPORTED, "ctas 9 is more than fit an SM");
    device = gpu();
    device.index = 3;
    refused(NULL, &p, NULL, &device, WEFT_NOT_FOUND, "no GPU 3: there is 1");
    device = gpu();
    device.kernel = "loom";
    refused(
        NULL, &p, NULL, &device, WEFT_NOT_FOUND,
        "no family of CUDA kernels for this kind of problem is named loom: there are mla, decode, hopper_attention, study");
    device.kernel = "hopper_gemm:ctas=2";
    refused(NULL, &p, NULL, &device, WEFT_NOT_FOUND,
            "is named hopper_gemm: there are mla, decode, hopper_attention, study");
    device.kernel = "loom";
    device.kind = WEFT_DEVICE_CPU;
    refused(NULL, &p, NULL, &device, WEFT_INVALID, "kernel loom: the CPU has no such knob");
    device = gpu();
    device.kernel = "study:precise=2";
    refused(NULL, &p, NULL, &device, WEFT_INVALID, "kernel option precise=2: there are precise, mask-every-block, no-");
    device = gpu();
    device.kind = (weft_device_kind)7;
    refused(NULL, &p, NULL, &device, WEFT_INVALID, "kind 7 is not WEFT_DEVICE_CPU or WEFT_DEVICE_CUDA");
    device.kind = WEFT_DEVICE_CPU;
    device.kernel = ":ctas=1";
    refused(NULL, &p, NULL, &device, WEFT_INVALID, "kernel :ctas=1: the CPU has no such knob");
    device = gpu();
    s.order = WEFT_ORDER_HILBERT;
    refused(NULL, &p, &s, &device, WEFT_INVALID, "order hilbert is not for attention");
    s = (weft_schedule)WEFT_SCHEDULE_INIT;
    s.dispatch = WEFT_DISPATCH_DYNAMIC;
    refused("memory=2", &p, &s, &device, WEFT_NO_MEMORY, "no memory on the GPU for a plan's counters: out of memory");
    s.table = 1;
    refused("memory=2", &p, &s, &device, WEFT_NO_MEMORY, "no memory on the GPU for a plan's table: out of memory");
    weft_gemm g = WEFT_GEMM_INIT;
    weft_plan *plan;
    weft_message message;
    g.m = g.n = g.k = 64;
    device.kernel = NULL;
    s = (weft_schedule)WEFT_SCHEDULE_INIT;
    s.sweep = WEFT_SWEEP_PAIR;
    assert_int_equal(plan_on(&plan, &g, &s, NULL, &device, &message), WEFT_UNSUPPORTED);
    assert_string_equal(message.text,
                        "no CUDA kernel fits: hopper_gemm: it adds parts of fp32 from the smallest to the "
                        "largest, forward only; portable_gemm: it adds parts of fp32 from the smallest to the "
                        "largest, forward only");
    nothing_left();
}

/* A plan says what it took; fewer CTAs an SM are had when asked for. */
static void choices(void **state) {
    (void)state;
    weft_attention p = small();
    weft_device device = gpu();
    weft_plan *plan, *fewer;
    char text[1024];
    script(NULL);
    assert_int_equal(plan_on(&plan, &p, NULL, NULL, &device, NULL), WEFT_OK);
    const weft_cuda_plan *placed = plan->placed;
    assert_int_equal(placed->main->ctas, 3);
    assert_int_equal(plan->schedule.workers, 12 * 3);
    assert_int_equal(plan->machine.workers, 12);
    assert_int_equal(plan->schedule.tile_m, 128);
    weft_plan_text(plan, text, sizeof text);
    assert_non_null(strstr(text, "kernel     cuda, attention_bf16_d64_128x128__study_fast\n"));
    weft_plan_json(plan, text, sizeof text);
    assert_non_null(strstr(text, "\"kernel\": \"attention_bf16_d64_128x128__study_fast\""));
    device.kernel = "study:precise,ctas=2";
    assert_int_equal(plan_on(&fewer, &p, NULL, NULL, &device, NULL), WEFT_OK);
    const weft_cuda_plan *less = fewer->placed;
    assert_int_equal(less->main->ctas, 2);
    assert_int_equal(fewer->schedule.workers, 24);
    assert_true(less->main->choice.shared_bytes > placed->main->choice.shared_bytes);
    assert_string_equal(less->main->choice.kernel, "attention_bf16_d64_128x128__study_precise");
    weft_plan_destroy(plan);
    weft_plan_destroy(fewer);
    nothing_left();
}

static void run_refused(const weft_plan *plan, const weft_attention_data *data, weft_status expected, const char *text) {
    weft_message message = {""};
    assert_int_equal(weft_plan_run(plan, data, &message), expected);
    assert_string_equal(message.text, text);
    assert_int_equal(weft_plan_enqueue(plan, data, NULL, NULL), expected);
}

static void bad_pointers(void **state) {
    (void)state;
    uint64_t random = random_seed(60);
    const weft_attention p = small();
    const weft_device device = gpu();
    weft_plan *plan;
    script(NULL);
    tensors t = tensors_new(&random, &p);
    const buffers b = buffers_new(&t);
    assert_int_equal(plan_on(&plan, &p, NULL, NULL, &device, NULL), WEFT_OK);
    weft_attention_data data = b.data;
    data.k = NULL;
    run_refused(plan, &data, WEFT_INVALID, "k is null");
    data = b.data;
    data.v = (const char *)b.data.v + 8;
    run_refused(plan, &data, WEFT_INVALID, "v is not aligned to 16 bytes");
    data = b.data;
    data.o = (char *)(uintptr_t)b.q;
    run_refused(plan, &data, WEFT_INVALID, "o overlaps q");
    data = b.data;
    void *host = NULL;
    assert_int_equal(posix_memalign(&host, 64, 1 << 20), 0);
    data.q = host;
    run_refused(plan, &data, WEFT_INVALID, "q is not in memory that the GPU can read");
    free(host);
    script("ordinal=1");
    run_refused(plan, &b.data, WEFT_INVALID, "q is on device 1 and the plan on device 0");
    script(NULL);
    data = b.data;
    data.lse = NULL; /* not asked for: fine */
    assert_int_equal(weft_plan_run(plan, &data, NULL), WEFT_OK);
    weft_plan_destroy(plan);
    buffers_free(&b);
    tensors_free(&t);
    nothing_left();
}

static void launching_fails(void **state) {
    (void)state;
    uint64_t random = random_seed(61);
    const weft_attention p = small();
    const weft_device device = gpu();
    weft_schedule s = WEFT_SCHEDULE_INIT;
    weft_message message = {""};
    weft_plan *plan;
    s.dispatch = WEFT_DISPATCH_DYNAMIC;
    script(NULL);
    tensors t = tensors_new(&random, &p);
    const buffers b = buffers_new(&t);
    assert_int_equal(plan_on(&plan, &p, &s, NULL, &device, NULL), WEFT_OK);
    script("launch=701");
    run_refused(plan, &b.data, WEFT_FAILED, "the kernel cannot be launched: as scripted (CUDA_ERROR_SCRIPTED)");
    script("set=1");
    run_refused(plan, &b.data, WEFT_FAILED,
                "the plan's counters cannot be had on the stream: as scripted (CUDA_ERROR_SCRIPTED)");
    script("synchronize=700");
    assert_int_equal(weft_plan_run(plan, &b.data, &message), WEFT_FAILED);
    assert_string_equal(message.text, "the kernel failed: as scripted (CUDA_ERROR_SCRIPTED)");
    script(NULL);
    assert_int_equal(weft_plan_run(plan, &b.data, &message), WEFT_OK);
    weft_plan_destroy(plan);
    buffers_free(&b);
    tensors_free(&t);
    nothing_left();
}

/* Launches that may overlap never share a counter, and it is 0 when they begin. */
static void counters(void **state) {
    (void)state;
    uint64_t random = random_seed(62);
    weft_attention p = small();
    p.seq = p.kv_seq = 8;
    const weft_device device = gpu();
    weft_schedule s = WEFT_SCHEDULE_INIT;
    weft_plan *plan;
    s.dispatch = WEFT_DISPATCH_DYNAMIC;
    script(NULL);
    tensors t = tensors_new(&random, &p);
    const buffers b = buffers_new(&t);
    assert_int_equal(plan_on(&plan, &p, &s, NULL, &device, NULL), WEFT_OK);
    uint64_t of[6];
    void *streams[] = {NULL, (void *)0x100, (void *)0x200};
    for (int i = 0; i < 6; i++) {
        assert_int_equal(weft_plan_enqueue(plan, &b.data, streams[i % 3], NULL), WEFT_OK);
        of[i] = counts()->last_counter;
        assert_int_equal(of[i] % 8, 0);
    }
    assert_true(of[0] == of[3] && of[1] == of[4] && of[2] == of[5]);
    assert_true(of[0] != of[1] && of[1] != of[2] && of[0] != of[2]);
    script(NULL);
    for (uintptr_t i = 0; i < 3 * WEFT_TICKETS_STREAMS; i++) { /* streams come and go */
        assert_int_equal(weft_plan_enqueue(plan, &b.data, (void *)(0x1000 + i), NULL), WEFT_OK);
    }
    weft_plan_destroy(plan);
    buffers_free(&b);
    tensors_free(&t);
    nothing_left();
}

/* A captured launch computes all of its tiles, also while another executable of its graph runs; on a stream, where nothing
 * else counts in its counters, the same script makes it miss one. */
static void captured_twice(void **state) {
    (void)state;
    static const char *const kernels[] = {"study", "hopper_attention"};
    uint64_t random = random_seed(66);
    for (int i = 0; i < 2 * 3; i++) {
        weft_attention p = small();
        weft_device device = gpu();
        weft_schedule s = WEFT_SCHEDULE_INIT;
        weft_plan *plan;
        weft_message message = {""};
        device.kernel = kernels[i % 2];
        s.dispatch = WEFT_DISPATCH_DYNAMIC;
        s.workers = 3;
        script(NULL);
        tensors t = tensors_new(&random, &p);
        const buffers b = buffers_new(&t);
        assert_int_equal(plan_on(&plan, &p, &s, NULL, &device, NULL), WEFT_OK);
        script(i / 2 == 0 ? "capture=5 twice=1" : i / 2 == 1 ? "capture=6 twice=1 node=2" : "twice=1");
        if (weft_plan_enqueue(plan, &b.data, (void *)0x100, &message)) {
            fail_msg("%s: %s", kernels[i % 2], message.text);
        }
        assert_true((counts()->last_counter == 0) == (i / 2 < 2));
        b.driver->copy_out(t.data.o, b.o, t.size.o * weft_dtype_bytes(p.dtype));
        b.driver->copy_out(t.data.lse, b.lse, t.size.lse * sizeof(float));
        script(NULL);
        if (i / 2 < 2) {
            compare(&t);
        } else {
            assert_true(isnan(t.data.lse[0]));
        }
        weft_plan_destroy(plan);
        buffers_free(&b);
        tensors_free(&t);
        nothing_left();
    }
}

/* Plans are made, enqueued and destroyed while another thread captures, which its capture survives. */
static void another_captures(void **state) {
    (void)state;
    uint64_t random = random_seed(65);
    weft_attention p = small();
    p.seq = p.kv_seq = 8;
    weft_device device = gpu();
    weft_schedule s = WEFT_SCHEDULE_INIT;
    weft_plan *plan;
    weft_message message = {""};
    int mode = 1;
    script(NULL);
    tensors t = tensors_new(&random, &p);
    const buffers b = buffers_new(&t);
    s.dispatch = WEFT_DISPATCH_DYNAMIC;
    s.table = 1;
    script("capturing=1");
    assert_int_equal(b.driver->capture_mode(&mode), 0);
    if (plan_on(&plan, &p, &s, NULL, &device, &message) || weft_plan_enqueue(plan, &b.data, (void *)0x100, &message)) {
        fail_msg("%s", message.text);
    }
    weft_plan_destroy(plan);
    assert_int_equal(counts()->captures_ended, 0);
    weft_gemm g = WEFT_GEMM_INIT;
    weft_schedule by_side = WEFT_SCHEDULE_INIT;
    g.m = g.n = g.k = 2048;
    g.dtype = g.c_dtype = WEFT_BF16;
    by_side.order = WEFT_ORDER_SERPENTINE_SWIZZLED;
    by_side.domains = 2;
    device.kernel = NULL;
    if (plan_on(&plan, &g, &by_side, NULL, &device, &message)) { /* measures the L2 */
        fail_msg("%s", message.text);
    }
    weft_plan_destroy(plan);
    assert_int_equal(b.driver->capture_mode(&mode), 0);
    assert_int_equal(mode, 1); /* as it was */
    script(NULL);
    mode = 0;
    assert_int_equal(b.driver->capture_mode(&mode), 0);
    buffers_free(&b);
    tensors_free(&t);
    nothing_left();
}

/* A plan whose context is gone is destroyed all the same: what it holds on the host is freed (as the leak sanitizer sees),
 * and what it held on the GPU went with the context. */
static void destroy_without_context(const char *how) {
    const weft_attention p = small();
    const weft_device device = gpu();
    weft_schedule s = WEFT_SCHEDULE_INIT;
    weft_plan *plan;
    s.dispatch = WEFT_DISPATCH_DYNAMIC;
    script(NULL);
    assert_int_equal(plan_on(&plan, &p, &s, NULL, &device, NULL), WEFT_OK);
    assert_int_equal(counts()->allocations, 1);
    script(how);
    weft_plan_destroy(plan);
    assert_int_equal(counts()->allocations, 1);
    counts()->allocations = 0;
    script(NULL);
    nothing_left();
}

static void context_is_gone(void **state) {
    (void)state;
    destroy_without_context("push=709");
    destroy_without_context("destroyed=1"); /* can be pushed all the same */
}

typedef struct one_thread {
    const weft_plan *plan;
    tensors t;
    weft_status status;
    int number;
} one_thread;

static void *run_many(void *argument) {
    one_thread *o = argument;
    for (int i = 0; i < 20 && o->status == WEFT_OK; i++) {
        const buffers b = buffers_new(&o->t);
        o->status = weft_plan_enqueue(o->plan, &b.data, (void *)(uintptr_t)(0x100 * (o->number + 1)), NULL);
        b.driver->copy_out(o->t.data.o, b.o, o->t.size.o * weft_dtype_bytes(o->t.p.dtype));
        b.driver->copy_out(o->t.data.lse, b.lse, o->t.size.lse * sizeof(float));
        buffers_free(&b);
    }
    return NULL;
}

/* Many threads run one plan, each on a stream of its own. */
static void threads(void **state) {
    (void)state;
    enum { THREADS = 6 };
    uint64_t random = random_seed(63);
    weft_attention p = small();
    p.seq = p.kv_seq = 40;
    const weft_device device = gpu();
    weft_schedule s = WEFT_SCHEDULE_INIT;
    weft_plan *plan;
    one_thread all[THREADS];
    pthread_t handles[THREADS];
    s.dispatch = WEFT_DISPATCH_DYNAMIC;
    script(NULL);
    assert_int_equal(plan_on(&plan, &p, &s, NULL, &device, NULL), WEFT_OK);
    for (int i = 0; i < THREADS; i++) {
        all[i] = (one_thread){plan, tensors_new(&random, &p), WEFT_OK, i};
        assert_int_equal(pthread_create(&handles[i], NULL, run_many, &all[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(handles[i], NULL);
        assert_int_equal(all[i].status, WEFT_OK);
        compare(&all[i].t);
        tensors_free(&all[i].t);
    }
    weft_plan_destroy(plan);
    nothing_left();
}

static void cpu_has_no_streams(void **state) {
    (void)state;
    uint64_t random = random_seed(64);
    weft_attention p = small();
    p.dtype = WEFT_FP32;
    weft_plan *plan;
    weft_message message = {""};
    tensors t = tensors_new(&random, &p);
    assert_int_equal(plan_on(&plan, &p, NULL, NULL, NULL, NULL), WEFT_OK);
    assert_int_equal(weft_plan_enqueue(plan, &t.data, (void *)0x100, &message), WEFT_INVALID);
    assert_string_equal(message.text, "stream is not null, and the plan is for the CPU");
    assert_int_equal(weft_plan_enqueue(plan, &t.data, NULL, &message), WEFT_OK);
    compare(&t);
    weft_plan_destroy(plan);
    tensors_free(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters),       cmocka_unit_test(no_kernel_fits),     cmocka_unit_test(choices),
        cmocka_unit_test(bad_pointers),     cmocka_unit_test(launching_fails),    cmocka_unit_test(counters),
        cmocka_unit_test(threads),          cmocka_unit_test(cpu_has_no_streams), cmocka_unit_test(captured_twice),
        cmocka_unit_test(another_captures), cmocka_unit_test(context_is_gone),    cmocka_unit_test(own_orders)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
