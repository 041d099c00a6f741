/* fp32, 8 x 12: 24 accumulators, 2 vectors of A whose lanes are rows, 3 of B. */
#include "cpu/aarch64/transpose.h"
#include "cpu/cpu.h"
#include "cpu/vector__neon.h"

/* A column of accumulators times one vector of B; in between, the next values of A or B are loaded. The loads must be
 * spread among the multiplications: in a run, these all wait for the same half of a Neoverse V1's four pipes. */
#define COLUMN(j, b, a0, a1, first, second)                                                                                \
    "fmla %[s0" #j "].4s, " b ".4s, " a0 ".s[0]\n"                                                                         \
    "fmla %[s1" #j "].4s, " b ".4s, " a0 ".s[1]\n" first "fmla %[s2" #j "].4s, " b ".4s, " a0 ".s[2]\n"                    \
    "fmla %[s3" #j "].4s, " b ".4s, " a0 ".s[3]\n"                                                                         \
    "fmla %[s4" #j "].4s, " b ".4s, " a1 ".s[0]\n"                                                                         \
    "fmla %[s5" #j "].4s, " b ".4s, " a1 ".s[1]\n" second "fmla %[s6" #j "].4s, " b ".4s, " a1 ".s[2]\n"                   \
    "fmla %[s7" #j "].4s, " b ".4s, " a1 ".s[3]\n"

#define LOAD_A(q) "ldr " q ", [%[a]], #16\n"
#define LOAD_B(q) "ldr " q ", [%[b]], #16\n"

/* One value of k, with A in v<a0> and v<a1>; the next A goes to q<n0> and q<n1>. */
#define STEP(a0, a1, n0, n1)                                                                                               \
    COLUMN(0, "v26", a0, a1, LOAD_A(n0), LOAD_A(n1))                                                                       \
    COLUMN(1, "v27", a0, a1, LOAD_B("q26"), "")                                                                            \
    COLUMN(2, "v28", a0, a1, LOAD_B("q27"), "")                                                                            \
    LOAD_B("q28")

#define ZERO(i) "movi %[s" #i "0].2d, #0\nmovi %[s" #i "1].2d, #0\nmovi %[s" #i "2].2d, #0\n"
#define SUMS(i) [s##i##0] "=&w"(sum[i][0]), [s##i##1] "=&w"(sum[i][1]), [s##i##2] "=&w"(sum[i][2])

/* Reads one k beyond the panels' ends: buffers have room for that. */
static void multiply(int64_t k, const void *a, const void *b, float *c, int add) {
    float32x4_t sum[8][3];
    /* clang-format off */
    __asm__ volatile(
        ZERO(0) ZERO(1) ZERO(2) ZERO(3) ZERO(4) ZERO(5) ZERO(6) ZERO(7)
        LOAD_A("q24") LOAD_A("q25") LOAD_B("q26") LOAD_B("q27") LOAD_B("q28")
        "1:\n"
        STEP("v24", "v25", "q29", "q30")
        STEP("v29", "v30", "q24", "q25")
        "subs %[k], %[k], #2\n"
        "b.gt 1b\n"
        : SUMS(0), SUMS(1), SUMS(2), SUMS(3), SUMS(4), SUMS(5), SUMS(6), SUMS(7), [k] "+r"(k), [a] "+r"(a), [b] "+r"(b)
        :
        : "v24", "v25", "v26", "v27", "v28", "v29", "v30", "cc", "memory");
    /* clang-format on */
    for (int i = 0; i < 8; i++) {
        for (int j = 0; j < 3; j++) {
            float *at = c + i * 12 + j * 4;
            vst1q_f32(at, add ? vaddq_f32(sum[i][j], vld1q_f32(at)) : sum[i][j]);
        }
    }
}

#define PACKED     float
#define AS         WEFT_FP32
#define A_LINES    8
#define A_GROUP    1
#define B_LINES    12
#define B_GROUP    1
#define DEPTH      2
#define SQUARE     4
#define TRANSPOSE  transpose_floats
#define WIDEN_FOUR widen_four
#include "cpu/pack.inc"

extern const weft_cpu_panel weft_cpu_panel_12__neon;
extern const weft_cpu_few weft_cpu_few__neon;
extern const weft_cpu_rows weft_cpu_rows__neon;

const weft_cpu_kernel weft_cpu_fp32_8x12__neon = {
    .name = "fp32_8x12__neon",
    .dtype = WEFT_FP32,
    .a = {A_LINES, A_GROUP},
    .b = {B_LINES, B_GROUP},
    .depth = DEPTH,
    .fetch = 12,
    .multiply = multiply,
    .pack_a = pack_a,
    .pack_b = pack_b,
    .panel = &weft_cpu_panel_12__neon,
    .few = &weft_cpu_few__neon,
    .rows = &weft_cpu_rows__neon,
};
