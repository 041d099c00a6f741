/* weft machines probe: this GPU as a machine, the sides of its L2 measured. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "cuda/plan/live.h"
#include "base/file.h"
#include "base/json.h"

enum { MAX_FILE = WEFT_SHEET_MAX_BYTES };

/* The side of every SM, in the order of their numbers: "0011...". */
static void side_map(const weft_cuda_sides *sides, char *map) {
    for (int i = 0; i < sides->sms; i++) {
        map[i] = (char)('0' + sides->side[i]);
    }
    map[sides->sms] = '\0';
}

/* The map as a comment: lines of a machine file are short. */
static void map_comment(const weft_cuda_device *device, const char *map, char *text, size_t size) {
    size_t used = (size_t)snprintf(
        text, size, "# %s, measured by weft machines probe.\n# The side of the L2 of SM 0, 1, 2, ...:\n", device->name);
    for (size_t at = 0; at < strlen(map) && used < size; at += 100) {
        used += (size_t)snprintf(text + used, size - used, "# %.100s\n", map + at);
    }
}

/* Writes the machine file, which must read back. */
static int write_file(const char *path, const char *text, size_t length) {
    weft_machine machine;
    weft_message message = {""};
    weft_status status = weft_machine_parse(&machine, text, length, path, &message);
    if (status) {
        return complain_status(status, &message);
    }
    status = weft_file_write(path, text, length, &message);
    return status ? complain_status(status, &message) : EXIT_OK;
}

static int report(const settings *s, const weft_cuda_device *device, const weft_cuda_sides *sides, const char *map,
                  const weft_machine *m) {
    if (s->json) {
        json_t *latency = json_array(), *sms = json_array();
        for (int i = 0; i < sides->sms; i++) {
            weft_json_append(&latency, json_real(sides->latency[i]));
            weft_json_append(&sms, json_integer(sides->sm[i]));
        }
        return print_json(json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:[i, i], s:s, s:o, s:o, s:f, s:f, s:f}", "name",
                                    m->name, "title", device->name, "capability", device->capability, "workers",
                                    device->multiprocessors, "l2_bytes", device->l2_bytes, "sides", sides->sides, "members",
                                    sides->members[0], sides->members[1], "side_of_sm", map, "sm", sms, "cycles", latency,
                                    "near_cycles", m->near_latency, "far_cycles", m->far_latency, "dram_cycles",
                                    m->dram_latency));
    }
    printf("%s: %d SMs at %.3f GHz, compute capability %d.%d, L2 of %.1f MiB\n", device->name, device->multiprocessors,
           m->clock / 1e9, device->capability / 10, device->capability % 10, device->l2_bytes / 0x1p20);
    for (int side = 0; side < sides->sides; side++) {
        printf("%s %d: %d SMs, %.0f to %.0f cycles for what SM %u has read\n", sides->sides == 2 ? "side" : "one side,",
               side, sides->members[side], sides->low[side], sides->high[side], sides->sm[0]);
    }
    printf("side of SM 0, 1, 2, ...: %s\nlatency: near %.0f, far %.0f, DRAM %.0f cycles\n", map, m->near_latency,
           m->far_latency, m->dram_latency);
    return EXIT_OK;
}

int probe_machine(const settings *s) {
    const weft_cuda_driver *driver;
    weft_cuda_device device;
    weft_message message = {""};
    const int index = s->gpu >= 0 && s->gpu < 1 << 20 ? (int)s->gpu : -1;
    weft_cuda_sides *sides = malloc(sizeof *sides);
    weft_sheet *sheet = malloc(sizeof *sheet);
    char *text = malloc(MAX_FILE);
    int code = EXIT_OK;
    if (!sides || !sheet || !text) {
        code = complain(EXIT_FAILED, "out of memory");
        goto done;
    }
    if (weft_cuda_driver_get(&driver, &message) || weft_cuda_device_get(driver, index, &device, &message) ||
        weft_cuda_sides_measure(driver, &device, sides, &message) || weft_cuda_sheet(sheet, &device, sides, &message)) {
        code = complain(EXIT_FAILED, "%s", message.text);
        goto done;
    }
    char map[WEFT_SIDES_MAX_SMS + 1], comment[2 * WEFT_SIDES_MAX_SMS];
    side_map(sides, map);
    map_comment(&device, map, comment, sizeof comment);
    const size_t length = weft_sheet_write(sheet, comment, text, MAX_FILE);
    if (s->output) {
        code =
            length < MAX_FILE ? write_file(s->output, text, length) : complain(EXIT_FAILED, "the machine file is too long");
    }
    if (code == EXIT_OK) {
        code = report(s, &device, sides, map, &sheet->machine);
    }
    if (code == EXIT_OK && s->output && !s->json) {
        printf("written to %s; --machine %s%s uses it\n", s->output, strchr(s->output, '/') ? "" : "./", s->output);
    }
done:
    free(sides);
    free(sheet);
    free(text);
    return code;
}
