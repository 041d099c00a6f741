/* The option parser. */
#include "../cmocka_all.h"

#include <string.h>

#include "options/options.h"

/* `operation`: whose options apply; 0: all. */
static int32_t operation;

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
    return options_parse(s, sets, operation_bits(operation), count, arguments, words, 2, &found, message);
}

enum { ALL = SET_COMMON | SET_PROBLEM | SET_SCHEDULE | SET_RUN };

/* The value of a problem's option; fails when it was not given. */
static option_value given(const settings *s, const char *name) {
    const option *o = option_find(name, strlen(name));
    assert_non_null(o);
    assert_true(option_number(o) >= 0 && s->given >> option_number(o) & 1);
    return s->value[option_number(o)];
}

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
    assert_int_equal(given(&s, "seq").integer, 131072);
    assert_int_equal(given(&s, "heads").integer, 8);
    assert_true(given(&s, "causal").code == 1 && s.json && !s.help);
    assert_int_equal(s.order, WEFT_ORDER_HILBERT);
    assert_int_equal(s.sweep, WEFT_SWEEP_CHOOSE);
    assert_true(s.tile[0] == 128 && s.tile[1] == 64 && s.tile[2] == 32);
    assert_true(s.cluster[0] == 2 && s.cluster[1] == 1);
    assert_true(given(&s, "scale").real == 0.5);
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
        {"--dtype", "fp64", "--dtype fp64 is not supported: choose fp32, fp16, bf16 or fp8"},
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
    operation = WEFT_GEMM;
    assert_int_equal(parse(&s, ALL, &message, 2, "--heads", "3"), EXIT_USAGE);
    operation = 0;
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
    const option *o, *other;
    for (size_t i = 0; (o = option_at(i)); i++) {
        assert_true(o->sets != 0 && o->text && o->argument && o->offset < sizeof(settings));
        assert_true((o->type == OPTION_CHOICE) == (o->choice != NULL));
        assert_true((option_number(o) >= 0) == (o->sets == SET_PROBLEM));
        for (size_t k = 0; k < i && (other = option_at(k)); k++) {
            assert_string_not_equal(o->name, other->name);
        }
    }
}

/* Every field of every operation has an option, of the type that the field has. */
static void fields_have_options(void **state) {
    (void)state;
    static const option_type types[] = {[WEFT_FIELD_INTEGER] = OPTION_INTEGER,
                                        [WEFT_FIELD_REAL] = OPTION_REAL,
                                        [WEFT_FIELD_CHOICE] = OPTION_CHOICE,
                                        [WEFT_FIELD_FLAG] = OPTION_FLAG};
    for (int32_t i = 1; weft_operation_describe(i); i++) {
        const weft_operation_info *info = weft_operation_describe(i);
        for (size_t k = 0; k < info->field_count; k++) {
            char name[OPTION_NAME];
            option_spell(info->fields[k].name, name);
            const option *o = option_find(name, strlen(name));
            assert_non_null(o);
            assert_true(o->type == types[info->fields[k].type] && option_operations(o) >> i & 1);
            assert_ptr_equal(option_field(o, i), &info->fields[k]);
        }
    }
}

/* An operation whose name ends in a word is made of the other by a flag of that word. */
static void flags_make_operations(void **state) {
    (void)state;
    settings s;
    weft_message message;
    operation = WEFT_ATTENTION;
    assert_int_equal(parse(&s, ALL, &message, 1, "--backward"), EXIT_OK);
    assert_int_equal(operation_made(&s, WEFT_ATTENTION), WEFT_ATTENTION_BACKWARD);
    assert_int_equal(operation_made(&s, WEFT_GEMM), WEFT_GEMM);
    assert_int_equal(parse(&s, ALL, &message, 0), EXIT_OK);
    assert_int_equal(operation_made(&s, WEFT_ATTENTION), WEFT_ATTENTION);
    operation = WEFT_GEMM;
    assert_int_equal(parse(&s, ALL, &message, 1, "--backward"), EXIT_USAGE);
    operation = 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_take_suffixes),    cmocka_unit_test(values_reach_their_settings),
        cmocka_unit_test(mistakes_are_explained), cmocka_unit_test(letters_stand_for_options),
        cmocka_unit_test(table_is_sound),         cmocka_unit_test(fields_have_options),
        cmocka_unit_test(flags_make_operations)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
