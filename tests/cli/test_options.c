/* SPDX-License-Identifier: Apache-2.0 */
/* The option parser. */
#include "../cmocka_all.h"

#include <stdio.h>
#include <string.h>

#include <weft/machine.h>

#include "options/axes.h"
#include "options/options.h"

/* `operation`: whose options apply; 0: all. `swept`: where lists go; null: nowhere. */
static int32_t operation;
static axes *swept;

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
    s->axes = swept;
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
        {"--dtype", "fp4", "--dtype fp4 is not supported: choose fp32, fp16, bf16 or fp8"},
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
        {"--lengths", "", "--lengths  is not a list of lengths like 100,2K,0"},
        {"--lengths", "3,", "--lengths 3, is not a list of lengths like 100,2K,0"},
        {"--lengths", "3,,4", "--lengths 3,,4 is not a list of lengths like 100,2K,0"},
        {"--lengths", "3,-1", "--lengths 3,-1 is not a list of lengths like 100,2K,0"},
        {"--kv-lengths", "1:8:1", "--kv-lengths 1:8:1 is not a list of lengths like 100,2K,0"},
        {"--lengths", "1G,1G", "--lengths 1G,1G adds up to more than 2147483647"},
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
    static const option_type types[] = {
        [WEFT_FIELD_INTEGER] = OPTION_INTEGER, [WEFT_FIELD_REAL] = OPTION_REAL,     [WEFT_FIELD_CHOICE] = OPTION_CHOICE,
        [WEFT_FIELD_FLAG] = OPTION_FLAG,       [WEFT_FIELD_PAIR] = OPTION_PAIR,     [WEFT_FIELD_BIT] = OPTION_FLAG,
        [WEFT_FIELD_STARTS] = OPTION_LENGTHS,  [WEFT_FIELD_COUNTS] = OPTION_LENGTHS};
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

/* The values of an option's axis, joined. */
static const char *values_of(const axes *all, const char *name) {
    static char text[256];
    text[0] = '\0';
    for (size_t i = 0; i < all->count; i++) {
        for (size_t k = 0; k < all->list[i].count && strcmp(all->list[i].option->name, name) == 0; k++) {
            const size_t used = strlen(text);
            snprintf(text + used, sizeof text - used, "%s%s", used ? " " : "", all->list[i].values[k]);
        }
    }
    return text;
}

static void lists_and_ranges_make_axes(void **state) {
    (void)state;
    static const struct {
        const char *option, *value, *expected;
    } cases[] = {
        {"--seq", "4K,8K,100", "4096 8192 100"},
        {"--seq", "4K:32K:x2", "4096 8192 16384 32768"},
        {"--seq", "1K:4K:1K", "1024 2048 3072 4096"},
        {"--seq", "1:9:x3", "1 3 9"},
        {"--seq", "1:8:x3", "1 3"},
        {"--seq", "5:5:1", "5"},
        {"--seq", "1:3:1,8,10:14:2", "1 2 3 8 10 12 14"},
        {"--offset", "-4:4:4", "-4 0 4"},
        {"--seq", "9223372036854775806:9223372036854775807:1", "9223372036854775806 9223372036854775807"},
        {"--seq", "4611686018427387904:9223372036854775807:x2", "4611686018427387904"},
        {"--order", "hilbert,group", "hilbert group"},
        {"--tile", "64x64,128x64x32", "64x64 128x64x32"},
        {"--dtype", "fp16,bf16", "fp16 bf16"},
        {"--scale", "0.5,1e-2", "0.5 1e-2"},
        {"--machine", "H100,./a.ini,GB10", "h100 ./a.ini gb10"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        axes all = {.count = 0};
        settings s;
        weft_message message = {""};
        swept = &all;
        assert_int_equal(parse(&s, ALL, &message, 2, cases[i].option, cases[i].value), EXIT_OK);
        assert_string_equal(values_of(&all, cases[i].option + 2), cases[i].expected);
        swept = NULL;
        assert_int_equal(parse(&s, ALL, &message, 2, cases[i].option, cases[i].value), EXIT_USAGE);
        assert_non_null(
            strstr(message.text, ": one value is expected here; lists and ranges are for simulate, compare and plan"));
        axes_release(&all);
    }
}

static void bad_ranges_are_explained(void **state) {
    (void)state;
    static const struct {
        const char *option, *value, *expected;
    } mistakes[] = {
        {"--seq", "8K:4K:x2", "--seq 8K:4K:x2 is empty: its first value is above its last"},
        {"--seq", "4K:8K", "--seq 4K:8K has no step: write 4K:8K:1K or 4K:8K:x2"},
        {"--seq", "1K:4K:0", "--seq 1K:4K:0 never ends: its step is not at least 1"},
        {"--seq", "1K:4K:-1", "--seq 1K:4K:-1 never ends: its step is not at least 1"},
        {"--seq", "1K:4K:x1", "--seq 1K:4K:x1 never ends: its step is not at least x2"},
        {"--seq", "0:4K:x2", "--seq 0:4K:x2 never ends: what is multiplied is not at least 1"},
        {"--seq", "1:2:3:4", "--seq 1:2:3:4 is not a range like 1K:8K:1K or 4K:64K:x2"},
        {"--seq", "::", "--seq :: is not a range like 1K:8K:1K or 4K:64K:x2"},
        {"--seq", "1:x:x2", "--seq 1:x:x2 is not a range like 1K:8K:1K or 4K:64K:x2"},
        {"--seq", "4K,,8K", "--seq 4K,,8K has an empty value"},
        {"--seq", "4K,", "--seq 4K, has an empty value"},
        {"--seq", "4K,2K:8K:x2", "--seq 4K,2K:8K:x2 has 4096 twice"},
        {"--seq", "4K,12q", "--seq 12q is not a whole number that fits (4096, 128K)"},
        {"--seq", "1:10001:1", "--seq 1:10001:1 has 10001 values: at most 10000"},
        {"--seq", "-9223372036854775808:9223372036854775807:1",
         "--seq -9223372036854775808:9223372036854775807:1 has 18446744073709551616 values: at most 10000"},
        {"--workers", "0:4:1", "--workers 0 is not at least 1"},
        {"--order", "hilbert,hilbrt", "--order hilbrt is not known: did you mean hilbert?"},
        {"--tile", "64x64,64", "--tile 64 is not a shape like 128x64 or 128x64x32"},
        {"--machine", "h100,H100", "--machine h100,H100 has h100 twice"},
    };
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        axes all = {.count = 0};
        settings s;
        weft_message message = {""};
        swept = &all;
        assert_int_equal(parse(&s, ALL, &message, 2, mistakes[i].option, mistakes[i].value), EXIT_USAGE);
        assert_string_equal(message.text, mistakes[i].expected);
        axes_release(&all);
    }
    axes all = {.count = 0};
    settings s;
    weft_message message = {""};
    swept = &all;
    assert_int_equal(parse(&s, ALL, &message, 4, "--seq", "1:101:1", "--heads", "1:100:1"), EXIT_USAGE);
    assert_string_equal(message.text, "the parameter sweep has 10100 points: at most 10000");
    axes_release(&all);
    swept = NULL;
}

/* Every combination is a point, the last axis fastest; what is given later counts. */
static void points_are_combinations(void **state) {
    (void)state;
    axes all = {.count = 0};
    settings s;
    weft_message message = {""};
    char name[64];
    swept = &all;
    assert_int_equal(parse(&s, ALL, &message, 10, "--seq", "1K,2K", "--order", "hilbert", "--heads", "3,4,5", "--order",
                           "group,hilbert", "--heads", "7,8,9"),
                     EXIT_OK);
    assert_int_equal(axes_points(&all), 12);
    for (size_t i = 0; i < 12; i++) {
        const settings at = axes_settings(&all, &s, i);
        assert_int_equal(given(&at, "seq").integer, i < 6 ? 1024 : 2048);
        assert_int_equal(at.order, i / 3 % 2 ? WEFT_ORDER_HILBERT : WEFT_ORDER_GROUP);
        assert_int_equal(given(&at, "heads").integer, 7 + (int64_t)(i % 3));
    }
    axes_name(&all, 4, name, sizeof name);
    assert_string_equal(name, "seq 1024, order hilbert, heads 8");
    axes_release(&all);
    assert_int_equal(parse(&s, ALL, &message, 4, "--seq", "1K,2K", "--seq", "3K"), EXIT_OK);
    assert_int_equal(axes_points(&all), 1);
    assert_int_equal(all.count, 0);
    assert_int_equal(given(&s, "seq").integer, 3072);
    assert_int_equal(parse(&s, ALL, &message, 2, "--machine", "all"), EXIT_OK);
    assert_true(axes_points(&all) >= 5);
    assert_string_equal(axes_value(&all, 0, 1), weft_machine_name(1));
    axes_release(&all);
    swept = NULL;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_take_suffixes),      cmocka_unit_test(values_reach_their_settings),
        cmocka_unit_test(mistakes_are_explained),   cmocka_unit_test(letters_stand_for_options),
        cmocka_unit_test(table_is_sound),           cmocka_unit_test(fields_have_options),
        cmocka_unit_test(flags_make_operations),    cmocka_unit_test(lists_and_ranges_make_axes),
        cmocka_unit_test(bad_ranges_are_explained), cmocka_unit_test(points_are_combinations)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
