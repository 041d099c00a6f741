/* SPDX-License-Identifier: Apache-2.0 */
/* weft machines probe: this GPU as a machine, the sides of its L2 measured. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/study.h>

#include "base/file.h"
#include "base/json.h"
#include "cli.h"
#include "table.h"

/* Writes the machine file, which must read back. */
static int write_file(const char *path, const char *text) {
    weft_machine machine = WEFT_MACHINE_INIT;
    weft_message message = {""};
    weft_status status = weft_machine_parse(&machine, text, strlen(text), path, &message);
    if (status) {
        return complain_status(status, &message);
    }
    status = weft_file_write(path, text, strlen(text), &message);
    return status ? complain_status(status, &message) : EXIT_OK;
}

enum { SMS = 1024 }; /* at most */

static int report(const settings *s, const weft_probe *p, const weft_probed_sm *sms, size_t count) {
    const weft_machine *m = &p->machine;
    char map[SMS + 1] = ""; /* the side of every SM, in the order of their numbers: "0011..." */
    for (size_t i = 0; i < count; i++) {
        map[i] = (char)('0' + sms[i].side);
    }
    if (s->json) {
        json_t *latency = json_array(), *numbers = json_array();
        for (size_t i = 0; i < count; i++) {
            weft_json_append(&latency, json_real(sms[i].latency));
            weft_json_append(&numbers, json_integer(sms[i].number));
        }
        return print_json(json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:[i, i], s:s, s:o, s:o, s:f, s:f, s:f}", "name",
                                    m->name, "title", p->name, "capability", p->capability, "workers", p->multiprocessors,
                                    "l2_bytes", p->l2_bytes, "sides", p->sides, "members", p->members[0], p->members[1],
                                    "side_of_sm", map, "sm", numbers, "cycles", latency, "near_cycles", m->near_latency,
                                    "far_cycles", m->far_latency, "dram_cycles", m->dram_latency));
    }
    print_wrapped("%s: %d SMs at %.3f GHz, compute capability %d.%d, L2 of %.1f MiB\n", p->name, p->multiprocessors,
                  m->clock / 1e9, p->capability / 10, p->capability % 10, p->l2_bytes / 0x1p20);
    for (int side = 0; side < p->sides; side++) {
        print_wrapped("%s %d: %d SMs, %.0f to %.0f cycles for what SM %u has read\n", p->sides == 2 ? "side" : "one side,",
                      side, p->members[side], p->low[side], p->high[side], sms[0].number);
    }
    print_wrapped("side of SM 0, 1, 2, ...: %s\nlatency: near %.0f, far %.0f, DRAM %.0f cycles\n", map, m->near_latency,
                  m->far_latency, m->dram_latency);
    return EXIT_OK;
}

int probe_machine(const settings *s) {
    const int index = s->gpu >= 0 && s->gpu < 1 << 20 ? (int)s->gpu : -1;
    weft_message message = {"out of memory"};
    weft_probe probe = WEFT_PROBE_INIT;
    weft_probed_sm sms[SMS] = {{0, 0, 0}};
    size_t count = 0;
    char *text = malloc(WEFT_MACHINE_FILE);
    const weft_status status =
        text ? weft_probe_gpu(index, &probe, sms, SMS, &count, text, WEFT_MACHINE_FILE, &message) : WEFT_NO_MEMORY;
    int code = status ? complain(EXIT_FAILED, "%s", message.text) : EXIT_OK;
    code = code || !s->output ? code : write_file(s->output, text);
    code = code ? code : report(s, &probe, sms, count < SMS ? count : SMS);
    if (code == EXIT_OK && s->output && !s->json) {
        print_wrapped("written to %s; --machine %s%s uses it\n", s->output, strchr(s->output, '/') ? "" : "./", s->output);
    }
    free(text);
    return code;
}
