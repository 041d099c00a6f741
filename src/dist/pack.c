/* SPDX-License-Identifier: Apache-2.0 */
/* Between a caller's tensors and rows as messages have them. */
#include "dist/work.h"

/* Copies heads of all rows, batch by batch. */
static weft_status copy_heads(const weft_dist_work *work, char *rows, const weft_dist_tensor *t, int64_t head,
                              int64_t heads, int pack, weft_message *message) {
    const weft_dist_memory *m = &work->memory;
    const size_t element = weft_dtype_bytes(t->dtype), dim = (size_t)t->dim * element;
    const int64_t batches = work->dist->problem.attention.batch;
    const size_t pitch = (size_t)(batches * heads) * dim, there_pitch = (size_t)t->strides.seq * element;
    const int joined = t->strides.head == t->dim; /* heads lie one behind the other */
    const int64_t each = joined ? heads : 1;
    weft_status status = WEFT_OK;
    for (int64_t i = 0; i < batches * heads && !status; i += each) {
        const int64_t b = i / heads, h = i % heads;
        char *here = rows + (size_t)i * dim;
        char *there = (char *)(uintptr_t)t->at + (size_t)(b * t->strides.batch + (head + h) * t->strides.head) * element;
        status = m->copy(m, pack ? here : there, pack ? pitch : there_pitch, pack ? there : here,
                         pack ? there_pitch : pitch, (size_t)each * dim, (size_t)t->rows, message);
    }
    return status;
}

weft_status weft_dist_pack(const weft_dist_work *work, void *rows, const weft_dist_tensor *tensor, int64_t head,
                           int64_t heads, weft_message *message) {
    return copy_heads(work, rows, tensor, head, heads, 1, message);
}

weft_status weft_dist_unpack(const weft_dist_work *work, const weft_dist_tensor *tensor, const void *rows, int64_t head,
                             int64_t heads, weft_message *message) {
    return copy_heads(work, (char *)(uintptr_t)rows, tensor, head, heads, 0, message);
}
