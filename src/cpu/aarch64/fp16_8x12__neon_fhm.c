/* fp16, 8 x 12, by the instruction that multiplies halves and adds to floats: products are exact, sums are those of fp32.
 * 24 accumulators, 2 vectors of A whose lanes are rows, 3 of B, four halves each. */
#include "cpu/aarch64/transpose.h"
#include "cpu/cpu.h"
#include "cpu/vector__neon.h"

/* A column of accumulators times one vector of B; in between, the next values of A or B are loaded. The loads must be
 * spread among the multiplications: in a run, these all wait for the same half of a Neoverse V1's four pipes. Lanes are
 * taken from registers 0 to 15 alone. */
#define COLUMN(j, b, a0, a1, first, second)                                                                                \
    "fmlal %[s0" #j "].4s, " b ".4h, " a0 ".h[0]\n"                                                                        \
    "fmlal %[s1" #j "].4s, " b ".4h, " a0 ".h[1]\n" first "fmlal %[s2" #j "].4s, " b ".4h, " a0 ".h[2]\n"                  \
    "fmlal %[s3" #j "].4s, " b ".4h, " a0 ".h[3]\n"                                                                        \
    "fmlal %[s4" #j "].4s, " b ".4h, " a1 ".h[0]\n"                                                                        \
    "fmlal %[s5" #j "].4s, " b ".4h, " a1 ".h[1]\n" second "fmlal %[s6" #j "].4s, " b ".4h, " a1 ".h[2]\n"                 \
    "fmlal %[s7" #j "].4s, " b ".4h, " a1 ".h[3]\n"

#define LOAD_A(d) "ldr " d ", [%[a]], #8\n"
#define LOAD_B(d) "ldr " d ", [%[b]], #8\n"

/* One value of k, with A in v<a0> and v<a1>; the next A goes to d<n0> and d<n1>. */
#define STEP(a0, a1, n0, n1)                                                                                               \
    COLUMN(0, "v4", a0, a1, LOAD_A(n0), LOAD_A(n1))                                                                        \
    COLUMN(1, "v5", a0, a1, LOAD_B("d4"), "")                                                                              \
    COLUMN(2, "v6", a0, a1, LOAD_B("d5"), "")                                                                              \
    LOAD_B("d6")

#define ZERO(i) "movi %[s" #i "0].2d, #0\nmovi %[s" #i "1].2d, #0\nmovi %[s" #i "2].2d, #0\n"
#define SUMS(i) [s##i##0] "=&w"(sum[i][0]), [s##i##1] "=&w"(sum[i][1]), [s##i##2] "=&w"(sum[i][2])

/* Reads one k beyond the panels' ends: buffers have room for that. */
static void multiply(int64_t k, const void *a, const void *b, float *c, int add) {
    float32x4_t sum[8][3];
    /* clang-format off */
    __asm__ volatile(
        ZERO(0) ZERO(1) ZERO(2) ZERO(3) ZERO(4) ZERO(5) ZERO(6) ZERO(7)
        LOAD_A("d0") LOAD_A("d1") LOAD_B("d4") LOAD_B("d5") LOAD_B("d6")
        "1:\n"
        STEP("v0", "v1", "d2", "d3")
        STEP("v2", "v3", "d0", "d1")
        "subs %[k], %[k], #2\n"
        "b.gt 1b\n"
        : SUMS(0), SUMS(1), SUMS(2), SUMS(3), SUMS(4), SUMS(5), SUMS(6), SUMS(7), [k] "+r"(k), [a] "+r"(a), [b] "+r"(b)
        :
        : "v0", "v1", "v2", "v3", "v4", "v5", "v6", "cc", "memory");
    /* clang-format on */
    for (int i = 0; i < 8; i++) {
        for (int j = 0; j < 3; j++) {
            float *at = c + i * 12 + j * 4;
            vst1q_f32(at, add ? vaddq_f32(sum[i][j], vld1q_f32(at)) : sum[i][j]);
        }
    }
}

/* Weights are at most 1, so that none overflows. Two rows at a time. */
static void narrow(int64_t k, const float *c, void *to) {
    char *out = to;
    for (int64_t i = 0; i < k; i += 2, c += 24, out += 48) {
        float16x8_t halves[3];
        for (int j = 0; j < 3; j++) {
            halves[j] = vcvt_high_f16_f32(vcvt_f16_f32(vld1q_f32(c + 8 * j)), vld1q_f32(c + 8 * j + 4));
        }
        memcpy(out, halves, sizeof halves);
    }
}

#define PACKED    uint16_t
#define AS        WEFT_FP16
#define A_LINES   8
#define A_GROUP   1
#define B_LINES   12
#define B_GROUP   1
#define DEPTH     2
#define SQUARE    4
#define TRANSPOSE transpose_halves
#include "cpu/pack.inc"

extern const weft_cpu_panel weft_cpu_panel_12__neon;
extern const weft_cpu_few weft_cpu_few__neon;
extern const weft_cpu_rows weft_cpu_rows__neon;

const weft_cpu_kernel weft_cpu_fp16_8x12__neon_fhm = {
    .name = "fp16_8x12__neon_fhm",
    .dtype = WEFT_FP16,
    .a = {A_LINES, A_GROUP},
    .b = {B_LINES, B_GROUP},
    .depth = DEPTH,
    .fetch = 12,
    .multiply = multiply,
    .pack_a = pack_a,
    .pack_b = pack_b,
    .narrow = narrow,
    .panel = &weft_cpu_panel_12__neon,
    .few = &weft_cpu_few__neon,
    .rows = &weft_cpu_rows__neon,
};
