/* SPDX-License-Identifier: Apache-2.0 */
/* What the plan thinks a launch of the Hopper attention kernel takes. */
#include "../cmocka_all.h"
#include "../random.h"

#include <math.h>
#include <string.h>

#include "cuda/sm90/attention/time.h"

static const weft_hopper_attention_variant variants[] = {
#define WEFT_HOPPER_ATTENTION(...) WEFT_HOPPER_ATTENTION_VARIANT(__VA_ARGS__),
#include "cuda/sm90/attention/variants.def"
};
enum { VARIANTS = sizeof variants / sizeof *variants, WORKERS = 12 };

static weft_attention problem(int64_t heads, int64_t seq, int64_t kv_seq, weft_mask mask) {
    weft_attention p = WEFT_ATTENTION_INIT;
    p.batch = 1;
    p.heads = p.kv_heads = heads;
    p.seq = seq;
    p.kv_seq = kv_seq;
    p.head_dim = 64;
    p.mask = mask;
    return p;
}

static int64_t rows_of(const weft_hopper_attention_variant *v, const weft_attention *p, int64_t block) {
    const int64_t lead = weft_hopper_attention_lead(v, p, 1), end = (block + 1) * v->tile_m - lead;
    return (end < p->seq ? end : p->seq) - (block ? end - v->tile_m : 0);
}

/* Queries are shared out whole warpgroups at a time. Under a mask the last tile has queries for all; else no other way to
 * leave warpgroups out of the first and the last tile takes less time. */
static void first_tiles_may_be_short(void **state) {
    (void)state;
    uint64_t random = random_seed(6);
    for (int i = 0; random_round(&random, &i, 600); i++) {
        const weft_hopper_attention_variant *v = &variants[i % VARIANTS];
        weft_attention p = problem(1, random_between(&random, 1, 2000), 1000, (weft_mask)(i / VARIANTS % 2));
        const int64_t blocks = weft_ceil_divide(p.seq, v->tile_m), last = blocks - 1;
        const int64_t lead = weft_hopper_attention_lead(v, &p, 1);
        assert_true(lead >= 0 && lead < v->tile_m && lead % 64 == 0 && (blocks > 1 || lead == 0));
        int64_t sum = 0;
        for (int64_t b = 0; b < blocks; b++) {
            const int64_t rows = rows_of(v, &p, b);
            assert_true(rows > 0 && (rows == v->tile_m || b == 0 || b == last));
            sum += rows;
        }
        assert_int_equal(sum, p.seq);
        if (p.mask != WEFT_MASK_NONE && blocks > 1) {
            assert_true(rows_of(v, &p, last) > v->tile_m - 64);
        } else if (blocks > 1) {
            const int64_t all = weft_ceil_divide(p.seq - (blocks - 2) * v->tile_m, 64), most = v->tile_m / 64;
            const double got = v->step_ns[weft_ceil_divide(rows_of(v, &p, 0), 64) - 1] +
                               v->step_ns[weft_ceil_divide(rows_of(v, &p, last), 64) - 1];
            for (int64_t first = all > most ? all - most : 1; first <= most && first < all; first++) {
                assert_true(got <= v->step_ns[first - 1] + v->step_ns[all - first - 1]);
            }
        }
    }
}

/* One head in a tile, CTAs that share none, sections of all heads. */
static weft_hopper_attention_layout layout(const weft_attention *p, int64_t workers) {
    return (weft_hopper_attention_layout){.pack = 1,
                                          .split = 1,
                                          .workers = workers,
                                          .sms = workers,
                                          .order = WEFT_ORDER_LONGEST_FIRST,
                                          .group = p->heads,
                                          .domains = 1,
                                          .sweep = WEFT_SWEEP_FORWARD,
                                          .dispatch = WEFT_DISPATCH_DYNAMIC,
                                          .l2_bytes = INT64_C(60) << 20};
}

static double time_on(const weft_hopper_attention_variant *v, const weft_attention *p, int64_t workers) {
    const weft_hopper_attention_layout l = layout(p, workers);
    return weft_hopper_attention_time(v, p, &l);
}

/* What of a time the tiles take: what a launch takes without any is there in all of them. */
static double tiles_time(const weft_hopper_attention_variant *v, const weft_attention *p, int64_t workers) {
    weft_attention none = *p;
    weft_hopper_attention_variant idle = *v;
    none.kv_seq = 1;
    idle.tile_ns = 0;
    memset(idle.step_ns, 0, sizeof idle.step_ns);
    return time_on(v, p, workers) - time_on(&idle, &none, workers);
}

/* Tiles come in waves: a launch of w tiles on w workers takes as long as one tile, one more tile makes a second wave, and
 * many waves take their number times as long. K and V are few and the rate does not bind, so that tiles alone count. */
static void tiles_come_in_waves(void **state) {
    (void)state;
    for (int i = 0; i < VARIANTS; i++) {
        weft_hopper_attention_variant v = variants[i];
        v.rate = 1e9;
        weft_attention p = problem(1, v.tile_m, 2048, WEFT_MASK_NONE);
        const double one = tiles_time(&v, &p, WORKERS);
        p.heads = p.kv_heads = WORKERS;
        const double wave = tiles_time(&v, &p, WORKERS);
        p.heads = p.kv_heads = WORKERS + 1;
        const double more = tiles_time(&v, &p, WORKERS);
        p.heads = p.kv_heads = 9 * WORKERS;
        const double nine = tiles_time(&v, &p, WORKERS);
        assert_true(fabs(wave / one - 1) < 0.05);
        assert_true(fabs(more / one - 2) < 0.05);
        assert_true(fabs(nine / one - 9) < 0.25);
    }
}

/* More keys, queries or heads never take less time, more workers never more. */
static void more_work_takes_longer(void **state) {
    (void)state;
    uint64_t random = random_seed(5);
    for (int i = 0; random_round(&random, &i, 2000); i++) {
        const weft_hopper_attention_variant *v = &variants[i % VARIANTS];
        const weft_attention p = problem(random_between(&random, 1, 40), random_between(&random, 1, 5000),
                                         random_between(&random, 1, 5000), WEFT_MASK_NONE);
        weft_attention keys = p, heads = p;
        keys.kv_seq = 2 * p.kv_seq + v->tile_n;
        heads.heads = heads.kv_heads = 2 * p.heads + WORKERS;
        const double time = time_on(v, &p, WORKERS);
        assert_true(time_on(v, &keys, WORKERS) > time);
        assert_true(time_on(v, &heads, WORKERS) > time);
        assert_true(time_on(v, &p, 2 * WORKERS) <= time);
    }
}

/* Keys that no query sees are not read, so they take no time. */
static void unseen_keys_take_no_time(void **state) {
    (void)state;
    uint64_t random = random_seed(8);
    for (int i = 0; random_round(&random, &i, 200); i++) {
        const weft_hopper_attention_variant *v = &variants[i % VARIANTS];
        weft_attention p = problem(4, random_between(&random, 1, 4000), 50000, WEFT_MASK_CAUSAL);
        p.offset = random_between(&random, -100, 1000);
        const int64_t seen = p.seq + p.offset;
        assert_int_equal(weft_hopper_attention_seen_keys(&p), seen > 1 ? seen : 1);
        const double time = time_on(v, &p, WORKERS);
        p.kv_seq = seen > 1 ? seen : 1;
        assert_true(fabs(time_on(v, &p, WORKERS) - time) <= 1e-9 * time);
    }
}

/* Of a few long tiles, CTAs that share one save about their share of its steps; a tile of one step gains nothing. */
static void shared_steps_save_time(void **state) {
    (void)state;
    for (int i = 0; i < VARIANTS; i++) {
        const weft_hopper_attention_variant *v = &variants[i];
        if (v->splits) {
            weft_attention p = problem(2, 64, 50000, WEFT_MASK_NONE);
            weft_hopper_attention_layout l = layout(&p, 16);
            const double alone = weft_hopper_attention_time(v, &p, &l);
            l.split = 4;
            const double shared = weft_hopper_attention_time(v, &p, &l);
            assert_true(shared > alone / 4 && shared < alone / 3);
            p.kv_seq = v->tile_n;
            const double few = weft_hopper_attention_time(v, &p, &l);
            l.split = 1;
            assert_true(weft_hopper_attention_time(v, &p, &l) < few);
        }
    }
}

/* Half of the keys, more or less; a mask that shows all is none but for what the diagonal takes; one that hides all leaves
 * nothing but tiles. */
static void masks_save_steps(void **state) {
    (void)state;
    for (int i = 0; i < VARIANTS; i++) {
        weft_hopper_attention_variant v = variants[i];
        v.rate = 1e9;
        weft_attention p = problem(48, 4096, 4096, WEFT_MASK_NONE);
        const double whole = time_on(&v, &p, WORKERS);
        p.mask = WEFT_MASK_CAUSAL;
        const double half = time_on(&v, &p, WORKERS);
        assert_true(half > 0.5 * whole && half < 0.65 * whole);
        p.offset = 4096;
        const double all = time_on(&v, &p, WORKERS);
        assert_true(all >= whole && all < 1.1 * whole);
        p.offset = -5000;
        assert_true(time_on(&v, &p, WORKERS) < (v.tile_m > 64 ? 0.2 : 0.4) * whole);
    }
}

/* Long problems are as fast as the card's power allows, and no faster. */
static void power_is_a_limit(void **state) {
    (void)state;
    const weft_attention p = problem(12, 16384, 16384, WEFT_MASK_NONE);
    for (int i = 0; i < VARIANTS; i++) {
        weft_hopper_attention_variant v = variants[i];
        v.rate = 1;
        const double flops = 4.0 * 12 * 16384 * 16384 * v.depth;
        assert_true(fabs(time_on(&v, &p, WORKERS) - flops / 1e3) < 1e-6 * flops);
    }
}

/* A bias takes what its bytes take to come, or the products, whichever is longer; what is shared comes once. */
static void biases_come_from_memory(void **state) {
    (void)state;
    weft_attention p = problem(12, 4096, 4096, WEFT_MASK_NONE);
    for (int i = 0; i < VARIANTS; i++) {
        const weft_hopper_attention_variant *v = &variants[i];
        p.extras = 0;
        const double without = time_on(v, &p, 132);
        p.extras = WEFT_BIAS;
        p.bias_type = WEFT_BIAS_FP32;
        p.bias_strides = (weft_strides){12 << 24, 4096, 1 << 24};
        const double bytes = 4.0 * 12 * 4096 * 4096, all = time_on(v, &p, 132);
        assert_true(all >= without && all >= bytes / 5000 && all <= fmax(without, bytes / 3500));
        p.bias_strides = (weft_strides){0, 4096, 0};
        assert_true(time_on(v, &p, 132) == without);
        p.bias_strides = (weft_strides){0, 0, 4096};
        assert_true(time_on(v, &p, 132) == without);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_tiles_may_be_short), cmocka_unit_test(tiles_come_in_waves),
        cmocka_unit_test(more_work_takes_longer),   cmocka_unit_test(unseen_keys_take_no_time),
        cmocka_unit_test(shared_steps_save_time),   cmocka_unit_test(masks_save_steps),
        cmocka_unit_test(power_is_a_limit),         cmocka_unit_test(biases_come_from_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
