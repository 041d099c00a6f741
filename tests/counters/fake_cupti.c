/* SPDX-License-Identifier: Apache-2.0 */
/* A CUPTI without a GPU, for the tests of loading, of refusal and of the order of calls. Sizes are CUPTI's own, as numbers.
 *
 * Built three times: whole, with FAKE_VERSION too old, and with FAKE_INCOMPLETE, which lacks the last function. The
 * variable FAKE_CUPTI_FAIL="name=result" makes one function fail; FAKE_CUPTI_LACK names a metric that the chip does not
 * have. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#ifndef FAKE_VERSION
#define FAKE_VERSION 130001
#endif

enum { OK = 0, INVALID_PARAMETER = 1, INVALID_OPERATION = 7, PASSES = 3 };

/* What this fake has been told, so that calls out of order are refused. One thread at a time. */
static struct {
    int enabled, configured, started, pushed, pass, decoded, broken;
    size_t metrics;
} now;

/* Where the word `field` is in a structure, in 8-byte words. */
static uint64_t *word(void *parameters, int field) {
    return (uint64_t *)parameters + field;
}

/* The result that the test asked of a function, or of a wrong size. */
static int check(void *parameters, const char *name, uint64_t size) {
    const char *fail = getenv("FAKE_CUPTI_FAIL");
    const size_t length = strlen(name);
    if (fail && strncmp(fail, name, length) == 0 && fail[length] == '=') {
        return atoi(fail + length + 1);
    }
    return *word(parameters, 0) == size && *word(parameters, 1) == 0 ? OK : INVALID_PARAMETER;
}

#define FUNCTION(name, size, ...)                                                                                          \
    EXPORT int name(void *p);                                                                                              \
    EXPORT int name(void *p) {                                                                                             \
        const int result = check(p, #name, size);                                                                          \
        if (result) {                                                                                                      \
            return result;                                                                                                 \
        }                                                                                                                  \
        __VA_ARGS__                                                                                                        \
        return OK;                                                                                                         \
    }

EXPORT int cuptiGetVersion(uint32_t *version);
EXPORT int cuptiGetVersion(uint32_t *version) {
    *version = FAKE_VERSION;
    return OK;
}

EXPORT int cuptiGetResultString(int result, const char **text);
EXPORT int cuptiGetResultString(int result, const char **text) {
    *text = "CUPTI_ERROR_FAKE";
    return result == 999 ? INVALID_PARAMETER : OK;
}

FUNCTION(cuptiProfilerInitialize, 16, now.pass = 0;)

/* Levels of support are 4-byte words from the fifth on; 3 is supported. FAKE_CUPTI_LEVELS="3331..." sets them. */
FUNCTION(cuptiProfilerDeviceSupported, 52, {
    const char *levels = getenv("FAKE_CUPTI_LEVELS");
    for (int i = 0; i < 7; i++) {
        ((int32_t *)p)[5 + i] = levels ? levels[i] - '0' : 3;
    }
})
FUNCTION(cuptiDeviceGetChipName, 32, *(const char **)word(p, 3) = "FAKE100";)
FUNCTION(cuptiProfilerGetCounterAvailability, 40, {
    if (*word(p, 4)) {
        memset((void *)(uintptr_t)*word(p, 4), 1, *word(p, 3));
    }
    *word(p, 3) = 24;
})
FUNCTION(cuptiProfilerHostInitialize, 48, {
    now.metrics = 0;
    now.broken = 0;
    *word(p, 5) = (uint64_t)(uintptr_t)&now;
})
FUNCTION(cuptiProfilerHostDeinitialize, 24, )
/* As CUPTI does, an object that has refused a metric refuses all that follow. */
FUNCTION(cuptiProfilerHostConfigAddMetrics, 40, {
    const char *lack = getenv("FAKE_CUPTI_LACK");
    const char **metrics = *(const char ***)word(p, 3);
    for (uint64_t i = 0; i < *word(p, 4); i++) {
        now.broken |= lack && (strcmp(lack, "all") == 0 || strcmp(lack, metrics[i]) == 0);
    }
    if (now.broken) {
        return INVALID_PARAMETER;
    }
    now.metrics += *word(p, 4);
})
FUNCTION(cuptiProfilerHostGetConfigImageSize, 32, *word(p, 3) = 64;)
FUNCTION(cuptiProfilerHostGetConfigImage, 40, {
    if (*word(p, 3) != 64) {
        return INVALID_PARAMETER;
    }
    memset((void *)(uintptr_t)*word(p, 4), 2, 64);
})
FUNCTION(cuptiProfilerHostGetNumOfPasses, 40, *word(p, 4) = PASSES;)
FUNCTION(cuptiRangeProfilerEnable, 32, {
    if (now.enabled) {
        return INVALID_OPERATION;
    }
    now.enabled = 1;
    *word(p, 3) = (uint64_t)(uintptr_t)&now;
})
FUNCTION(cuptiRangeProfilerDisable, 24, now.enabled = now.configured = now.pass = 0;)
FUNCTION(cuptiRangeProfilerGetCounterDataSize, 64, {
    if (*word(p, 4) != now.metrics || *word(p, 5) != 1) {
        return INVALID_PARAMETER;
    }
    *word(p, 7) = 48;
})
FUNCTION(cuptiRangeProfilerCounterDataImageInitialize, 40, {
    if (*word(p, 3) != 48) {
        return INVALID_PARAMETER;
    }
    memset((void *)(uintptr_t)*word(p, 4), 0, 48);
    now.decoded = 0;
})
/* Range 2 and replay 3: both by the caller. */
FUNCTION(cuptiRangeProfilerSetConfig, 90, {
    const int32_t *modes = (const int32_t *)word(p, 7);
    if (!now.enabled || *word(p, 3) != 64 || *word(p, 5) != 48 || modes[0] != 2 || modes[1] != 3 || *word(p, 8) != 1) {
        return INVALID_PARAMETER;
    }
    /* As CUPTI does, a profiler that was left between passes goes on from there. */
    now.configured = 1;
    now.started = now.pushed = 0;
    now.pass = now.pass == PASSES ? 0 : now.pass;
})
FUNCTION(cuptiRangeProfilerStart, 24, {
    if (!now.configured || now.started++) {
        return INVALID_OPERATION;
    }
})
FUNCTION(cuptiRangeProfilerPushRange, 32, {
    if (!now.started || now.pushed++) {
        return INVALID_OPERATION;
    }
})
FUNCTION(cuptiRangeProfilerPopRange, 24, {
    if (!now.pushed) {
        return INVALID_OPERATION;
    }
    now.pushed = 0;
})
FUNCTION(cuptiRangeProfilerStop, 41, {
    if (!now.started || now.pushed) {
        return INVALID_OPERATION;
    }
    now.started = 0;
    now.pass++;
    *(uint8_t *)word(p, 5) = now.pass == PASSES && !getenv("FAKE_CUPTI_ENDLESS");
})
#ifndef FAKE_INCOMPLETE
FUNCTION(cuptiRangeProfilerDecodeData, 32, {
    if (now.pass != PASSES) {
        return INVALID_OPERATION;
    }
    now.decoded = 1;
})
#endif
/* The value of a metric is the length of its name. */
FUNCTION(cuptiProfilerHostEvaluateToGpuValues, 72, {
    if (!now.decoded) {
        return INVALID_OPERATION;
    }
    for (uint64_t i = 0; i < *word(p, 7); i++) {
        (*(double **)word(p, 8))[i] = (double)strlen((*(const char ***)word(p, 6))[i]);
    }
})
