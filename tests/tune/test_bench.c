/* The tuner's real clock goes forward, and a plan takes some time on it, whatever else the machine does. */
#include "../cmocka_all.h"

#include <math.h>
#include <string.h>

#include "../plans.h"
#include "bench/bench.h"

static int stop(void *user) {
    ++*(int *)user;
    return 1;
}

static void plans_take_time(void **state) {
    (void)state;
    weft_attention p = WEFT_ATTENTION_INIT;
    p.heads = p.kv_heads = 2;
    p.seq = p.kv_seq = 64;
    p.head_dim = 16;
    p.dtype = WEFT_FP32;
    weft_plan *plan;
    weft_bench bench;
    int asked = 0;
    memset(&bench, 0, sizeof bench);
    assert_int_equal(plan_for(&plan, &p, NULL, NULL, NULL), WEFT_OK);
    assert_int_equal(weft_bench_open(&bench, plan, NULL), WEFT_OK);
    const double begin = weft_bench_now();
    for (int64_t repeats = 1; repeats <= 100; repeats *= 10) {
        double seconds = 0;
        bench.patience = repeats == 100 ? 1e9 : 0; /* with patience, who waits for a quiet moment may stop it */
        bench.waiting = stop;
        bench.waiting_user = &asked;
        assert_int_equal(weft_bench_time(&bench, plan, repeats, &seconds, NULL), WEFT_OK);
        assert_true(seconds > 0 && isfinite(seconds));
    }
    assert_true(weft_bench_now() > begin);
    assert_true(asked <= 1 && bench.disturbed <= 15);
    weft_bench_close(&bench);
    weft_plan_destroy(plan);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(plans_take_time)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
