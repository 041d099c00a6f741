/* SPDX-License-Identifier: Apache-2.0 */
/* Every function of the library while the system fails it, in one process.
 *
 *   test_api [NAME...]
 *
 * Each call fails once, and from then on, at every allocation, every operation on files (with every error), every call of
 * SQLite and every start of a thread that it makes. It then gives a status with a message and has made nothing, or WEFT_OK
 * and the answer that it gives without a fault; no memory and no file stays behind; and the same call works at once.
 *
 * WEFT_TEST_ROUNDS says, in per cent of the usual number, how many calls of each function fail, spread evenly (0: all). */
#include "api.h"

#include <errno.h>
#include <stdarg.h>
#include <unistd.h>

enum { USUAL = 40 }; /* faults of each kind of each function that the gate tries */

api_world api;
char api_text[API_TEXT];
void *api_made;
static char right[API_TEXT], got[API_TEXT];
static long tried[16], points, mattered;

void api_fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "test_api: ");
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

weft_status api_length(size_t length, weft_message *message) {
    if (length == 0) {
        snprintf(message->text, sizeof message->text, "no text");
    }
    return length == 0 ? WEFT_NO_MEMORY : WEFT_OK;
}

void api_tell_file(char *text, size_t size) {
    FILE *file = fopen(api.path, "rb");
    const size_t length = file ? fread(text, 1, size - 1, file) : 0;
    text[length] = '\0';
    if (file) {
        fclose(file);
    }
}

/* ---- what the cases share ---- */

static void need(weft_status status, const weft_message *message) {
    if (status) {
        api_fail("nothing fails yet, and: %s", message->text);
    }
}

static void make_problems(weft_message *m) {
    const weft_gemm gemm = WEFT_GEMM_INIT;
    const weft_attention attention = WEFT_ATTENTION_INIT;
    const weft_machine machine = WEFT_MACHINE_INIT;
    api.gemm = gemm;
    api.gemm.m = api.gemm.n = 48;
    api.gemm.k = 32;
    api.attention = attention;
    api.attention.heads = api.attention.kv_heads = 2;
    api.attention.seq = api.attention.kv_seq = 128;
    api.attention.head_dim = 16;
    api.machine = machine;
    need(weft_machine_load(&api.machine, "h200", m), m);
    api.a = calloc(48 * 32, sizeof *api.a);
    api.b = calloc(48 * 32, sizeof *api.b);
    api.c = calloc(48 * 48, sizeof *api.c);
}

static void make_world(void) {
    weft_message m = {""};
    weft_plan_options options = WEFT_PLAN_OPTIONS_INIT;
    weft_bench_options bench = WEFT_BENCH_INIT;
    weft_simulation simulation = WEFT_SIMULATION_INIT;
    weft_dist_options on_paper = WEFT_DIST_OPTIONS_INIT;
    weft_dist_simulate_options simulate = WEFT_DIST_SIMULATE_INIT;
    weft_dist_simulation dist_simulation = WEFT_DIST_SIMULATION_INIT;
    weft_ranks ranks = WEFT_RANKS_INIT;
    weft_trace_options trace = WEFT_TRACE_INIT;
    const char *const names[] = {"a plan"};
    snprintf(api.folder, sizeof api.folder, "/tmp/weft-api-XXXXXX");
    if (!mkdtemp(api.folder)) {
        api_fail("no folder: %s", strerror(errno));
    }
    snprintf(api.path, sizeof api.path, "%s/tuning.db", api.folder);
    setenv("WEFT_TUNING_DB", api.path, 1);
    make_problems(&m);
    need(weft_plan_create(&api.host_plan, &api.gemm, &options, &m), &m);
    options.machine = &api.machine;
    need(weft_plan_create(&api.plan, &api.gemm, &options, &m), &m);
    need(weft_plan_create(&api.attention_plan, &api.attention, &options, &m), &m);
    api.simulation = simulation;
    need(weft_simulate(api.plan, NULL, &api.simulation, NULL, &m), &m);
    need(weft_bench_open(&api.bench, api.host_plan, &bench, &m), &m);
    need(weft_search_run(&api.search, &api.gemm, &options, NULL, &m), &m);
    need(weft_view_create(&api.view, (const weft_plan *const *)&api.plan, names, 1, NULL, 1, &m), &m);
    snprintf(api.path, sizeof api.path, "%s/trace.csv", api.folder);
    need(weft_trace_write_plan(api.plan, NULL, WEFT_TRACE_CSV, api.path, &m), &m);
    need(weft_trace_read(&api.trace, api.path, &trace, &m), &m);
    ranks.ranks = 2;
    on_paper.ranks = &ranks;
    need(weft_dist_create(&api.dist, &api.attention, &on_paper, &m), &m);
    simulate.machine = &api.machine;
    api.dist_simulation = dist_simulation;
    need(weft_dist_simulate(api.dist, &simulate, &api.dist_simulation, &m), &m);
    need(weft_dist_search_run(&api.dist_search, &api.attention, &ranks, &simulate, &m), &m);
    snprintf(api.path, sizeof api.path, "%s/out", api.folder);
}

static void end_world(void) {
    char command[96];
    weft_dist_search_destroy(api.dist_search);
    weft_dist_destroy(api.dist);
    weft_trace_destroy(api.trace);
    weft_view_destroy(api.view);
    weft_search_destroy(api.search);
    weft_bench_close(api.bench);
    weft_plan_destroy(api.attention_plan);
    weft_plan_destroy(api.plan);
    weft_plan_destroy(api.host_plan);
    free(api.a);
    free(api.b);
    free(api.c);
    snprintf(command, sizeof command, "rm -r %s", api.folder);
    if (system(command) != 0) {
        api_fail("%s fails", command);
    }
}

/* ---- one call ---- */

static weft_status call(const api_case *c, weft_message *message) {
    api_made = NULL;
    api_text[0] = message->text[0] = '\0';
    return c->call(message);
}

static void tell(const api_case *c, char *text) {
    text[0] = '\0';
    if (c->tell) {
        c->tell(text, API_TEXT);
    } else {
        snprintf(text, API_TEXT, "%s", api_text);
    }
}

/* The call works, and gives the right answer. */
static void works(const api_case *c, const char *when) {
    weft_message message;
    const weft_status status = call(c, &message);
    if (status) {
        api_fail("%s %s: %s", c->name, when, message.text);
    }
    tell(c, got);
    if (!c->varies && strcmp(got, right) != 0) {
        api_fail("%s %s gives\n%.2000s\nand not\n%.2000s", c->name, when, got, right);
    }
}

/* One fault. Returns 0 when the call does not come so far. */
static int fails_well(const api_case *c, int kind, int error, long at, int on) {
    char when[128];
    weft_message message;
    const char *failed;
    const long blocks = faults_blocks();
    const int files = faults_open_files();
    faults_begin(kind, at, on, error);
    const weft_status status = call(c, &message);
    faults_end(&failed);
    if (failed) {
        tried[kind]++;
        mattered += status != WEFT_OK;
    }
    snprintf(when, sizeof when, "with call %ld of kind %d (%s) failing %s, error %d", at, kind, failed ? failed : "none",
             on ? "and all after it" : "alone", error);
    if (status == WEFT_OK) {
        tell(c, got);
        if (!c->varies && strcmp(got, right) != 0) {
            api_fail("%s %s gives\n%.2000s\nand not\n%.2000s", c->name, when, got, right);
        }
    } else if (!message.text[0] || api_made) {
        api_fail("%s %s: %s, %s", c->name, when, weft_status_name(status),
                 api_made ? "and yet something was made" : "and no message");
    }
    if (failed) {
        works(c, "after it failed");
    }
    if (faults_open_files() != files) {
        api_fail("%s %s: %d files are open, and not %d", c->name, when, faults_open_files(), files);
    }
    if (faults_blocks() != blocks) {
        api_fail("%s %s: %ld blocks of memory are left", c->name, when, faults_blocks() - blocks);
    }
    return failed != NULL;
}

static void try_case(const api_case *c) {
    static const int errors[] = {EIO, ENOSPC, EROFS, EACCES, FAULTS_SHORT};
    static const struct {
        int kind, errors;
    } kinds[] = {{FAULTS_MEMORY, 1}, {FAULTS_FILES, 5}, {FAULTS_SQLITE, 1}, {FAULTS_THREADS, 1}};
    const char *rounds = getenv("WEFT_TEST_ROUNDS");
    const long per_cent = rounds ? atol(rounds) : 100;
    weft_message message;
    if (call(c, &message)) {
        api_fail("%s: %s", c->name, message.text);
    }
    tell(c, right);
    works(c, "again");
    works(c, "once more"); /* what is kept from call to call is there now */
    long calls = 0, before = tried[1] + tried[2] + tried[4] + tried[8], mattered_before = mattered;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        faults_begin(kinds[k].kind, 0, 0, 0);
        const weft_status status = call(c, &message);
        const long count = faults_end(NULL);
        if (status == WEFT_OK) {
            tell(c, got);
        }
        calls += count;
        const long most = per_cent ? (USUAL * per_cent / 100 + kinds[k].errors) / kinds[k].errors : count;
        const long step = most > 0 && count > most ? count / most : 1;
        for (int e = 0; e < kinds[k].errors; e++) {
            for (int on = 0; on < 2; on++) {
                for (long at = 1; at <= count; at += step) {
                    fails_well(c, kinds[k].kind, errors[e], at, on);
                }
            }
        }
    }
    points += calls;
    printf("%-32s %5ld calls, %5ld faults, %5ld mattered\n", c->name, calls,
           tried[1] + tried[2] + tried[4] + tried[8] - before, mattered - mattered_before);
    fflush(stdout);
}

int main(int argc, char **argv) {
    const api_case *const tables[] = {
        api_names,
        api_plans,
        api_runs,
        api_simulations,
        api_pages,
        api_ranks,
#if WEFT_HAS_STORE
        api_stores
#endif
    };
    make_world();
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        for (const api_case *c = tables[i]; c->name; c++) {
            int wanted = argc == 1;
            for (int k = 1; k < argc; k++) {
                wanted |= strstr(c->name, argv[k]) != NULL;
            }
            if (wanted) {
                try_case(c);
            }
        }
    }
    end_world();
    printf("%ld calls of the system; faults: %ld of memory, %ld of files, %ld of SQLite, %ld of threads; %ld mattered\n",
           points, tried[FAULTS_MEMORY], tried[FAULTS_FILES], tried[FAULTS_SQLITE], tried[FAULTS_THREADS], mattered);
    return mattered > 0 ? 0 : 1;
}
