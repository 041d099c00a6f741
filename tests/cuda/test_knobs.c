/* SPDX-License-Identifier: Apache-2.0 */
/* The specification of a kernel: what is read, what is refused, and one text for all that mean the same. */
#include "../cmocka_all.h"

#include <string.h>

#include "cuda/plan/knobs.h"

static void reads(void **state) {
    (void)state;
    static const struct {
        const char *text;
        weft_cuda_knobs knobs;
        size_t family;
        const char *normal;
    } all[] = {
        {NULL, {0, 0, 0, 0, 0}, 0, ""},
        {"", {0, 0, 0, 0, 0}, 0, ""},
        {"study", {0, 0, 0, 0, 0}, 5, "study"},
        {"study:precise", {1, 0, 0, 0, 0}, 5, "study:precise"},
        {"study:no-prefetch,precise", {1, 0, 1, 0, 0}, 5, "study:precise,no-prefetch"},
        {":ctas=1", {0, 0, 0, 0, 1}, 0, ":ctas=1"},
        {":ctas=032,mask-every-block", {0, 1, 0, 0, 32}, 0, ":mask-every-block,ctas=32"},
        {"decode:keep-keys", {0, 0, 0, 1, 0}, 6, "decode:keep-keys"},
        {"a:ctas=2,no-prefetch,mask-every-block,precise",
         {1, 1, 1, 0, 2},
         1,
         "a:precise,mask-every-block,no-prefetch,ctas=2"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        weft_cuda_knobs knobs;
        size_t family;
        char normal[64];
        assert_int_equal(weft_cuda_knobs_read(all[i].text, &knobs, &family, NULL), WEFT_OK);
        assert_memory_equal(&knobs, &all[i].knobs, sizeof knobs);
        assert_int_equal(family, all[i].family);
        weft_cuda_knobs_normalize(all[i].text, normal, sizeof normal);
        assert_string_equal(normal, all[i].normal);
    }
}

static void refuses(void **state) {
    (void)state;
    static const char *const all[][2] = {
        {"study:",
         "kernel option \"\" is unknown: there are precise, mask-every-block, no-prefetch, keep-keys, ctas=1 to ctas=32"},
        {"study:precise,", "kernel option \"\" is unknown"},
        {"study:fast", "kernel option \"fast\" is unknown"},
        {"study:Precise", "kernel option \"Precise\" is unknown"},
        {"study: precise", "kernel option \" precise\" is unknown"},
        {"study:precise:ctas=1", "kernel option \"precise:ctas=1\" is unknown"},
        {"study:precise,ctas=1,precise", "kernel option precise is given twice"},
        {":ctas=2,ctas=3", "kernel option ctas is given twice"},
        {":precise=1", "kernel option precise=1: there are"},
        {":ctas", "kernel option ctas: there are"},
        {":ctas=", "kernel option ctas=: there are"},
        {":ctas=0", "kernel option ctas=0: there are"},
        {":ctas=33", "kernel option ctas=33: there are"},
        {":ctas=-1", "kernel option ctas=-1: there are"},
        {":ctas=1x", "kernel option ctas=1x: there are"},
        {":ctas=4294967297", "kernel option ctas=4294967297: there are"},
        {":ctas=18446744073709551617", "kernel option ctas=18446744073709551617: there are"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        weft_cuda_knobs knobs;
        size_t family;
        weft_message message = {""};
        char normal[8];
        assert_int_equal(weft_cuda_knobs_read(all[i][0], &knobs, &family, &message), WEFT_INVALID);
        if (!strstr(message.text, all[i][1])) {
            fail_msg("%s: %s", all[i][0], message.text);
        }
        weft_cuda_knobs_normalize(all[i][0], normal, sizeof normal); /* as it is, as far as it fits */
        assert_int_equal(strncmp(normal, all[i][0], sizeof normal - 1), 0);
    }
}

/* However short the text's place is, nothing is written behind it. */
static void fits_its_place(void **state) {
    (void)state;
    for (size_t size = 1; size < 64; size++) {
        char normal[64];
        memset(normal, '#', sizeof normal);
        weft_cuda_knobs_normalize("study:ctas=12,no-prefetch,mask-every-block,precise", normal, size);
        assert_true(strlen(normal) < size);
        assert_int_equal(normal[size], '#');
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(reads), cmocka_unit_test(refuses),
                                       cmocka_unit_test(fits_its_place)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
