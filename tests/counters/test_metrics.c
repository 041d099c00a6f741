/* SPDX-License-Identifier: Apache-2.0 */
/* The names of the metrics against a real CUPTI, where one is installed: its host side knows every chip without a GPU. Not
 * run with sanitizers, which CUPTI's own loading refuses. */
#include "../cmocka_all.h"
#include "counters/metrics.h"

static void real_metrics(void **state) {
    (void)state;
    weft_cupti cupti;
    weft_message message = {""};
    if (weft_cupti_load(&cupti, NULL, &message)) {
        print_message("skipped: %s\n", message.text);
        skip();
    }
    weft_counter all[WEFT_COUNTERS];
    for (int32_t i = 0; i < WEFT_COUNTERS; i++) {
        all[i] = (weft_counter)i;
    }
    weft_metrics m;
    assert_int_equal(weft_metrics_open(&m, &cupti, "NO100", NULL, all, WEFT_COUNTERS, &message), WEFT_UNSUPPORTED);
    static const char *const chips[] = {"GA100", "GH100", "GB100"};
    for (size_t i = 0; i < sizeof chips / sizeof *chips; i++) {
        if (weft_metrics_open(&m, &cupti, chips[i], NULL, all, WEFT_COUNTERS, &message)) {
            fail_msg("%s: %s", chips[i], message.text);
        }
        assert_int_equal(m.count, WEFT_COUNTERS);
        assert_true(m.passes >= 1 && m.passes <= 32);
        print_message("%s: %zu counters in %zu passes\n", chips[i], m.count, m.passes);
        weft_metrics_close(&m, &cupti);
    }
    /* On system memory, and with one L2: no DRAM and no fabric to count, and the rest is there. */
    assert_int_equal(weft_metrics_open(&m, &cupti, "GB20B", NULL, all, WEFT_COUNTERS, &message), WEFT_OK);
    print_message("GB20B: %zu counters in %zu passes\n", m.count, m.passes);
    assert_true(m.count >= 8 && m.count < WEFT_COUNTERS);
    weft_metrics_close(&m, &cupti);
    weft_cupti_unload(&cupti);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(real_metrics)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
