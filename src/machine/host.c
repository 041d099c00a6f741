/* SPDX-License-Identifier: Apache-2.0 */
/* This host's CPU as a machine. The kernel says what it knows under /sys; what it does not say is assumed, on the low side,
 * and the source of each value says which it was. */
#include "machine/sheet.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/status.h"

#define CPU0 "/sys/devices/system/cpu/cpu0/"

/* One data or unified cache of the first core. */
typedef struct host_cache {
    int64_t level, bytes, line, ways;
    int64_t sharers; /* logical CPUs that share it; 0: unknown */
    const char *source;
} host_cache;

/* A number, perhaps with K or M behind it: "1024K". 0 when there is none; *error is set when it cannot be read. */
static int64_t read_number(const char *path, int *error) {
    char text[64], *end;
    if (!weft_file_line(path, text, sizeof text, error)) {
        return 0;
    }
    long long value = strtoll(text, &end, 10);
    if (value < 0 || value > INT64_C(1) << 40) {
        return 0;
    }
    return *end == 'K' ? value * 1024 : *end == 'M' ? value * 1024 * 1024 : value;
}

/* CPUs in a list such as "0-3,8-11". */
static int64_t count_list(const char *text) {
    int64_t count = 0;
    while (*text) {
        char *end;
        long first = strtol(text, &end, 10), last = first;
        if (end == text) {
            break;
        }
        if (*end == '-') {
            last = strtol(end + 1, &end, 10);
        }
        if (last >= first && first >= 0 && last < 1048576) {
            count += last - first + 1;
        }
        text = *end == ',' ? end + 1 : "";
    }
    return count;
}

/* Looks at cache number `index` of the first core; level is 0 when there is none that holds data. */
static host_cache read_cache(int index, int *error) {
    host_cache cache = {.source = "sysfs"};
    char path[128], text[256];
    snprintf(path, sizeof path, CPU0 "cache/index%d/type", index);
    if (!weft_file_line(path, text, sizeof text, error) || strcmp(text, "Instruction") == 0) {
        return cache;
    }
    snprintf(path, sizeof path, CPU0 "cache/index%d/size", index);
    cache.bytes = read_number(path, error);
    snprintf(path, sizeof path, CPU0 "cache/index%d/coherency_line_size", index);
    cache.line = read_number(path, error);
    snprintf(path, sizeof path, CPU0 "cache/index%d/ways_of_associativity", index);
    cache.ways = read_number(path, error);
    snprintf(path, sizeof path, CPU0 "cache/index%d/shared_cpu_list", index);
    if (weft_file_line(path, text, sizeof text, error)) {
        cache.sharers = count_list(text);
    }
    snprintf(path, sizeof path, CPU0 "cache/index%d/level", index);
    if (cache.bytes > 0) {
        cache.level = read_number(path, error);
    }
    return cache;
}

static int64_t ask_sysconf(int name) {
    long value = sysconf(name);
    return value > 0 ? value : 0;
}

/* The first-level data cache and the cache farthest from the core. */
static void find_caches(host_cache *first, host_cache *last, int *error) {
    *first = *last = (host_cache){0};
    for (int index = 0; index < 16; index++) {
        host_cache cache = read_cache(index, error);
        if (cache.level == 1) {
            *first = cache;
        }
        if (cache.level > last->level) {
            *last = cache;
        }
    }
#ifdef _SC_LEVEL1_DCACHE_SIZE
    if (!first->bytes) {
        *first = (host_cache){.bytes = ask_sysconf(_SC_LEVEL1_DCACHE_SIZE), .source = "sysconf"};
    }
    if (last->level < 2) {
        *last = (host_cache){.bytes = ask_sysconf(_SC_LEVEL3_CACHE_SIZE), .source = "sysconf"};
        if (!last->bytes) {
            last->bytes = ask_sysconf(_SC_LEVEL2_CACHE_SIZE);
        }
        last->line = ask_sysconf(_SC_LEVEL1_DCACHE_LINESIZE);
    }
#endif
    if (first->bytes < 1024) {
        *first = (host_cache){.bytes = 32768, .source = "assumed: 32 KiB"};
    }
    if (last->bytes < 65536) {
        *last = (host_cache){.bytes = 1048576, .source = "assumed: 1 MiB"};
    }
}

static void say(weft_sheet *sheet, weft_key_id key, const char *source) {
    snprintf(sheet->source[key], sizeof sheet->source[key], "%s", source);
}

/* The last cache as the machine's L2, in domains when several of it divide the workers evenly. */
static void describe_cache(weft_sheet *sheet, const host_cache *cache) {
    weft_machine *m = &sheet->machine;
    int has_line = cache->line >= 16 && cache->line <= 4096;
    m->l2_line = m->l2_sector = has_line ? cache->line : 64;
    m->l2_bytes = cache->bytes - cache->bytes % m->l2_line;
    int has_ways = cache->ways > 0 && cache->ways <= 65536 && m->l2_bytes / m->l2_line % cache->ways == 0;
    m->l2_ways = has_ways ? cache->ways : 0;
    int64_t domains = 1;
    if (cache->sharers > 0 && m->workers % cache->sharers == 0) {
        domains = m->workers / cache->sharers;
    }
    m->domains = domains <= 4096 ? domains : 1;
    m->l2_home = m->domains > 1 ? WEFT_HOME_PRIVATE : WEFT_HOME_NONE;
    m->far_latency = m->domains > 1 ? 200 : 0;
    say(sheet, WEFT_KEY_L2_BYTES, cache->source);
    say(sheet, WEFT_KEY_L2_LINE, has_line ? cache->source : "assumed: 64 bytes");
    say(sheet, WEFT_KEY_L2_SECTOR, "assumed: a CPU fetches whole lines");
    say(sheet, WEFT_KEY_L2_WAYS, has_ways ? cache->source : "assumed: fully associative");
    say(sheet, WEFT_KEY_DOMAINS, cache->sharers > 0 ? "derived: cores over those that share a cache" : "assumed: one");
    say(sheet, WEFT_KEY_L2_HOME, "derived: from the number of domains");
    say(sheet, WEFT_KEY_FAR_LATENCY, m->domains > 1 ? "assumed: 200 cycles to another cache" : "nothing is far");
}

/* What a kernel does not tell: two 128-bit multiply-add units a core, and modest memory. */
static void assume_rates(weft_sheet *sheet) {
    weft_machine *m = &sheet->machine;
    double cycles = (double)m->workers * m->clock;
    m->l2_bandwidth = 16 * cycles;
    m->dram_bandwidth = 2e10;
    m->near_latency = 40;
    m->dram_latency = 250;
    m->matrix_fp32 = m->matrix_fp16 = m->matrix_bf16 = 16 * cycles;
    m->exp_rate = cycles;
    say(sheet, WEFT_KEY_L2_BANDWIDTH, "assumed: 16 bytes per core and cycle");
    say(sheet, WEFT_KEY_L2_QUEUE, "not given");
    say(sheet, WEFT_KEY_L2_WAITING, "not given");
    say(sheet, WEFT_KEY_DRAM_BANDWIDTH, "assumed: 20 GB/s");
    say(sheet, WEFT_KEY_NEAR_LATENCY, "assumed: 40 cycles");
    say(sheet, WEFT_KEY_DRAM_LATENCY, "assumed: 250 cycles");
    say(sheet, WEFT_KEY_MATRIX_FP32, "assumed: 16 FLOP per core and cycle");
    say(sheet, WEFT_KEY_MATRIX_FP16, "assumed: as fp32");
    say(sheet, WEFT_KEY_MATRIX_BF16, "assumed: as fp32");
    say(sheet, WEFT_KEY_MATRIX_FP8, "not given");
    say(sheet, WEFT_KEY_EXP_RATE, "assumed: one per core and cycle");
    say(sheet, WEFT_KEY_LAUNCH, "not given");
    for (int key = WEFT_KEY_LINK_TOPOLOGY; key <= WEFT_KEY_NETWORK_LATENCY; key++) {
        say(sheet, (weft_key_id)key, "not given");
    }
}

weft_status weft_sheet_host(weft_sheet *sheet, weft_message *message) {
    weft_machine *m = &sheet->machine;
    int error = 0;
    host_cache first, last;
    memset(sheet, 0, sizeof *sheet);
    sheet->form = &weft_machine_form;
    find_caches(&first, &last, &error);

    int64_t cores = ask_sysconf(_SC_NPROCESSORS_ONLN);
    m->workers = cores >= 1 && cores <= 1048576 ? cores : 1;
    say(sheet, WEFT_KEY_WORKERS, cores == m->workers ? "sysconf" : "assumed: one");
    snprintf(m->name, sizeof m->name, "host");
    snprintf(m->aliases, sizeof m->aliases, "cpu");
    snprintf(m->title, sizeof m->title, "This host's CPU, %" PRId64 " core%s", m->workers, m->workers == 1 ? "" : "s");

    m->gpcs = m->gpc_workers = 0;
    say(sheet, WEFT_KEY_GPCS, "a CPU has none");
    say(sheet, WEFT_KEY_GPC_WORKERS, "follows from gpcs");

    int64_t kilohertz = read_number(CPU0 "cpufreq/cpuinfo_max_freq", &error);
    int has_clock = kilohertz >= 100000 && kilohertz <= 20000000;
    m->clock = has_clock ? 1e3 * (double)kilohertz : 2e9;
    say(sheet, WEFT_KEY_CLOCK, has_clock ? "sysfs" : "assumed: 2 GHz");

    char *const profiles[] = {m->attention_profile, m->backward_profile, m->gemm_profile};
    for (int i = 0; i < 3; i++) {
        snprintf(profiles[i], sizeof m->gemm_profile, "cpu");
        say(sheet, (weft_key_id)(WEFT_KEY_ATTENTION_PROFILE + i), "the kernels of this project");
    }
    m->handout = WEFT_HANDOUT_ANY;
    say(sheet, WEFT_KEY_HANDOUT, "threads go to whichever core is free");
    m->handout_run = 1;
    say(sheet, WEFT_KEY_HANDOUT_RUN, "assumed: threads are spread over the caches");
    m->shared_bytes = first.bytes;
    say(sheet, WEFT_KEY_SHARED_BYTES, first.source);
    m->l2_replacement = WEFT_REPLACEMENT_LRU;
    say(sheet, WEFT_KEY_L2_REPLACEMENT, "assumed: least recently used");
    m->llc_bytes = 0;
    say(sheet, WEFT_KEY_LLC_BYTES, "the last-level cache is the L2 of this description");
    say(sheet, WEFT_KEY_LLC_BANDWIDTH, "none behind the L2 of this description");
    m->l2_usable = 1;
    say(sheet, WEFT_KEY_L2_USABLE, "assumed: all of it");
    say(sheet, WEFT_KEY_L2_SLACK, "assumed: least recently used");
    say(sheet, WEFT_KEY_L2_CROWDED, "assumed: sets fill evenly");
    m->l2_write = WEFT_WRITE_MISS;
    say(sheet, WEFT_KEY_L2_WRITE, "assumed: a write allocates its line");
    describe_cache(sheet, &last);
    assume_rates(sheet);
    return error ? weft_fail(message, WEFT_IO, "this host's CPU cannot be described: /sys: %s", strerror(error)) : WEFT_OK;
}
