/* The option parser. */
#include "../cmocka_all.h"

#include "options/options.h"

static int parse(settings *s, int sets, weft_message *message, int count, ...) {
    char *arguments[16];
    va_list list;
    va_start(list, count);
    for (int i = 0; i < count; i++) {
        arguments[i] = va_arg(list, char *);
    }
    va_end(list);
    const char *words[2];
    size_t found;
    *s = settings_none();
    return options_parse(s, sets, count, arguments, words, 2, &found, message);
}

enum { ALL = SET_COMMON | SET_ATTENTION | SET_GEMM | SET_SCHEDULE | SET_RUN };

static void sizes_take_suffixes(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int64_t value;
    } good[] = {{"1", 1},
                {"128K", 131072},
                {"128k", 131072},
                {"2M", 2097152},
                {"1G", 1073741824},
                {"-5", -5},
                {"+7", 7},
                {"9223372036854775807", INT64_MAX},
                {"0", 0}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        int64_t value = -1;
        assert_true(options_read_integer(good[i].text, &value));
        assert_int_equal(value, good[i].value);
    }
    static const char *const bad[] = {"",
                                      "K",
                                      "1KB",
                                      "1.5",
                                      "12a",
                                      " 3",
                                      "3 ",
                                      "9223372036854775808",
                                      "9223372036854775807K",
                                      "0x10",
                                      "1e3",
                                      "--",
                                      "99999999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int64_t value;
        assert_false(options_read_integer(bad[i], &value));
    }
}

static void values_reach_their_settings(void **state) {
    (void)state;
    settings s;
    weft_message message;
    assert_int_equal(parse(&s, ALL, &message, 12, "--seq", "128K", "--heads=8", "--causal", "--order", "hilbert", "--tile",
                           "128x64x32", "--cluster=2x1", "--scale", "0.5", "--json"),
                     EXIT_OK);
    assert_int_equal(s.seq, 131072);
    assert_int_equal(s.heads, 8);
    assert_true(s.causal && s.json && !s.help);
    assert_int_equal(s.order, WEFT_ORDER_HILBERT);
    assert_int_equal(s.sweep, WEFT_SWEEP_CHOOSE);
    assert_true(s.tile[0] == 128 && s.tile[1] == 64 && s.tile[2] == 32);
    assert_true(s.cluster[0] == 2 && s.cluster[1] == 1);
    assert_true(s.scale == 0.5);
}

static void mistakes_are_explained(void **state) {
    (void)state;
    static const struct {
        const char *argument, *value, *expected;
    } mistakes[] = {
        {"--seqq", "1", "unknown option --seqq: did you mean --seq?"},
        {"--frobnicate", "1", "unknown option --frobnicate: --help lists them"},
        {"--order", "hilbrt", "--order hilbrt is not known: did you mean hilbert?"},
        {"--dispatch", "magic", "--dispatch magic is not supported: choose grid, static or dynamic"},
        {"--dtype", "fp8", "--dtype fp8 is not supported: choose fp32, fp16 or bf16"},
        {"--dtype", "fp64", "--dtype fp64 is not supported: choose fp32, fp16 or bf16"},
        {"-x", "1", "unknown option -x: --help lists them"},
        {"-oh", "1", "unknown option -oh: --help lists them"},
        {"--seq", "12q", "--seq 12q is not a whole number that fits (4096, 128K)"},
        {"--workers", "0", "--workers 0 is not at least 1"},
        {"--workers", "-3", "--workers -3 is not at least 1"},
        {"--tile", "128", "--tile 128 is not a shape like 128x64 or 128x64x32"},
        {"--tile", "1x2x3x4", "--tile 1x2x3x4 is not a shape like 128x64 or 128x64x32"},
        {"--tile", "0x4", "--tile 0 is not at least 1"},
        {"--cluster", "2x2x2", "--cluster 2x2x2 is not a shape like 2x1"},
        {"--scale", "nan", "--scale nan is not a finite number"},
        {"--scale", "1e999", "--scale 1e999 is not a finite number"},
    };
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        settings s;
        weft_message message;
        assert_int_equal(parse(&s, ALL, &message, 2, mistakes[i].argument, mistakes[i].value), EXIT_USAGE);
        assert_string_equal(message.text, mistakes[i].expected);
    }
    settings s;
    weft_message message;
    assert_int_equal(parse(&s, ALL, &message, 1, "--seq"), EXIT_USAGE);
    assert_string_equal(message.text, "--seq needs a value: N");
    assert_int_equal(parse(&s, ALL, &message, 1, "--json=yes"), EXIT_USAGE);
    assert_string_equal(message.text, "--json takes no value");
    assert_int_equal(parse(&s, SET_GEMM, &message, 2, "--heads", "3"), EXIT_USAGE);
    assert_string_equal(message.text, "--heads does not apply here: --help lists what does");
    assert_int_equal(parse(&s, ALL, &message, 3, "one", "two", "three"), EXIT_USAGE);
    assert_string_equal(message.text, "three: nothing more is expected here");
}

static void letters_stand_for_options(void **state) {
    (void)state;
    settings s;
    weft_message message;
    assert_int_equal(parse(&s, ALL | SET_OUTPUT, &message, 3, "-o", "page.html", "-h"), EXIT_OK);
    assert_string_equal(s.output, "page.html");
    assert_true(s.help);
    assert_int_equal(parse(&s, ALL | SET_OUTPUT, &message, 1, "-o"), EXIT_USAGE);
    assert_string_equal(message.text, "--output needs a value: FILE");
}

/* Names in the table are unique, and every choice has a first name. */
static void table_is_sound(void **state) {
    (void)state;
    for (const option *o = option_table; o->name; o++) {
        assert_true(o->sets != 0 && o->text && o->argument && o->offset < sizeof(settings));
        assert_true((o->type == OPTION_CHOICE) == (o->choice != NULL));
        for (const option *other = option_table; other < o; other++) {
            assert_string_not_equal(o->name, other->name);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(sizes_take_suffixes), cmocka_unit_test(values_reach_their_settings),
                                       cmocka_unit_test(mistakes_are_explained),
                                       cmocka_unit_test(letters_stand_for_options), cmocka_unit_test(table_is_sound)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
