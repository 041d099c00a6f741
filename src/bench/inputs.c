/* SPDX-License-Identifier: Apache-2.0 */
/* Random inputs. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "bench/bench.h"
#include "cpu/thread/team.h"
#include "ref/ref.h"

/* Times do not depend on which numbers they are, so a few million are drawn and repeated, by a number that no row divides.
 */
static const size_t PERIOD = 4194319;

enum { BLOCK = 1 << 16 }; /* elements with a generator of their own: the same for any number of threads */

/* Numbers that are drawn over threads. */
typedef struct drawing {
    weft_dtype dtype;
    void *numbers;
    size_t count;
    uint64_t seed;
} drawing;

static void draw_block(void *context, int64_t block) {
    const drawing *d = context;
    const size_t begin = (size_t)block * BLOCK, end = begin + BLOCK < d->count ? begin + BLOCK : d->count;
    uint64_t start = d->seed + (uint64_t)block, state = weft_random(&start);
    for (size_t i = begin; i < end; i++) {
        const double u = weft_random_real(&state), v = weft_random_real(&state);
        weft_ref_store(d->dtype, d->numbers, i, sqrt(-2.0 * log(1.0 - u)) * cos(6.283185307179586 * v));
    }
}

/* ---- what is no normal number ---- */

static void fill_slopes(float *slopes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        slopes[i] = 0.5F / (float)(1 << i % 8);
    }
}

static void fill_bits(unsigned char *bits, size_t count, uint64_t seed) {
    for (size_t i = 0; i < count; i++) {
        bits[i] = weft_random(&seed) & 1;
    }
}

/* Where sequence i of a packed batch begins: where the problem says, or so that all are as long. */
static int32_t start_of(const int32_t *known, int64_t rows, int64_t sequences, int64_t i) {
    return known ? known[i] : (int32_t)(i * rows / sequences); /* below 2^62 */
}

/* Starts are even, all of a sequence is used, and nothing is padding. */
static void fill_lengths(const weft_attention *p, const char *name, int32_t *numbers, size_t count) {
    const int of_keys = strstr(name, "kv_") != NULL, is_start = strstr(name, "starts") != NULL;
    const int keys_apart = p->lengths.kv_starts || (p->extras & WEFT_KV_STARTS);
    const int32_t *known = of_keys && keys_apart ? p->lengths.kv_starts : p->lengths.q_starts;
    const int64_t rows = of_keys && (keys_apart || p->sequences == 0) ? p->kv_seq : p->seq;
    for (size_t i = 0; i < count; i++) {
        const int64_t n = (int64_t)i;
        numbers[i] = strstr(name, "pad") ? 0
                     : is_start          ? start_of(known, rows, p->sequences, n)
                     : p->sequences > 0
                         ? start_of(known, rows, p->sequences, n + 1) - start_of(known, rows, p->sequences, n)
                         : (int32_t)rows;
    }
}

/* Keys of each sequence of a cache, so that what is appended has room. */
static void fill_used(const weft_attention *p, int32_t *numbers, size_t count) {
    for (size_t i = 0; i < count; i++) {
        numbers[i] = (int32_t)weft_larger(p->kv_seq - p->cache.append, 0);
    }
}

/* All pages, in a random order; again from the first where there are more entries. */
static void fill_table(const weft_attention *p, int32_t *numbers, size_t count, uint64_t seed) {
    for (size_t i = 0; i < count; i++) {
        const size_t page = i % (size_t)p->cache.pages, first = i - page;
        const size_t other = first + (size_t)(weft_random(&seed) % (page + 1));
        numbers[i] = numbers[other];
        numbers[other] = (int32_t)page;
    }
}

/* Angles as models have them: position / 10000^(2 i / rotary_dim). */
static void fill_angles(const weft_attention *p, void *numbers, size_t count, double (*of)(double)) {
    const size_t half = (size_t)p->cache.rotary_dim / 2;
    for (size_t i = 0; i < count; i++) {
        const double angle = (double)(i / half) * pow(10000, -(double)(i % half) / (double)half);
        weft_ref_store(p->dtype, numbers, i, of(angle));
    }
}

/* Every list has all blocks of keys, as far as there are entries, with one bitmap after the other. */
static void fill_blocks(const weft_attention *p, const char *name, int32_t *numbers, size_t count, uint64_t seed) {
    const int64_t blocks = weft_ceil_divide(p->kv_seq, p->block_columns);
    for (int64_t i = 0; i < (int64_t)count; i++) {
        numbers[i] = strstr(name, "starts")    ? (int32_t)weft_smaller(i * blocks, p->block_entries)
                     : strstr(name, "list")    ? (int32_t)(i % blocks)
                     : strstr(name, "bits_at") ? (int32_t)(p->block_bitmaps > 0 ? i % p->block_bitmaps : -1)
                                               : (int32_t)weft_random(&seed);
    }
}

/* How many of `rows` rows each of `groups` groups has, contiguous or masked: at random, so that they are unlike. */
static void fill_bounds(const weft_grouped_gemm *p, int32_t *numbers, uint64_t seed) {
    if (p->layout == WEFT_GROUPS_MASKED) {
        for (int64_t i = 0; i < p->groups; i++) {
            numbers[i] = (int32_t)(weft_random(&seed) % (uint64_t)(p->rows + 1));
        }
        return;
    }
    double sum = 0, before = 0;
    uint64_t again = seed;
    for (int64_t i = 0; i < p->groups; i++) {
        sum += weft_random_real(&seed);
    }
    numbers[0] = 0;
    for (int64_t i = 0; i < p->groups; i++) {
        before += weft_random_real(&again);
        numbers[i + 1] = i + 1 == p->groups ? (int32_t)p->rows : (int32_t)(before / sum * (double)p->rows);
    }
}

size_t weft_bench_draw(const weft_problem *problem, const weft_buffer *buffer, uint64_t seed, void **numbers) {
    const weft_attention *p = &problem->attention;
    const int is_slope = strcmp(buffer->name, "alibi") == 0, is_length = buffer->dtype == WEFT_INT32;
    const int is_cos = strcmp(buffer->name, "cache.cos") == 0, is_angle = is_cos || strcmp(buffer->name, "cache.sin") == 0;
    const size_t count = buffer->elements < PERIOD || is_length || is_angle ? buffer->elements : PERIOD;
    drawing d = {buffer->dtype, malloc(count * weft_dtype_bytes(buffer->dtype)), count, seed};
    *numbers = d.numbers;
    if (!d.numbers) {
        return count;
    }
    if (strcmp(buffer->name, "starts") == 0 || strcmp(buffer->name, "counts") == 0) {
        fill_bounds(&problem->grouped, d.numbers, seed);
    } else if (is_length && strstr(buffer->name, "block_")) {
        fill_blocks(p, buffer->name, d.numbers, count, seed);
    } else if (strcmp(buffer->name, "cache.table") == 0) {
        fill_table(p, d.numbers, count, seed);
    } else if (is_angle) {
        fill_angles(p, d.numbers, count, is_cos ? cos : sin);
    } else if (strcmp(buffer->name, "lengths.kv_used") == 0 && (p->cache.page > 0 || p->cache.append > 0)) {
        fill_used(p, d.numbers, count);
    } else if (buffer->dtype == WEFT_INT64) {
        fill_bits(d.numbers, count * sizeof(uint64_t), seed);
    } else if (is_length) {
        fill_lengths(p, buffer->name, d.numbers, count);
    } else if (is_slope) {
        fill_slopes(d.numbers, count);
    } else if (buffer->dtype == WEFT_BOOL) {
        fill_bits(d.numbers, count, seed);
    } else {
        weft_cpu_for((int64_t)((count + BLOCK - 1) / BLOCK), draw_block, &d);
    }
    return count;
}
