/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/plan/live.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/embedded.h"
#include "base/status.h"
#include "base/struct.h"
#include "machine/machine.h"

/* Behind the first word of a GPU's name that is `length` letters of `word`; null when there is none. */
static const char *find_word(const char *gpu, const char *word, size_t length) {
    for (const char *at = gpu; *at; at++) {
        if ((at == gpu || !isalnum((unsigned char)at[-1])) && strncasecmp(at, word, length) == 0 &&
            !isalnum((unsigned char)at[length])) {
            return at + length;
        }
    }
    return NULL;
}

/* Whether a GPU's name has the words of a built-in machine's: "NVIDIA A100-SXM4-40GB" has those of a100-40gb. */
static int is_named(const char *gpu, const char *machine) {
    for (size_t length; *machine && gpu; machine += length + (machine[length] == '-')) {
        length = strcspn(machine, "-");
        gpu = find_word(gpu, machine, length);
    }
    return gpu != NULL;
}

/* The built-in machine of a generation: of the last one that began with the chip's compute capability or before. */
static const char *generation_of(int capability) {
    static const struct {
        int capability;
        const char *machine;
    } generations[] = {{121, "gb10"}, {120, "rtx-5090"}, {100, "b200"}, {90, "h100"}, {86, "l40s"}, {0, "a100"}};
    size_t i = 0;
    while (capability < generations[i].capability) {
        i++;
    }
    return generations[i].machine;
}

/* The built-in machine of the same name, the longest that is, with *same set; or else of the same generation. */
static const weft_embedded *nearest(const weft_cuda_device *device, int *same) {
    const char *generation = generation_of(device->capability);
    const weft_embedded *found = NULL, *like = &weft_embedded_machines[0];
    for (size_t i = 0; i < weft_embedded_machines_count; i++) {
        const weft_embedded *file = &weft_embedded_machines[i];
        if (is_named(device->name, file->name) && (!found || strlen(file->name) > strlen(found->name))) {
            found = file;
        }
        like = strcmp(file->name, generation) == 0 ? file : like;
    }
    *same = found != NULL;
    return found ? found : like;
}

static void say(weft_sheet *sheet, weft_key_id key, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void say(weft_sheet *sheet, weft_key_id key, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sheet->source[key], sizeof sheet->source[key], format, arguments);
    va_end(arguments);
}

/* "NVIDIA H200" becomes h200-live. */
static void set_name(weft_machine *m, const char *gpu) {
    char name[sizeof m->name - 5];
    size_t used = 0;
    gpu += strncmp(gpu, "NVIDIA ", 7) == 0 ? 7 : 0;
    for (; *gpu && used + 1 < sizeof name; gpu++) {
        name[used++] = (char)(isalnum((unsigned char)*gpu) ? tolower((unsigned char)*gpu) : '-');
    }
    name[used] = '\0';
    snprintf(m->name, sizeof m->name, "%s-live", name);
    memset(m->aliases, 0, sizeof m->aliases);
}

/* To four digits: what is derived is no more exact, and files hold no more than 15. */
static double four_digits(double value) {
    const double unit = pow(10, floor(log10(value)) - 3);
    return round(value / unit) * unit;
}

/* What the driver tells, and rates that go with the number of SMs and their clock. */
static void set_known(weft_sheet *sheet, const weft_cuda_device *device, int same, const char *like) {
    weft_machine *m = &sheet->machine;
    const double before = (double)m->workers * m->clock;
    m->workers = device->multiprocessors;
    say(sheet, WEFT_KEY_WORKERS, "the CUDA driver: SMs");
    if (weft_machine_large_gpcs(m) == 0) {
        m->gpcs = m->gpc_workers = 0;
        say(sheet, WEFT_KEY_GPCS, "not known");
        say(sheet, WEFT_KEY_GPC_WORKERS, "follows from gpcs");
    }
    if (device->clock >= 1000) {
        m->clock = 1e3 * device->clock;
        say(sheet, WEFT_KEY_CLOCK, "the CUDA driver: highest SM clock");
    }
    m->shared_bytes = device->shared_bytes;
    say(sheet, WEFT_KEY_SHARED_BYTES, "the CUDA driver: most that a CTA can have");
    if (!same && device->memory_clock > 0 && device->memory_bus > 0) {
        m->dram_bandwidth = 2e3 * device->memory_clock * device->memory_bus / 8;
        say(sheet, WEFT_KEY_DRAM_BANDWIDTH,
            "derived: two transfers per memory clock over the bus that the CUDA driver reports");
    }
    const double factor = (double)m->workers * m->clock / before;
    double *rates[] = {&m->l2_bandwidth, &m->matrix_fp32, &m->matrix_fp16, &m->matrix_bf16, &m->matrix_fp8, &m->exp_rate};
    static const weft_key_id keys[] = {WEFT_KEY_L2_BANDWIDTH, WEFT_KEY_MATRIX_FP32, WEFT_KEY_MATRIX_FP16,
                                       WEFT_KEY_MATRIX_BF16,  WEFT_KEY_MATRIX_FP8,  WEFT_KEY_EXP_RATE};
    for (size_t i = 0; i < sizeof keys / sizeof *keys && fabs(factor - 1) > 1e-3; i++) {
        if (*rates[i] > 0) { /* else it is not known there, either */
            *rates[i] = four_digits(*rates[i] * factor);
            say(sheet, keys[i], "derived: as %s, in proportion to SMs and clock", like);
        }
    }
}

/* The L2 in its sides: measured, or as the machine of the same name has them, or assumed to be one. */
static void set_l2(weft_sheet *sheet, const weft_cuda_device *device, int same, const weft_cuda_sides *sides) {
    weft_machine *m = &sheet->machine;
    const int64_t measured = sides ? sides->sides : same ? m->domains : 1;
    const int64_t domains = m->workers % measured == 0 ? measured : 1;
    if (sides && sides->sides == 2) {
        say(sheet, WEFT_KEY_DOMAINS,
            "measured: second-touch latencies fall in two groups of %d and %d SMs, %.0f-%.0f and %.0f-%.0f cycles",
            sides->members[0], sides->members[1], sides->low[0], sides->high[0], sides->low[1], sides->high[1]);
    } else if (sides) {
        say(sheet, WEFT_KEY_DOMAINS, "measured: second-touch latencies of all SMs are one group, %.0f-%.0f cycles",
            sides->low[0], sides->high[0]);
    } else if (!same) {
        say(sheet, WEFT_KEY_DOMAINS, "assumed: one L2 for all; weft machines probe measures it");
    }
    if (domains != m->domains) {
        m->l2_home = domains > 1 ? WEFT_HOME_SPLIT : WEFT_HOME_NONE;
        m->far_latency = domains > 1 ? fmax(m->far_latency, m->near_latency) : 0;
        m->handout = WEFT_HANDOUT_ANY;
        m->handout_run = 1;
        say(sheet, WEFT_KEY_HANDOUT_RUN, domains > 1 ? "assumed: sides take turns" : "there is one domain");
        say(sheet, WEFT_KEY_L2_HOME, "follows from the number of domains");
        say(sheet, WEFT_KEY_FAR_LATENCY, domains > 1 ? "assumed: as near" : "nothing is far");
    }
    m->domains = domains;
    m->l2_bytes = device->l2_bytes / domains / m->l2_line * m->l2_line;
    say(sheet, WEFT_KEY_L2_BYTES, "the CUDA driver: %d bytes in all%s", device->l2_bytes,
        domains > 1 ? ", half on each side" : "");
    if (m->l2_ways > 0 && m->l2_bytes / m->l2_line % m->l2_ways != 0) {
        m->l2_ways = 0;
        say(sheet, WEFT_KEY_L2_WAYS, "assumed: fully associative");
    }
}

static void set_latencies(weft_sheet *sheet, const weft_cuda_sides *s) {
    weft_machine *m = &sheet->machine;
    m->near_latency = round(s->mean[0]);
    say(sheet, WEFT_KEY_NEAR_LATENCY, "measured: lines that an SM of the same side has read, %.0f-%.0f cycles", s->low[0],
        s->high[0]);
    if (m->domains > 1) {
        m->far_latency = round(2 * s->mean[1] - s->mean[0]);
        say(sheet, WEFT_KEY_FAR_LATENCY,
            "derived: lines that the other side has read take %.0f cycles in the mean, and half are homed near",
            s->mean[1]);
    }
    m->dram_latency = round(fmax(s->dram, fmax(m->near_latency, m->far_latency)));
    say(sheet, WEFT_KEY_DRAM_LATENCY, "measured: first touch of lines 4 KiB apart, after a flush, %.0f cycles", s->dram);
}

weft_status weft_cuda_sheet(weft_sheet *sheet, const weft_cuda_device *device, const weft_cuda_sides *sides,
                            weft_message *message) {
    int same;
    const weft_embedded *like = nearest(device, &same);
    const weft_status status = weft_sheet_parse(sheet, &weft_machine_form, like->text, like->length, like->name, message);
    if (status) {
        return status;
    }
    for (int i = 0; i < WEFT_KEYS && !same; i++) {
        say(sheet, (weft_key_id)i, "assumed: as %s", like->name);
    }
    set_name(&sheet->machine, device->name);
    snprintf(sheet->machine.title, sizeof sheet->machine.title, "%.90s", device->name);
    set_known(sheet, device, same, like->name);
    set_l2(sheet, device, same, sides);
    if (sides) {
        set_latencies(sheet, sides);
    }
    return weft_sheet_check(sheet, "the GPU", message);
}

weft_status weft_machine_gpu(weft_machine *machine, int32_t index, weft_message *message) {
    const weft_cuda_driver *driver;
    weft_cuda_device device;
    weft_machine found = WEFT_MACHINE_INIT;
    weft_status status;
    if ((status = weft_cuda_driver_get(&driver, message)) == WEFT_OK &&
        (status = weft_cuda_device_get(driver, index, &device, message)) == WEFT_OK) {
        status = weft_cuda_describe(&found, &device, message);
    }
    const weft_status given = weft_struct_give(machine, &found, sizeof found, sizeof(size_t), "WEFT_MACHINE_INIT", message);
    return status ? status : given;
}

weft_status weft_cuda_describe(weft_machine *machine, const weft_cuda_device *device, weft_message *message) {
    weft_sheet sheet;
    const weft_status status = weft_cuda_sheet(&sheet, device, NULL, message);
    if (status == WEFT_OK) {
        *machine = sheet.machine;
        machine->struct_size = sizeof *machine;
    }
    return status;
}
