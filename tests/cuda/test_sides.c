/* SPDX-License-Identifier: Apache-2.0 */
/* The sides of an L2, told apart by latencies; a live GPU as a machine, written and read back. */
#include "fake_images.h"

#include <math.h>
#include <string.h>

#include "cuda/l2/side_table.h"
#include "cuda/plan/live.h"

static weft_cuda_sides grouped(const double *latencies, int count) {
    static weft_cuda_sides s;
    memset(&s, 0, sizeof s);
    s.sms = count;
    memcpy(s.latency, latencies, (size_t)count * sizeof *latencies);
    weft_cuda_sides_group(&s);
    return s;
}

static void groups(void **state) {
    (void)state;
    static const double two[] = {300, 311, 379, 293, 396, 385, 390, 305};
    static const double spread[] = {300, 310, 320, 330, 340, 350, 360, 370};
    static const double outlier[] = {300, 301, 302, 303, 304, 305, 306, 390};
    static const double close[] = {300, 300, 300, 300, 310, 310, 310, 310};
    weft_cuda_sides s = grouped(two, 8);
    assert_int_equal(s.sides, 2);
    assert_int_equal(s.members[0], 4);
    static const unsigned char want[] = {0, 0, 1, 0, 1, 1, 1, 0};
    assert_memory_equal(s.side, want, 8);
    assert_true(s.low[0] == 293 && s.high[0] == 311 && s.low[1] == 379 && s.high[1] == 396);
    assert_true(fabs(s.mean[0] - 302.25) < 1e-9 && fabs(s.mean[1] - 387.5) < 1e-9);
    assert_int_equal(grouped(spread, 8).sides, 1);
    assert_int_equal(grouped(outlier, 8).sides, 1);
    assert_int_equal(grouped(close, 8).sides, 1);
    assert_int_equal(grouped(two, 1).sides, 1);
}

static void measured(const char *scripted, int sides) {
    const weft_cuda_driver *driver;
    weft_cuda_device device;
    weft_cuda_sides *s = malloc(sizeof *s);
    weft_sheet *sheet = malloc(sizeof *sheet);
    static char text[WEFT_SHEET_MAX_BYTES];
    weft_machine machine = WEFT_MACHINE_INIT;
    weft_message message = {""};
    assert_true(s && sheet);
    script(scripted);
    assert_int_equal(weft_cuda_driver_get(&driver, &message), WEFT_OK);
    assert_int_equal(weft_cuda_device_get(driver, 0, &device, &message), WEFT_OK);
    assert_int_equal(weft_cuda_sides_measure(driver, &device, s, &message), WEFT_OK);
    assert_int_equal(s->sides, sides);
    assert_int_equal(s->sm[5], 5);
    assert_int_equal(s->sm[6], 10); /* numbers may have gaps */
    assert_int_equal(s->side[2], sides - 1);
    assert_true(s->dram == 700);
    if (weft_cuda_sheet(sheet, &device, s, &message) != WEFT_OK) {
        fail_msg("%s", message.text);
    }
    const size_t length = weft_sheet_write(sheet, "# a comment\n", text, sizeof text);
    assert_true(length < sizeof text);
    if (weft_machine_parse(&machine, text, length, "written", &message) != WEFT_OK) {
        fail_msg("%s\n%s", message.text, text);
    }
    sheet->machine.struct_size = sizeof machine;
    assert_memory_equal(&machine, &sheet->machine, sizeof machine);
    assert_string_equal(machine.name, "fake-h200-live");
    assert_int_equal(machine.workers, 12);
    assert_int_equal(machine.domains, sides);
    assert_int_equal(machine.l2_bytes * sides, 6 << 20);
    assert_int_equal(machine.l2_home, sides == 2 ? WEFT_HOME_SPLIT : WEFT_HOME_NONE);
    assert_true(machine.dram_latency == 700 && machine.near_latency >= 300 && machine.near_latency <= 304);
    assert_true(sides == 2 ? machine.far_latency > 470 && machine.far_latency < 490 : machine.far_latency == 0);
    assert_int_equal(counts()->allocations, 0);
    assert_int_equal(counts()->contexts, 0);
    assert_int_equal(counts()->pushed, 0);
    free(s);
    free(sheet);
}

static void one_and_two(void **state) {
    (void)state;
    measured(NULL, 2);
    measured("sides=1", 1);
}

/* Where other work holds SMs, the measurement gives up, and leaves nothing behind. */
static void not_alone(void **state) {
    (void)state;
    static const char *const scripts[] = {"late=1", "cooperative=720", "query=600"};
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        const weft_cuda_driver *driver;
        weft_cuda_device device;
        weft_cuda_sides *s = malloc(sizeof *s);
        uint64_t table = 1;
        weft_message message = {""};
        assert_non_null(s);
        script(scripts[i]);
        assert_int_equal(weft_cuda_driver_get(&driver, &message), WEFT_OK);
        assert_int_equal(weft_cuda_device_get(driver, 0, &device, &message), WEFT_OK);
        assert_int_equal(weft_cuda_sides_measure(driver, &device, s, &message), WEFT_UNSUPPORTED);
        assert_string_equal(message.text, "the GPU's L2 cannot be measured while other work holds some of its SMs");
        if (i < 2) { /* the third takes seconds */
            assert_int_equal(weft_cuda_side_table(driver, &device, &table, &message), WEFT_OK);
            assert_int_equal(table, 0);
        }
        assert_int_equal(counts()->allocations, 0);
        assert_int_equal(counts()->contexts, 0);
        assert_int_equal(counts()->pushed, 0);
        assert_int_equal(counts()->streams, 0);
        free(s);
    }
}

static void from_outside(void **state) {
    (void)state;
    weft_machine machine = WEFT_MACHINE_INIT;
    weft_message message = {""};
    script(NULL);
    assert_int_equal(weft_machine_gpu(&machine, 0, &message), WEFT_OK);
    assert_string_equal(machine.title, "NVIDIA Fake H200");
    assert_int_equal(machine.domains, 2); /* as the h200 has them */
    assert_int_equal(weft_machine_gpu(&machine, 5, &message), WEFT_NOT_FOUND);
    assert_int_equal(machine.workers, 0);
    assert_int_equal(weft_machine_gpu(NULL, 0, &message), WEFT_INVALID);
}

/* Chips of other names borrow what the driver does not tell, and say from whom. */
static void strangers(void **state) {
    (void)state;
    weft_sheet *sheet = malloc(sizeof *sheet);
    assert_non_null(sheet);
    static const struct {
        int capability, sms, l2;
        const char *name, *like;
    } chips[] = {
        {80, 108, 41943040, "NVIDIA A30", "assumed: as a100"},
        {86, 84, 6291456, "NVIDIA A40", "assumed: as l40s"},
        {89, 142, 100663296, "NVIDIA L40", "assumed: as l40s"},
        {90, 78, 62914560, "NVIDIA H20", "assumed: as h100"},
        {100, 147, 130023424, "NVIDIA B200Thing", "assumed: as b200"},
        {103, 148, 132644864, "NVIDIA B300", "assumed: as b200"},
        {120, 84, 67108864, "NVIDIA RTX 5080", "assumed: as rtx-5090"},
        {121, 47, 25165824, "NVIDIA Other Thing With A Name That Is Longer Than A Machine's May Be", "assumed: as gb10"}};
    for (size_t i = 0; i < sizeof chips / sizeof *chips; i++) {
        weft_cuda_device device = {.capability = chips[i].capability,
                                   .multiprocessors = chips[i].sms,
                                   .l2_bytes = chips[i].l2,
                                   .shared_bytes = 101376,
                                   .clock = 1700000,
                                   .memory_clock = 1215000,
                                   .memory_bus = 5120};
        static char text[WEFT_SHEET_MAX_BYTES];
        weft_machine machine = WEFT_MACHINE_INIT;
        weft_message message = {""};
        memcpy(device.name, chips[i].name, strlen(chips[i].name) + 1);
        if (weft_cuda_sheet(sheet, &device, NULL, &message) != WEFT_OK) {
            fail_msg("%s: %s", chips[i].name, message.text);
        }
        assert_string_equal(sheet->source[WEFT_KEY_L2_SLACK], chips[i].like);
        assert_int_equal(sheet->machine.domains, 1);
        assert_int_equal(sheet->machine.l2_bytes, chips[i].l2);
        assert_true(fabs(sheet->machine.dram_bandwidth - 1.5552e12) < 1e6);
        const size_t length = weft_sheet_write(sheet, NULL, text, sizeof text);
        if (weft_machine_parse(&machine, text, length, "written", &message) != WEFT_OK) {
            fail_msg("%s\n%s", message.text, text);
        }
    }
    free(sheet);
}

/* Chips that have a file are known by the words of their names, the longest name first. */
static void known_names(void **state) {
    (void)state;
    weft_sheet *sheet = malloc(sizeof *sheet);
    assert_non_null(sheet);
    static const struct {
        const char *name;
        double near; /* cycles, of the machine file */
        int64_t domains;
    } chips[] = {{"NVIDIA A100-SXM4-40GB", 205, 2},
                 {"NVIDIA A100-SXM4-80GB", 205, 2},
                 {"NVIDIA L40S", 279, 1},
                 {"NVIDIA GeForce RTX 5090", 313, 1},
                 {"NVIDIA RTX PRO 6000 Blackwell Server Edition", 338, 1},
                 {"NVIDIA GH200 480GB", 280, 2},
                 {"NVIDIA H200", 302, 2}};
    for (size_t i = 0; i < sizeof chips / sizeof *chips; i++) {
        weft_cuda_device device = {.capability = 80,
                                   .multiprocessors = 100,
                                   .l2_bytes = 41943040,
                                   .shared_bytes = 101376,
                                   .clock = 1700000,
                                   .memory_clock = 1215000,
                                   .memory_bus = 5120};
        weft_message message = {""};
        memcpy(device.name, chips[i].name, strlen(chips[i].name) + 1);
        assert_int_equal(weft_cuda_sheet(sheet, &device, NULL, &message), WEFT_OK);
        assert_true(sheet->machine.near_latency == chips[i].near);
        assert_int_equal(sheet->machine.domains, chips[i].domains);
        assert_string_equal(sheet->machine.aliases, "");
    }
    free(sheet);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(groups),    cmocka_unit_test(one_and_two),
                                       cmocka_unit_test(not_alone), cmocka_unit_test(from_outside),
                                       cmocka_unit_test(strangers), cmocka_unit_test(known_names)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
