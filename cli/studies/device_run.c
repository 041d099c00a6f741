/* SPDX-License-Identifier: Apache-2.0 */
/* Studies on a GPU: running their cases, writing them down, and how far the simulator is off. */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "progress.h"
#include "studies/study.h"

static void add_error(study_deviation *e, double simulated, double measured) {
    if (simulated > 0 && measured > 0) {
        e->sum += fabs(simulated / measured - 1);
        e->count++;
    }
}

/* Raw numbers go to a file of this name, which takes the place of another when it is whole. */
static void name_part(const study *s, char path[PATH_MAX]) {
    snprintf(path, PATH_MAX, "%s.part", s->csv_path);
}

/* Makes the file of raw numbers, and puts the columns over those that follow: each operation has its own. */
static void head_csv(study *s, int32_t operation) {
    char path[PATH_MAX];
    if (s->csv_path && !s->csv && !s->failed) {
        name_part(s, path);
        if (!(s->csv = fopen(path, "we"))) {
            s->failed = complain(EXIT_FAILED, "%s: %s", path, strerror(errno));
        }
    }
    if (s->csv && s->headed != operation) {
        device_case_csv_header(s->csv, operation);
        s->headed = operation;
    }
}

void study_write_case(study *s, const device_case *c) {
    head_csv(s, c->problem.operation);
    if (s->csv) {
        device_case_csv(s->csv, s->info->name, device_bench_name(s->bench), c);
        fflush(s->csv); /* a long study that is ended early leaves what it has */
    }
}

int study_end_csv(study *s) {
    char path[PATH_MAX];
    if (!s->csv) {
        return EXIT_OK;
    }
    name_part(s, path);
    const int whole = !ferror(s->csv);
    if (fclose(s->csv) != 0 || !whole) {
        return complain(EXIT_FAILED, "%s cannot be written", path);
    }
    if (s->failed) {
        return complain(EXIT_FAILED, "what was measured until then is in %s", path);
    }
    return rename(path, s->csv_path) == 0 ? EXIT_OK : complain(EXIT_FAILED, "%s: %s", s->csv_path, strerror(errno));
}

int study_run_cases(study *s, device_case *cases, size_t count, int skip) {
    if (s->counting) {
        s->units += (double)count;
        s->misses.count += (int)count;
        return 1;
    }
    for (size_t i = 0; i < count; i++) { /* the kernel with its options */
        device_case *c = &cases[i];
        if (c->device.kernel &&
            kernel_specification(c->specification, sizeof c->specification, c->device.kernel, &c->options)) {
            c->device.kernel = c->specification;
        }
    }
    progress_next((double)count);
    if (s->failed || device_bench_run(s->bench, cases, count, DEVICE_TIME | DEVICE_COUNT_TRAFFIC | DEVICE_SIMULATE, skip)) {
        s->failed = 1;
        return 0;
    }
    for (size_t i = 0; i < count; i++) {
        if (cases[i].kernel[0]) {
            add_error(&s->misses, (double)cases[i].sim.total.misses, cases[i].values[WEFT_COUNTER_L2_MISSES]);
            add_error(&s->dram, (double)cases[i].sim.total.dram_read_bytes, cases[i].values[WEFT_COUNTER_DRAM_READ_BYTES]);
            study_write_case(s, &cases[i]);
        }
    }
    return !s->failed;
}

void study_show_errors(study *s) {
    static const char section[] = "the simulator against the counters, mean of |simulated / measured - 1|, per cent";
    const struct {
        const char *what;
        const study_deviation *error;
    } rows[] = {{"L2 misses", &s->misses}, {"DRAM reads", &s->dram}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].error->count > 0) {
            study_measured(s, section, NAN, NAN, 100 * rows[i].error->sum / rows[i].error->count, "%s, over %d launches",
                           rows[i].what, rows[i].error->count);
        }
    }
}
