/* SPDX-License-Identifier: Apache-2.0 */
#include "counters/metrics.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

static weft_status open_host(const weft_cupti *cupti, const char *chip, const uint8_t *availability, void **host,
                             weft_message *message) {
    weft_cupti_host_initialize initialize = {
        WEFT_CUPTI_SIZE(weft_cupti_host_initialize, host), NULL, 0, chip, availability, NULL};
    const weft_status status =
        weft_cupti_check(cupti, cupti->host_initialize(&initialize), "say which counters the chip has", message);
    *host = status ? NULL : initialize.host;
    return status;
}

static void close_host(const weft_cupti *cupti, void *host) {
    weft_cupti_host_deinitialize end = {WEFT_CUPTI_SIZE(weft_cupti_host_deinitialize, host), NULL, host};
    cupti->host_deinitialize(&end);
}

static int add_metrics(const weft_cupti *cupti, void *host, const char **metrics, size_t count) {
    weft_cupti_add_metrics add = {WEFT_CUPTI_SIZE(weft_cupti_add_metrics, count), NULL, host, metrics, count};
    return cupti->add_metrics(&add);
}

/* Each metric is tried with an object of its own: one that refuses a metric refuses every later one too. */
static weft_status choose(weft_metrics *m, const weft_cupti *cupti, const char *chip, const uint8_t *availability,
                          const weft_counter *wanted, size_t count, weft_message *message) {
    for (size_t i = 0; i < count; i++) {
        const char *metric = weft_counter_describe((int32_t)wanted[i])->metric;
        void *trial;
        const weft_status status = open_host(cupti, chip, availability, &trial, message);
        if (status) {
            return status;
        }
        if (add_metrics(cupti, trial, &metric, 1) == WEFT_CUPTI_SUCCESS) {
            m->metrics[m->count] = metric;
            m->place[m->count++] = i;
        }
        close_host(cupti, trial);
    }
    return m->count ? WEFT_OK
                    : weft_fail(message, WEFT_UNSUPPORTED, "the chip %.32s has none of the counters asked for", chip);
}

static weft_status make_config(weft_metrics *m, const weft_cupti *cupti, weft_message *message) {
    static const char doing[] = "arrange the counters in passes";
    weft_cupti_config_size size = {WEFT_CUPTI_SIZE(weft_cupti_config_size, bytes), NULL, m->host, 0};
    weft_status status = weft_cupti_check(cupti, cupti->config_size(&size), doing, message);
    if (status) {
        return status;
    }
    m->config_bytes = size.bytes;
    m->config = calloc(size.bytes ? size.bytes : 1, 1);
    if (!m->config) {
        return weft_fail(message, WEFT_NO_MEMORY, "out of memory");
    }
    weft_cupti_config_image image = {WEFT_CUPTI_SIZE(weft_cupti_config_image, image), NULL, m->host, m->config_bytes,
                                     m->config};
    status = weft_cupti_check(cupti, cupti->config_image(&image), doing, message);
    if (status) {
        return status;
    }
    weft_cupti_passes passes = {WEFT_CUPTI_SIZE(weft_cupti_passes, passes), NULL, m->config_bytes, m->config, 0};
    status = weft_cupti_check(cupti, cupti->passes(&passes), doing, message);
    m->passes = passes.passes;
    return status;
}

weft_status weft_metrics_open(weft_metrics *m, const weft_cupti *cupti, const char *chip, const uint8_t *availability,
                              const weft_counter *wanted, size_t count, weft_message *message) {
    memset(m, 0, sizeof *m);
    weft_status status = choose(m, cupti, chip, availability, wanted, count, message);
    if (!status) {
        status = open_host(cupti, chip, availability, &m->host, message);
    }
    if (!status) {
        status = weft_cupti_check(cupti, add_metrics(cupti, m->host, m->metrics, m->count), "take the counters", message);
    }
    if (!status) {
        status = make_config(m, cupti, message);
    }
    if (status) {
        weft_metrics_close(m, cupti);
    }
    return status;
}

void weft_metrics_close(weft_metrics *m, const weft_cupti *cupti) {
    if (m->host) {
        close_host(cupti, m->host);
    }
    free(m->config);
    memset(m, 0, sizeof *m);
}
