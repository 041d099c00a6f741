/* SPDX-License-Identifier: Apache-2.0 */
/* weft run: a problem on random inputs, timed and checked against the reference. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <weft/bench.h>
#include <weft/report.h>

#include "base/json.h"
#include "cli.h"
#include "progress.h"
#include "table.h"
#include "verbs/checked.h"
#include "verbs/count.h"
#include "verbs/ranks.h"

/* How long a run took, the median of `runs`, and whether it was right; with --energy what it took. */
typedef struct outcome {
    double seconds;
    int64_t runs;
    weft_check check;
    weft_energy energy;
} outcome;

static int report_as_json(const settings *s, const weft_plan *plan, const outcome *o, double flops, double tflops,
                          const device_case *counted) {
    json_t *object =
        json_pack("{s:s, s:s, s:s, s:o, s:o, s:I, s:f, s:I, s:f, s:o}", "device", weft_plan_backend(plan), "machine",
                  weft_plan_machine(plan)->name, "kernel", weft_plan_kernel(plan), "problem", plan_member(plan, "problem"),
                  "schedule", plan_member(plan, "schedule"), "seed", (json_int_t)s->seed, "seconds", o->seconds, "runs",
                  (json_int_t)o->runs, "tflops", tflops, "check", checked_json(&o->check));
    if (counted) {
        weft_json_set(&object, "counters", device_case_json(counted));
    }
    if (s->energy) {
        weft_json_set(&object, "energy", device_energy_json(&o->energy, flops));
    }
    return print_json(object);
}

/* What was planned, and for which machine where nobody named one. */
static void print_plan(const settings *s, const weft_plan *plan, FILE *file) {
    char text[1024];
    if (s->verbose) {
        weft_plan_text(plan, text, sizeof text);
        if (file == stdout) {
            print_wrapped("%s", text);
        } else {
            fputs(text, file);
        }
    } else if (!s->machine) {
        fprintf(file, "planned for this %s: %s (--machine chooses another)\n",
                s->device == WEFT_DEVICE_CUDA ? "GPU" : "host", weft_plan_machine(plan)->title);
    }
}

/* `counted` is null without --counters. */
static int report(const settings *s, const weft_plan *plan, const outcome *o, const device_case *counted) {
    const weft_check *c = &o->check;
    const double flops = weft_problem_flops(weft_plan_problem(plan));
    const double tflops = o->seconds > 0 ? flops / o->seconds / 1e12 : 0;
    if (s->json) {
        const int code = report_as_json(s, plan, o, flops, tflops, counted);
        return code ? code : c->passed ? EXIT_OK : EXIT_FAILED;
    }
    print_plan(s, plan, stdout);
    print_wrapped("%s on %s: %.6f s", weft_plan_kernel(plan), weft_plan_backend(plan), o->seconds);
    if (o->runs > 1) {
        print_wrapped(" (median of %" PRId64 " runs)", o->runs);
    }
    print_wrapped(", %s\n", weft_rate_text(tflops).text);
    checked_print(c);
    if (s->energy) {
        device_energy_print(&o->energy, flops);
    }
    if (counted) {
        device_case_print(counted);
    }
    return c->passed ? EXIT_OK : EXIT_FAILED;
}

/* How often to run what takes `seconds` on a GPU: half a second's worth, 5 to 200. */
static int64_t runs_worth(double seconds) {
    const double worth = seconds > 0 ? 0.5 / seconds : 200;
    return worth < 5 ? 5 : worth > 200 ? 200 : (int64_t)worth;
}

/* Runs it as often as the user asks. On a GPU two runs warm up before, and say how many fit the time there is. The last run
 * is the one that is checked. */
static weft_status time_runs(const settings *s, weft_bench *bench, const weft_plan *plan, progress_part *part, outcome *o,
                             weft_message *message) {
    const int on_gpu = s->device == WEFT_DEVICE_CUDA;
    weft_status status = WEFT_OK;
    double last = 0;
    progress_begin("warming up", 2);
    for (int i = 0; i < 2 && on_gpu && status == WEFT_OK; i++) {
        status = weft_bench_time(bench, plan, 1, &last, message);
        progress_add(1);
    }
    progress_end();
    o->runs = s->repeat > 0 ? s->repeat : on_gpu ? runs_worth(last) : 1;
    double *times = calloc((size_t)o->runs, sizeof *times);
    if (!times) {
        return WEFT_NO_MEMORY;
    }
    progress_begin("running", (double)o->runs);
    for (int64_t i = 0; i < o->runs && status == WEFT_OK; i++) {
        *part = (progress_part){1, 0};
        const int is_fresh = i == 0 && !on_gpu;
        status = i == o->runs - 1 && !is_fresh ? weft_bench_reset(bench, message) : WEFT_OK;
        status = status ? status : weft_bench_time(bench, plan, 1, &times[i], message);
        progress_part_end(part);
    }
    progress_end();
    o->seconds = weft_median(times, (size_t)o->runs);
    free(times);
    return status;
}

/* `study` is null without --energy. */
static int run(const settings *s, const weft_plan *plan, weft_study *study) {
    weft_bench_options options = WEFT_BENCH_INIT;
    weft_bench *bench = NULL;
    weft_message message = {"out of memory"};
    outcome o = {0, 0, WEFT_CHECK_INIT, WEFT_ENERGY_INIT};
    device_case counted;
    progress_part part = {1, 0};
    options.seed = (uint64_t)s->seed;
    const weft_check_options check = checked_options(s, &part);
    options.progress = check.progress;
    options.progress_user = check.progress_user;
    options.check_operations = check.operations;
    options.check_seconds = check.seconds;
    progress_begin("drawing inputs", 1);
    weft_status status = weft_bench_open(&bench, plan, &options, &message);
    progress_end();
    if (status == WEFT_OK) {
        status = time_runs(s, bench, plan, &part, &o, &message);
    }
    if (status == WEFT_OK) {
        part = (progress_part){1, 0};
        progress_begin("checking", 1);
        status = weft_bench_check(bench, &o.check, &message);
        progress_end();
    }
    if (status == WEFT_OK && study) {
        part = (progress_part){1, 0};
        progress_begin("measuring energy", 1);
        status = weft_study_energy(study, bench, plan, 0, &o.energy, &message);
        progress_end();
    }
    weft_bench_close(bench);
    int code = status ? complain_status(status, &message) : EXIT_OK;
    code = code || !s->counters ? code : count_plan(s, plan, &counted);
    return code ? code : report(s, plan, &o, s->counters ? &counted : NULL);
}

/* With --energy, whether there is any is asked before the problem runs. */
static int run_with_energy(const settings *s, const weft_plan *plan) {
    device_bench *bench = NULL;
    int code = s->energy ? device_bench_open(&bench, (int32_t)s->gpu) : EXIT_OK;
    code = code || !s->energy ? code : device_bench_check_energy(bench);
    code = code ? code : run(s, plan, bench);
    device_bench_close(bench);
    return code;
}

int cmd_run(const settings *s, const char *const *words, size_t count) {
    (void)count;
    if (check_operation(s, "run", words[0])) {
        return EXIT_USAGE;
    }
    if (ranks_asked(s)) {
        return ranks_run(s);
    }
    const int on_gpu = s->device == WEFT_DEVICE_CUDA;
    weft_plan *plan = NULL;
    int code = make_plan(s, &plan);
    if (code == EXIT_OK && s->counters && !on_gpu) {
        code = complain(EXIT_USAGE, "--counters are of a GPU: --device cuda");
    } else if (code == EXIT_OK && s->energy && !on_gpu) {
        code = complain(EXIT_USAGE, "--energy is of a GPU: --device cuda");
    }
    if (code == EXIT_OK) {
        if (s->verbose && s->json) {
            print_plan(s, plan, stderr);
        }
        code = run_with_energy(s, plan);
    }
    weft_plan_destroy(plan);
    return code;
}
