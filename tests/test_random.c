/* SPDX-License-Identifier: Apache-2.0 */
/* Random cases: the environment chooses them, a round can be repeated alone, and a test that fails says how. */
#include "cmocka_all.h"

#include <string.h>

static const char *self;

/* Numbers of the rounds there are, and the first draw of each. */
static int draw(uint64_t number, int usual, int *rounds, uint64_t *draws) {
    uint64_t random = random_seed(number);
    int count = 0;
    for (int i = 0; random_round(&random, &i, usual); i++, count++) {
        assert_true(count < 400);
        rounds[count] = i;
        draws[count] = random_bits(&random);
        for (int more = 0; more < i % 5; more++) { /* what a round takes changes nothing for the next */
            random_bits(&random);
        }
    }
    return count;
}

static void set(const char *seed, const char *rounds, const char *round) {
    setenv("WEFT_TEST_SEED", seed, 1);
    setenv("WEFT_TEST_ROUNDS", rounds, 1);
    setenv("WEFT_TEST_ROUND", round, 1);
}

static void environment_chooses(void **state) {
    (void)state;
    static int rounds[400], other_rounds[400];
    static uint64_t draws[400], other[400];
    set("", "", "");
    assert_int_equal(draw(1, 100, rounds, draws), 100);
    assert_true(rounds[99] == 99 && draws[0] != draws[1]);
    assert_int_equal(draw(1, 100, rounds, other), 100);
    assert_memory_equal(draws, other, 100 * sizeof *draws);
    assert_int_equal(draw(2, 100, rounds, other), 100);
    assert_true(other[0] != draws[0]); /* another test */
    set("1", "25", "");
    assert_int_equal(draw(1, 100, rounds, other), 25);
    for (int i = 0; i < 25; i++) {
        for (int k = 0; k < 100; k++) {
            assert_true(other[i] != draws[k]);
        }
    }
    assert_int_equal(draw(1, 20, rounds, other), 16);
    assert_int_equal(draw(1, 7, rounds, other), 7);
    set("", "400", "");
    assert_int_equal(draw(1, 100, rounds, other), 400);
    assert_memory_equal(draws, other, 100 * sizeof *draws);
    set("", "", "37");
    assert_int_equal(draw(1, 100, other_rounds, other), 1);
    assert_true(other_rounds[0] == 37 && other[0] == draws[37]);
    assert_true(draw(1, 20, other_rounds, other) == 1 && other[0] == draws[37]); /* however many there usually are */
    set("", "", "");
}

/* Loops one after the other: the second has the same cases whatever of the first was run. */
static void loops_follow(void **state) {
    (void)state;
    uint64_t second[3];
    static const char *const settings[][2] = {{"", ""}, {"50", ""}, {"", "0"}};
    for (int s = 0; s < 3; s++) {
        set("", settings[s][0], settings[s][1]);
        uint64_t random = random_seed(1);
        for (int loop = 0; loop < 2; loop++) {
            for (int i = 0; random_round(&random, &i, 100); i++) {
                if (loop == 1 && i == 0) {
                    second[s] = random;
                }
            }
        }
        assert_true(second[s] == second[0]);
    }
    set("", "", "");
}

/* The output of this program when its tests fail. */
static void run_failing(const char *settings, char *output, size_t size) {
    char command[1024];
    assert_true(snprintf(command, sizeof command, "%s '%s' fail 2>&1", settings, self) < (int)sizeof command);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    output[fread(output, 1, size - 1, pipe)] = 0;
    assert_true(pclose(pipe) != 0);
}

static void failing_says_how(void **state) {
    (void)state;
    char output[8192];
    run_failing("WEFT_TEST_SEED=5", output, sizeof output);
    int said = 0;
    for (const char *at = output; (at = strstr(at, "this repeats it")); at++) {
        said++;
    }
    assert_int_equal(said, 2);
    assert_non_null(strstr(output, "this repeats it: WEFT_TEST_SEED=5 WEFT_TEST_ROUND=17\n"));
    assert_non_null(strstr(output, "this repeats it: WEFT_TEST_SEED=5\n"));
    run_failing("WEFT_TEST_SEED=5 WEFT_TEST_ROUND=17", output, sizeof output);
    assert_non_null(strstr(output, "SEED=5 WEFT_TEST_ROUND=17\n"));
}

/* Three that fail, in a round, after the rounds and without random numbers, and one that ends in a round without failing.
 */
static void fails_in_a_round(void **state) {
    (void)state;
    uint64_t random = random_seed(1);
    for (int i = 0; random_round(&random, &i, 100); i++) {
        assert_true(i != 17);
    }
}

static void fails_afterwards(void **state) {
    (void)state;
    uint64_t random = random_seed(1);
    for (int i = 0; random_round(&random, &i, 100); i++) {
    }
    fail();
}

static void fails_without(void **state) {
    (void)state;
    fail();
}

static void ends_early(void **state) {
    (void)state;
    uint64_t random = random_seed(1);
    for (int i = 0; random_round(&random, &i, 100); i++) {
        return;
    }
}

int main(int count, char **words) {
    const struct CMUnitTest failing[] = {cmocka_unit_test(fails_in_a_round), cmocka_unit_test(ends_early),
                                         cmocka_unit_test(fails_afterwards), cmocka_unit_test(fails_without)};
    const struct CMUnitTest tests[] = {cmocka_unit_test(environment_chooses), cmocka_unit_test(loops_follow),
                                       cmocka_unit_test(failing_says_how)};
    self = words[0];
    return count > 1 ? cmocka_run_group_tests(failing, NULL, NULL) : cmocka_run_group_tests(tests, NULL, NULL);
}
