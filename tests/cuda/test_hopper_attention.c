/* SPDX-License-Identifier: Apache-2.0 */
/* The Hopper attention kernel's host side, with the fake driver: which variant and schedule, what is left to other kernels,
 * and that the parameters of a launch, tensor maps included, describe the problem. */
#include "fake_images.h"

#include <stdio.h>

#include "../ref/tensors.h"
#include <weft/sim.h>

#include "../plans.h"
#include "cuda/plan/backend.h"
#include "cuda/sm90/attention/choose.h"

static weft_device hopper(void) {
    weft_device device = WEFT_DEVICE_INIT;
    device.kind = WEFT_DEVICE_CUDA;
    device.kernel = "hopper_attention";
    return device;
}

static weft_attention large(int64_t batch, int64_t heads, int64_t seq, int64_t head_dim, weft_mask mask) {
    weft_attention p = WEFT_ATTENTION_INIT;
    p.batch = batch;
    p.heads = p.kv_heads = heads;
    p.seq = p.kv_seq = seq;
    p.head_dim = head_dim;
    p.dtype = WEFT_BF16;
    p.mask = mask;
    return p;
}

static weft_plan *planned(const weft_attention *p, const weft_schedule *s, const weft_device *device) {
    weft_message message = {""};
    weft_plan *plan;
    script(NULL);
    if (plan_on(&plan, p, s, NULL, device, &message)) {
        fail_msg("%s", message.text);
    }
    return plan;
}

static void takes(const weft_attention *p, const char *kernel) {
    /* Which of its variants, where the family is not the question: few queries are also the decode kernel's. */
    const weft_device device = {.struct_size = sizeof device,
                                .kind = WEFT_DEVICE_CUDA,
                                .kernel = strstr(kernel, "__hopper") ? "hopper_attention" : NULL};
    weft_plan *plan = planned(p, NULL, &device);
    const char *taken = ((const weft_cuda_plan *)plan->placed)->main->choice.kernel;
    if (!strstr(taken, kernel)) {
        fail_msg("%s is not %s", taken, kernel);
    }
    weft_plan_destroy(plan);
}

/* What measured best, by head dim, length and mask. */
static void variants(void **state) {
    (void)state;
    weft_attention p = large(2, 16, 8192, 128, WEFT_MASK_NONE);
    takes(&p, "attention_bf16_d128_192x80__hopper");
    p.mask = WEFT_MASK_CAUSAL;
    takes(&p, "attention_bf16_d128_192x80__hopper");
    p = large(32, 16, 512, 128, WEFT_MASK_CAUSAL);
    takes(&p, "attention_bf16_d128_192x64__hopper");
    p.mask = WEFT_MASK_NONE;
    takes(&p, "attention_bf16_d128_192x64__hopper");
    p = large(1, 1, 1536, 128, WEFT_MASK_NONE); /* one tile for each of 12 workers, or 8 longer ones */
    takes(&p, "attention_bf16_d128_128x128__hopper");
    p = large(2, 16, 512, 72, WEFT_MASK_NONE);
    takes(&p, "attention_bf16_d96_192x112__hopper");
    p.head_dim = 56;
    takes(&p, "attention_bf16_d64_256x64__hopper");
    p.seq = p.kv_seq = 8192;
    p.dtype = WEFT_FP16;
    takes(&p, "attention_fp16_d64_192x128__hopper");
    p.head_dim = 160;
    takes(&p, "attention_fp16_d192_128x112__hopper");
    p.head_dim = 256;
    takes(&p, "attention_fp16_d256_128x80__hopper");
    p = large(8, 1, 59 * 256, 64, WEFT_MASK_NONE); /* the sweep alternates: 59 tiles are five waves of 12 workers */
    takes(&p, "attention_bf16_d64_256x64__hopper");
    p.seq = 8192;
    p.scale = -1; /* the study kernel takes it */
    takes(&p, "__study_fast");
}

static void schedules(void **state) {
    (void)state;
    const weft_device device = hopper();
    weft_attention p = large(2, 16, 1024, 128, WEFT_MASK_CAUSAL);
    weft_plan *plan = planned(&p, NULL, &device); /* the fake GPU: 12 workers, an L2 of two sides of 3 MiB */
    assert_int_equal(plan->schedule.order, WEFT_ORDER_LONGEST_FIRST);
    assert_int_equal(plan->schedule.dispatch, WEFT_DISPATCH_DYNAMIC);
    assert_int_equal(plan->schedule.sweep, WEFT_SWEEP_FORWARD);
    assert_int_equal(plan->schedule.group, 7); /* 6 heads of 512 KiB fit, which is 5 sections of 32 heads, 7 at most */
    weft_plan_destroy(plan);
    p.kv_heads = 2;
    plan = planned(&p, NULL, &device);
    assert_int_equal(plan->schedule.group, 32); /* 4 kv heads: all at once */
    weft_plan_destroy(plan);
    p = large(1, 8, 8192, 128, WEFT_MASK_NONE);
    plan = planned(&p, NULL, &device);
    assert_int_equal(plan->schedule.order, WEFT_ORDER_HEAD_FIRST);
    assert_int_equal(plan->schedule.sweep, WEFT_SWEEP_SAWTOOTH);
    weft_plan_destroy(plan);
    p = large(1, 4, 500, 128, WEFT_MASK_NONE); /* 12 tiles of 192 */
    plan = planned(&p, NULL, &device);
    assert_int_equal(plan->schedule.dispatch, WEFT_DISPATCH_STATIC);
    assert_int_equal(plan->schedule.workers, 12);
    weft_plan_destroy(plan);
}

/* The model follows an order of the caller's: as the order that it is, and dearer where the longest tiles come last. */
static void own_orders(void **state) {
    (void)state;
    const weft_device device = hopper();
    const weft_attention p = large(1, 2, 2048, 128, WEFT_MASK_CAUSAL);
    weft_plan *longest = planned(&p, NULL, &device);
    weft_schedule s = weft_plan_schedule(longest);
    const weft_order *order = &longest->walk.order;
    uint32_t *table = malloc((size_t)order->count * sizeof *table), *last = malloc((size_t)order->count * sizeof *last);
    assert_true(table && last && weft_order_fill_table(order, table));
    for (int64_t i = 0; i < order->count; i++) {
        last[i] = table[order->count - 1 - i];
    }
    s.order = WEFT_ORDER_CUSTOM;
    s.order_count = order->count;
    s.order_table = table;
    weft_plan *same = planned(&p, &s, &device);
    s.order_table = last;
    weft_plan *worse = planned(&p, &s, &device);
    const double cost = longest->backend->cost(longest);
    assert_true(same->backend->cost(same) == cost && worse->backend->cost(worse) > 1.02 * cost);
    weft_plan_destroy(longest);
    weft_plan_destroy(same);
    weft_plan_destroy(worse);
    free(table);
    free(last);
}

static int64_t pack_of(const weft_attention *p) {
    const weft_device device = hopper();
    weft_plan *plan = planned(p, NULL, &device);
    const int64_t pack = plan->heads_in_tile;
    weft_simulation sim = WEFT_SIMULATION_INIT;
    assert_int_equal(weft_simulate(plan, NULL, &sim, NULL, NULL), WEFT_OK);
    if (pack == p->heads / p->kv_heads && p->seq == 1) { /* a tile for each K and V reads them once */
        assert_int_equal(sim.total.dram_read_bytes, 2 * p->batch * p->head_dim * (p->heads + 2 * p->kv_heads * p->kv_seq));
    }
    char text[1024];
    weft_plan_text(plan, text, sizeof text);
    assert_true(pack == 1 || strstr(text, " heads, order"));
    weft_plan_destroy(plan);
    return pack;
}

/* Heads that share K and V share a tile where that saves waves of the 12 workers. */
static void packs(void **state) {
    (void)state;
    weft_attention p = large(16, 64, 1, 128, WEFT_MASK_NONE);
    p.kv_heads = 8;
    p.kv_seq = 8192;
    assert_int_equal(pack_of(&p), 8);
    p.heads = 48; /* of the 6 heads of a group, pairs */
    assert_int_equal(pack_of(&p), 2);
    p.heads = 40;
    assert_int_equal(pack_of(&p), 1);
    p.heads = 64;
    p.kv_heads = 64;
    assert_int_equal(pack_of(&p), 1);
    p.kv_heads = 8;
    p.seq = 8192; /* tiles are full anyway */
    assert_int_equal(pack_of(&p), 1);
    p.batch = 1;
    p.heads = 8;
    p.kv_heads = 1;
    p.seq = 64; /* 8 tiles of a warpgroup at work take one wave; packed, 4 of two warpgroups */
    assert_int_equal(pack_of(&p), 1);
    p.batch = 16; /* 128 tiles against 64, each of which takes 1.3 times as long */
    assert_int_equal(pack_of(&p), 8);
}

/* A plan that is not made yet, and an H200 to make it for. */
static weft_plan draft(const weft_attention *p) {
    weft_plan plan = {.attention = *p, .schedule = WEFT_SCHEDULE_INIT};
    return plan;
}
static const weft_cuda_device h200 = {.multiprocessors = 132, .l2_bytes = 62914560, .shared_bytes = 232448};

/* Few heads under a mask: tiles of 64 queries fill the SMs, in more than one wave if need be; keys that no query sees do
 * not count. Measured: 29 us where 192x128 took 50, 27 where 128x128 took 36. */
static void few_heads(void **state) {
    (void)state;
    weft_attention p = large(2, 2, 3649, 64, WEFT_MASK_CAUSAL);
    p.dtype = WEFT_FP16;
    for (int i = 0; i < 2; i++) {
        for (int64_t kv_seq = p.seq; kv_seq <= 8 * p.seq; kv_seq *= 2) {
            p.kv_seq = kv_seq;
            const weft_plan plan = draft(&p);
            assert_int_equal(weft_hopper_attention_best(&plan, &h200)->tile_m, 64);
        }
        p = large(1, 4, 2785, 128, WEFT_MASK_CAUSAL);
    }
    p = large(2, 16, 8192, 128, WEFT_MASK_CAUSAL); /* heads enough */
    const weft_plan plan = draft(&p);
    assert_string_equal(weft_hopper_attention_best(&plan, &h200)->symbol, "attention_bf16_d128_192x80__hopper");
}

/* Every candidate is a tile of the list, shared by as many CTAs as a cluster can have. */
static void candidates(void **state) {
    (void)state;
    weft_schedule list[64];
    for (int64_t seq = 1; seq <= 1 << 20; seq *= 4) {
        const weft_attention p = large(1, 16, seq, 128, WEFT_MASK_NONE);
        const weft_plan plan = draft(&p);
        const size_t count = weft_hopper_attention_candidates(&plan, &h200, NULL, list, 64);
        assert_in_range(count, 3, 11); /* three tiles that are whole, and a shared one in up to eight ways */
        for (size_t i = 0; i < count; i++) {
            assert_true(list[i].tile_m >= 64 && list[i].tile_n >= 64);
            assert_true(list[i].split >= 0 && list[i].split <= WEFT_HOPPER_MAX_SPLIT);
            assert_true((list[i].split > 0) == (list[i].tile_m == 64));
        }
    }
}

/* Few tiles: their steps are shared out, as many ways as the 12 workers allow. */
static void splits(void **state) {
    (void)state;
    const weft_device device = hopper();
    weft_schedule s = WEFT_SCHEDULE_INIT;
    weft_attention p = large(1, 16, 1, 128, WEFT_MASK_NONE);
    weft_simulation sim = WEFT_SIMULATION_INIT;
    weft_message message = {""};
    p.kv_heads = 2;
    p.kv_seq = 8192;
    takes(&p, "attention_bf16_d128_64x64__hopper");
    weft_plan *plan = planned(&p, NULL, &device); /* two tiles, and more K and V than the L2 holds */
    const weft_cuda_plan *c = plan->placed;
    assert_int_equal(plan->heads_in_tile, 8);
    assert_int_equal(plan->schedule.split, 6);
    assert_int_equal(plan->schedule.dispatch, WEFT_DISPATCH_GRID);
    assert_int_equal(plan->schedule.sweep, WEFT_SWEEP_FORWARD);
    assert_int_equal(c->main->grid, 12);
    const weft_profile in_turn = WEFT_PROFILE_INIT;
    weft_simulate_options o = WEFT_SIMULATE_INIT;
    o.profile = &in_turn;
    assert_int_equal(weft_simulate(plan, &o, &sim, NULL, &message), WEFT_OK);
    /* The six CTAs of a cluster read the K and V of their tile once, in 128 steps of 64 keys, and 8 rows of Q each; one of
     * them writes the 8 rows of O. */
    assert_int_equal(sim.piece_visits, 2 * 2 * 128);
    assert_int_equal(sim.total.sectors_from_sm, 2 * (2 * 8192 * 8 + 6 * 8 * 8 + 8 * 8));
    assert_int_equal(sim.total.dram_write_bytes, 2 * 8 * 256);
    weft_plan_destroy(plan);
    p.kv_seq = 2048; /* which it holds */
    plan = planned(&p, NULL, &device);
    assert_int_equal(plan->schedule.split, 6);
    weft_plan_destroy(plan);
    p.heads = p.kv_heads = 1;
    plan = planned(&p, NULL, &device);
    assert_int_equal(plan->schedule.split, 8);
    weft_plan_destroy(plan);
    p.batch = 30; /* more tiles than SMs, and more workers than both */
    s.workers = 100;
    plan = planned(&p, &s, &device);
    assert_int_equal(plan->heads_in_tile, 1);
    assert_int_equal(plan->schedule.split, 1);
    weft_plan_destroy(plan);
    p.batch = 1;
    s.workers = 0;
    s.dispatch = WEFT_DISPATCH_STATIC; /* leaves tiles whole */
    plan = planned(&p, &s, &device);
    assert_int_equal(plan->schedule.split, 1);
    assert_true(plan->schedule.tile_m > 64);
    weft_plan_destroy(plan);
    s = (weft_schedule)WEFT_SCHEDULE_INIT;
    s.split = 3; /* of many tiles, too, where it is asked for */
    p = large(2, 16, 1024, 64, WEFT_MASK_CAUSAL);
    plan = planned(&p, &s, &device);
    assert_int_equal(plan->schedule.split, 3);
    assert_int_equal(((const weft_cuda_plan *)plan->placed)->main->grid, 3 * 2 * 16 * 16);
    weft_plan_destroy(plan);
}

/* The parameters of a launch of this problem, in a static place. */
static const weft_hopper_attention_params *filled(const weft_attention *p, const weft_schedule *s) {
    static weft_hopper_attention_params params;
    static uint64_t counter[WEFT_HOPPER_COUNTERS];
    const weft_device device = hopper();
    const weft_attention_data data = {.struct_size = sizeof(weft_attention_data),
                                      .operation = WEFT_ATTENTION,
                                      .q = (void *)16,
                                      .k = (void *)16,
                                      .v = (void *)16,
                                      .o = (void *)16};
    weft_plan *plan = planned(p, s, &device);
    const weft_cuda_plan *c = plan->placed;
    const weft_counters counters = {.own = c->tickets ? counter : NULL};
    assert_int_equal(c->family->fill(plan, c->main, &data, &c->main->walk, &counters, &params, NULL), WEFT_OK);
    weft_plan_destroy(plan);
    return &params;
}

/* Workers keep step where what one leaves in the L2 is for the others. */
static void paces(void **state) {
    (void)state;
    weft_schedule s = WEFT_SCHEDULE_INIT;
    weft_attention p = large(1, 8, 8192, 128, WEFT_MASK_NONE);
    assert_true(filled(&p, NULL)->pace.steps > 0);
    assert_true(filled(&p, NULL)->keep_o == WEFT_KEEP_FIRST);
    s.dispatch = WEFT_DISPATCH_STATIC; /* nobody counts */
    assert_int_equal(filled(&p, &s)->pace.steps, 0);
    p.mask = WEFT_MASK_CAUSAL; /* tiles differ in length */
    assert_int_equal(filled(&p, NULL)->pace.steps, 0);
    p = large(8, 8, 1024, 128, WEFT_MASK_NONE); /* fits the L2 */
    assert_int_equal(filled(&p, NULL)->pace.steps, 0);
    assert_true(filled(&p, NULL)->keep_o == WEFT_KEEP_NORMAL);
}

/* A tile begins at its queries' positions where slopes make near keys weigh most and no mask hides those behind. */
static void rotates(void **state) {
    (void)state;
    weft_attention p = large(1, 8, 1024, 128, WEFT_MASK_NONE);
    assert_int_equal(filled(&p, NULL)->rotates, 0);
    p.extras = WEFT_ALIBI;
    assert_int_equal(filled(&p, NULL)->rotates, 1);
    p.softcap = 20;
    assert_int_equal(filled(&p, NULL)->rotates, 1);
    p.chunk = 512;
    assert_int_equal(filled(&p, NULL)->rotates, 0);
    p.chunk = 0;
    p.mask = WEFT_MASK_WINDOW;
    p.left = -1;
    p.right = 100;
    assert_int_equal(filled(&p, NULL)->rotates, 0);
    p = large(1, 8, 1024, 128, WEFT_MASK_CAUSAL);
    p.extras = WEFT_ALIBI;
    assert_int_equal(filled(&p, NULL)->rotates, 0);
    p = large(1, 8, 1024, 128, WEFT_MASK_NONE);
    p.block_rows = p.block_columns = 128;
    p.extras = WEFT_ALIBI | WEFT_BLOCKS;
    assert_int_equal(filled(&p, NULL)->rotates, 0); /* its steps are numbers of a list */
}

/* Workers take tickets where they take several tiles; a single wave is dealt out. */
static void dispatches(void **state) {
    (void)state;
    static const struct {
        int64_t heads;
        weft_mask mask;
        int32_t dispatch;
    } rows[] = {{1, WEFT_MASK_NONE, WEFT_DISPATCH_STATIC},
                {1, WEFT_MASK_CAUSAL, WEFT_DISPATCH_STATIC},
                {2, WEFT_MASK_NONE, WEFT_DISPATCH_DYNAMIC},
                {2, WEFT_MASK_CAUSAL, WEFT_DISPATCH_DYNAMIC}};
    const weft_device device = hopper();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weft_schedule s = WEFT_SCHEDULE_INIT;
        s.tile_m = 128;
        const weft_attention p = large(1, rows[i].heads, 1280, 128, rows[i].mask); /* 10 tiles a head, 12 workers */
        weft_plan *plan = planned(&p, &s, &device);
        assert_int_equal(plan->schedule.dispatch, rows[i].dispatch);
        weft_plan_destroy(plan);
    }
}

static void refused(const weft_attention *p, const weft_schedule *s, const weft_device *device, const char *text) {
    weft_message message = {""};
    weft_plan *plan;
    script(NULL);
    assert_int_equal(plan_on(&plan, p, s, NULL, device, &message), WEFT_UNSUPPORTED);
    if (!strstr(message.text, text)) {
        fail_msg("\"%s\" is not in \"%s\"", text, message.text);
    }
}

static void left_to_others(void **state) {
    (void)state;
    weft_device device = hopper();
    weft_schedule s = WEFT_SCHEDULE_INIT;
    weft_attention p = large(2, 4, 300, 64, WEFT_MASK_NONE);
    p.dtype = WEFT_FP32;
    refused(&p, NULL, &device, "hopper_attention: it takes bf16 and fp16, not fp32");
    p.dtype = WEFT_BF16;
    p.scale = -2;
    refused(&p, NULL, &device, "it takes scales from 1e-30 to 1e30, not -2");
    p.scale = 0;
    s.tile_m = 80;
    refused(&p, &s, &device, "it has no tiles of 80x0 for head_dim 64");
    s.tile_m = 0;
    s.cluster_m = 2;
    refused(&p, &s, &device, "it has no clusters");
    s.cluster_m = 0;
    s.split = 9;
    refused(&p, &s, &device, "at most 8 CTAs share out the steps of a tile");
    s.split = 2;
    s.dispatch = WEFT_DISPATCH_DYNAMIC;
    refused(&p, &s, &device, "only under grid dispatch and with a forward sweep");
    s.dispatch = WEFT_DISPATCH_CHOOSE;
    s.sweep = WEFT_SWEEP_SAWTOOTH;
    refused(&p, &s, &device, "only under grid dispatch and with a forward sweep");
    s.sweep = WEFT_SWEEP_CHOOSE;
    s.tile_m = 192;
    refused(&p, &s, &device, "it has no tiles of 192x0 for head_dim 64 whose steps are shared out");
    p.k_strides = (weft_strides){0, 64, 64 * 300};
    refused(&p, NULL, &device, "a stride of k is 0");
    p.k_strides = (weft_strides){0, 0, 0};
    p.q_strides = padded_strides(p.layout, p.seq, p.heads, p.head_dim, 3);
    refused(&p, NULL, &device, "strides of q (");
    p.q_strides = (weft_strides){0, 0, 0};
    device.kernel = "hopper_attention:precise";
    refused(&p, NULL, &device, "it has no precise math");
}

/* With a bias of this type, dense. */
static weft_attention biased(int64_t seq, int64_t head_dim, weft_bias_type type) {
    weft_attention p = large(2, 4, seq, head_dim, WEFT_MASK_NONE);
    p.extras = WEFT_BIAS;
    p.bias_type = (int32_t)type;
    return p;
}

/* A bias has variants of its own, whatever the mask, and heads are not packed under it. */
static void biases(void **state) {
    (void)state;
    weft_attention p = biased(512, 128, WEFT_BIAS_DTYPE);
    takes(&p, "attention_bf16_d128_");
    takes(&p, "__hopper_bias");
    p.mask = WEFT_MASK_CAUSAL;
    p.head_dim = 72; /* zeros cost less than the bias */
    takes(&p, "__hopper_bias");
    p.dtype = WEFT_FP16;
    p.head_dim = 200;
    p.chunk = 100;
    takes(&p, "attention_fp16_d256_128x64__hopper_bias");
    p = biased(512, 64, WEFT_BIAS_BOOL);
    p.batch = 16;
    p.kv_heads = 1;
    p.seq = 8; /* would be packed */
    takes(&p, "__hopper_bias");
    assert_int_equal(pack_of(&p), 1);
    p.bias_strides = (weft_strides){1024, 0, 512}; /* the same for all queries */
    p.bias_key_stride = 1;
    takes(&p, "__hopper_bias");
}

/* What the copy engine cannot read, or is not compiled: named, and left to the study kernel. */
static void biases_left_to_others(void **state) {
    (void)state;
    const weft_device device = hopper();
    weft_attention p = biased(500, 64, WEFT_BIAS_DTYPE); /* rows of 1000 bytes */
    refused(&p, NULL, &device, "strides of bias (1000000, 500, 250000) are not multiples of 16 bytes");
    takes(&p, "__study_general");
    p = biased(512, 64, WEFT_BIAS_DTYPE);
    p.bias_strides = (weft_strides){512 * 512, 512, 4}; /* heads 8 bytes apart */
    p.bias_key_stride = 1;
    refused(&p, NULL, &device, "strides of bias (262144, 512, 4) are not multiples of 16 bytes");
    p.bias_strides = (weft_strides){4, 512, 0};
    refused(&p, NULL, &device, "strides of bias (4, 512, 0) are not multiples of 16 bytes");
    p.bias_strides = (weft_strides){0, 1, 0};
    p.bias_key_stride = 512; /* transposed */
    refused(&p, NULL, &device, "keys of bias are 512 elements apart, not 1");
    takes(&p, "__study_general");
    p.bias_strides = (weft_strides){0, 512, 0};
    p.bias_key_stride = 0; /* the same for all keys */
    refused(&p, NULL, &device, "keys of bias are 0 elements apart, not 1");
    p = biased(512, 64, WEFT_BIAS_FP32);
    p.softcap = 20;
    refused(&p, NULL, &device, "it has no bias beside softcap, alibi, block masks or tree masks");
    p.softcap = 0;
    p.extras |= WEFT_ALIBI;
    refused(&p, NULL, &device, "it has no bias beside softcap, alibi, block masks or tree masks");
    takes(&p, "__study_general");
}

/* The bias of a launch: its map, as the fake driver was told, and the rest. */
static void bias_is(const weft_attention *p, uintptr_t at, const weft_hopper_bias *expected, const fake_tensor *tensor) {
    const weft_device device = hopper();
    const weft_attention_data data = {.struct_size = sizeof(weft_attention_data),
                                      .operation = WEFT_ATTENTION,
                                      .q = (void *)16,
                                      .k = (void *)16,
                                      .v = (void *)16,
                                      .o = (void *)16,
                                      .bias = (void *)at};
    static uint64_t counter[WEFT_HOPPER_COUNTERS];
    weft_hopper_attention_params params;
    weft_plan *plan = planned(p, NULL, &device);
    const weft_cuda_plan *c = plan->placed;
    const weft_counters counters = {.own = c->tickets ? counter : NULL};
    assert_int_equal(c->family->fill(plan, c->main, &data, &c->main->walk, &counters, &params, NULL), WEFT_OK);
    weft_attention_data misaligned = data;
    weft_message message = {""};
    misaligned.bias = (void *)(at + 8);
    assert_int_equal(c->family->fill(plan, c->main, &misaligned, &c->main->walk, &counters, &params, &message),
                     WEFT_INVALID);
    assert_string_equal(message.text, "bias is not aligned to 16 bytes, which the study kernel does not ask for");
    assert_int_equal(c->family->fill(plan, c->main, &data, &c->main->walk, &counters, &params, NULL), WEFT_OK);
    weft_plan_destroy(plan);
    const weft_hopper_bias *b = &params.bias;
    fake_tensor t;
    memcpy(&t, &b->map, sizeof t);
    assert_true(t.data == tensor->data && t.type == tensor->type && t.rank == 4 && t.swizzle == tensor->swizzle);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(t.length[i], tensor->length[i]);
        assert_int_equal(t.box[i], tensor->box[i]);
        assert_true(t.length[i] == 1 || t.stride[i] == tensor->stride[i]);
    }
    assert_int_equal(b->type, expected->type);
    assert_int_equal(b->rows, expected->rows);
    assert_int_equal(b->by_head, expected->by_head);
    assert_int_equal(b->by_batch, expected->by_batch);
    assert_true(b->keep == expected->keep && b->scale == expected->scale);
}

/* Boxes of 128 bytes x 64 rows, or of the keys of a step; an axis that is shared has one element. */
static void bias_maps(void **state) {
    (void)state;
    enum { UINT8, FP32 = 7, BF16 = 9 };
    weft_attention p = biased(512, 128, WEFT_BIAS_DTYPE);
    p.scale = 0.5;
    const int64_t row = 512, head = 512 * row, batch = 4 * head;
    bias_is(&p, 4096, &(weft_hopper_bias){.keep = WEFT_KEEP_FIRST, .rows = 64, .by_head = 1, .by_batch = 1, .scale = 0.5f},
            &(fake_tensor){.data = 4096,
                           .type = BF16,
                           .swizzle = 3,
                           .length = {512, 512, 4, 2},
                           .stride = {2, 2 * row, 2 * head, 2 * batch},
                           .box = {64, 64, 1, 1}});
    p.bias_type = WEFT_BIAS_FP32;
    bias_is(&p, 4096,
            &(weft_hopper_bias){
                .keep = WEFT_KEEP_FIRST, .type = WEFT_BIAS_FP32, .rows = 64, .by_head = 1, .by_batch = 1, .scale = 0.5f},
            &(fake_tensor){.data = 4096,
                           .type = FP32,
                           .swizzle = 3,
                           .length = {512, 512, 4, 2},
                           .stride = {4, 4 * row, 4 * head, 4 * batch},
                           .box = {32, 64, 1, 1}});
    p.head_dim = 256; /* steps of 64 keys: rows of 64 bytes */
    p.bias_type = WEFT_BIAS_BOOL;
    p.bias_strides = (weft_strides){1024, 0, 0}; /* for each batch, the keys that count */
    p.bias_key_stride = 1;
    bias_is(&p, 4096,
            &(weft_hopper_bias){.keep = WEFT_KEEP_NORMAL, .type = WEFT_BIAS_BOOL, .rows = 1, .by_batch = 1, .scale = 0.5f},
            &(fake_tensor){.data = 4096,
                           .type = UINT8,
                           .swizzle = 2,
                           .length = {512, 1, 1, 2},
                           .stride = {1, 0, 0, 1024},
                           .box = {64, 1, 1, 1}});
    p.bias_strides = (weft_strides){0, 528, 0}; /* one for all */
    bias_is(&p, 4096, &(weft_hopper_bias){.keep = WEFT_KEEP_NORMAL, .type = WEFT_BIAS_BOOL, .rows = 64, .scale = 0.5f},
            &(fake_tensor){.data = 4096,
                           .type = UINT8,
                           .swizzle = 2,
                           .length = {512, 512, 1, 1},
                           .stride = {1, 528, 0, 0},
                           .box = {64, 64, 1, 1}});
}

static uint64_t there(const weft_cuda_driver *d, const void *from, size_t bytes) {
    uint64_t to = 0;
    assert_int_equal(d->memory_new(&to, bytes), 0);
    d->copy_in(to, from, bytes);
    return to;
}

/* Runs a problem by the fake, which knows it from the launch alone, and by the reference. */
static void run_alike(const weft_attention *p, const weft_schedule *s, uint64_t *random) {
    tensors t = tensors_new(random, p);
    const weft_device device = hopper();
    const weft_cuda_driver *d;
    weft_plan *plan = planned(p, s, &device);
    assert_int_equal(weft_cuda_driver_get(&d, NULL), WEFT_OK);
    const size_t o_bytes = t.size.o * 2, lse_bytes = t.size.lse * sizeof(float);
    uint64_t at[] = {there(d, t.q, t.size.q * 2), there(d, t.k, t.size.k * 2), there(d, t.v, t.size.v * 2),
                     there(d, t.data.o, o_bytes), there(d, t.data.lse, lse_bytes)};
    const weft_attention_data data = {.struct_size = sizeof(weft_attention_data),
                                      .operation = WEFT_ATTENTION,
                                      .q = (void *)(uintptr_t)at[0],
                                      .k = (void *)(uintptr_t)at[1],
                                      .v = (void *)(uintptr_t)at[2],
                                      .o = (void *)(uintptr_t)at[3],
                                      .lse = (float *)(uintptr_t)at[4]};
    weft_message message = {""};
    if (weft_plan_run(plan, &data, &message)) {
        fail_msg("%s", message.text);
    }
    char *o = malloc(o_bytes);
    float *lse = malloc(lse_bytes);
    assert_true(o && lse);
    d->copy_out(o, at[3], o_bytes);
    d->copy_out(lse, at[4], lse_bytes);
    assert_int_equal(weft_ref_attention(&t.p, &t.data, NULL), WEFT_OK);
    char *owned = owned_bytes(&t.p, &t.p.o_strides, t.p.seq, t.p.heads, t.size.o);
    for (size_t i = 0; i < t.size.o; i++) {
        if (owned[2 * i]) {
            assert_near(weft_ref_load(t.p.dtype, o, i), weft_ref_load(t.p.dtype, t.data.o, i), 0.02);
        }
    }
    for (size_t i = 0; i < t.size.lse; i++) {
        assert_true(lse[i] == t.data.lse[i] || fabsf(lse[i] - t.data.lse[i]) < 1e-4f);
    }
    script("tensor_map=1");
    assert_int_equal(weft_plan_run(plan, &data, &message), WEFT_FAILED);
    assert_non_null(strstr(message.text, "a tensor cannot be described to the copy engine"));
    script(NULL);
    for (int i = 0; i < 5; i++) {
        d->memory_free(at[i]);
    }
    free(owned);
    free(o);
    free(lse);
    weft_plan_destroy(plan);
    tensors_free(&t);
}

static void launches_describe_problems(void **state) {
    (void)state;
    uint64_t random = random_seed(8);
    for (int round = 0; random_round(&random, &round, 40); round++) {
        weft_attention p = WEFT_ATTENTION_INIT;
        weft_schedule s = WEFT_SCHEDULE_INIT;
        p.batch = random_between(&random, 1, 2);
        p.kv_heads = random_between(&random, 1, 2);
        p.heads = p.kv_heads * random_between(&random, 1, 8);
        p.seq = random_between(&random, 1, round % 4 ? 400 : 20);
        p.kv_seq = random_between(&random, 1, 60);
        p.head_dim = 8 * random_between(&random, 1, 32);
        p.dtype = round % 2 ? WEFT_BF16 : WEFT_FP16;
        p.mask = (weft_mask)random_between(&random, 0, 2);
        p.offset = p.mask == WEFT_MASK_CAUSAL ? random_between(&random, -40, 60) : 0;
        p.layout = (weft_layout)random_between(&random, 0, 1);
        if (round % 3 == 0) {
            p.q_strides = padded_strides(p.layout, p.seq, p.heads, p.head_dim, 8);
            p.k_strides = padded_strides(p.layout, p.kv_seq, p.kv_heads, p.head_dim, 16);
            p.v_strides = padded_strides(p.layout, p.kv_seq, p.kv_heads, p.head_dim, 24);
            p.o_strides = padded_strides(p.layout, p.seq, p.heads, p.head_dim, 32);
        }
        s.dispatch = (int32_t)random_between(&random, 0, WEFT_DISPATCHES);
        s.sweep = (int32_t)random_between(&random, 0, WEFT_COMMON_SWEEPS);
        s.table = (int32_t)random_between(&random, 0, 1);
        s.order = round % 4 == 1 ? WEFT_ORDER_CUSTOM : WEFT_ORDER_CHOOSE;
        if (round % 5 == 0) {
            s.split = random_between(&random, 2, WEFT_HOPPER_MAX_SPLIT);
            s.sweep = WEFT_SWEEP_CHOOSE;
            s.dispatch = WEFT_DISPATCH_CHOOSE;
        }
        run_alike(&p, &s, &random);
    }
}

/* The kernel of a plan that is free to take any family. */
static void takes_of_all(const weft_attention *p, const char *kernel) {
    const weft_device device = {.struct_size = sizeof device, .kind = WEFT_DEVICE_CUDA};
    weft_plan *plan = planned(p, NULL, &device);
    const char *taken = ((const weft_cuda_plan *)plan->placed)->main->choice.kernel;
    if (!strstr(taken, kernel)) {
        fail_msg("%s is not %s", taken, kernel);
    }
    weft_plan_destroy(plan);
}

/* Prompts over a paged cache. */
static weft_attention paged(int64_t seq, int64_t head_dim, int64_t page) {
    weft_attention p = large(4, 32, seq, head_dim, WEFT_MASK_CAUSAL_BOTTOM_RIGHT);
    p.kv_heads = 8;
    p.kv_seq = 3840;
    p.extras = WEFT_KV_USED;
    p.cache.page = page;
    return p;
}

static void caches(void **state) {
    (void)state;
    const weft_device device = hopper();
    static const int64_t sizes[] = {8, 16, 32, 64, 128, 256, 3840};
    weft_attention p = paged(1000, 128, 16);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        p.cache.page = sizes[i];
        for (p.head_dim = 64; p.head_dim <= 256; p.head_dim *= 2) {
            p.dtype = i % 2 ? WEFT_FP16 : WEFT_BF16;
            takes_of_all(&p, "__hopper_pages");
        }
    }
    p = paged(1000, 128, 192); /* whole steps of 64 keys, not of 128 */
    takes(&p, "attention_bf16_d128_192x64__hopper_pages");
    p.dtype = WEFT_FP16;
    refused(&p, NULL, &device, "it has no pages of 192 keys");
    p = paged(1000, 128, 24);
    refused(&p, NULL, &device, "it has no pages of 24 keys");
    takes_of_all(&p, "__study_general");
    p = paged(1, 128, 16);
    takes_of_all(&p, "decode_");
    p = paged(1000, 128, 16);
    p.extras |= WEFT_BIAS;
    refused(&p, NULL, &device, "it has no bias, block masks or tree masks beside a KV cache");
    p.extras &= ~WEFT_BIAS;
    p.cache.table_stride = 1 << 22; /* columns of all sequences count */
    p.batch = 1;
    p.sequences = 10;
    p.extras |= WEFT_STARTS;
    refused(&p, NULL, &device, "it takes lengths up to 536870912");
}

/* What comes before, and how packed queries are cut. */
static void cache_launches(void **state) {
    (void)state;
    const weft_device device = hopper();
    weft_attention p = paged(1000, 128, 16);
    p.cache.append = 1000;
    weft_plan *plan = planned(&p, NULL, &device);
    assert_string_equal(plan->backend->launch(plan, 0), "study_append_bf16");
    assert_non_null(strstr(plan->backend->launch(plan, 1), "__hopper_pages"));
    assert_null(plan->backend->launch(plan, 2));
    assert_int_equal(weft_plan_workspace(plan), 0);
    weft_plan_destroy(plan);
    p.cache.append = 0;
    p.cache.rotary_dim = 64;
    p.cache.rotary_rows = 5000;
    plan = planned(&p, NULL, &device);
    assert_int_equal(weft_plan_workspace(plan), 4 * 1000 * 32 * 128 * 2);
    weft_plan_destroy(plan);
    p = paged(576, 128, 16); /* a part of a prompt, and single queries */
    p.batch = 1;
    p.sequences = 65;
    p.extras |= WEFT_STARTS;
    plan = planned(&p, NULL, &device);
    assert_int_equal(plan->joined, 0);
    assert_int_equal(plan->heads_in_tile, 4);
    weft_plan_destroy(plan);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(variants),
        cmocka_unit_test(schedules),
        cmocka_unit_test(dispatches),
        cmocka_unit_test(packs),
        cmocka_unit_test(few_heads),
        cmocka_unit_test(candidates),
        cmocka_unit_test(splits),
        cmocka_unit_test(paces),
        cmocka_unit_test(rotates),
        cmocka_unit_test(left_to_others),
        cmocka_unit_test(launches_describe_problems),
        cmocka_unit_test(own_orders),
        cmocka_unit_test(biases),
        cmocka_unit_test(biases_left_to_others),
        cmocka_unit_test(bias_maps),
        cmocka_unit_test(caches),
        cmocka_unit_test(cache_launches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
