/* SPDX-License-Identifier: Apache-2.0 */
/* vLLM, pull request 55180: fp8 products with blockwise scales on a GB10, by a persistent CUTLASS kernel with tiles of
 * 128x128x128. Weights of 42 MB and 25 MiB do not fit the L2 of 24 MiB.
 *
 * CUTLASS rasters along the shorter side of the grid. A swizzle of 8 walks bands of 8 tiles along the longer one. */
#include "studies/study.h"

enum { TILE = 128, SWIZZLE = 8 };

static weft_simulation run(study *s, int64_t m, int64_t n, int64_t k, int swizzled) {
    const int along_m = n > m;
    weft_gemm p = WEFT_GEMM_INIT;
    p.m = m;
    p.n = n;
    p.k = k;
    p.dtype = WEFT_FP8;
    p.c_dtype = WEFT_BF16;
    p.b_major = WEFT_COL_MAJOR;
    weft_schedule schedule = WEFT_SCHEDULE_INIT;
    schedule.tile_m = schedule.tile_n = schedule.tile_k = TILE;
    schedule.order = swizzled ? WEFT_ORDER_GROUP : along_m ? WEFT_ORDER_RASTER_M : WEFT_ORDER_RASTER_N;
    schedule.group = swizzled ? SWIZZLE : 0;
    schedule.axis = along_m ? WEFT_AXIS_N : WEFT_AXIS_M;
    schedule.sweep = WEFT_SWEEP_FORWARD;
    schedule.dispatch = WEFT_DISPATCH_STATIC;
    return study_simulate(s, "gb10", "cutlass-fp8", &p, &schedule, 0);
}

void study_spark_gemm(study *s) {
    static const struct {
        const char *section;
        int64_t n, k, m;
        double raster, swizzled; /* TFLOP/s; the middle where a range is given */
    } rows[] = {{"16384x2560 weights (42 MB), TFLOP/s", 16384, 2560, 4096, 167.5, 153},
                {"16384x2560 weights (42 MB), TFLOP/s", 16384, 2560, 8192, 91, 152},
                {"16384x2560 weights (42 MB), TFLOP/s", 16384, 2560, 16384, 52, 156},
                {"16384x2560 weights (42 MB), TFLOP/s", 16384, 2560, 32768, 52, 154},
                {"5120x5120 weights (25 MiB), TFLOP/s", 5120, 5120, 4096, 117, 165.5},
                {"5120x5120 weights (25 MiB), TFLOP/s", 5120, 5120, 8192, 74, 165.5},
                {"5120x5120 weights (25 MiB), TFLOP/s", 5120, 5120, 16384, 73, 165.5},
                {"5120x5120 weights (25 MiB), TFLOP/s", 5120, 5120, 32768, 74, 165.5}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const long long m = (long long)rows[i].m / 1024;
        const weft_simulation raster = run(s, rows[i].m, rows[i].n, rows[i].k, 0);
        const weft_simulation swizzled = run(s, rows[i].m, rows[i].n, rows[i].k, 1);
        study_add(s, STUDY_COUNT, rows[i].section, rows[i].raster, raster.tflops, "M = %lldK, raster", m);
        study_fitted(s, i == 2 ? "DRAM bandwidth" : NULL);
        study_add(s, STUDY_COUNT, rows[i].section, rows[i].swizzled, swizzled.tflops, "M = %lldK, swizzle of 8", m);
        if (rows[i].m == 32768) {
            study_fitted(s, "cycles, epilogue");
        }
        study_add(s, STUDY_SPEED, rows[i].section, rows[i].swizzled / rows[i].raster, swizzled.tflops / raster.tflops,
                  "M = %lldK, swizzle of 8 over raster, as a ratio", m);
    }
}
