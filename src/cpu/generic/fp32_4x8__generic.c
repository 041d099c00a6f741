/* fp32, 4 x 8, in GNU C vectors: 8 accumulators fit any processor's registers. */
#include "cpu/cpu.h"
#include "cpu/vector__generic.h"

static void multiply(int64_t k, const void *a, const void *b, float *c, int add) {
    const float *line_a = a, *line_b = b;
    vec sum[4][2];
    for (int i = 0; i < 4; i++) {
        sum[i][0] = add ? vec_load(c + i * 8) : vec_all(0);
        sum[i][1] = add ? vec_load(c + i * 8 + 4) : vec_all(0);
    }
    for (; k > 0; k--, line_a += 4, line_b += 8) {
        const vec left = vec_load(line_b), right = vec_load(line_b + 4);
        for (int i = 0; i < 4; i++) {
            sum[i][0] += line_a[i] * left;
            sum[i][1] += line_a[i] * right;
        }
    }
    for (int i = 0; i < 4; i++) {
        vec_store(c + i * 8, sum[i][0]);
        vec_store(c + i * 8 + 4, sum[i][1]);
    }
}

#define PACKED  float
#define IS_BF16 0
#define A_LINES 4
#define A_GROUP 1
#define B_LINES 8
#define B_GROUP 1
#define DEPTH   1
#include "cpu/pack.inc"

extern const weft_cpu_panel weft_cpu_panel_8__generic;
extern const weft_cpu_few weft_cpu_few__generic;

const weft_cpu_kernel weft_cpu_fp32_4x8__generic = {"fp32_4x8__generic",
                                                    WEFT_FP32,
                                                    {A_LINES, A_GROUP},
                                                    {B_LINES, B_GROUP},
                                                    DEPTH,
                                                    multiply,
                                                    pack_a,
                                                    pack_b,
                                                    NULL,
                                                    &weft_cpu_panel_8__generic,
                                                    &weft_cpu_few__generic,
                                                    NULL,
                                                    NULL};
