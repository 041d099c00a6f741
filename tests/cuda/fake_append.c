/* SPDX-License-Identifier: Apache-2.0 */
/* What the fake driver does when keys are appended and rows rotated: the same, in plain C, from the same parameters. */
#include <string.h>

#include "cuda/study/append.h"
#include "fake_driver.h"
#include "ref/ref.h"

/* Copies a row of `dim` elements, rotated by a row of cos and sin. */
static void move_row(const weft_study_append *p, const weft_study_moved *m, weft_dtype dtype, int64_t dim, size_t from,
                     size_t to, int64_t position) {
    const int64_t half = m->rotary_dim / 2, angle = weft_between(position, 0, p->rotary_rows - 1) * half;
    memcpy((uint16_t *)m->to + to, (const uint16_t *)m->from + from, (size_t)dim * 2);
    for (int64_t i = 0; i < half; i++) {
        const size_t a = (size_t)(p->interleaved ? 2 * i : i), b = (size_t)(p->interleaved ? 2 * i + 1 : i + half);
        const double x = weft_ref_load(dtype, m->from, from + a), y = weft_ref_load(dtype, m->from, from + b);
        const double c = weft_ref_load(dtype, p->cos, (size_t)(angle + i)),
                     s = weft_ref_load(dtype, p->sin, (size_t)(angle + i));
        weft_ref_store(dtype, m->to, to + a, x * c - y * s);
        weft_ref_store(dtype, m->to, to + b, x * s + y * c);
    }
}

/* All heads of a row. */
static void move_rows(const weft_study_append *p, int which, weft_dtype dtype, weft_page_row from, weft_page_row to,
                      int64_t position) {
    const weft_study_moved *m = &p->moved[which];
    const weft_strides *f = &m->from_strides, *t = &m->to_strides;
    const int64_t turned = m->rotary_dim / (2 * p->chunk);
    const int64_t dim = m->rotary_dim + ((int64_t)m->by_chunks.value - turned) * p->chunk;
    for (int64_t head = 0; head < (int64_t)m->by_heads.value; head++) {
        move_row(p, m, dtype, dim, (size_t)(from.page * f->batch + from.row * f->seq + head * f->head),
                 (size_t)(to.page * t->batch + to.row * t->seq + head * t->head), position);
    }
}

static void append_to(const weft_study_append *p, weft_dtype dtype, int64_t number, int64_t first) {
    const int32_t *starts = p->sequences.new_starts ? p->sequences.new_starts : p->sequences.lengths.q_starts;
    const weft_rows columns = weft_sequence_added(&p->sequences, number);
    for (int64_t i = 0; i < columns.end - columns.begin; i++) {
        const int64_t batch = p->sequences.packed ? 0 : number;
        const weft_page_row from = {batch, p->sequences.packed ? starts[number] + i : i};
        const weft_page_row to = weft_page_of(&p->pages, batch, columns.begin + i);
        if (to.page >= 0) {
            move_rows(p, WEFT_STUDY_K, dtype, from, to, first + i);
            move_rows(p, WEFT_STUDY_V, dtype, from, to, 0);
        } else {
            weft_page_tell(&p->pages, batch, columns.begin + i);
        }
    }
}

int fake_run_append(const char *kernel, unsigned grid, const void *parameters) {
    const weft_study_append *p = parameters;
    const weft_dtype dtype = strcmp(kernel, "study_append_bf16") == 0 ? WEFT_BF16 : WEFT_FP16;
    for (int64_t number = 0; number < p->sequences.count; number++) {
        const weft_rows rows = weft_sequence_at(&p->sequences, number).rows;
        const int64_t used = weft_sequence_added(&p->sequences, number).begin - weft_sequence_origin(&p->sequences, number);
        const int64_t first = p->positions ? p->positions[number] : used;
        if (p->moved[WEFT_STUDY_K].items > 0) {
            append_to(p, dtype, number, first);
        }
        for (int64_t row = rows.begin; row < rows.end && p->moved[WEFT_STUDY_Q].items > 0; row++) {
            const weft_page_row at = {p->sequences.packed ? 0 : number, row};
            move_rows(p, WEFT_STUDY_Q, dtype, at, at, first + (p->by_position ? row - rows.begin : 0));
        }
    }
    return grid > 0 ? 0 : 1;
}
