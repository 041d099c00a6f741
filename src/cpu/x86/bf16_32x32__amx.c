/* bf16, 32 x 32, in tile registers: 4 of sums, 2 of A, 2 of B, each 16 rows of 64 bytes. */
#include <string.h>

#include "cpu/cpu.h"
#include "cpu/vector__avx512.h"
#include "cpu/x86/narrow.h"
#include "cpu/x86/transpose.h"

/* What the processor is told about its tile registers. */
typedef struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} tile_config;

static void start(void) {
    tile_config config;
    memset(&config, 0, sizeof config);
    config.palette = 1;
    for (int i = 0; i < 8; i++) {
        config.row_bytes[i] = 64;
        config.rows[i] = 16;
    }
    _tile_loadconfig(&config);
}

static void stop(void) {
    _tile_release();
}

/* The tile's number must be a literal. A is 32 lines of 32 values a step, B 16 pairs of rows of 32 columns. */
static void multiply(int64_t k, const void *a, const void *b, float *c, int add) {
    const char *line_a = a, *line_b = b;
    enum { ROW = 32 * sizeof(float) }; /* bytes between rows of c */
    if (add) {
        _tile_loadd(0, c, ROW);
        _tile_loadd(1, c + 16, ROW);
        _tile_loadd(2, c + 16 * 32, ROW);
        _tile_loadd(3, c + 16 * 32 + 16, ROW);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    for (; k > 0; k -= 32, line_a += 2048, line_b += 2048) {
        _tile_loadd(4, line_a, 64);
        _tile_loadd(6, line_b, 128);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(7, line_b + 64, 128);
        _tile_dpbf16ps(1, 4, 7);
        _tile_loadd(5, line_a + 1024, 64);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, c, ROW);
    _tile_stored(1, c + 16, ROW);
    _tile_stored(2, c + 16 * 32, ROW);
    _tile_stored(3, c + 16 * 32 + 16, ROW);
}

static void narrow(int64_t k, const float *c, void *to) {
    narrow_pairs(k, 32, c, to);
}

#define PACKED    uint16_t
#define IS_BF16   1
#define A_LINES   32
#define A_GROUP   32
#define B_LINES   32
#define B_GROUP   2
#define DEPTH     32
#define SQUARE    8
#define TRANSPOSE transpose_halves
#define PAIR      pair_rows
#define NARROW    narrow_run
#include "cpu/pack.inc"

extern const weft_cpu_panel weft_cpu_panel_32_short__avx512;
extern const weft_cpu_few weft_cpu_few__avx512;

const weft_cpu_kernel weft_cpu_bf16_32x32__amx = {"bf16_32x32__amx",
                                                  WEFT_BF16,
                                                  {A_LINES, A_GROUP},
                                                  {B_LINES, B_GROUP},
                                                  DEPTH,
                                                  multiply,
                                                  pack_a,
                                                  pack_b,
                                                  narrow,
                                                  &weft_cpu_panel_32_short__avx512,
                                                  &weft_cpu_few__avx512,
                                                  start,
                                                  stop};
