/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/sm90/gemm/boxes.h"

#include <inttypes.h>

#include "base/status.h"
#include "cuda/sm90/gemm/params.h"
#include "problem/problem.h"

weft_status weft_gemm_check_distance(const char *name, int64_t distance, weft_dtype dtype, weft_message *why) {
    const int64_t multiple = 16 / (int64_t)weft_dtype_bytes(dtype);
    return distance % multiple == 0
               ? WEFT_OK
               : weft_fail(why, WEFT_UNSUPPORTED, "%s %" PRId64 " is not a multiple of %" PRId64, name, distance, multiple);
}

int32_t weft_gemm_box_rows(int mn_major, int64_t rows, int64_t sharers) {
    const int64_t some = rows % WEFT_GEMM_ATOM == 0 ? WEFT_GEMM_ATOM : rows;
    return (int32_t)(mn_major || rows % (sharers * 8) != 0 ? some : rows / sharers);
}

int32_t weft_gemm_loaded_rows(const weft_schedule *s, int mn_major, int64_t length, int64_t tile) {
    const int all = mn_major || (s->cluster_m > 1 && s->cluster_n > 1);
    return (int32_t)(all ? tile : weft_smaller(weft_ceil_divide(length, 8) * 8, tile));
}

int32_t weft_gemm_last_of(const weft_gemm *p, int mn_major, int64_t length, int64_t tile) {
    const int once = p->beta != 0 || p->gated || (p->extras & WEFT_GEMM_COLUMN_SUMS);
    const int within = !once && !mn_major && length >= tile;
    return within ? (int32_t)(weft_ceil_divide(length, 8) * 8 - tile) : INT32_MAX;
}

weft_tensor_view weft_gemm_view_of_operand(const weft_gemm *p, const void *data, int mn_major, int64_t mn, int64_t ld,
                                           int64_t stride, int32_t rows) {
    const int32_t step = WEFT_GEMM_STEP;
    weft_tensor_view v = {.data = data, .dtype = p->dtype, .rank = 3, .stride = {1, ld, stride}, .swizzle = 1};
    v.length[0] = mn_major ? mn : p->k;
    v.length[1] = mn_major ? p->k : mn;
    v.length[2] = p->batch;
    v.box[0] = mn_major ? rows : step;
    v.box[1] = mn_major ? step : rows;
    v.box[2] = 1;
    return v;
}
