/* SPDX-License-Identifier: Apache-2.0 */
/* Judging: what a tolerance allows, the mean over seeds, known failures, and what is said of a row. */
#include "../cmocka_all.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "studies/judge.h"

static study_row row_of(study_tolerance tolerance, double published, double simulated) {
    study_row row = {.study = "sawtooth",
                     .section = "figure 8",
                     .label = "sectors",
                     .published = published,
                     .measured = NAN,
                     .simulated = simulated,
                     .least = simulated,
                     .largest = simulated,
                     .seeds = 1,
                     .tolerance = tolerance};
    study_bounds(tolerance, published, &row.low, &row.high);
    return row;
}

static study_verdict judged(study_tolerance tolerance, double published, double simulated) {
    const study_row row = row_of(tolerance, published, simulated);
    return study_judge(&row);
}

static void expect_text(const study_row *row, const char *expected) {
    char text[256];
    study_verdict_text(row, text, sizeof text);
    assert_string_equal(text, expected);
}

static void counts_have_ten_per_cent(void **state) {
    (void)state;
    assert_int_equal(judged(STUDY_EXACT, 107741184, 107741184), STUDY_OK);
    assert_int_equal(judged(STUDY_EXACT, 107741184, 107741185), STUDY_OUTSIDE);
    assert_int_equal(judged(STUDY_COUNT, 200, 181), STUDY_OK);
    assert_int_equal(judged(STUDY_COUNT, 200, 179), STUDY_OUTSIDE);
    assert_int_equal(judged(STUDY_COUNT, 200, 219), STUDY_OK);
    assert_int_equal(judged(STUDY_COUNT, 200, 221), STUDY_OUTSIDE);
    assert_int_equal(judged(STUDY_COUNT, 200, NAN), STUDY_OUTSIDE);
}

/* No schedule without an effect passes for one that has any. */
static void speeds_need_the_sign_and_half_of_the_size(void **state) {
    (void)state;
    static const struct {
        double published, simulated;
        study_verdict verdict;
    } rows[] = {{1.60, 1.31, STUDY_OK},     {1.60, 1.29, STUDY_OUTSIDE},  /* half */
                {1.60, 2.19, STUDY_OK},     {1.60, 2.21, STUDY_OUTSIDE},  /* twice */
                {1.08, 1.035, STUDY_OK},    {1.08, 1.025, STUDY_OUTSIDE}, /* 5 points */
                {1.02, 1.011, STUDY_OK},    {1.02, 1.009, STUDY_OUTSIDE}, /* too small for 5 points: half */
                {1.02, 1.069, STUDY_OK},    {1.02, 1.071, STUDY_OUTSIDE}, {1.02, 0.99, STUDY_OUTSIDE},
                {0.67, 0.83, STUDY_OK},     {0.67, 0.84, STUDY_OUTSIDE},  {0.67, 1.0, STUDY_OUTSIDE},
                {0.67, 0.35, STUDY_OK},     {0.67, 0.33, STUDY_OUTSIDE},  {0.98, 0.985, STUDY_OK},
                {0.98, 1.0, STUDY_OUTSIDE}, {1.0, 1.049, STUDY_OK},       {1.0, 1.051, STUDY_OUTSIDE},
                {1.0, 0.951, STUDY_OK},     {1.0, 0.949, STUDY_OUTSIDE}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (judged(STUDY_SPEED, rows[i].published, rows[i].simulated) != rows[i].verdict) {
            fail_msg("published %g, simulated %g", rows[i].published, rows[i].simulated);
        }
    }
    for (double effect = 0.001; effect < 2; effect += 0.002) {
        assert_int_equal(judged(STUDY_SPEED, 1 + effect, 1), STUDY_OUTSIDE);
        assert_int_equal(judged(STUDY_SPEED, 1 + effect, 1 + effect), STUDY_OK);
    }
}

static void the_mean_over_seeds_is_judged(void **state) {
    (void)state;
    study_row row = row_of(STUDY_COUNT, 100, 112);
    assert_int_equal(study_judge(&row), STUDY_OUTSIDE);
    study_row_add(&row, 104);
    study_row_add(&row, 105);
    assert_int_equal(study_judge(&row), STUDY_OK);
    assert_true(fabs(row.simulated - 107) < 1e-12 && row.least == 104 && row.largest == 112 && row.seeds == 3);
    study_row_add(&row, 139);
    assert_int_equal(study_judge(&row), STUDY_OUTSIDE);
}

static void measured_numbers_come_first(void **state) {
    (void)state;
    study_row row = row_of(STUDY_RANGE, NAN, 5);
    row.low = 0;
    row.high = 1;
    assert_int_equal(study_judge(&row), STUDY_OUTSIDE);
    row.measured = 0.5;
    assert_int_equal(study_judge(&row), STUDY_OK);
}

static void known_failures_are_said_and_do_not_count(void **state) {
    (void)state;
    study_row row = row_of(STUDY_COUNT, 100, 150);
    assert_int_equal(study_judge(&row), STUDY_OUTSIDE);
    expect_text(&row, "FAILS, because it is not between 90 and 110");
    snprintf(row.label, sizeof row.label, "misses");
    assert_int_equal(study_judge(&row), STUDY_KNOWN);
    expect_text(&row, "fails, because its cache is too large");
    row.study = "numa"; /* the same row of another study */
    assert_int_equal(study_judge(&row), STUDY_OUTSIDE);
    row.study = "sawtooth";
    row.simulated = 100;
    assert_int_equal(study_judge(&row), STUDY_OK);
    expect_text(&row, "ok, though on the list of known failures");
}

static void fitted_and_unjudged_rows_say_so(void **state) {
    (void)state;
    study_row row = row_of(STUDY_COUNT, 100, 100);
    row.fitted = "slack";
    expect_text(&row, "ok, fitted: slack");
    row.tolerance = STUDY_UNJUDGED;
    row.why = "nothing is published";
    assert_int_equal(study_judge(&row), STUDY_SHOWN);
    expect_text(&row, "not judged: nothing is published");
}

static void json_has_the_verdict_and_the_spread(void **state) {
    (void)state;
    study_row row = row_of(STUDY_COUNT, 100, 150);
    snprintf(row.label, sizeof row.label, "misses");
    study_row_add(&row, 160);
    json_t *object = study_row_json(&row);
    assert_true(json_is_false(json_object_get(object, "passed")));
    assert_string_equal(json_string_value(json_object_get(object, "known_failure")), "its cache is too large");
    assert_string_equal(json_string_value(json_object_get(object, "tolerance")), "count");
    assert_true(json_real_value(json_object_get(object, "simulated")) == 155);
    assert_true(json_real_value(json_object_get(object, "least")) == 150);
    assert_true(json_real_value(json_object_get(object, "largest")) == 160);
    assert_int_equal(json_integer_value(json_object_get(object, "seeds")), 2);
    json_decref(object);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_have_ten_per_cent),
        cmocka_unit_test(speeds_need_the_sign_and_half_of_the_size),
        cmocka_unit_test(the_mean_over_seeds_is_judged),
        cmocka_unit_test(measured_numbers_come_first),
        cmocka_unit_test(known_failures_are_said_and_do_not_count),
        cmocka_unit_test(fitted_and_unjudged_rows_say_so),
        cmocka_unit_test(json_has_the_verdict_and_the_spread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
