/* SPDX-License-Identifier: Apache-2.0 */
/* Traces and other sources: a plan's trace counts what the plan counts, bad traces are refused, and records may come in any
 * order that keeps each tile's own. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "problems.h"
#include <weft/report.h>
#include <weft/stream.h>
#include <weft/trace.h>

enum { ROUNDS = 150 };

static weft_trace *trace_of(const char *text, const weft_trace_options *options) {
    weft_trace *trace;
    weft_message message = {""};
    if (weft_trace_parse(&trace, text, strlen(text), "t.csv", options, &message) != WEFT_OK) {
        fail_msg("%s", message.text);
    }
    return trace;
}

static weft_simulation simulate_trace(const weft_trace *trace, const weft_machine *machine,
                                      const weft_simulate_options *options) {
    weft_simulation sim = WEFT_SIMULATION_INIT;
    weft_message message = {""};
    if (weft_simulate_source(weft_trace_source(trace), machine, options, &sim, NULL, &message) != WEFT_OK) {
        fail_msg("%s", message.text);
    }
    return sim;
}

/* The same by workers in step, each of whose requests counts. */
static weft_simulation simulate_in_step(const weft_trace *trace, const weft_machine *machine) {
    weft_profile profile = WEFT_PROFILE_INIT; /* that of a kernel which merges nothing and spreads nothing */
    weft_simulate_options o = WEFT_SIMULATE_INIT;
    profile.stages = 2;
    snprintf(profile.name, sizeof profile.name, "in-step");
    snprintf(profile.title, sizeof profile.title, "in step");
    o.profile = &profile;
    return simulate_trace(trace, machine, &o);
}

/* ---- a plan's trace ---- */

static void assert_same(const weft_simulation *a, const weft_simulation *b) {
    assert_memory_equal(&a->total, &b->total, sizeof a->total);
    assert_true(a->seconds == b->seconds);
}

/* `exact`: pieces share no sectors and every tile reads some, so what must miss is what is read and written. */
static void check_plan(const weft_plan *plan, const weft_machine *machine, const weft_simulate_options *o,
                       weft_trace_format format, int exact) {
    char path[] = "/tmp/weft-trace-XXXXXX";
    weft_message message = {""};
    weft_simulation want = WEFT_SIMULATION_INIT;
    weft_trace *trace;
    const int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    assert_int_equal(weft_simulate(plan, o, &want, NULL, &message), WEFT_OK);
    const weft_status status = weft_trace_write_plan(plan, o, format, path, &message);
    if (status == WEFT_UNSUPPORTED) {
        unlink(path);
        return;
    }
    assert_int_equal(status, WEFT_OK);
    if (weft_trace_read(&trace, path, NULL, &message) != WEFT_OK) {
        fail_msg("%s", message.text);
    }
    unlink(path);
    const weft_simulation got = simulate_trace(trace, machine, o);
    assert_same(&got, &want);
    if (exact) {
        assert_int_equal(got.compulsory_misses, want.compulsory_misses);
    }
    assert_true(fabs(got.tflops - want.tflops) <= 1e-12 * want.tflops);
    weft_trace_destroy(trace);
}

static void test_a_plans_trace(void **state) {
    (void)state;
    uint64_t seed = random_seed(2201);
    size_t count = 0, profiles = 0;
    while (weft_machine_name(count)) {
        count++;
    }
    while (weft_profile_name(profiles)) {
        profiles++;
    }
    for (int i = 0; random_round(&seed, &i, ROUNDS); i++) {
        weft_machine machine = machine_named(weft_machine_name((size_t)i % count));
        machine.l2_bytes = machine.l2_line * random_between(&seed, 8, 2048); /* so that problems this small miss */
        machine.llc_bytes = machine.llc_bytes > 0 ? machine.l2_line * random_between(&seed, 8, 4096) : 0;
        machine.l2_ways = 0;
        machine.gpcs = 1; /* else the time of a step depends on who takes it, which a trace does not say */
        machine.gpc_workers = machine.workers;
        const shape shape = random_between(&seed, 0, 1) ? SHAPE_ANY : SHAPE_ALIGNED;
        const subject s = random_subject(&seed, shape, i % 2);
        weft_plan *plan = plan_of(&s, &machine);
        weft_simulate_options o = WEFT_SIMULATE_INIT;
        o.seed = (uint64_t)i + 1;
        o.stages = stages_of(random_between(&seed, 0, 3));
        o.drift = random_between(&seed, 0, 2) ? 0 : random_between(&seed, 0, 1) ? -1 : 0.2;
        weft_profile profile = WEFT_PROFILE_INIT; /* the plan's own, which the trace names, or any */
        if (random_between(&seed, 0, 1)) {
            assert_int_equal(weft_profile_load(&profile, weft_profile_name((size_t)i % profiles), NULL), WEFT_OK);
            profile.runs = 0; /* which make no trace */
            o.profile = &profile;
        }
        check_plan(plan, &machine, &o, (weft_trace_format)(i / 2 % 2),
                   shape == SHAPE_ALIGNED && (s.kind == WEFT_GEMM || s.attention.mask == WEFT_MASK_NONE));
        weft_plan_destroy(plan);
    }
}

/* Attention backward adds, and its sweeps wrap around; where adds take turns, a trace does not know of them. */
static void test_the_trace_of_a_backward_pass(void **state) {
    (void)state;
    uint64_t seed = random_seed(2202);
    const weft_machine machine = machine_named("gb10");
    for (int i = 0; random_round(&seed, &i, ROUNDS / 4); i++) {
        weft_attention p = random_attention(&seed, SHAPE_ANY);
        weft_schedule s = WEFT_SCHEDULE_INIT;
        weft_simulate_options o = WEFT_SIMULATE_INIT;
        weft_profile profile = WEFT_PROFILE_INIT;
        weft_message message = {""};
        weft_plan *plan;
        p.operation = WEFT_ATTENTION_BACKWARD;
        p.mask = i % 3 ? WEFT_MASK_CAUSAL_BOTTOM_RIGHT : WEFT_MASK_NONE;
        p.offset = p.left = p.right = 0;
        s.tile_m = random_tile(&seed, p.seq, 1);
        s.tile_n = random_tile(&seed, p.kv_seq, 1);
        s.sweep = i % 3 ? 1 + i % WEFT_SWEEPS : WEFT_SWEEP_SHIFT;
        s.order = WEFT_ORDER_HEAD_FIRST;
        assert_int_equal(weft_profile_load(&profile, "generic", NULL), WEFT_OK);
        o.profile = &profile;
        assert_int_equal(plan_for(&plan, &p, &s, &machine, &message), WEFT_OK);
        check_plan(plan, &machine, &o, (weft_trace_format)(i % 2), 0);
        profile.in_turn = 1;
        assert_int_equal(weft_trace_write_plan(plan, &o, WEFT_TRACE_CSV, "/dev/null", &message), WEFT_UNSUPPORTED);
        assert_string_equal(message.text, "adds that take turns make no trace: take a profile without in_turn");
        weft_plan_destroy(plan);
    }
}

/* ---- what a trace says ---- */

/* Two tiles of two steps over four blocks, in order; then record by record in turns; then by worker. */
static void test_scattered_records(void **state) {
    (void)state;
    static const char *const texts[] = {
        "tile,step,tensor,block,bytes,op,time\n0,0,A,0,4096,r,1e-6\n0,0,B,0,2048,r,\n0,1,A,1,4096,r,2e-6\n0,1,C,0,1000,w,\n"
        "7,0,A,0,4096,r,1e-6\n7,0,B,5,2048,r,\n7,1,A,1,4096,r,2e-6\n7,1,C,1,1000,a,\n",
        "# a comment\r\n\r\ntile,step,tensor,block,bytes,op,time\r\n0,0,A,0,4096,read,1e-6\r\n7,0,A,0,4096,read,0\r\n"
        "0,0,B,0,2048,read,\r\n7,0,B,5,2048,read,1e-6\r\n0,1,A,1,4096,read,2e-6\r\n7,1,A,1,4096,read,\r\n"
        "0,1,C,0,1000,write,\r\n7,1,C,1,1000,add,2e-6",
        "#weft trace tensors=A:2,B:6,C:2\nworker,step,tensor,block,bytes,op,time\n0,0,A,0,4096,r,1e-6\n0,0,B,0,2048,r,\n"
        "1,0,A,0,4096,r,1e-6\n1,0,B,5,2048,r,\n0,1,A,1,4096,r,2e-6\n0,1,C,0,1000,w,\n1,1,A,1,4096,r,2e-6\n1,1,C,1,1000,a,"
        "\n"};
    const weft_machine machine = machine_in_step();
    weft_simulation first = WEFT_SIMULATION_INIT;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        weft_trace *trace = trace_of(texts[i], NULL);
        const weft_simulation sim = simulate_in_step(trace, &machine);
        first = i == 0 ? sim : first;
        assert_same(&sim, &first);
        assert_int_equal(weft_trace_records(trace), 8);
        assert_int_equal(weft_trace_source(trace)->steps, 4);
        assert_int_equal(weft_trace_source(trace)->jobs, 2);
        weft_trace_destroy(trace);
    }
    const uint64_t sectors = 4096 / 32, half = 2048 / 32,
                   out = 32; /* 1000 bytes are 32 sectors, the last of them in part */
    assert_int_equal(first.total.sectors_from_sm, 4 * sectors + 2 * half + 2 * out);
    assert_int_equal(first.total.misses, 2 * sectors + 2 * half + (machine.l2_write == WEFT_WRITE_HIT ? 1 : 2) * out);
    assert_int_equal(first.total.dram_read_bytes, (2 * sectors + 2 * half + out) * 32);
    assert_int_equal(first.total.dram_write_bytes, 2 * out * 32);
    assert_true(first.seconds >= 3e-6);
}

/* A tile ends where steps begin again, or where its number changes; step -1 belongs to the tile that follows. */
static void test_tiles_of_a_worker(void **state) {
    (void)state;
    weft_trace *trace = trace_of("worker,step,tensor,block,bytes\n0,0,A,0,64\n0,1,A,1,64\n0,0,A,0,64\n0,1,A,1,64\n", NULL);
    assert_int_equal(weft_trace_source(trace)->jobs, 2);
    assert_int_equal(weft_trace_source(trace)->steps, 4);
    weft_trace_destroy(trace);
    trace =
        trace_of("worker,tile,step,tensor,block,bytes\n0,5,-1,Q,0,64\n0,5,0,A,0,64\n0,6,0,A,0,64\n0,7,-1,Q,1,64\n", NULL);
    assert_int_equal(weft_trace_source(trace)->jobs, 3);
    assert_int_equal(weft_trace_source(trace)->steps, 2);
    weft_trace_destroy(trace);
}

/* Steps take the time they say, but no less than their loads take; steps without a time take the trace's. */
static void test_times(void **state) {
    (void)state;
    static const struct {
        const char *head, *time;
        double seconds;
    } cases[] = {{"", "1e-3", 3e-3}, {"step-seconds=2e-3", "", 6e-3}, {"step-seconds=2e-3", "5e-3", 15e-3}};
    const weft_machine machine = machine_in_step();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[512];
        snprintf(text, sizeof text,
                 "#weft trace %s\ntile,step,tensor,block,bytes,time\n3,0,A,0,64,%s\n3,1,A,1,64,%s\n3,2,A,2,64,%s\n",
                 cases[i].head, cases[i].time, cases[i].time, cases[i].time);
        weft_trace *trace = trace_of(text, NULL);
        const double seconds = simulate_in_step(trace, &machine).seconds;
        assert_true(seconds >= cases[i].seconds && seconds < 1.001 * cases[i].seconds);
        weft_trace_destroy(trace);
    }
}

/* Tiles to workers: static dispatch gives tile i to worker i mod 2, whatever that costs; grid gives it to who is free. */
static void test_dispatch(void **state) {
    (void)state;
    char text[1024];
    size_t used = (size_t)snprintf(text, sizeof text, "tile,step,tensor,block,bytes,time\n");
    for (int i = 0; i < 8; i++) { /* the even tiles are ten times as long */
        used += (size_t)snprintf(text + used, sizeof text - used, "%d,0,A,%d,64,%s\n", i, i, i % 2 ? "1e-3" : "1e-2");
    }
    const weft_machine machine = machine_in_step();
    static const double seconds[] = {0, 2.2e-2, 4e-2, 2.2e-2};
    for (int32_t dispatch = WEFT_DISPATCH_GRID; dispatch <= WEFT_DISPATCHES; dispatch++) {
        weft_trace_options o = WEFT_TRACE_INIT;
        o.workers = 2;
        o.dispatch = dispatch;
        weft_trace *trace = trace_of(text, &o);
        const double took = simulate_in_step(trace, &machine).seconds;
        assert_true(fabs(took - seconds[dispatch]) < 1e-4);
        weft_trace_destroy(trace);
    }
}

static void test_bad_traces(void **state) {
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "t.csv:0: there is no line of column names"},
        {"tile,step\n", "t.csv:1: a trace has a column tensor"},
        {"tile,setp,tensor,block,bytes\n",
         "t.csv:1: 'setp' is no column: worker, position, tile, step, tensor, block, bytes, op, time, spread, load"},
        {"tile,tile,tensor,block,bytes\n", "t.csv:1: column tile is there twice"},
        {"step,tensor,block,bytes\n", "t.csv:1: a trace has a column worker or a column tile"},
        {"tile,tensor,block,bytes\n", "t.csv: there is no record"},
        {"tile,tensor,block,bytes\n0,A,0,64\n0,A,0\n", "t.csv:3: 3 values for 4 columns"},
        {"tile,tensor,block,bytes\n0,A,0,64,5\n", "t.csv:2: 5 values for 4 columns"},
        {"tile,tensor,block,bytes\n0,A,0x1,64\n", "t.csv:2: block '0x1' is not a whole number"},
        {"tile,tensor,block,bytes\n0,A,-1,64\n", "t.csv:2: A has no block -1"},
        {"tile,tensor,block,bytes\n0,A,99999999999999999999,64\n",
         "t.csv:2: block '99999999999999999999' is not a whole number"},
        {"tile,tensor,block,bytes\n0,A,0,64\n1,A,0,128\n", "t.csv:3: block 0 of A has 128 bytes, but had 64 before"},
        {"tile,tensor,block,bytes\n0,A,0,0\n", "t.csv:2: bytes 0 is not between 1 and 2147483647"},
        {"tile,tensor,block,bytes\n0,,0,64\n",
         "t.csv:2: the name of a tensor is 1 to 63 visible ASCII characters without , and :"},
        {"tile,tensor,block,bytes,op\n0,A,0,64,x\n", "t.csv:2: op 'x' is not read, write or add"},
        {"tile,tensor,block,bytes,time\n0,A,0,64,nan\n", "t.csv:2: time 'nan' is not a finite number"},
        {"tile,tensor,block,bytes,time\n0,A,0,64,-1\n", "t.csv:2: time -1 is not between 0 and 1e+06"},
        {"tile,step,tensor,block,bytes\n0,-2,A,0,64\n", "t.csv:2: step -2 is not between -1 and 2147483646"},
        {"worker,tensor,block,bytes\n1048576,A,0,64\n", "t.csv:2: worker 1048576 is not between 0 and 1048575"},
        {"#weft trace grid=2\n", "t.csv:1: grid=2 is no value for it"},
        {"#weft trace profile=/etc/hosts\n", "t.csv:1: profile=/etc/hosts is no value for it"},
        {"#weft trace sped=2\n", "t.csv:1: sped is not known: tensors, grid, workers, dispatch, cluster, run, flops, "
                                 "step-seconds, profile, room or fetched"},
        {"#weft trace tensors=A:2\ntile,tensor,block,bytes\n0,A,2,64\n", "t.csv:3: A has no block 2: it has 2"},
        {"#weft trace tensors=A:2\ntile,tensor,block,bytes\n0,B,2,64\n",
         "t.csv:3: B is none of the tensors that the first line names"},
        {"#weft trace tensors=A:2,A:3\n", "t.csv:1: tensors: A is there twice"},
        {"#weft trace grid=2x2\ntile,tensor,block,bytes\n4,A,0,64\n", "t.csv: tile 4 is not in a grid of 2 x 2"},
        {"#weft trace workers=1\nworker,tensor,block,bytes\n1,A,0,64\n", "t.csv: the trace has 2 workers, not 1"},
        {"#weft trace dispatch=static\nworker,tensor,block,bytes\n",
         "t.csv:2: the trace says which worker does what: there is nothing to dispatch"},
        {"#weft trace binary\ntile,tensor,block,bytes\n",
         "t.csv:2: a binary trace names its tensors in the first line: tensors=A,B"},
        {"#weft trace binary tensors=A\ntile,tensor,block,bytes\nabc",
         "t.csv: record 1: the file ends in the middle of it"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weft_trace *trace = (weft_trace *)&cases;
        weft_message message = {""};
        assert_int_equal(weft_trace_parse(&trace, cases[i].text, strlen(cases[i].text), "t.csv", NULL, &message),
                         WEFT_INVALID);
        assert_null(trace);
        assert_string_equal(message.text, cases[i].message);
    }
    weft_trace *trace;
    weft_message message = {""};
    assert_int_equal(weft_trace_read(&trace, "/nowhere/t.csv", NULL, &message), WEFT_IO);
    assert_string_equal(message.text, "/nowhere/t.csv: No such file or directory");
}

/* ---- a source of one's own ---- */

enum { TILES = 64, BLOCKS = 256 };

/* Every tile reads all blocks of one tensor and writes a block of another. */
typedef struct reader {
    int64_t taken, wrong_tensor, wrong_block, wrong_bytes;
    double wrong_time;
    weft_access access[2];
} reader;

static int begin_reading(void *user, const weft_machine *machine, int64_t workers) {
    (void)machine, (void)workers;
    ((reader *)user)->taken = 0;
    return 1;
}

static int next_tile(void *user, int64_t worker, int64_t domain, weft_job *job) {
    reader *r = user;
    (void)worker, (void)domain;
    job->tile = job->number = r->taken++;
    job->steps = BLOCKS;
    return job->tile < TILES;
}

static void step_of_tile(void *user, int64_t worker, const weft_job *job, int64_t step, weft_step *out) {
    reader *r = user;
    (void)worker;
    if (step >= 0) {
        const int wrong = job->tile == 5 && step == 9;
        r->access[0] = (weft_access){(int32_t)(wrong ? r->wrong_tensor : 0), WEFT_READ, step + wrong * r->wrong_block,
                                     4096 + wrong * r->wrong_bytes};
        r->access[1] = (weft_access){1, WEFT_WRITE, job->tile, 512};
        *out = (weft_step){r->access, step == BLOCKS - 1 ? 2 : 1, wrong ? r->wrong_time : 0};
    }
}

static const weft_source_tensor tensors[] = {{"K", BLOCKS, 4096, 0}, {"O", TILES, 512, 0}};

static weft_source source_of(reader *r) {
    weft_source s = WEFT_SOURCE_INIT;
    memset(r, 0, sizeof *r);
    s.name = "reader";
    s.tensors = tensors;
    s.tensor_count = 2;
    s.jobs = TILES;
    s.steps = TILES * BLOCKS;
    s.user = r;
    s.begin = begin_reading;
    s.next = next_tile;
    s.step = step_of_tile;
    return s;
}

static void test_a_source(void **state) {
    (void)state;
    reader r;
    const weft_source s = source_of(&r);
    weft_machine machine = machine_in_step();
    weft_simulation sim = WEFT_SIMULATION_INIT;
    weft_curve_point points[8];
    weft_message message = {""};
    machine.workers = 1; /* cyclic passes over more than the L2 holds: everything misses */
    machine.l2_bytes = 128 * 4096;
    assert_int_equal(weft_simulate_source(&s, &machine, NULL, &sim, NULL, &message), WEFT_OK);
    assert_int_equal(sim.total.sectors, (uint64_t)TILES * (BLOCKS * 128 + 16));
    assert_int_equal(sim.total.dram_read_bytes, (uint64_t)TILES * BLOCKS * 4096);
    assert_int_equal(sim.total.dram_write_bytes, TILES * 512);
    assert_int_equal(sim.piece_visits, TILES * BLOCKS);
    assert_int_equal(weft_simulate_source_curve(&s, &machine, NULL, points, 8, &message), WEFT_OK);
    assert_true(points[0].misses > points[7].misses && points[7].misses == sim.compulsory_misses);
    weft_simulate_options limited = WEFT_SIMULATE_INIT;
    limited.limit = TILES * BLOCKS / 4;
    assert_int_equal(weft_simulate_source(&s, &machine, &limited, &sim, NULL, &message), WEFT_OK);
    assert_true(sim.simulated > 0.2 && sim.simulated < 0.3);
}

static void assert_wrong(const weft_source *s, const char *text) {
    const weft_machine machine = machine_in_step();
    weft_simulation sim = WEFT_SIMULATION_INIT;
    weft_message message = {""};
    assert_int_equal(weft_simulate_source(s, &machine, NULL, &sim, NULL, &message), WEFT_INVALID);
    assert_string_equal(message.text, text);
    assert_true(sim.seconds == 0 && sim.total.sectors == 0); /* nothing half simulated */
}

static void test_wrong_sources(void **state) {
    (void)state;
    reader r;
    weft_source s = source_of(&r);
    r.wrong_bytes = -2048;
    assert_wrong(&s, "tile 5, step 9: 2048 bytes of block 9 of K: the block had another size before");
    r.wrong_bytes = 4096;
    assert_wrong(&s, "tile 5, step 9: 8192 bytes of block 9 of K: the tensor has no block of that size");
    r.wrong_bytes = 0;
    r.wrong_block = BLOCKS;
    assert_wrong(&s, "tile 5, step 9: 4096 bytes of block 265 of K: there is no such block");
    r.wrong_block = 0;
    r.wrong_tensor = 2;
    assert_wrong(&s, "tile 5, step 9: 4096 bytes of block 9 of no tensor: there is no such tensor");
    r.wrong_tensor = 0;
    r.wrong_time = NAN;
    assert_wrong(&s, "tile 5, step 9: seconds is not a time");
    r.wrong_time = 0;
    s.name = "red \x1b[31m";
    assert_wrong(&s, "the name of a source is no line of UTF-8");
    s.name = "test";
    weft_source_tensor tensors[] = {s.tensors[0], s.tensors[1]};
    tensors[1].name = "half \xc3";
    s.tensors = tensors;
    assert_wrong(&s, "the name of tensor 1 is no line of UTF-8");
    s.step = NULL;
    assert_wrong(&s, "a source has the functions next and step, and 1 to 65536 tensors");
}

/* A view of sources is whole in every format. */
static void test_a_view(void **state) {
    (void)state;
    reader r;
    const weft_source s = source_of(&r), *const sources[] = {&s};
    const weft_machine machine = machine_named("h200");
    const char *const names[] = {"<reader>"};
    weft_view *view;
    weft_message message = {""};
    assert_int_equal(weft_view_create_sources(&view, sources, &machine, names, 1, NULL, 1, &message), WEFT_OK);
    for (int format = WEFT_VIEW_PAGE; format <= WEFT_VIEW_TEXT; format++) {
        assert_int_equal(weft_view_write(view, (weft_view_format)format, "/dev/null", "test", &message), WEFT_OK);
    }
    const char *const wrong = "\xff";
    assert_int_equal(weft_view_write(view, WEFT_VIEW_JSON, "/dev/null", wrong, &message), WEFT_INVALID);
    weft_view_destroy(view);
    assert_int_equal(weft_view_create_sources(&view, sources, &machine, &wrong, 1, NULL, 0, &message), WEFT_INVALID);
    assert_null(view);
    char long_name[200]; /* whole characters of it are kept */
    memset(long_name, 0, sizeof long_name);
    while (strlen(long_name) + 2 < sizeof long_name) {
        strcat(long_name, "\xc3\xa9");
    }
    const char *const long_names[] = {long_name};
    assert_int_equal(weft_view_create_sources(&view, sources, &machine, long_names, 1, NULL, 0, &message), WEFT_OK);
    assert_int_equal(weft_view_write(view, WEFT_VIEW_JSON, "/dev/null", "test", &message), WEFT_OK);
    weft_view_destroy(view);
}

/* Streams whose numbers are none. */
static void test_wrong_streams(void **state) {
    (void)state;
    const weft_machine machine = machine_in_step();
    const weft_stream right = {sizeof right, 1, 4096, 512, 2, WEFT_STREAM_SHARED, 0, 0.0};
    weft_stream wrong[] = {right, right, right, right, right, right, right};
    weft_traffic traffic = WEFT_TRAFFIC_INIT;
    weft_message message;
    uint64_t distinct;
    wrong[0].block_bytes = 0;
    wrong[1].buffers = 3;
    wrong[2].passes = -1;
    wrong[3].buffer_bytes = 100;
    wrong[4].step_seconds = NAN;
    wrong[5].sharing = (weft_stream_sharing)3;
    wrong[6].struct_size = 0;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        message.text[0] = '\0';
        assert_int_equal(weft_stream_steps(&machine, &wrong[i]), 0);
        assert_int_equal(weft_simulate_stream(&machine, &wrong[i], NULL, &traffic, &distinct, &message), WEFT_INVALID);
        assert_true(message.text[0]);
    }
    assert_int_equal(weft_simulate_stream(&machine, NULL, NULL, &traffic, &distinct, &message), WEFT_INVALID);
    assert_int_equal(weft_simulate_stream(&machine, &right, NULL, &traffic, &distinct, &message), WEFT_OK);
    assert_int_equal(weft_stream_steps(&machine, &right), 16 * machine.workers);
}

/* Arrays say what a file says. */
static void test_arrays(void **state) {
    (void)state;
    enum { COUNT = 6 };
    static const int64_t tile[COUNT] = {0, 0, 0, 1, 1, 1}, step[COUNT] = {0, 0, 1, 0, 0, 1};
    static const int64_t tensor[COUNT] = {0, 1, 0, 0, 1, 0}, block[COUNT] = {0, 0, 1, 0, 1, 1};
    static const int64_t bytes[COUNT] = {64, 32, 64, 64, 32, 64};
    static const char *const names[] = {"A", "B"};
    weft_trace_columns c = WEFT_TRACE_COLUMNS_INIT;
    weft_trace *trace;
    weft_message message = {""};
    c.count = COUNT;
    c.tile = tile;
    c.step = step;
    c.tensor = tensor;
    c.block = block;
    c.bytes = bytes;
    c.names = names;
    c.name_count = 2;
    const weft_machine machine = machine_in_step();
    weft_trace *same = trace_of("tile,step,tensor,block,bytes\n0,0,A,0,64\n0,0,B,0,32\n0,1,A,1,64\n"
                                "1,0,A,0,64\n1,0,B,1,32\n1,1,A,1,64\n",
                                NULL);
    assert_int_equal(weft_trace_create(&trace, &c, NULL, &message), WEFT_OK);
    const weft_simulation a = simulate_trace(trace, &machine, NULL), b = simulate_trace(same, &machine, NULL);
    assert_same(&a, &b);
    weft_trace_destroy(trace);
    weft_trace_destroy(same);
    c.name_count = 1;
    assert_int_equal(weft_trace_create(&trace, &c, NULL, &message), WEFT_INVALID);
    assert_string_equal(message.text, "record 1: tensor 1: there are 1");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_plans_trace),
        cmocka_unit_test(test_the_trace_of_a_backward_pass),
        cmocka_unit_test(test_scattered_records),
        cmocka_unit_test(test_tiles_of_a_worker),
        cmocka_unit_test(test_times),
        cmocka_unit_test(test_dispatch),
        cmocka_unit_test(test_bad_traces),
        cmocka_unit_test(test_a_source),
        cmocka_unit_test(test_wrong_sources),
        cmocka_unit_test(test_a_view),
        cmocka_unit_test(test_wrong_streams),
        cmocka_unit_test(test_arrays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
