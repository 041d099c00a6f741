/* Descriptors filled with anything: the checks answer, plans are made or refused, and what is accepted can be walked. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <weft/sim.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Takes numbers from the input; half of them small, so that problems are often valid. */
typedef struct input {
    const uint8_t *data;
    size_t left;
} input;

static int64_t take(input *in) {
    if (in->left < 2) {
        return 1;
    }
    const uint8_t how = in->data[0];
    size_t bytes = how & 1 ? 1 : 1 + (size_t)(how >> 1) % 8;
    bytes = bytes > in->left - 1 ? in->left - 1 : bytes;
    uint64_t value = 0;
    memcpy(&value, in->data + 1, bytes);
    in->data += bytes + 1;
    in->left -= bytes + 1;
    return (int64_t)value;
}

static weft_strides take_strides(input *in) {
    weft_strides s = {0, 0, 0};
    if (take(in) % 4 == 0) {
        s.batch = take(in);
        s.seq = take(in);
        s.head = take(in);
    }
    return s;
}

static weft_schedule take_schedule(input *in) {
    weft_schedule s = WEFT_SCHEDULE_INIT;
    s.tile_m = take(in);
    s.tile_n = take(in);
    s.tile_k = take(in) % 3 == 0 ? take(in) : 0;
    s.order = (int32_t)take(in) % 16 - 1;
    s.sweep = (int32_t)take(in) % 5 - 1;
    s.dispatch = (int32_t)take(in) % 5 - 1;
    s.workers = take(in);
    s.group = take(in);
    s.axis = (weft_axis)(take(in) % 3);
    s.domains = take(in);
    s.cluster_m = take(in) % 20;
    s.cluster_n = take(in) % 20;
    s.struct_size = take(in) % 64 == 1 ? (size_t)take(in) : s.struct_size;
    return s;
}

/* The first few visits of the first and the last worker stay inside the grid. */
static void walk_a_little(const weft_plan *plan) {
    const weft_walk *walk = weft_plan_walk(plan);
    const int64_t last = walk->dispatch == WEFT_DISPATCH_GRID ? walk->order.count - 1 : walk->workers - 1;
    for (int64_t index = 0; index <= last; index += last > 0 ? last : 1) {
        uint64_t counter = (uint64_t)(walk->order.count > 8 ? walk->order.count - 8 : 0);
        weft_worker worker = weft_worker_start(walk, index, &counter);
        weft_visit v;
        for (int i = 0; i < 8 && weft_worker_next(walk, &worker, &v); i++) {
            if (v.tile.batch < 0 || v.tile.row < 0 || v.tile.col < 0 || v.tile.batch >= walk->order.grid.batch ||
                v.tile.row >= walk->order.grid.rows * walk->cluster_rows || v.tile.col >= walk->cols || v.steps < 0 ||
                v.unmasked < 0) {
                abort();
            }
        }
    }
    char text[64];
    if (weft_plan_text(plan, text, sizeof text) == 0 || weft_plan_json(plan, text, sizeof text) == 0) {
        abort();
    }
}

/* What is small enough is simulated, a few steps of it, and adds up. */
static void simulate_a_little(const weft_plan *plan, input *in) {
    const weft_walk *walk = weft_plan_walk(plan);
    if (walk->order.count > 100000 || walk->workers > 100 || walk->reach.columns / walk->reach.tile_columns > 100) {
        return; /* every worker finishes the tile that it has begun */
    }
    weft_simulate_options options = WEFT_SIMULATE_INIT;
    options.limit = 1 + (uint64_t)take(in) % 1000;
    options.stages = take(in) % 18;
    options.drift = (double)(take(in) % 101) / 100;
    weft_simulation sim;
    const weft_status status = weft_simulate(plan, &options, &sim, NULL, NULL);
    if (status == WEFT_OK && (sim.simulated <= 0 || !(sim.seconds >= 0))) {
        abort();
    }
}

static void expect(weft_status status, const weft_message *message, const weft_plan *plan) {
    if ((status == WEFT_OK) != (plan != NULL) ||
        (status != WEFT_OK && !memchr(message->text, '\0', sizeof message->text))) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    input in = {data, size};
    weft_message message;
    memset(message.text, '#', sizeof message.text);
    weft_plan *plan = NULL;
    const weft_schedule schedule = take_schedule(&in);
    const char *const name = weft_machine_name((size_t)take(&in) % 6);
    weft_machine machine;
    if (name && weft_machine_load(&machine, name, NULL) != WEFT_OK) {
        abort();
    }
    if (take(&in) % 2 == 0) {
        weft_attention p = WEFT_ATTENTION_INIT;
        p.batch = take(&in);
        p.heads = take(&in);
        p.kv_heads = take(&in);
        p.seq = take(&in);
        p.kv_seq = take(&in);
        p.head_dim = take(&in) % 2 ? 64 : take(&in);
        p.dtype = (weft_dtype)(take(&in) % 4);
        p.mask = (weft_mask)(take(&in) % 4);
        p.offset = take(&in);
        p.layout = (weft_layout)(take(&in) % 3);
        const int64_t bits = take(&in);
        memcpy(&p.scale, &bits, sizeof p.scale);
        p.q_strides = take_strides(&in);
        p.k_strides = take_strides(&in);
        p.v_strides = take_strides(&in);
        p.o_strides = take_strides(&in);
        const int valid = weft_attention_check(&p, &message) == WEFT_OK;
        if (valid != (weft_attention_sizes(&p).q != 0)) {
            abort();
        }
        expect(weft_plan_attention(&plan, &p, &schedule, name ? &machine : NULL, &message), &message, plan);
    } else {
        weft_gemm p = WEFT_GEMM_INIT;
        p.m = take(&in);
        p.n = take(&in);
        p.k = take(&in);
        p.dtype = (weft_dtype)(take(&in) % 4);
        p.a_major = (weft_major)(take(&in) % 3);
        p.lda = take(&in) % 3 == 0 ? take(&in) : 0;
        p.ldc = take(&in) % 3 == 0 ? take(&in) : 0;
        expect(weft_plan_gemm(&plan, &p, &schedule, name ? &machine : NULL, &message), &message, plan);
    }
    if (plan) {
        walk_a_little(plan);
        simulate_a_little(plan, &in);
    }
    weft_plan_destroy(plan);
    return 0;
}
