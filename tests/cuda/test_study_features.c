/* SPDX-License-Identifier: Apache-2.0 */
/* Every feature of an attention on the portable kernel, with the fake driver: which variant is taken, and that the
 * parameters of a launch say all of the problem, because the fake runs the reference from nothing else. */
#include "fake_images.h"

#include <weft/sim.h>

#include "../features.h"
#include "../ref/tensors.h"
#include "cuda/plan/backend.h"

static weft_device gpu(void) {
    weft_device device = WEFT_DEVICE_INIT;
    device.kind = WEFT_DEVICE_CUDA;
    device.kernel = "study";
    return device;
}

/* The buffers of a problem in the fake's device memory, with what the tensors' are. */
typedef struct buffers {
    const weft_cuda_driver *driver;
    size_t count;
    weft_buffer list[WEFT_BUFFERS];
    uint64_t memory[WEFT_BUFFERS];
    weft_attention_data data;
} buffers;

static buffers buffers_new(const weft_attention *problem, const weft_attention_data *host) {
    buffers b = {.data = WEFT_ATTENTION_DATA_INIT};
    assert_int_equal(weft_cuda_driver_get(&b.driver, NULL), WEFT_OK);
    b.data.dropout_seed = host->dropout_seed;
    b.list[0] = (weft_buffer)WEFT_BUFFER_INIT;
    while (weft_problem_buffer(problem, b.count, &b.list[b.count], NULL) == WEFT_OK) {
        const weft_buffer *buffer = &b.list[b.count];
        const size_t bytes = buffer->elements * weft_dtype_bytes(buffer->dtype);
        const void *from;
        memcpy(&from, (const char *)host + buffer->offset, sizeof from);
        assert_int_equal(b.driver->memory_new(&b.memory[b.count], bytes), 0);
        b.driver->copy_in(b.memory[b.count], from, bytes);
        const void *there = (const void *)(uintptr_t)b.memory[b.count];
        memcpy((char *)&b.data + buffer->offset, &there, sizeof there);
        b.list[++b.count] = (weft_buffer)WEFT_BUFFER_INIT;
    }
    return b;
}

/* Outputs go back to the tensors. */
static void buffers_free(const buffers *b, const weft_attention_data *host) {
    for (size_t i = 0; i < b->count; i++) {
        void *to;
        memcpy(&to, (const char *)host + b->list[i].offset, sizeof to);
        if (b->list[i].is_written) {
            b->driver->copy_out(to, b->memory[i], b->list[i].elements * weft_dtype_bytes(b->list[i].dtype));
        }
        b->driver->memory_free(b->memory[i]);
    }
}

static void assert_number(float got, double want) {
    if (want == -INFINITY) {
        assert_true(got == -INFINITY);
    } else {
        assert_near((double)got, want, 1e-4 * fmax(1, fabs(want)));
    }
}

/* The fake's results against the reference: alike but for what a launch carries in fp32. */
static void compare(const tensors *t) {
    const weft_attention *p = &t->p;
    double *weights = malloc((size_t)p->kv_seq * sizeof *weights), exact[WEFT_MAX_HEAD_DIM];
    assert_non_null(weights);
    tensors_check_borders(t);
    for (int64_t i = 0; i < p->batch * p->heads * p->seq; i++) {
        const int64_t row = i % p->seq, head = i / p->seq % p->heads, batch = i / p->seq / p->heads;
        if (row >= weft_attention_rows(p)) {
            continue;
        }
        const weft_ref_row want = weft_ref_attention_row(p, &t->data, batch, head, row, weights, exact);
        for (int64_t d = 0; d < p->head_dim_v; d++) {
            const size_t at = weft_row_index(&p->o_strides, batch, row, head) + (size_t)d;
            assert_near(weft_ref_load(weft_attention_out_dtype(p), t->data.o, at), exact[d],
                        0.01 * fmax(1, fabs(exact[d])));
        }
        assert_number(t->data.lse[i], want.lse);
        if (t->data.max) {
            assert_number(t->data.max[i], want.max);
        }
    }
    free(weights);
}

/* A small problem with these features, its lengths partly the problem's and partly the data's. */
static weft_attention draw(uint64_t *random, int round, int32_t bits, drawn_lengths *lengths, tensors *t) {
    weft_attention p = WEFT_ATTENTION_INIT;
    p.batch = random_between(random, 1, 3);
    p.kv_heads = random_between(random, 1, 2);
    p.heads = p.kv_heads * random_between(random, 1, 2);
    p.seq = random_between(random, 1, 150);
    p.kv_seq = random_between(random, 1, 90);
    p.head_dim = 8 * random_between(random, 1, 12);
    p.dtype = round % 2 ? WEFT_BF16 : WEFT_FP16;
    p.layout = (weft_layout)random_between(random, 0, 1);
    p.scale = round % 5 == 0 ? -0.1 : 0;
    draw_mask(random, &p);
    draw_features(random, &p, bits, 64, lengths);
    p.head_dim_v = p.head_dim_v > 512 || (p.head_dim_v == 0 && p.head_dim > 512) ? 512 : p.head_dim_v;
    if (round % 3 == 0) {
        pad_problem(&p, 1);
    }
    *t = tensors_new(random, &p);
    t->p.lengths = t->data.lengths = lengths->all;
    t->p.pairs = t->data.pairs = lengths->pairs;
    return p;
}

static void nothing_left(void) {
    assert_int_equal(counts()->allocations, 0);
    assert_int_equal(counts()->contexts, 0);
    assert_int_equal(counts()->pushed, 0);
}

static void parameters(void **state) {
    (void)state;
    uint64_t random = random_seed(53);
    script(NULL);
    const weft_device device = gpu();
    for (int round = 0; random_round(&random, &round, 3 * FEATURES); round++) {
        drawn_lengths lengths;
        tensors t;
        const weft_attention p = draw(&random, round, draw_pair(&random, round), &lengths, &t);
        weft_schedule s = WEFT_SCHEDULE_INIT;
        s.order = (int32_t)random_between(&random, WEFT_ORDER_BLOCK_FIRST, WEFT_ORDER_CUSTOM);
        s.sweep = 1 + round % WEFT_COMMON_SWEEPS;
        s.dispatch = 1 + round / 3 % WEFT_DISPATCHES;
        s.workers = random_between(&random, 0, 7);
        const buffers b = buffers_new(&p, &t.data);
        weft_message message = {""};
        weft_plan *plan;
        if (plan_on(&plan, &p, round % 2 ? &s : NULL, NULL, &device, &message) || weft_plan_run(plan, &b.data, &message)) {
            fail_msg("round %d: %s", round, message.text);
        }
        weft_simulation simulation = WEFT_SIMULATION_INIT;
        const weft_status simulated = weft_simulate(plan, NULL, &simulation, NULL, &message);
        assert_true(simulated == WEFT_OK || (simulated == WEFT_UNSUPPORTED && message.text[0]));
        const weft_attention *resolved = weft_plan_problem(plan);
        assert_true(!weft_attention_asks(resolved) || strstr(weft_plan_kernel(plan), "__study_general_"));
        weft_plan_destroy(plan);
        buffers_free(&b, &t.data);
        compare(&t);
        tensors_free(&t);
        nothing_left();
    }
}

/* One plan, and a launch after the other with other lengths: nothing of them is in the plan. */
static void other_lengths(void **state) {
    (void)state;
    uint64_t random = random_seed(54);
    script(NULL);
    const weft_device device = gpu();
    weft_attention p = WEFT_ATTENTION_INIT;
    p.heads = p.kv_heads = 2;
    p.seq = p.kv_seq = 200;
    p.head_dim = 64;
    p.dtype = WEFT_BF16;
    p.mask = WEFT_MASK_CAUSAL_BOTTOM_RIGHT;
    p.sequences = 3;
    p.extras = WEFT_STARTS | WEFT_KV_USED;
    static const int32_t starts[][4] = {{0, 100, 150, 200}, {0, 0, 0, 7}, {0, 1, 2, 3}, {0, 0, 200, 200}};
    static const int32_t used[][3] = {{100, 20, 50}, {0, 0, 7}, {1, 0, 1}, {0, 199, 0}};
    weft_plan *plan;
    assert_int_equal(plan_on(&plan, &p, NULL, NULL, &device, NULL), WEFT_OK);
    for (int i = 0; i < 4; i++) {
        tensors t = tensors_new(&random, &p);
        t.data.lengths = (weft_lengths){.q_starts = starts[i], .kv_used = used[i]};
        t.p.lengths = t.data.lengths;
        const buffers b = buffers_new(&p, &t.data);
        assert_int_equal(weft_plan_enqueue(plan, &b.data, (void *)0x100, NULL), WEFT_OK);
        buffers_free(&b, &t.data);
        compare(&t);
        tensors_free(&t);
    }
    weft_plan_destroy(plan);
    nothing_left();
}

static void expect(const weft_attention *p, const char *kernel, const char *symbol) {
    weft_device device = gpu();
    weft_plan *plan;
    weft_message message = {""};
    device.kernel = kernel;
    if (plan_on(&plan, p, NULL, NULL, &device, &message)) {
        fail_msg("%s", message.text);
    }
    assert_string_equal(weft_plan_kernel(plan), symbol);
    weft_plan_destroy(plan);
}

/* A plain problem takes a plain variant; others the general one with the least zeros. */
static void choices(void **state) {
    (void)state;
    weft_attention p = WEFT_ATTENTION_INIT;
    p.seq = p.kv_seq = 300;
    p.dtype = WEFT_BF16;
    script(NULL);
    p.head_dim = 64;
    expect(&p, "study", "attention_bf16_d64_128x128__study_fast");
    p.softcap = 30;
    expect(&p, "study", "attention_bf16_d64_128x64__study_general_fast");
    p.sequences = 3; /* of 100 queries each */
    p.extras = WEFT_STARTS;
    expect(&p, "study", "attention_bf16_d64_64x64__study_general_fast");
    p.sequences = p.extras = 0;
    expect(&p, "study:precise", "attention_bf16_d128_64x64__study_general_precise");
    p.softcap = 0;
    p.head_dim = 40; /* no plain variant */
    expect(&p, "study", "attention_bf16_d64_128x64__study_general_fast");
    p.head_dim = 64;
    p.q_strides = padded_strides(p.layout, p.seq, p.heads, p.head_dim, 3); /* rows that are not aligned */
    expect(&p, "study", "attention_bf16_d64_128x64__study_general_fast");
    p.q_strides = (weft_strides){0, 0, 0};
    p.head_dim = 111;
    expect(&p, "study", "attention_bf16_d128_128x64__study_general_fast");
    p.head_dim = 192;
    p.head_dim_v = 128;
    expect(&p, "study", "attention_bf16_d192_64x64__study_general_fast");
    p.head_dim_v = 192;
    expect(&p, "study", "attention_bf16_d256_64x64__study_general_fast");
    p.head_dim = 576;
    p.head_dim_v = 512;
    expect(&p, "study", "attention_bf16_d576_64x32__study_general_fast");
    script("shared=101376"); /* of chips that have less */
    expect(&p, "study", "attention_bf16_d576_32x16__study_general_fast");
    script(NULL);
    nothing_left();
}

static void refused(const weft_attention *p, const char *kernel, const weft_schedule *s, const char *expected) {
    weft_device device = gpu();
    weft_plan *plan;
    weft_message message = {""};
    device.kernel = kernel;
    assert_int_equal(plan_on(&plan, p, s, NULL, &device, &message), WEFT_UNSUPPORTED);
    if (!strstr(message.text, expected)) {
        fail_msg("%s", message.text);
    }
}

/* The fastest families store what their inputs are of, and say so; a plan takes a general variant in their place. */
static void results_in_fp32(void **state) {
    (void)state;
    static const struct {
        const char *kernel;
        int64_t queries;
    } others[] = {{"hopper_attention", 300}, {"decode", 1}};
    weft_attention p = WEFT_ATTENTION_INIT;
    p.kv_seq = 4000;
    p.dtype = WEFT_BF16;
    p.head_dim = 64;
    p.o_dtype = 1 + WEFT_FP32;
    script(NULL);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        p.seq = others[i].queries;
        refused(&p, others[i].kernel, NULL, "it has no results in fp32");
        expect(&p, NULL,
               p.seq == 1 ? "attention_bf16_d64_64x64__study_general_fast"
                          : "attention_bf16_d64_128x64__study_general_fast");
    }
    weft_attention latent = p;
    latent.head_dim_v = 512;
    latent.extras = WEFT_QV;
    refused(&latent, "mla", NULL, "it has no results in fp32");
    p.operation = WEFT_ATTENTION_BACKWARD;
    refused(&p, "hopper_backward", NULL, "it has no results in fp32");
    expect(&p, NULL, "attention_backward_bf16_d64_64x64__study_dk_dv");
    nothing_left();
}

/* Tiles do not cross blocks: a Hopper's are too large for small ones. */
static void masks_of_pairs(void **state) {
    (void)state;
    weft_attention p = WEFT_ATTENTION_INIT, tree;
    weft_schedule s = WEFT_SCHEDULE_INIT;
    script(NULL);
    p.seq = p.kv_seq = 256;
    p.head_dim = 64;
    p.dtype = WEFT_BF16;
    tree = p;
    tree.seq = 8;
    tree.extras = WEFT_TREE;
    p.block_rows = p.block_columns = 128;
    p.block_entries = 2;
    p.extras = WEFT_BLOCKS;
    expect(&tree, NULL, "attention_bf16_d64_128x128__hopper_pairs");
    expect(&p, NULL, "attention_bf16_d64_128x128__hopper_pairs");
    expect(&p, "study", "attention_bf16_d64_128x64__study_general_fast");
    p.head_dim = 72;
    expect(&p, NULL, "attention_bf16_d128_128x128__hopper_pairs");
    p.head_dim = 136;
    expect(&p, NULL, "attention_bf16_d256_128x64__hopper_pairs");
    p.head_dim = 64;
    p.block_rows = 64;
    refused(&p, "hopper_attention", NULL, "no tile for head_dim 64 divides a mask's blocks of 64 queries x 128 keys");
    expect(&p, NULL, "attention_bf16_d64_64x64__study_general_fast");
    s.tile_m = 128;
    refused(&p, "study", &s,
            "no tile divides a mask's blocks of 64 queries x 128 keys; with fast math there are 64x64 128x64");
    s.tile_m = 96;
    refused(&p, "study", &s, "tile 96x0 is not compiled");
    p.block_rows = 48;
    refused(&p, "study", NULL, "no tile divides a mask's blocks of 48 queries x 128 keys");
    p.seq = 48; /* one block of queries */
    expect(&p, NULL, "attention_bf16_d64_128x128__hopper_pairs");
    expect(&p, "study", "attention_bf16_d64_64x64__study_general_fast");
    nothing_left();
}

/* The launches of a cache, and what they leave for each other. */
static void expect_launches(const weft_attention *p, const char *first, const char *second, size_t workspace) {
    const weft_device device = gpu();
    weft_message message = {""};
    weft_plan *plan;
    if (plan_on(&plan, p, NULL, NULL, &device, &message)) {
        fail_msg("%s", message.text);
    }
    assert_string_equal(plan->backend->launch(plan, 0), first);
    if (second) {
        assert_string_equal(plan->backend->launch(plan, 1), second);
    }
    assert_null(plan->backend->launch(plan, second ? 2 : 1));
    assert_string_equal(weft_plan_kernel(plan), second ? second : first);
    assert_int_equal(weft_plan_workspace(plan), workspace);
    weft_plan_destroy(plan);
}

static void caches(void **state) {
    (void)state;
    const char *few = "attention_bf16_d64_64x64__study_general_fast";
    weft_attention p = WEFT_ATTENTION_INIT;
    script(NULL);
    p.batch = 2;
    p.heads = 4;
    p.kv_heads = 2;
    p.seq = 3;
    p.kv_seq = 160;
    p.head_dim = 60;
    p.dtype = WEFT_BF16;
    p.extras = WEFT_KV_USED;
    p.cache.page = 16;
    p.cache.pages = 20;
    expect_launches(&p, few, NULL, 0);
    p.cache.append = 3;
    expect_launches(&p, "study_append_bf16", few, 0);
    p.cache.rotary_dim = 30;
    p.cache.rotary_rows = 200;
    expect_launches(&p, "study_append_bf16", few, (size_t)(2 * 3 * 4 * 64 * 2)); /* rows of whole 16 bytes */
    p.cache.append = 0;
    expect_launches(&p, "study_append_bf16", few, (size_t)(2 * 3 * 4 * 64 * 2));
    p.dtype = WEFT_FP16;
    p.seq = 200;
    expect_launches(&p, "study_append_fp16", "attention_fp16_d64_128x64__study_general_fast",
                    (size_t)(2 * 200 * 4 * 64 * 2));
    p.dtype = WEFT_FP32;
    refused(&p, "study", NULL, "dtype fp32 is not fp16 or bf16");
    nothing_left();
}

static void bad_lengths(void **state) {
    (void)state;
    uint64_t random = random_seed(55);
    const weft_device device = gpu();
    weft_attention p = WEFT_ATTENTION_INIT;
    p.seq = p.kv_seq = 100;
    p.head_dim = 64;
    p.dtype = WEFT_FP16;
    p.extras = WEFT_KV_USED;
    script(NULL);
    static const int32_t used[] = {70, 1};
    weft_plan *plan;
    weft_message message = {""};
    tensors t = tensors_new(&random, &p);
    t.data.lengths.kv_used = used;
    buffers b = buffers_new(&p, &t.data);
    const weft_attention_data good = b.data;
    assert_int_equal(plan_on(&plan, &p, NULL, NULL, &device, NULL), WEFT_OK);
    b.data.lengths.kv_used = NULL;
    assert_int_equal(weft_plan_run(plan, &b.data, &message), WEFT_INVALID);
    assert_string_equal(message.text, "lengths.kv_used is null");
    b.data.lengths.kv_used = (const int32_t *)((const char *)good.lengths.kv_used + 2);
    assert_int_equal(weft_plan_run(plan, &b.data, &message), WEFT_INVALID);
    assert_string_equal(message.text, "lengths.kv_used is not aligned to its elements of 4 bytes");
    b.data.lengths.kv_used = used;
    assert_int_equal(weft_plan_run(plan, &b.data, &message), WEFT_INVALID);
    assert_string_equal(message.text, "lengths.kv_used is not in memory that the GPU can read");
    b.data = good;
    assert_int_equal(weft_plan_run(plan, &b.data, &message), WEFT_OK);
    weft_plan_destroy(plan);
    buffers_free(&b, &t.data);
    tensors_free(&t);
    nothing_left();
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(parameters),     cmocka_unit_test(other_lengths),
                                       cmocka_unit_test(choices),        cmocka_unit_test(results_in_fp32),
                                       cmocka_unit_test(masks_of_pairs), cmocka_unit_test(caches),
                                       cmocka_unit_test(bad_lengths)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
