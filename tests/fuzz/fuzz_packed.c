/* SPDX-License-Identifier: Apache-2.0 */
/* A packed batch on the CPU against its sequences one by one: the same results, but for what other tiles round to. */
#include "draw.h"

#include "../cpu/attentions.h"

/* Sequence n by itself, its rows being those of the batch. */
static void check_alone(const weft_attention *packed, const tensors *t, const drawn_lengths *lengths, int64_t n) {
    weft_attention p = *packed;
    weft_attention_data data = t->data;
    const weft_lengths none = {0, 0, 0, 0, 0};
    const weft_lengths *l = &lengths->all;
    const int32_t *kv_starts = l->kv_starts ? l->kv_starts : l->q_starts;
    const int64_t first = l->q_starts[n], first_key = kv_starts[n], bytes = (int64_t)weft_dtype_bytes(p.dtype);
    const int64_t used = l->kv_used ? l->kv_used[n] : kv_starts[n + 1] - first_key, pad = l->kv_pad ? l->kv_pad[n] : 0;
    p.q_strides = t->p.q_strides;
    p.k_strides = t->p.k_strides;
    p.v_strides = t->p.v_strides;
    p.sequences = 0;
    p.lengths = data.lengths = none;
    p.extras &= ~(WEFT_STARTS | WEFT_KV_STARTS | WEFT_Q_USED | WEFT_KV_USED | WEFT_KV_PAD);
    p.seq = l->q_used ? l->q_used[n] : l->q_starts[n + 1] - first;
    p.kv_seq = used - pad;
    if (p.seq <= 0 || p.kv_seq <= 0) {
        return; /* nothing is seen */
    }
    const weft_strides dense = {p.seq * p.heads * p.head_dim, p.heads * p.head_dim, p.head_dim};
    p.o_strides = dense;
    const size_t count = (size_t)(p.seq * p.heads * p.head_dim), rows = (size_t)(p.heads * p.seq);
    data.q = (const char *)t->q + first * p.q_strides.seq * bytes;
    data.k = (const char *)t->k + (first_key + pad) * p.k_strides.seq * bytes;
    data.v = (const char *)t->v + (first_key + pad) * p.v_strides.seq * bytes;
    data.o = calloc(count, sizeof(float));
    data.lse = calloc(rows, sizeof(float));
    data.max = NULL;
    weft_message message = {""};
    require(data.o && data.lse);
    if (weft_attention_forward(&p, &data, &message) != WEFT_OK) {
        fail_msg("%s", message.text);
    }
    for (int64_t i = 0; i < (int64_t)count; i++) {
        const int64_t d = i % p.head_dim, head = i / p.head_dim % p.heads, row = i / p.head_dim / p.heads;
        const size_t at = weft_row_index(&t->p.o_strides, 0, first + row, head) + (size_t)d;
        const double got = weft_ref_load(p.dtype, t->data.o, at), want = weft_ref_load(p.dtype, data.o, (size_t)i);
        assert_near(got, want, p.dtype == WEFT_FP32 ? 4e-6 : 4 * rounding_of(p.dtype));
        if (d == 0) {
            const float lse = t->data.lse[head * packed->seq + first + row], alone = data.lse[head * p.seq + row];
            assert_true(lse == alone || fabsf(lse - alone) <= 8e-6f * (float)fmax(1, fabs((double)alone)));
        }
    }
    free(data.o);
    free(data.lse);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint64_t seed = draw_from(data, size);
    weft_attention p = random_attention(&seed, (int)random_between(&seed, 0, 2)), written;
    drawn_lengths lengths;
    memset(&lengths, 0, sizeof lengths);
    p.head_dim = p.head_dim > 32 ? 32 : p.head_dim;
    p.layout = WEFT_BSHD;
    const int64_t kind = random_between(&seed, 0, 2);
    if (kind == 1) {
        draw_chunk(&seed, &p);
    } else if (kind == 2) {
        draw_prefix(&seed, &p);
    }
    draw_lengths(&seed, &p, 1, &lengths);
    const weft_schedule s = random_schedule(&seed, &p);
    written = p;
    tensors t = tensors_new(&seed, &p);
    t.data.lengths = lengths.all;
    weft_message message = {""};
    weft_plan *plan = NULL;
    tensors_poison_outputs(&t);
    weft_status status = plan_for(&plan, &written, &s, NULL, &message);
    status = status ? status : weft_plan_run(plan, &t.data, &message);
    weft_plan_destroy(plan);
    if (status != WEFT_OK) {
        fail_msg("%s", message.text);
    }
    for (int64_t n = 0; n < p.sequences; n++) {
        check_alone(&written, &t, &lengths, n);
    }
    tensors_free(&t);
    return 0;
}
