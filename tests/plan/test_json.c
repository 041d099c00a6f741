/* SPDX-License-Identifier: Apache-2.0 */
/* JSON of which a part could not be made is null as a whole. */
#include <stdlib.h>

#include "../cmocka_all.h"
#include "base/json.h"

static void whole_values_are_kept(void **state) {
    (void)state;
    json_t *list = json_array(), *object = json_object();
    weft_json_append(&list, json_integer(1));
    weft_json_append(&list, json_integer(2));
    weft_json_set(&object, "list", list);
    char *text = weft_json_text(object, JSON_COMPACT);
    assert_string_equal(text, "{\"list\":[1,2]}");
    free(text);
    json_decref(object);
}

static void a_missing_part_makes_all_of_it_null(void **state) {
    (void)state;
    json_t *list = json_array(), *object = json_object();
    weft_json_append(&list, json_integer(1));
    weft_json_append(&list, NULL);
    assert_null(list);
    weft_json_append(&list, json_integer(2));
    assert_null(list);
    weft_json_set(&object, "list", list);
    assert_null(object);
    weft_json_set(&object, "other", json_integer(3));
    assert_null(object);
    assert_null(json_pack("{s:i, s:o}", "one", 1, "whole", object));
    assert_null(weft_json_text(object, JSON_COMPACT));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(whole_values_are_kept),
                                       cmocka_unit_test(a_missing_part_makes_all_of_it_null)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
