/* SPDX-License-Identifier: Apache-2.0 */
/* Counters without a GPU: loading, refusals and the order of calls, against a fake CUPTI. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../cmocka_all.h"
#include "counters/counters.h"
#include "counters/cupti.h"

static int dummy_context;

static weft_counters_request request_of(const char *library) {
    const weft_counters_request r = {&dummy_context, 0, NULL, 0, library};
    return r;
}

/* How often the work was called, and where it fails. */
typedef struct work_log {
    int prepared, launched, fail_at;
} work_log;

static weft_status prepare(void *user, weft_message *message) {
    (void)message;
    ((work_log *)user)->prepared++;
    return WEFT_OK;
}

static weft_status launch(void *user, weft_message *message) {
    work_log *log = user;
    if (++log->launched == log->fail_at) {
        snprintf(message->text, sizeof message->text, "the launch failed");
        return WEFT_IO;
    }
    return WEFT_OK;
}

static void measures(void **state) {
    (void)state;
    static const weft_counter wanted[] = {WEFT_COUNTER_DURATION, WEFT_COUNTER_L2_MISSES, WEFT_COUNTER_DRAM_READ_BYTES};
    weft_counters_request r = request_of(FAKE_CUPTI);
    r.wanted = wanted;
    r.count = 3;
    weft_counters *session = NULL;
    weft_message message = {"untouched"};
    assert_int_equal(weft_counters_open(&session, &r, &message), WEFT_OK);
    assert_int_equal(weft_counters_passes(session), 3);
    work_log log = {0, 0, 0};
    const weft_counters_work work = {prepare, launch, &log};
    double values[3];
    for (int again = 1; again <= 2; again++) {
        assert_int_equal(weft_counters_measure(session, &work, values, &message), WEFT_OK);
        assert_int_equal(log.prepared, 3 * again);
        assert_int_equal(log.launched, 3 * again);
        for (int i = 0; i < 3; i++) {
            assert_true(values[i] == (double)strlen(weft_counter_describe((int32_t)wanted[i])->metric));
        }
    }
    assert_string_equal(message.text, "untouched");
    weft_counters_close(session);
}

/* A failed launch gives its own status and message, and the next measurement works. */
static void launch_fails(void **state) {
    (void)state;
    const weft_counters_request r = request_of(FAKE_CUPTI);
    weft_counters *session = NULL;
    weft_message message = {""};
    assert_int_equal(weft_counters_open(&session, &r, &message), WEFT_OK);
    for (int at = 1; at <= 3; at++) {
        work_log log = {0, 0, at};
        const weft_counters_work work = {NULL, launch, &log};
        double values[WEFT_COUNTERS];
        assert_int_equal(weft_counters_measure(session, &work, values, &message), WEFT_IO);
        assert_string_equal(message.text, "the launch failed");
        assert_int_equal(log.launched, at);
        log = (work_log){0, 0, 0};
        assert_int_equal(weft_counters_measure(session, &work, values, &message), WEFT_OK);
    }
    weft_counters_close(session);
}

/* Each refusal: which function fails and how, the status, and a piece of the message. */
static void refusals(void **state) {
    (void)state;
    static const struct {
        const char *fail, *levels;
        weft_status status;
        const char *text;
    } rows[] = {{"cuptiRangeProfilerEnable=35", NULL, WEFT_UNSUPPORTED, "NVreg_RestrictProfilingToAdminUsers=0"},
                {"cuptiProfilerGetCounterAvailability=35", NULL, WEFT_UNSUPPORTED, "run as root"},
                {"cuptiProfilerInitialize=15", NULL, WEFT_UNSUPPORTED, "CUPTI could not start: CUPTI_ERROR_FAKE (15)"},
                {"cuptiDeviceGetChipName=999", NULL, WEFT_UNSUPPORTED, "name the chip: unknown (999)"},
                {"cuptiProfilerHostInitialize=46", NULL, WEFT_UNSUPPORTED, "which counters the chip has"},
                {"cuptiProfilerHostGetConfigImage=1", NULL, WEFT_UNSUPPORTED, "arrange the counters"},
                {"cuptiRangeProfilerGetCounterDataSize=1", NULL, WEFT_UNSUPPORTED, "size its data"},
                {"", "1331333", WEFT_UNSUPPORTED, "GPU 0 gives no hardware counters: it is a virtual GPU"},
                {"", "1333133", WEFT_UNSUPPORTED, "confidential computing is on"},
                {"", "1133333", WEFT_UNSUPPORTED, "the chip is too old"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        setenv("FAKE_CUPTI_FAIL", rows[i].fail, 1);
        if (rows[i].levels) {
            setenv("FAKE_CUPTI_LEVELS", rows[i].levels, 1);
        }
        const weft_counters_request r = request_of(FAKE_CUPTI);
        weft_counters *session = (weft_counters *)&dummy_context;
        weft_message message = {""};
        assert_int_equal(weft_counters_open(&session, &r, &message), rows[i].status);
        assert_null(session);
        if (!strstr(message.text, rows[i].text)) {
            fail_msg("'%s' is not in '%s'", rows[i].text, message.text);
        }
        unsetenv("FAKE_CUPTI_FAIL");
        unsetenv("FAKE_CUPTI_LEVELS");
    }
}

/* What fails in the middle of a measurement. */
static void measurement_refused(void **state) {
    (void)state;
    static const char *const fails[] = {"cuptiRangeProfilerSetConfig=1", "cuptiRangeProfilerStart=7",
                                        "cuptiRangeProfilerPushRange=7", "cuptiRangeProfilerDecodeData=999",
                                        "cuptiProfilerHostEvaluateToGpuValues=1"};
    const weft_counters_request r = request_of(FAKE_CUPTI);
    weft_counters *session = NULL;
    work_log log = {0, 0, 0};
    const weft_counters_work work = {NULL, launch, &log};
    double values[WEFT_COUNTERS];
    assert_int_equal(weft_counters_open(&session, &r, NULL), WEFT_OK);
    for (size_t i = 0; i < sizeof fails / sizeof *fails; i++) {
        weft_message message = {""};
        setenv("FAKE_CUPTI_FAIL", fails[i], 1);
        assert_int_equal(weft_counters_measure(session, &work, values, &message), WEFT_UNSUPPORTED);
        assert_non_null(strstr(message.text, "CUPTI could not"));
        unsetenv("FAKE_CUPTI_FAIL");
        assert_int_equal(weft_counters_measure(session, &work, values, NULL), WEFT_OK);
    }
    setenv("FAKE_CUPTI_ENDLESS", "1", 1);
    weft_message message = {""};
    assert_int_equal(weft_counters_measure(session, &work, values, &message), WEFT_UNSUPPORTED);
    assert_string_equal(message.text, "CUPTI asked for more than its 3 passes");
    unsetenv("FAKE_CUPTI_ENDLESS");
    weft_counters_close(session);
}

/* A chip that lacks one counter gives NaN for it and the rest in their places; one that has none is refused. */
static void lacking(void **state) {
    (void)state;
    const weft_counters_request r = request_of(FAKE_CUPTI);
    weft_counters *session = NULL;
    weft_message message = {""};
    double values[WEFT_COUNTERS];
    work_log log = {0, 0, 0};
    const weft_counters_work work = {NULL, launch, &log};
    setenv("FAKE_CUPTI_LACK", "dram__bytes_read.sum", 1);
    assert_int_equal(weft_counters_open(&session, &r, &message), WEFT_OK);
    assert_int_equal(weft_counters_measure(session, &work, values, &message), WEFT_OK);
    for (int32_t i = 0; i < WEFT_COUNTERS; i++) {
        assert_true(i == WEFT_COUNTER_DRAM_READ_BYTES ? isnan(values[i])
                                                      : values[i] == (double)strlen(weft_counter_describe(i)->metric));
    }
    weft_counters_close(session);
    setenv("FAKE_CUPTI_LACK", "all", 1);
    assert_int_equal(weft_counters_open(&session, &r, &message), WEFT_UNSUPPORTED);
    assert_string_equal(message.text, "the chip FAKE100 has none of the counters asked for");
    unsetenv("FAKE_CUPTI_LACK");
}

static void loading(void **state) {
    (void)state;
    weft_cupti cupti;
    weft_message message = {""};
    assert_int_equal(weft_cupti_load(&cupti, "/nowhere/libcupti.so", &message), WEFT_NOT_FOUND);
    assert_string_equal(message.text, "CUPTI is not at /nowhere/libcupti.so");
    assert_int_equal(weft_cupti_load(&cupti, FAKE_CUPTI_OLD, &message), WEFT_UNSUPPORTED);
    assert_string_equal(message.text, "CUPTI is version 18, and hardware counters need 26 (CUDA 12.8) or later");
    assert_int_equal(weft_cupti_load(&cupti, FAKE_CUPTI_INCOMPLETE, &message), WEFT_UNSUPPORTED);
    assert_string_equal(message.text, "CUPTI version 130001 has no cuptiRangeProfilerDecodeData");
    assert_null(cupti.library);
    assert_int_equal(weft_cupti_load(&cupti, FAKE_CUPTI, &message), WEFT_OK);
    assert_int_equal(cupti.version, 130001);
    weft_cupti_unload(&cupti);
}

static void bad_requests(void **state) {
    (void)state;
    static const weft_counter twice[] = {WEFT_COUNTER_L2_HITS, WEFT_COUNTER_L2_HITS};
    static const weft_counter unknown[] = {WEFT_COUNTERS};
    weft_counters *session;
    weft_counters_request r = request_of(FAKE_CUPTI);
    assert_int_equal(weft_counters_open(&session, NULL, NULL), WEFT_INVALID);
    r.context = NULL;
    assert_int_equal(weft_counters_open(&session, &r, NULL), WEFT_INVALID);
    r = request_of(FAKE_CUPTI);
    r.wanted = twice;
    assert_int_equal(weft_counters_open(&session, &r, NULL), WEFT_INVALID); /* a count of 0 */
    r.count = 2;
    assert_int_equal(weft_counters_open(&session, &r, NULL), WEFT_INVALID);
    r.wanted = unknown;
    r.count = 1;
    assert_int_equal(weft_counters_open(&session, &r, NULL), WEFT_INVALID);
    weft_counters_close(NULL);
}

static void names_and_ncu(void **state) {
    (void)state;
    for (int32_t i = 0; i < WEFT_COUNTERS; i++) {
        assert_int_equal(weft_counter_find(weft_counter_describe(i)->key), i);
    }
    assert_int_equal(weft_counter_find("l2"), -1);
    assert_null(weft_counter_describe(-1));
    assert_null(weft_counter_describe(WEFT_COUNTERS));

    static const weft_counter wanted[] = {WEFT_COUNTER_L2_MISSES, WEFT_COUNTER_DRAM_READ_BYTES};
    static const char expected[] = "ncu --clock-control none --kernel-name 'regex:^attention' --metrics "
                                   "lts__t_sectors_lookup_miss.sum,dram__bytes_read.sum weft run attention";
    char text[512];
    assert_int_equal(weft_counters_ncu(wanted, 2, "^attention", "weft run attention", text, sizeof text), strlen(expected));
    assert_string_equal(text, expected);
    char small[16];
    assert_int_equal(weft_counters_ncu(wanted, 2, "^attention", "weft run attention", small, sizeof small),
                     strlen(expected));
    assert_string_equal(small, "ncu --clock-con");
    const size_t all = weft_counters_ncu(NULL, 0, NULL, "x", NULL, 0);
    char *whole = malloc(all + 1);
    assert_non_null(whole);
    weft_counters_ncu(NULL, 0, NULL, "x", whole, all + 1);
    for (int32_t i = 0; i < WEFT_COUNTERS; i++) {
        assert_non_null(strstr(whole, weft_counter_describe(i)->metric));
    }
    free(whole);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loading),
        cmocka_unit_test(bad_requests),
        cmocka_unit_test(names_and_ncu),
        cmocka_unit_test(measures),
        cmocka_unit_test(launch_fails),
        cmocka_unit_test(refusals),
        cmocka_unit_test(measurement_refused),
        cmocka_unit_test(lacking),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
