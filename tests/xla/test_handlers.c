/* SPDX-License-Identifier: Apache-2.0 */
/* The handlers for XLA, called as XLA calls them: by a made-up XLA, on the CPU and on the fake CUDA driver. */
#include "../cuda/fake_images.h"

#include <stdio.h>

#include "../ref/tensors.h"
#include "cuda/driver/driver.h"
#include "xla/kept.h"
#include <weft/xla.h>

#include "fake_xla.h"

static weft_attention small(weft_dtype dtype) {
    weft_attention p = WEFT_ATTENTION_INIT;
    p.batch = p.kv_heads = 2;
    p.heads = 4;
    p.seq = 20;
    p.kv_seq = 33;
    p.head_dim = 64;
    p.dtype = dtype;
    return p;
}

/* A call of an attention: q, k, v in, o and lse out. */
static void attention_call(fake_call *call, const tensors *t, const weft_schedule *schedule) {
    const int64_t q[] = {t->p.batch, t->p.seq, t->p.heads, t->p.head_dim};
    const int64_t k[] = {t->p.batch, t->p.kv_seq, t->p.kv_heads, t->p.head_dim};
    const int64_t lse[] = {t->p.batch, t->p.heads, t->p.seq};
    fake_call_start(call);
    fake_call_argument(call, fake_type(t->p.dtype), t->q, q, 4);
    fake_call_argument(call, fake_type(t->p.dtype), t->k, k, 4);
    fake_call_argument(call, fake_type(t->p.dtype), t->v, k, 4);
    fake_call_result(call, fake_type(t->p.dtype), t->data.o, q, 4);
    fake_call_result(call, XLA_F32, t->data.lse, lse, 3);
    fake_call_attribute(call, "problem", &t->p, sizeof t->p);
    fake_call_attribute(call, "schedule", schedule, sizeof *schedule);
}

static void answers(void **state) {
    (void)state;
    for (int with_api = 0; with_api < 3; with_api++) {
        xla_metadata metadata = {sizeof metadata, {sizeof(xla_version), NULL, -1, -1}, 99};
        xla_metadata_extension extension = {{sizeof extension, XLA_METADATA, NULL}, &metadata};
        xla_extension other = {sizeof other, 77, &extension.base};
        fake_call call;
        fake_call_start(&call);
        call.api.version.minor_version = 4;
        call.api.version.major_version = with_api == 2;
        call.frame.extensions = &other;
        call.frame.api = with_api ? &call.api : NULL;
        assert_null(weft_xla_gemm_cuda(&call.frame));
        assert_int_equal(metadata.version.major_version, 0);
        assert_int_equal(metadata.version.minor_version, with_api == 1 ? 4 : 1);
        assert_int_equal(metadata.traits, 0);
    }
}

static void attention_on_the_cpu(void **state) {
    (void)state;
    uint64_t random = random_seed(3);
    const weft_schedule open = WEFT_SCHEDULE_INIT;
    for (int dtype = 0; dtype < 3; dtype++) {
        const weft_attention p = small((weft_dtype)dtype);
        tensors t = tensors_new(&random, &p), expected = t;
        const size_t bytes = t.size.o * weft_dtype_bytes(p.dtype);
        expected.data.o = guarded_new(bytes);
        expected.data.lse = guarded_new(t.size.lse * sizeof(float));
        assert_int_equal(weft_attention_forward(&p, &expected.data, NULL), WEFT_OK);
        fake_call call;
        attention_call(&call, &t, &open);
        assert_null(weft_xla_attention_cpu(&call.frame));
        assert_memory_equal(t.data.o, expected.data.o, bytes);
        assert_memory_equal(t.data.lse, expected.data.lse, t.size.lse * sizeof(float));
        tensors_check_borders(&t);
        call.frame.results.size = 1; /* lse is not wanted */
        memset(t.data.o, 0, bytes);
        assert_null(weft_xla_attention_cpu(&call.frame));
        assert_memory_equal(t.data.o, expected.data.o, bytes);
        guarded_free(expected.data.o);
        guarded_free(expected.data.lse);
        tensors_free(&t);
    }
}

static void gemm_on_the_cpu(void **state) {
    (void)state;
    const float a[] = {1, 2, 3, 4, 5, 6}, b[] = {1, 0, 2, 1, 0, 3};
    float c[4] = {0};
    const int64_t a_dims[] = {2, 3}, b_dims[] = {3, 2}, c_dims[] = {2, 2};
    weft_gemm p = WEFT_GEMM_INIT;
    const weft_schedule open = WEFT_SCHEDULE_INIT;
    p.m = p.n = 2;
    p.k = 3;
    for (int wrong = 0; wrong < 2; wrong++) {
        fake_call call;
        fake_call_start(&call);
        fake_call_argument(&call, XLA_F32, a, a_dims, 2);
        fake_call_argument(&call, XLA_F32, b, b_dims, 2);
        fake_call_result(&call, XLA_F32, c, c_dims, 2);
        p.beta = wrong;
        fake_call_attribute(&call, "problem", &p, sizeof p);
        fake_call_attribute(&call, "schedule", &open, sizeof open);
        if (wrong) {
            fake_call_refused(weft_xla_gemm_cpu, &call, XLA_INVALID_ARGUMENT,
                              "c would be read, and a result holds nothing");
        } else {
            assert_null(weft_xla_gemm_cpu(&call.frame));
        }
    }
    const float expected[] = {5, 11, 14, 23};
    assert_memory_equal(c, expected, sizeof c);
}

static void what_is_refused(void **state) {
    (void)state;
    uint64_t random = random_seed(4);
    weft_schedule schedule = WEFT_SCHEDULE_INIT;
    const weft_attention p = small(WEFT_FP16);
    const double half = 0.5;
    tensors t = tensors_new(&random, &p);
    fake_call call;
#define REFUSED(change, code, text)                                                                                        \
    do {                                                                                                                   \
        attention_call(&call, &t, &schedule);                                                                              \
        change;                                                                                                            \
        fake_call_refused(weft_xla_attention_cpu, &call, code, text);                                                      \
    } while (0)
    REFUSED(call.frame.stage = 0, XLA_UNIMPLEMENTED, "XLA calls at stage 0");
    REFUSED(call.frame.struct_size = 40, XLA_UNIMPLEMENTED, "older than weft knows");
    REFUSED(call.frame.attributes.size = 1, XLA_INVALID_ARGUMENT, "there is no attribute schedule");
    REFUSED(call.arrays[0].size--, XLA_INVALID_ARGUMENT, "the attribute problem is not an array of");
    REFUSED(call.arrays[1].dtype = 11, XLA_INVALID_ARGUMENT, "the attribute schedule is not an array of");
    REFUSED(call.attribute_types[1] = 4, XLA_INVALID_ARGUMENT, "the attribute schedule is not an array of");
    REFUSED(call.frame.arguments.size = 2, XLA_INVALID_ARGUMENT, "the call has no buffer for v");
    REFUSED(call.buffers[1].dtype = XLA_BF16, XLA_INVALID_ARGUMENT, "k is of XLA's data type 16, and the problem is fp16");
    REFUSED(call.dims[0][1] = 21, XLA_INVALID_ARGUMENT, "q has 10752 elements, and the problem needs 10240");
    REFUSED(call.dims[3][2] = -4, XLA_INVALID_ARGUMENT, "o has a dimension of -4");
    REFUSED(call.dims[2][0] = INT64_MAX, XLA_INVALID_ARGUMENT, "v has a dimension of");
    REFUSED(call.buffers[0].data = NULL, XLA_INVALID_ARGUMENT, "q is null");
    REFUSED(call.words[0][4] = 3, XLA_INVALID_ARGUMENT, "kv_heads 3 does not divide heads 4");
    REFUSED(call.words[0][offsetof(weft_attention, lengths.kv_used) / 8] = 8, XLA_INVALID_ARGUMENT,
            "lengths are arguments of a call");
    REFUSED(memcpy(&call.words[0][offsetof(weft_attention, dropout) / 8], &half, sizeof half), XLA_INVALID_ARGUMENT,
            "there is no attribute seed");
    schedule.tile_m = 1000;
    REFUSED((void)0, XLA_INVALID_ARGUMENT, "tile_m 1000 is larger than seq 20");
    tensors_free(&t);
}

/* The same key is one plan; another device, schedule or problem is another. */
static void plans_are_kept(void **state) {
    (void)state;
    weft_xla_key key;
    const weft_schedule open = WEFT_SCHEDULE_INIT;
    const weft_plan *first, *again, *other;
    memset(&key, 0, sizeof key);
    key.schedule = open;
    key.problem.attention = small(WEFT_FP32);
    assert_int_equal(weft_xla_keep(&first, &key, NULL), WEFT_OK);
    assert_int_equal(weft_xla_keep(&again, &key, NULL), WEFT_OK);
    assert_ptr_equal(first, again);
    key.schedule.sweep = WEFT_SWEEP_SAWTOOTH;
    assert_int_equal(weft_xla_keep(&other, &key, NULL), WEFT_OK);
    assert_ptr_not_equal(first, other);
    assert_int_equal(weft_plan_schedule(other).sweep, WEFT_SWEEP_SAWTOOTH);
    key.problem.attention.head_dim = 1000;
    weft_message message = {""};
    assert_int_equal(weft_xla_keep(&other, &key, &message), WEFT_INVALID);
    assert_null(other);
    assert_non_null(strstr(message.text, "head dims of 1000"));
}

static void on_a_gpu(void **state) {
    (void)state;
    uint64_t random = random_seed(5);
    const weft_schedule open = WEFT_SCHEDULE_INIT;
    const weft_attention p = small(WEFT_BF16);
    const weft_cuda_driver *driver;
    tensors t = tensors_new(&random, &p);
    script(NULL);
    assert_int_equal(weft_cuda_driver_get(&driver, NULL), WEFT_OK);
    const size_t sizes[] = {t.size.q * 2, t.size.k * 2, t.size.v * 2, t.size.o * 2, t.size.lse * sizeof(float)};
    const void *from[] = {t.q, t.k, t.v, t.data.o, t.data.lse};
    uint64_t there[5];
    fake_call call;
    attention_call(&call, &t, &open);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(driver->memory_new(&there[i], sizes[i]), 0);
        driver->copy_in(there[i], from[i], sizes[i]);
        call.buffers[i].data = (void *)(uintptr_t)there[i];
    }
    const int launches = counts()->launches;
    assert_null(weft_xla_attention_cuda(&call.frame));
    assert_null(weft_xla_attention_cuda(&call.frame));
    assert_int_equal(counts()->launches, launches + 2);
    assert_int_equal(call.streams_asked, 2);
    void *found = guarded_new(sizes[3]);
    driver->copy_out(found, there[3], sizes[3]);
    assert_int_equal(weft_ref_attention(&t.p, &t.data, NULL), WEFT_OK);
    for (size_t i = 0; i < t.size.o; i++) {
        assert_near(weft_ref_load(p.dtype, found, i), weft_ref_load(p.dtype, t.data.o, i), 0.02);
    }
    guarded_free(found);

    weft_attention back = t.p;
    back.operation = WEFT_ATTENTION_BACKWARD;
    call.frame.attributes.size = 0;
    fake_call_attribute(&call, "problem", &back, sizeof back);
    fake_call_attribute(&call, "schedule", &open, sizeof open);
    fake_call_refused(weft_xla_attention_backward_cuda, &call, XLA_INVALID_ARGUMENT, "the call has no buffer for grad_o");
    fake_call_refused(weft_xla_attention_cuda, &call, XLA_INVALID_ARGUMENT,
                      "the handler is for attention, and the problem");
    call.frame.attributes.size = 0;
    fake_call_attribute(&call, "problem", &t.p, sizeof t.p);
    fake_call_attribute(&call, "schedule", &open, sizeof open);

    call.ordinal = 6;
    fake_call_refused(weft_xla_attention_cuda, &call, XLA_NOT_FOUND, "no GPU 6: there is 1");
    call.ordinal = 0;
    call.ordinal_fails = 1;
    fake_call_refused(weft_xla_attention_cuda, &call, XLA_INTERNAL, "XLA does not tell the GPU of a call");
    call.stream_fails = 1;
    fake_call_refused(weft_xla_attention_cuda, &call, XLA_INTERNAL, "XLA does not tell the stream of a call");
    assert_int_equal(call.destroyed, 2);
    call.api.struct_size = offsetof(xla_api, ordinal_get);
    fake_call_refused(weft_xla_attention_cuda, &call, XLA_UNIMPLEMENTED, "does not say on which GPU a call runs");
    for (int i = 0; i < 5; i++) {
        driver->memory_free(there[i]);
    }
    tensors_free(&t);
}

/* A call of any problem whose buffers are given in their order, in the host's memory or the GPU's. */
static void call_of(fake_call *call, const void *problem, size_t size, const weft_buffer *list, void *const *at) {
    const weft_schedule open = WEFT_SCHEDULE_INIT;
    fake_call_start(call);
    for (int written = 0; written < 2; written++) {
        for (int i = 0; i < FAKE_BUFFERS && list[i].name; i++) {
            const int64_t elements = (int64_t)list[i].elements;
            if (list[i].is_written == written) {
                (written ? fake_call_result : fake_call_argument)(call, fake_type(list[i].dtype), at[i], &elements, 1);
            }
        }
    }
    fake_call_attribute(call, "problem", problem, size);
    fake_call_attribute(call, "schedule", &open, sizeof open);
}

typedef void *(*handler)(void *call_frame);
typedef void (*reference)(const weft_problem *resolved, const weft_data *data);

/* A problem on the CPU, and twice on the fake GPU, beside the reference. `bounds` are those of groups. What is never
 * written stays as it was. */
static void on_both(const void *problem, handler cpu, handler cuda, reference right, const int32_t *bounds) {
    uint64_t random = random_seed(6);
    weft_problem p;
    const weft_operation_row *row;
    const weft_cuda_driver *driver;
    weft_buffer list[FAKE_BUFFERS];
    void *here[FAKE_BUFFERS], *there[FAKE_BUFFERS];
    weft_data data;
    int count = 0;
    assert_int_equal(weft_problem_resolve(&p, &row, problem, NULL), WEFT_OK);
    memset(list, 0, sizeof list);
    memset(&data, 0, sizeof data);
    data.struct_size = row->info.data_size;
    data.operation = row->info.operation;
    script(NULL);
    assert_int_equal(weft_cuda_driver_get(&driver, NULL), WEFT_OK);
    for (;; count++) {
        const weft_buffer fresh = WEFT_BUFFER_INIT;
        weft_buffer b = fresh;
        if (weft_problem_buffer(problem, (size_t)count, &b, NULL)) {
            break;
        }
        assert_true(count < FAKE_BUFFERS);
        uint64_t address;
        list[count] = b;
        const size_t bytes = b.elements * weft_dtype_bytes(b.dtype);
        here[count] =
            b.dtype == WEFT_INT32 ? memcpy(guarded_new(bytes), bounds, bytes) : random_buffer(&random, b.dtype, b.elements);
        assert_int_equal(driver->memory_new(&address, bytes), 0);
        driver->copy_in(address, here[count], bytes);
        there[count] = (void *)(uintptr_t)address;
        memcpy((char *)&data + b.offset, &here[count], sizeof here[count]);
    }
    fake_call call;
    void *found[2][FAKE_BUFFERS];
    call_of(&call, problem, row->info.problem_size, list, here);
    assert_null(cpu(&call.frame));
    call_of(&call, problem, row->info.problem_size, list, there);
    assert_null(cuda(&call.frame));
    assert_null(cuda(&call.frame));
    for (int i = 0; i < count; i++) {
        const size_t bytes = list[i].elements * weft_dtype_bytes(list[i].dtype);
        found[0][i] = memcpy(guarded_new(bytes), here[i], bytes);
        found[1][i] = guarded_new(bytes);
        driver->copy_out(found[1][i], (uint64_t)(uintptr_t)there[i], bytes);
    }
    right(&p, &data);
    for (int i = 0; i < count; i++) {
        for (size_t j = 0; list[i].is_written && j < list[i].elements; j++) {
            const double wanted = weft_ref_load(list[i].dtype, here[i], j);
            assert_near(weft_ref_load(list[i].dtype, found[0][i], j), wanted, 0.05);
            assert_near(weft_ref_load(list[i].dtype, found[1][i], j), wanted, 0.05);
        }
        guarded_free(found[0][i]);
        guarded_free(found[1][i]);
        guarded_free(here[i]);
        driver->memory_free((uint64_t)(uintptr_t)there[i]);
    }
}

static void right_product(const weft_problem *resolved, const weft_data *data) {
    assert_int_equal(weft_ref_gemm(&resolved->gemm, &data->gemm, NULL), WEFT_OK);
}

static void right_groups(const weft_problem *resolved, const weft_data *data) {
    assert_int_equal(weft_ref_grouped_gemm(&resolved->grouped, &data->grouped, NULL), WEFT_OK);
}

/* Sums of columns take a workspace on a GPU, which is the plan's own. */
static void epilogues(void **state) {
    (void)state;
    weft_gemm p = WEFT_GEMM_INIT;
    p.m = 40;
    p.n = 64;
    p.k = 24;
    p.dtype = p.c_dtype = WEFT_FP16;
    p.b_major = WEFT_COL_MAJOR;
    p.extras = 2 * WEFT_GEMM_COLUMN_SUMS - 1;
    p.activation = WEFT_SILU;
    for (p.gated = 0; p.gated < 2; p.gated++) {
        on_both(&p, weft_xla_gemm_cpu, weft_xla_gemm_cuda, right_product, NULL);
    }
}

static void groups(void **state) {
    (void)state;
    const int32_t starts[] = {1, 6, 6, 15}, counts[] = {5, 0, 16};
    weft_grouped_gemm p = WEFT_GROUPED_GEMM_INIT;
    p.groups = 3;
    p.rows = 16;
    p.n = 24;
    p.k = 16;
    p.dtype = p.c_dtype = WEFT_FP16;
    on_both(&p, weft_xla_grouped_gemm_cpu, weft_xla_grouped_gemm_cuda, right_groups, starts);
    p.layout = WEFT_GROUPS_MASKED;
    on_both(&p, weft_xla_grouped_gemm_cpu, weft_xla_grouped_gemm_cuda, right_groups, counts);
    fake_call call;
    const weft_buffer none[FAKE_BUFFERS] = {{0}};
    p.counts = (const int32_t *)(uintptr_t)8; /* an address of another process */
    call_of(&call, &p, sizeof p, none, NULL);
    fake_call_refused(weft_xla_grouped_gemm_cpu, &call, XLA_INVALID_ARGUMENT, "bounds are arguments of a call");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(answers),         cmocka_unit_test(attention_on_the_cpu),
                                       cmocka_unit_test(gemm_on_the_cpu), cmocka_unit_test(what_is_refused),
                                       cmocka_unit_test(plans_are_kept),  cmocka_unit_test(on_a_gpu),
                                       cmocka_unit_test(epilogues),       cmocka_unit_test(groups)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
