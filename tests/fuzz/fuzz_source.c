/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of a caller's whose functions answer anything: blocks that there are not, sizes that change, times that are none.
 * The simulator refuses them, or what it counts adds up; on any machine. Streams likewise. */
#include <math.h>

#include <weft/stream.h>

#include "require.h"

enum { MOST_STEPS = 3000 };

/* Steps are made of the input, which begins anew when it ends. */
typedef struct kernel {
    const uint8_t *data;
    size_t size;
    int wild; /* 1: also what no kernel does */
    int64_t jobs, left, steps;
    weft_access accesses[4];
} kernel;

static uint8_t byte_at(const kernel *k, uint64_t at) {
    return k->size > 0 ? k->data[at % k->size] : 0;
}

static int begin(void *user, const weft_machine *machine, int64_t workers) {
    kernel *k = user;
    (void)machine;
    (void)workers;
    k->left = k->jobs;
    k->steps = 0;
    return 1;
}

static int next(void *user, int64_t worker, int64_t domain, weft_job *job) {
    kernel *k = user;
    const int64_t number = k->jobs - k->left;
    const uint8_t byte = byte_at(k, (uint64_t)(number + worker + domain));
    job->tile = job->number = number;
    job->steps = k->wild && byte == 0xff ? -1 : byte % 8;
    job->spread = k->wild && byte == 0xfe ? NAN : byte % 3;
    job->load = k->wild && byte == 0xfd ? INFINITY : (byte % 5) / 4.0 - 0.25;
    return k->left-- > 0;
}

static void step(void *user, int64_t worker, const weft_job *job, int64_t step, weft_step *out) {
    kernel *k = user;
    const uint64_t at = (uint64_t)(job->number * 8 + step + 1);
    (void)worker;
    out->count = byte_at(k, at) % 4;
    out->accesses = k->accesses;
    for (size_t i = 0; i < out->count; i++) {
        const uint8_t byte = byte_at(k, at * 3 + i);
        weft_access *a = &k->accesses[i];
        a->tensor = byte % 2;
        a->kind = byte / 2 % 3;
        a->block = byte / 8 % 8;
        a->bytes = 32 << a->block % 4;
        if (k->wild && byte >= 0xf8) {
            a->tensor = byte == 0xf8 ? -1 : byte == 0xf9 ? 2 : a->tensor;
            a->kind = byte == 0xfa ? 3 : a->kind;
            a->block = byte == 0xfb ? INT64_MAX : byte == 0xfc ? -1 : a->block;
            a->bytes = byte == 0xfd ? 0 : byte == 0xfe ? INT64_MAX : a->bytes + (int64_t)at % 2;
        }
    }
    out->seconds = k->wild && byte_at(k, at) == 0xee ? -1 : byte_at(k, at) * 1e-8;
}

static void check(weft_status status, const weft_traffic *t, const weft_message *message, int wild) {
    require(status == WEFT_OK || (message->text[0] && (status == WEFT_INVALID || status == WEFT_UNSUPPORTED)));
    require(status == WEFT_OK || wild);
    require(status != WEFT_OK || t->hits + t->misses == t->sectors);
}

static void simulate_kernel(bytes *in, const weft_machine *machine) {
    const weft_source_tensor tensors[] = {{"A", 8, 256, 0}, {"B", 8, 256, 0}};
    weft_source s = WEFT_SOURCE_INIT;
    weft_simulation sim = WEFT_SIMULATION_INIT;
    weft_simulate_options o = WEFT_SIMULATE_INIT;
    weft_message message = {""};
    weft_curve_point points[3];
    kernel k = {NULL, 0, next_byte(in) % 2, next_byte(in), 0, 0, {{0, 0, 0, 0}}};
    s.name = "fuzz";
    s.tensors = tensors;
    s.tensor_count = 2;
    s.workers = next_between(in, 0, 9);
    s.cluster = next_between(in, 0, 2);
    s.run = next_between(in, 0, 3);
    s.grid = next_between(in, 0, 1) == 1;
    s.user = &k;
    s.begin = begin;
    s.next = next;
    s.step = step;
    if (k.wild && next_byte(in) % 4 == 0) {
        s.workers = next_number(in);
        s.workers = s.workers > 0 && s.workers <= 1 << 20 ? s.workers % 5000 : s.workers; /* a million take a gigabyte */
        s.cluster = next_number(in);
        s.room = (double)next_number(in);
    }
    o.stages = next_between(in, 0, 5) - 1;
    o.drift = (double)next_byte(in) / 256;
    const int has_curve = next_byte(in) % 4 == 0;
    k.data = in->data;
    k.size = in->left;
    check(weft_simulate_source(&s, machine, &o, &sim, NULL, &message), &sim.total, &message, k.wild);
    require(!(sim.seconds < 0) && !isnan(sim.seconds));
    if (has_curve) {
        const weft_status status = weft_simulate_source_curve(&s, machine, &o, points, 3, &message);
        require(status == WEFT_OK || message.text[0]);
        require(status != WEFT_OK || (points[0].l2_bytes < points[1].l2_bytes && points[1].l2_bytes < points[2].l2_bytes));
    }
}

static void simulate_stream(bytes *in, const weft_machine *machine) {
    weft_stream s = {sizeof s,
                     next_length(in, 3),
                     next_length(in, 100) * INT64_C(1024),
                     next_length(in, 64) * INT64_C(256),
                     next_length(in, 4),
                     (weft_stream_sharing)next_between(in, 0, 3),
                     next_byte(in) % 2,
                     0.0};
    weft_traffic traffic = WEFT_TRAFFIC_INIT;
    weft_message message = {""};
    uint64_t distinct = 0;
    s.step_seconds = next_byte(in) * 1e-9;
    if (weft_stream_steps(machine, &s) < MOST_STEPS) {
        check(weft_simulate_stream(machine, &s, NULL, &traffic, &distinct, &message), &traffic, &message, 1);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    enum { MACHINES = 32 };
    static weft_machine machines[MACHINES];
    static size_t count;
    for (const char *name; count < MACHINES && (name = weft_machine_name(count)); count++) {
        const weft_machine init = WEFT_MACHINE_INIT;
        machines[count] = init;
        require(weft_machine_load(&machines[count], name, NULL) == WEFT_OK);
    }
    bytes in = {data, size};
    const uint8_t part = next_byte(&in);
    const weft_machine *machine = &machines[next_byte(&in) % count];
    (part % 4 ? simulate_kernel : simulate_stream)(&in, machine);
    return 0;
}
