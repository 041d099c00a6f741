/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of a panel of scores before they are weights, and of weights before they meet V. */
#include "cpu/attention/scores.h"

#include <math.h>
#include <string.h>

#include "cpu/kernel/element.h"
#include "problem/attention.h"
#include "problem/dropout.h"
#include "problem/problem.h"

static const float log2_e = 1.44269504088896340736f;

weft_cpu_scores weft_cpu_scores_of(const weft_attention *p, const weft_cpu_kernel *kernel, double scale, const float *alibi,
                                   const void *bias, uint64_t seed) {
    const int changes = (weft_attention_asks(p) & (WEFT_HAS_SOFTCAP | WEFT_HAS_ALIBI | WEFT_HAS_BIAS)) != 0;
    return (weft_cpu_scores){.p = p,
                             .kernel = kernel,
                             .band = weft_attention_band(p),
                             .sequences = weft_attention_sequences(p),
                             .blocks = weft_attention_blocks(p),
                             .alibi = alibi,
                             .bias = bias,
                             .seed = seed,
                             .scale = (float)scale,
                             .changes = changes,
                             .drops = p->dropout > 0,
                             .factor = changes ? 1 : (float)(scale * 1.44269504088896340736)};
}

weft_cpu_queries weft_cpu_queries_of(const weft_cpu_scores *s, int64_t batch, int64_t head, weft_rows rows,
                                     int64_t number) {
    return (weft_cpu_queries){batch, head, rows, number, weft_sequence_at(&s->sequences, number)};
}

static int64_t row_of(const weft_cpu_place *at, int64_t column) {
    return weft_smaller(at->row + column, at->queries->rows.end - 1);
}

/* Adds what the bias has for one query, or hides what it hides. */
static void add_bias(const weft_cpu_scores *s, const weft_cpu_place *at, int64_t row, float *scores) {
    const weft_attention *p = s->p;
    const int64_t step = s->kernel->b.lines, stride = p->bias_key_stride;
    const weft_dtype dtype = weft_attention_bias_dtype(p);
    const size_t first = weft_row_index(&p->bias_strides, at->queries->batch, row, at->queries->head) +
                         (size_t)(at->key * p->bias_key_stride);
    const char *from = (const char *)s->bias + first * weft_dtype_bytes(dtype);
    for (int64_t key = 0; key < at->keys; key++) {
        if (dtype == WEFT_BOOL) {
            scores[key * step] = from[key * stride] ? scores[key * step] : -INFINITY;
        } else {
            scores[key * step] += log2_e * weft_element(dtype, from + key * stride * (int64_t)weft_dtype_bytes(dtype));
        }
    }
}

void weft_cpu_scores_change(const weft_cpu_scores *s, const weft_cpu_place *at, float *scores, float *slopes) {
    const weft_attention *p = s->p;
    const weft_cpu_queries *q = at->queries;
    const int64_t width = s->kernel->b.lines;
    float positions[WEFT_CPU_MOST_COLUMNS];
    weft_cpu_change change = {.scale = s->scale * log2_e, .cap = (float)p->softcap * log2_e};
    if (p->extras & WEFT_ALIBI) {
        change.alibi = s->alibi[q->number * p->alibi_stride + q->head] * log2_e;
        change.positions = positions;
        for (int64_t j = 0; j < width; j++) {
            const int64_t position = weft_band_position(&s->band, &q->sequence, row_of(at, j));
            positions[j] = (float)(position - (at->key - q->sequence.columns.begin));
        }
    }
    s->kernel->panel->change(weft_cpu_pad(at->keys, s->kernel->a.lines), scores, &change, slopes);
    for (int64_t j = 0; j < width && (p->extras & WEFT_BIAS); j++) {
        add_bias(s, at, row_of(at, j), scores + j);
    }
}

/* The word of a column's query that has a key. */
static uint32_t word_of(const weft_cpu_scores *s, const weft_cpu_place *at, int64_t column, int64_t key) {
    const weft_cpu_queries *q = at->queries;
    const int64_t row = row_of(at, column);
    int32_t bits_at = at->bits_at;
    if (at->searches && s->blocks.pairs.block_starts) {
        const int64_t entry = weft_blocks_entry(&s->blocks, q->batch, q->head, row, key);
        if (entry < 0) {
            return 0;
        }
        bits_at = s->blocks.pairs.block_bits_at[entry];
    }
    return weft_pairs_word(&s->blocks, &q->sequence, bits_at, q->batch * s->p->seq + row, row, key / 32 * 32);
}

void weft_cpu_scores_hide(const weft_cpu_scores *s, const weft_cpu_place *at, float *scores) {
    const int64_t width = s->kernel->b.lines, end = at->key + at->keys;
    const float hidden = s->factor < 0 ? INFINITY : -INFINITY;
    for (int64_t j = 0; j < width; j++) {
        for (int64_t key = at->key, next; key < end; key = next) {
            next = weft_smaller(key / 32 * 32 + 32, end);
            const uint32_t word = word_of(s, at, j, key);
            for (int64_t i = key; i < next && word != 0xffffffffu; i++) {
                float *score = &scores[(i - at->key) * width + j];
                *score = word >> i % 32 & 1 ? *score : hidden;
            }
        }
    }
}

int weft_cpu_scores_show(const weft_cpu_scores *s, const weft_cpu_place *at, int64_t column, int64_t key) {
    return !at->masked || (word_of(s, at, column, at->key + key) >> (at->key + key) % 32 & 1);
}

void weft_cpu_scores_keep(const weft_cpu_scores *s, const weft_cpu_place *at, float *kept) {
    const weft_cpu_queries *q = at->queries;
    const int64_t width = s->kernel->b.lines, line = q->batch * s->p->heads + q->head;
    const uint32_t limit = weft_dropout_limit(s->p->dropout);
    const float grown = (float)(1 / (1 - s->p->dropout));
    for (int64_t j = 0; j < width; j++) {
        const int64_t row = row_of(at, j);
        weft_philox words = {{0, 0, 0, 0}};
        for (int64_t key = at->key; key < at->key + at->keys; key++) {
            if (key == at->key || key % 4 == 0) {
                words = weft_dropout_words(s->seed, line, row, key);
            }
            kept[(key - at->key) * width + j] = words.word[key % 4] < limit ? 0 : grown;
        }
    }
    const int64_t padded = weft_cpu_pad(at->keys, s->kernel->a.lines);
    memset(kept + at->keys * width, 0, (size_t)((padded - at->keys) * width) * sizeof *kept);
}
