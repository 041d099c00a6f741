/* A few queries against a long cache of keys and values in bf16, multiplied as they are. */
#include <string.h>

#include "cpu/cpu.h"
#include "cpu/vector__neon.h"

extern const weft_cpu_few weft_cpu_few__neon;

/* KEYS: keys whose sums are kept in registers for one row; half as many for more rows. VALUES: values added in one go. */
enum { KEYS = 8, VALUES = 8, STEP = 8, MOST_DIM = 256 };

static inline bfloat16x8_t load_bf16(const void *from) {
    bfloat16x8_t v;
    memcpy(&v, from, sizeof v);
    return v;
}

static inline __attribute__((always_inline)) void dot_keys(int count, int rows, int64_t dim, const bfloat16_t *q,
                                                           const char *k, int64_t step, float *scores, int64_t pitch) {
    float32x4_t sum[WEFT_CPU_FEW_ROWS][KEYS];
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

/* Even and odd elements have sums of their own. */
static inline __attribute__((always_inline)) void add_values(int count, int rows, int64_t dim, const float *weights,
                                                             int64_t pitch, const char *v, int64_t step, float *out) {
    bfloat16x8_t weight[WEFT_CPU_FEW_ROWS][VALUES];
    for (int r = 0; r < rows; r++) {
        for (int i = 0; i < count; i++) {
            weight[r][i] = vdupq_n_bf16(vcvth_bf16_f32(weights[r * pitch + i]));
        }
    }
    for (int64_t d = 0; d < dim; d += STEP) {
        bfloat16x8_t value[VALUES];
        for (int i = 0; i < count; i++) {
            value[i] = load_bf16(v + i * step + d * 2);
        }
        for (int r = 0; r < rows; r++) {
            float32x4x2_t sum = vld2q_f32(out + r * dim + d);
            for (int i = 0; i < count; i++) {
                sum.val[0] = vbfmlalbq_f32(sum.val[0], weight[r][i], value[i]);
                sum.val[1] = vbfmlaltq_f32(sum.val[1], weight[r][i], value[i]);
            }
            vst2q_f32(out + r * dim + d, sum);
        }
    }
}

static inline __attribute__((always_inline)) void sums_of(int rows, int64_t keys, int64_t dim, const float *weights,
                                                          int64_t pitch, const char *v, int64_t step, float *out) {
    int64_t key = 0;
    for (; key + VALUES <= keys; key += VALUES) {
        add_values(VALUES, rows, dim, weights + key, pitch, v + key * step, step, out);
    }
    for (; key < keys; key++) {
        add_values(1, rows, dim, weights + key, pitch, v + key * step, step, out);
    }
}

/* The kernel that this goes with is taken for bf16 alone. */
static void dots(weft_dtype dtype, int rows, int64_t keys, int64_t dim, const float *q, const char *k, int64_t step,
                 float *scores, int64_t pitch) {
    bfloat16_t narrow[WEFT_CPU_FEW_ROWS * MOST_DIM]; /* exact: queries were bf16 */
    (void)dtype;
    for (int64_t i = 0; i < rows * dim; i++) {
        narrow[i / dim * MOST_DIM + i % dim] = vcvth_bf16_f32(q[i]);
    }
    if (rows == 1) {
        dots_of(1, keys, dim, narrow, k, step, scores, pitch);
    } else {
        dots_of(WEFT_CPU_FEW_ROWS, keys, dim, narrow, k, step, scores, pitch);
    }
}

static void sums(weft_dtype dtype, int rows, int64_t keys, int64_t dim, const float *weights, int64_t pitch, const char *v,
                 int64_t step, float *out) {
    (void)dtype;
    if (rows == 1) {
        sums_of(1, keys, dim, weights, pitch, v, step, out);
    } else {
        sums_of(WEFT_CPU_FEW_ROWS, keys, dim, weights, pitch, v, step, out);
    }
}

static float soften(int64_t keys, float *scores, float factor, float *max, float *sum) {
    return weft_cpu_few__neon.soften(keys, scores, factor, max, sum);
}

static int takes(int64_t rows, int64_t dim) {
    (void)dim;
    return rows <= WEFT_CPU_FEW_ROWS;
}

const weft_cpu_few weft_cpu_few__neon_bfmmla = {takes, dots, sums, soften};
