/* SPDX-License-Identifier: Apache-2.0 */
/* What the processor can do at most: the multiplying instruction by itself, and a plain loop that reads memory, on all
 * threads at once. One JSON object, for bench_cpu.py to set its rows against. */
#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cpu/kernel/features.h"

static inline int has(const char *feature) {
    const weft_cpu_words words = weft_cpu_ask();
    return weft_cpu_have(&words, feature);
}

/* Runs a loop of `rounds` rounds; returns the floating-point operations of a round. */
typedef double (*loop)(int64_t rounds);

#if WEFT_CPU_AARCH64

/* Loads among the multiplications, as a kernel has them: without, a Neoverse V1 may use only half of its pipes. */
#define FOUR(op, a, b, c, d, tail, load)                                                                                   \
    op " v" #a tail op " v" #b tail op " v" #c tail op " v" #d tail "ldr " load ", [%1]\n"
#define TWENTY_FOUR(op, tail)                                                                                              \
    FOUR(op, 0, 1, 2, 3, tail, "q24")                                                                                      \
    FOUR(op, 4, 5, 6, 7, tail, "q25")                                                                                      \
    FOUR(op, 8, 9, 10, 11, tail, "q24")                                                                                    \
    FOUR(op, 12, 13, 14, 15, tail, "q25")                                                                                  \
    FOUR(op, 16, 17, 18, 19, tail, "q24") FOUR(op, 20, 21, 22, 23, tail, "q25")
#define LOOP(op, tail)                                                                                                     \
    static const float zeros[4] = {0};                                                                                     \
    __asm__ volatile("1:\n" TWENTY_FOUR(op, tail) "subs %0, %0, #1\nb.ne 1b\n"                                             \
                     : "+r"(rounds)                                                                                        \
                     : "r"(zeros)                                                                                          \
                     : "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14",      \
                       "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "cc", "memory")

static double fp32(int64_t rounds) {
    LOOP("fmla", ".4s, v24.4s, v25.s[0]\n");
    return 24 * 4 * 2;
}

static double bf16(int64_t rounds) {
    LOOP("bfmmla", ".4s, v24.8h, v25.8h\n");
    return 24 * 16 * 2;
}

static loop fp32_loop(void) {
    return fp32;
}

static loop bf16_loop(void) {
    return has("neon_bfmmla") ? bf16 : NULL;
}

#elif WEFT_CPU_X86
#include <immintrin.h>

/* Written out, because a compiler may keep so many sums in memory. Sums and factors begin at 0. */
#define SIX(op, r, a, b, c, d, e, f) op r #a "\n" op r #b "\n" op r #c "\n" op r #d "\n" op r #e "\n" op r #f "\n"
#define TWELVE(op, r)                SIX(op, r, 0, 1, 2, 3, 4, 5) SIX(op, r, 6, 7, 8, 9, 10, 11)
#define TWENTY_FOUR(op, r)           TWELVE(op, r) SIX(op, r, 12, 13, 14, 15, 16, 17) SIX(op, r, 18, 19, 20, 21, 22, 23)
#define LOOP(before, body, ...)      __asm__ volatile(before "1:\n" body "dec %0\njnz 1b\n" : "+r"(rounds) : : "cc", __VA_ARGS__)
#define LOW_REGISTERS                                                                                                      \
    "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12"
#define HIGH_REGISTERS                                                                                                     \
    "xmm13", "xmm14", "xmm15", "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm24"
#define CLEAR_512 "vpxord %%zmm24, %%zmm24, %%zmm24\n" TWENTY_FOUR("vmovaps %%zmm24, ", "%%zmm")

__attribute__((target("avx512f"))) static double fp32_avx512(int64_t rounds) {
    LOOP(CLEAR_512, TWENTY_FOUR("vfmadd231ps %%zmm24, %%zmm24, ", "%%zmm"), LOW_REGISTERS, HIGH_REGISTERS);
    return 24 * 16 * 2;
}

__attribute__((target("avx512f,avx512bf16"))) static double bf16_avx512(int64_t rounds) {
    LOOP(CLEAR_512, TWENTY_FOUR("vdpbf16ps %%zmm24, %%zmm24, ", "%%zmm"), LOW_REGISTERS, HIGH_REGISTERS);
    return 24 * 32 * 2;
}

__attribute__((target("avx2,fma"))) static double fp32_avx2(int64_t rounds) {
    LOOP("vxorps %%ymm12, %%ymm12, %%ymm12\n" TWELVE("vmovaps %%ymm12, ", "%%ymm"),
         TWELVE("vfmadd231ps %%ymm12, %%ymm12, ", "%%ymm"), LOW_REGISTERS);
    return 12 * 8 * 2;
}

__attribute__((target("amx-tile,amx-bf16"))) static double bf16_amx(int64_t rounds) {
    static const struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } config = {.palette = 1, .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64}, .rows = {16, 16, 16, 16, 16, 16, 16, 16}};
    _tile_loadconfig(&config);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_zero(4);
    _tile_zero(6);
    for (; rounds > 0; rounds--) {
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 6);
        _tile_dpbf16ps(2, 4, 6);
        _tile_dpbf16ps(3, 4, 6);
    }
    _tile_release();
    return 4 * 16 * 16 * 32 * 2;
}

static loop fp32_loop(void) {
    return has("avx512") ? fp32_avx512 : has("avx2") ? fp32_avx2 : NULL;
}

static loop bf16_loop(void) {
    return has("amx") ? bf16_amx : has("avx512_bf16") ? bf16_avx512 : NULL;
}

#else
static loop fp32_loop(void) {
    return NULL;
}
static loop bf16_loop(void) {
    return NULL;
}
#endif

/* GFLOP/s of all threads together, the best of a few runs; 0 where there is no such instruction. */
static double peak(loop work) {
    const int64_t rounds = 4000000;
    double best = 0;
    for (int run = 0; work && run < 5; run++) {
        double each = 0;
        const double begin = weft_now();
#pragma omp parallel reduction(max : each)
        each = work(rounds);
        const double rate = each * (double)rounds * omp_get_max_threads() / (weft_now() - begin) * 1e-9;
        best = rate > best ? rate : best;
    }
    return best;
}

/* GB/s of a loop that reads memory far beyond the caches. */
static double read_bandwidth(void) {
    const size_t words = (size_t)64 << 20; /* 512 MiB */
    uint64_t *data = malloc(words * sizeof *data);
    if (!data) {
        return 0;
    }
    const int64_t threads = omp_get_max_threads(), share = (int64_t)words / threads;
    double best = 0;
#pragma omp parallel for schedule(static, 1)
    for (int64_t t = 0; t < threads; t++) {
        memset(data + t * share, 1, (size_t)share * sizeof *data);
    }
    for (int run = 0; run < 5; run++) {
        uint64_t any = 0;
        const double begin = weft_now();
#pragma omp parallel for schedule(static, 1) reduction(| : any)
        for (int64_t t = 0; t < threads; t++) {
            const uint64_t *mine = data + t * share;
            uint64_t bits = 0;
            for (int64_t i = 0; i < share; i++) {
                bits |= mine[i];
            }
            any |= bits;
        }
        const double rate = (double)(share * threads) * sizeof *data / (weft_now() - begin) * 1e-9;
        best = any && rate > best ? rate : best;
    }
    free(data);
    return best;
}

int main(void) {
    printf("{\"threads\": %d, \"fp32_gflops\": %.1f, \"bf16_gflops\": %.1f, \"read_gbs\": %.1f}\n", omp_get_max_threads(),
           peak(fp32_loop()), peak(bf16_loop()), read_bandwidth());
    return 0;
}
