/* fp32, 8 x 48: 24 accumulators, 3 vectors of B, rows of A broadcast one at a time. */
#include "cpu/cpu.h"
#include "cpu/vector__avx512.h"
#include "cpu/x86/transpose.h"

enum { ROWS = 8, VECTORS = 3, COLS = VECTORS * WIDTH };

static void multiply(int64_t k, const void *a, const void *b, float *c, int add) {
    const float *line_a = a, *line_b = b;
    vec sum[ROWS][VECTORS];
    for (int i = 0; i < ROWS; i++) {
        for (int j = 0; j < VECTORS; j++) {
            sum[i][j] = vec_all(0);
        }
    }
    do {
        vec y[VECTORS];
        for (int j = 0; j < VECTORS; j++) {
            y[j] = vec_load(line_b + j * WIDTH);
        }
        for (int i = 0; i < ROWS; i++) {
            const vec x = vec_all(line_a[i]);
            for (int j = 0; j < VECTORS; j++) {
                sum[i][j] += x * y[j];
            }
        }
        line_a += ROWS;
        line_b += COLS;
    } while ((--k) > 0);
    for (int i = 0; i < ROWS; i++) {
        for (int j = 0; j < VECTORS; j++) {
            float *at = c + i * COLS + j * WIDTH;
            vec_store(at, sum[i][j] + (add ? vec_load(at) : vec_all(0)));
        }
    }
}

#define PACKED    float
#define IS_BF16   0
#define A_LINES   8
#define A_GROUP   1
#define B_LINES   48
#define B_GROUP   1
#define DEPTH     1
#define SQUARE    4
#define TRANSPOSE transpose_floats
#include "cpu/pack.inc"

extern const weft_cpu_panel weft_cpu_panel_48__avx512;
extern const weft_cpu_few weft_cpu_few__avx512;

const weft_cpu_kernel weft_cpu_fp32_8x48__avx512 = {"fp32_8x48__avx512",
                                                    WEFT_FP32,
                                                    {A_LINES, A_GROUP},
                                                    {B_LINES, B_GROUP},
                                                    DEPTH,
                                                    multiply,
                                                    pack_a,
                                                    pack_b,
                                                    NULL,
                                                    &weft_cpu_panel_48__avx512,
                                                    &weft_cpu_few__avx512,
                                                    NULL,
                                                    NULL};
