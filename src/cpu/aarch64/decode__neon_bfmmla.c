/* SPDX-License-Identifier: Apache-2.0 */
/* Decode in bf16: up to eight queries against a long cache of keys and values, read unpacked. One query takes bfdot, key by
 * key. Two to eight take bfmmla, whose blocks of two by two hold pairs of queries; scores of two queries take bfdot. */
#include <string.h>

#include "cpu/aarch64/vector__neon.h"
#include "cpu/kernel/kernel.h"

extern const weft_cpu_decode weft_cpu_decode_short__neon;

/* KEYS: keys whose sums are in registers for one row; half as many for more rows. VALUES: values added at a time. ROWS,
 * PAIRS: the most queries. BLOCK: keys whose values are read dim by dim from the L1 while the next are prefetched. LINE:
 * elements of a cache line. */
enum { KEYS = 8, VALUES = 8, STEP = 8, MOST_DIM = 256, ROWS = 8, PAIRS = ROWS / 2, BLOCK = 20, LINE = 32 };

static inline bfloat16x8_t load_bf16(const void *from) {
    bfloat16x8_t v;
    memcpy(&v, from, sizeof v);
    return v;
}

static inline bfloat16x8_t lower_halves(bfloat16x8_t a, bfloat16x8_t b) {
    return vreinterpretq_bf16_u64(vzip1q_u64(vreinterpretq_u64_bf16(a), vreinterpretq_u64_bf16(b)));
}

static inline bfloat16x8_t upper_halves(bfloat16x8_t a, bfloat16x8_t b) {
    return vreinterpretq_bf16_u64(vzip2q_u64(vreinterpretq_u64_bf16(a), vreinterpretq_u64_bf16(b)));
}

static inline __attribute__((always_inline)) void dot_keys(int count, int rows, int64_t dim, const bfloat16_t *q,
                                                           const char *k, int64_t step, float *scores, int64_t pitch) {
    float32x4_t sum[WEFT_CPU_DECODE_ROWS][KEYS];
    for (int r = 0; r < rows; r++) {
        for (int i = 0; i < count; i++) {
            sum[r][i] = vdupq_n_f32(0);
        }
    }
    for (int64_t d = 0; d < dim; d += STEP) {
        bfloat16x8_t key[KEYS];
        for (int i = 0; i < count; i++) {
            key[i] = load_bf16(k + i * step + d * 2);
        }
        for (int r = 0; r < rows; r++) {
            const bfloat16x8_t x = load_bf16(q + r * MOST_DIM + d);
            for (int i = 0; i < count; i++) {
                sum[r][i] = vbfdotq_f32(sum[r][i], x, key[i]);
            }
        }
    }
    for (int r = 0; r < rows; r++) {
        for (int i = 0; i < count; i++) {
            scores[r * pitch + i] = vaddvq_f32(sum[r][i]);
        }
    }
}

static inline __attribute__((always_inline)) void dots_of(int rows, int64_t keys, int64_t dim, const bfloat16_t *q,
                                                          const char *k, int64_t step, float *scores, int64_t pitch) {
    const int many = rows == 1 ? KEYS : KEYS / 2;
    int64_t key = 0;
    for (; key + many <= keys; key += many) {
        dot_keys(many, rows, dim, q, k + key * step, step, scores + key, pitch);
    }
    for (; key < keys; key++) {
        dot_keys(1, rows, dim, q, k + key * step, step, scores + key, pitch);
    }
}

/* KEYS keys, in pairs, against pairs of queries: q is (dim / 4, pairs, 2, 4). A block's sums are two queries of two keys.
 */
static inline __attribute__((always_inline)) void dot_pairs(int pairs, int64_t dim, const bfloat16_t *q, const char *k,
                                                            int64_t step, float *scores, int64_t pitch) {
    float32x4_t sum[PAIRS][KEYS / 2];
    for (int p = 0; p < pairs; p++) {
        for (int i = 0; i < KEYS / 2; i++) {
            sum[p][i] = vdupq_n_f32(0);
        }
    }
    for (int64_t d = 0; d < dim; d += STEP, q += pairs * 16) {
        for (int i = 0; i < KEYS && d % LINE == 0; i++) {
            __builtin_prefetch(k + (2 * KEYS + i) * step + d * 2);
        }
        for (int i = 0; i < KEYS / 2; i++) {
            const bfloat16x8_t even = load_bf16(k + 2 * i * step + d * 2), odd = load_bf16(k + (2 * i + 1) * step + d * 2);
            const bfloat16x8_t lower = lower_halves(even, odd), upper = upper_halves(even, odd);
            for (int p = 0; p < pairs; p++) {
                sum[p][i] = vbfmmlaq_f32(sum[p][i], load_bf16(q + p * 8), lower);
                sum[p][i] = vbfmmlaq_f32(sum[p][i], load_bf16(q + (pairs + p) * 8), upper);
            }
        }
    }
    for (int p = 0; p < pairs; p++) {
        for (int i = 0; i < KEYS / 2; i += 2) {
            const float64x2_t a = vreinterpretq_f64_f32(sum[p][i]), b = vreinterpretq_f64_f32(sum[p][i + 1]);
            vst1q_f32(scores + 2 * p * pitch + 2 * i, vreinterpretq_f32_f64(vzip1q_f64(a, b)));
            vst1q_f32(scores + (2 * p + 1) * pitch + 2 * i, vreinterpretq_f32_f64(vzip2q_f64(a, b)));
        }
    }
}

static inline __attribute__((always_inline)) void dots_by_pairs(int pairs, int rows, int64_t keys, int64_t dim,
                                                                const float *q, const char *k, int64_t step, float *scores,
                                                                int64_t pitch) {
    bfloat16_t narrow[ROWS * MOST_DIM]; /* exact: queries were bf16; rows that are missing are 0 */
    for (int64_t d = 0; d < dim; d += 4) {
        for (int row = 0; row < 2 * pairs; row++) {
            const float32x4_t four = row < rows ? vld1q_f32(q + row * dim + d) : vdupq_n_f32(0);
            vst1_bf16(narrow + d * 2 * pairs + row * 4, vcvt_bf16_f32(four));
        }
    }
    for (int64_t key = 0; key < keys; key += KEYS) {
        const int64_t first = key + KEYS <= keys ? key : keys - KEYS; /* the last ones overlap */
        dot_pairs(pairs, dim, narrow, k + first * step, step, scores + first, pitch);
    }
}

/* Values of one query. Even and odd elements have sums of their own. */
static inline __attribute__((always_inline)) void add_values(int count, int64_t dim, const float *weights, const char *v,
                                                             int64_t step, float *out) {
    bfloat16x8_t weight[VALUES];
    for (int i = 0; i < count; i++) {
        weight[i] = vdupq_n_bf16(vcvth_bf16_f32(weights[i]));
    }
    for (int64_t d = 0; d < dim; d += STEP) {
        float32x4x2_t sum = vld2q_f32(out + d);
        for (int i = 0; i < count; i++) {
            const bfloat16x8_t value = load_bf16(v + i * step + d * 2);
            sum.val[0] = vbfmlalbq_f32(sum.val[0], weight[i], value);
            sum.val[1] = vbfmlaltq_f32(sum.val[1], weight[i], value);
        }
        vst2q_f32(out + d, sum);
    }
}

static void sums_of_one(int64_t keys, int64_t dim, const float *weights, const char *v, int64_t step, float *out) {
    int64_t key = 0;
    for (; key + VALUES <= keys; key += VALUES) {
        add_values(VALUES, dim, weights + key, v + key * step, step, out);
    }
    for (; key < keys; key++) {
        add_values(1, dim, weights + key, v + key * step, step, out);
    }
}

/* Four keys of eight dims, transposed: each vector has four keys of one dim and four of the next. */
static inline void transpose_values(const char *v, int64_t step, bfloat16x8_t transposed[4]) {
    uint16x8_t row[4];
    for (int i = 0; i < 4; i++) {
        memcpy(&row[i], v + i * step, sizeof row[i]);
    }
    const uint16x8_t a = vzip1q_u16(row[0], row[2]), b = vzip1q_u16(row[1], row[3]);
    const uint16x8_t c = vzip2q_u16(row[0], row[2]), d = vzip2q_u16(row[1], row[3]);
    transposed[0] = vreinterpretq_bf16_u16(vzip1q_u16(a, b));
    transposed[1] = vreinterpretq_bf16_u16(vzip2q_u16(a, b));
    transposed[2] = vreinterpretq_bf16_u16(vzip1q_u16(c, d));
    transposed[3] = vreinterpretq_bf16_u16(vzip2q_u16(c, d));
}

/* Prefetches values line by line. */
typedef struct ahead {
    const char *value;
    int64_t bytes, fetched; /* of a value */
} ahead;

static inline void prefetch_lines(ahead *next, int lines, int64_t step) {
    for (int i = 0; i < lines; i++) {
        __builtin_prefetch(next->value + next->fetched);
        next->fetched += LINE * 2;
        next->value += next->fetched < next->bytes ? 0 : step;
        next->fetched = next->fetched < next->bytes ? next->fetched : 0;
    }
}

/* `times` eight dims of some keys, a multiple of 4 of them. A sum is two queries of two dims; sums are (pairs, dim / 2, 2,
 * 2). Weights are loaded each time: a Neoverse V1 multiplies at half its rate by what has long been in a register. */
static inline __attribute__((always_inline)) void add_dims(int pairs, int times, int64_t keys, int64_t dim,
                                                           const bfloat16x8_t *weight, const char *v, int64_t step,
                                                           float *sums, ahead *next) {
    float32x4_t sum[PAIRS][PAIRS][4];
    for (int i = 0; i < times * pairs * 4; i++) {
        sum[i / 4 / pairs][i / 4 % pairs][i % 4] =
            vld1q_f32(sums + i / 4 % pairs * 2 * dim + i / 4 / pairs * 16 + i % 4 * 4);
    }
    for (int64_t key = 0; key < keys; key += 4) {
        prefetch_lines(next, times, step);
        for (int h = 0; h < times; h++) {
            bfloat16x8_t transposed[4];
            transpose_values(v + key * step + h * STEP * 2, step, transposed);
            for (int p = 0; p < pairs; p++) {
                for (int i = 0; i < 4; i++) {
                    sum[h][p][i] = vbfmmlaq_f32(sum[h][p][i], weight[key / 4 * PAIRS + p], transposed[i]);
                }
            }
        }
    }
    for (int i = 0; i < times * pairs * 4; i++) {
        vst1q_f32(sums + i / 4 % pairs * 2 * dim + i / 4 / pairs * 16 + i % 4 * 4,
                  sum[i / 4 / pairs][i / 4 % pairs][i % 4]);
    }
}

/* At most BLOCK keys, a multiple of 4; as many dims at a time as have sums in half of the registers. */
static inline __attribute__((always_inline)) void add_pairs(int pairs, int64_t keys, int64_t dim, const float *weights,
                                                            int64_t pitch, const char *v, int64_t step, float *sums) {
    bfloat16x8_t weight[BLOCK / 4 * PAIRS]; /* of four keys and a pair each */
    for (int64_t key = 0; key < keys; key += 4) {
        for (int p = 0; p < pairs; p++) {
            const float *at = weights + 2 * p * pitch + key;
            weight[key / 4 * PAIRS + p] = vcvtq_high_bf16_f32(vcvtq_low_bf16_f32(vld1q_f32(at)), vld1q_f32(at + pitch));
        }
    }
    ahead next = {v + BLOCK * step, dim * 2, 0};
    const int many = PAIRS / pairs;
    int64_t d = 0;
    for (; d + many * STEP <= dim; d += many * STEP) {
        add_dims(pairs, many, keys, dim, weight, v + d * 2, step, sums + d * 2, &next);
    }
    for (; d < dim; d += STEP) {
        add_dims(pairs, 1, keys, dim, weight, v + d * 2, step, sums + d * 2, &next);
    }
}

/* out (2 pairs, dim) to sums (pairs, dim / 2, 2, 2), or back. */
static inline void square(int pairs, int64_t dim, float *out, float *sums, int back) {
    for (int p = 0; p < pairs; p++) {
        for (int64_t d = 0; d < dim; d += 4) {
            float *first = out + 2 * p * dim + d, *second = first + dim, *to = sums + 2 * p * dim + 2 * d;
            const float64x2_t a = vreinterpretq_f64_f32(vld1q_f32(back ? to : first)),
                              b = vreinterpretq_f64_f32(vld1q_f32(back ? to + 4 : second));
            vst1q_f32(back ? first : to, vreinterpretq_f32_f64(vzip1q_f64(a, b)));
            vst1q_f32(back ? second : to + 4, vreinterpretq_f32_f64(vzip2q_f64(a, b)));
        }
    }
}

static inline __attribute__((always_inline)) void sums_by_pairs(int pairs, int rows, int64_t keys, int64_t dim,
                                                                const float *weights, int64_t pitch, const char *v,
                                                                int64_t step, float *out) {
    float sums[ROWS * MOST_DIM];
    const int64_t whole = keys / 4 * 4;
    square(pairs, dim, out, sums, 0);
    for (int64_t key = 0; key < whole; key += BLOCK) {
        const int64_t count = weft_cpu_min(BLOCK, whole - key);
        add_pairs(pairs, count, dim, weights + key, pitch, v + key * step, step, sums);
    }
    square(pairs, dim, out, sums, 1);
    for (int r = 0; r < rows; r++) {
        sums_of_one(keys - whole, dim, weights + r * pitch + whole, v + whole * step, step, out + r * dim);
    }
}

/* The kernel that this goes with is taken for bf16 alone. */
static void dots(weft_dtype dtype, int rows, int64_t keys, int64_t dim, const float *q, const char *k, int64_t step,
                 float *scores, int64_t pitch, weft_cpu_ahead *ahead) {
    (void)dtype;
    (void)ahead;
    if (rows > 4 && keys >= KEYS) {
        dots_by_pairs(4, rows, keys, dim, q, k, step, scores, pitch);
    } else if (rows > WEFT_CPU_DECODE_ROWS && keys >= KEYS) {
        dots_by_pairs(2, rows, keys, dim, q, k, step, scores, pitch);
    } else {
        for (int r = 0; r < rows; r += WEFT_CPU_DECODE_ROWS) {
            const int count = rows - r < WEFT_CPU_DECODE_ROWS ? 1 : WEFT_CPU_DECODE_ROWS;
            bfloat16_t narrow[WEFT_CPU_DECODE_ROWS * MOST_DIM]; /* exact: queries were bf16 */
            for (int64_t i = 0; i < count * dim; i++) {
                narrow[i / dim * MOST_DIM + i % dim] = vcvth_bf16_f32(q[r * dim + i]);
            }
            if (count == 1) {
                dots_of(1, keys, dim, narrow, k, step, scores + r * pitch, pitch);
            } else {
                dots_of(WEFT_CPU_DECODE_ROWS, keys, dim, narrow, k, step, scores + r * pitch, pitch);
            }
        }
    }
}

static void sums(weft_dtype dtype, int rows, int64_t keys, int64_t dim, const float *weights, int64_t pitch, const char *v,
                 int64_t step, float *out, weft_cpu_ahead *ahead) {
    (void)dtype;
    (void)ahead;
    if (rows > 4) {
        sums_by_pairs(4, rows, keys, dim, weights, pitch, v, step, out);
    } else if (rows > 2) {
        sums_by_pairs(2, rows, keys, dim, weights, pitch, v, step, out);
    } else if (rows == 2) {
        sums_by_pairs(1, rows, keys, dim, weights, pitch, v, step, out);
    } else {
        sums_of_one(keys, dim, weights, v, step, out);
    }
}

static float softmax(int64_t keys, float *scores, float factor, float *max, float *sum) {
    return weft_cpu_decode_short__neon.softmax(keys, scores, factor, max, sum);
}

static int takes(int64_t rows, int64_t dim) {
    (void)dim;
    return rows <= ROWS;
}

const weft_cpu_decode weft_cpu_decode__neon_bfmmla = {takes, 0, NULL, dots, sums, softmax};
