/* What the plan thinks a launch of the Hopper attention kernel takes: held to a dealer that knows every tile. */
#include "../cmocka_all.h"
#include "../random.h"

#include <math.h>

#include "cuda/hopper_attention_time.h"

static const weft_hopper_attention_variant variants[] = {
#define WEFT_HOPPER_ATTENTION(...) WEFT_HOPPER_ATTENTION_VARIANT(__VA_ARGS__),
#include "cuda/hopper_attention.def"
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

/* A tile by its rows and the steps of its longest warpgroup, where all have the same: no mask. A last step of no more than
 * 64 keys saves two thirds of what it leaves out. */
static double plain_tile(const weft_hopper_attention_variant *v, int64_t rows, int64_t kv_seq) {
    const int64_t groups = weft_ceil_divide(rows, 64), steps = weft_ceil_divide(kv_seq, v->tile_n);
    const int is_short = steps > 1 && v->tile_n > 64 && kv_seq - (steps - 1) * v->tile_n <= 64;
    const double saved = is_short ? 0.65 * (double)(v->tile_n - 64) / (double)v->tile_n : 0;
    return v->tile_ns * (double)(1 + groups) / (double)(1 + v->tile_m / 64) +
           ((double)steps - saved) * v->step_ns[groups - 1];
}

static int64_t rows_of(const weft_hopper_attention_variant *v, const weft_attention *p, int64_t block) {
    const int64_t lead = weft_hopper_attention_lead(v, p, 1), end = (block + 1) * v->tile_m - lead;
    return (end < p->seq ? end : p->seq) - (block ? end - v->tile_m : 0);
}

/* Queries are shared out whole warpgroups at a time. Under a mask the last tile has queries for all; else no other way to
 * leave warpgroups out of the first and the last tile takes less time. */
static void first_tiles_may_be_short(void **state) {
    (void)state;
    uint64_t random = 6;
    for (int i = 0; i < 600; i++) {
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

/* Tiles go, in their order, to the worker that is free first. */
static double dealt(const double *tiles, int64_t count) {
    double free_at[WORKERS] = {0}, end = 0;
    for (int64_t i = 0; i < count; i++) {
        int first = 0;
        for (int w = 1; w < WORKERS; w++) {
            first = free_at[w] < free_at[first] ? w : first;
        }
        free_at[first] += tiles[i];
        end = free_at[first] > end ? free_at[first] : end;
    }
    return end;
}

/* Without a mask and with a rate that does not bind. Up to five waves are followed tile by tile; of more, those before
 * count by their mean. */
static void tiles_are_dealt_out(void **state) {
    (void)state;
    static double tiles[60 * 94]; /* tiles of 64 */
    uint64_t random = 5;
    for (int i = 0; i < 600; i++) {
        weft_hopper_attention_variant v = variants[i % VARIANTS];
        v.rate = 1e9;
        const int few = i % 2;
        const weft_attention p =
            problem(random_between(&random, 1, few ? 4 : 60), random_between(&random, 1, few ? 1900 : 6000),
                    random_between(&random, 1, 3000), WEFT_MASK_NONE);
        const int64_t blocks = weft_ceil_divide(p.seq, v.tile_m), count = p.heads * blocks;
        assert_true(count <= (int64_t)(sizeof tiles / sizeof *tiles));
        for (int64_t t = 0; t < count; t++) {
            tiles[t] = plain_tile(&v, rows_of(&v, &p, t % blocks), p.kv_seq);
        }
        const double right = dealt(tiles, count), got = weft_hopper_attention_time(&v, &p, 1, WORKERS, 1);
        if (fabs(got - right) > (count < 5 * WORKERS ? 1e-9 : 0.08) * right) {
            fail_msg("%d heads of %d over %d keys by %s: %g, not %g", (int)p.heads, (int)p.seq, (int)p.kv_seq, v.symbol,
                     got, right);
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
        const double whole = weft_hopper_attention_time(&v, &p, 1, WORKERS, 48);
        p.mask = WEFT_MASK_CAUSAL;
        const double half = weft_hopper_attention_time(&v, &p, 1, WORKERS, 48);
        assert_true(half > 0.5 * whole && half < 0.65 * whole);
        p.offset = 4096;
        const double all = weft_hopper_attention_time(&v, &p, 1, WORKERS, 48);
        assert_true(all >= whole && all < 1.1 * whole);
        p.offset = -5000;
        assert_true(weft_hopper_attention_time(&v, &p, 1, WORKERS, 48) < (v.tile_m > 64 ? 0.2 : 0.4) * whole);
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
        assert_true(fabs(weft_hopper_attention_time(&v, &p, 1, WORKERS, 1) - flops / 1e3) < 1e-6 * flops);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(first_tiles_may_be_short), cmocka_unit_test(tiles_are_dealt_out),
                                       cmocka_unit_test(masks_save_steps), cmocka_unit_test(power_is_a_limit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
