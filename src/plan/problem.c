/* Checking problems and filling in their defaults. */
#include "plan/problem.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "plan/status.h"

static weft_status check_dimension(const char *name, int64_t value, weft_message *message) {
    if (value < 1 || value > WEFT_MAX_DIMENSION) {
        return weft_fail(message, WEFT_INVALID, "%s %" PRId64 " is not between 1 and %" PRId64, name, value,
                         WEFT_MAX_DIMENSION);
    }
    return WEFT_OK;
}

typedef struct field {
    const char *name;
    int64_t value;
} field;

static weft_status check_dimensions(const field *fields, size_t count, weft_message *message) {
    for (size_t i = 0; i < count; i++) {
        const weft_status status = check_dimension(fields[i].name, fields[i].value, message);
        if (status) {
            return status;
        }
    }
    return WEFT_OK;
}

/* Copies a caller's struct of `given` bytes over ours of `known`, whose defaults stay where the caller's is shorter. */
static weft_status copy_struct(void *ours, size_t known, size_t oldest, const void *theirs, const char *macro,
                               weft_message *message) {
    if (!theirs) {
        return weft_fail(message, WEFT_INVALID, "the problem or schedule is null");
    }
    size_t given;
    memcpy(&given, theirs, sizeof given);
    if (given < oldest || given > known) {
        return weft_fail(message, WEFT_INVALID, "struct_size %zu is not one that this library knows: initialise with %s",
                         given, macro);
    }
    memcpy(ours, theirs, given);
    memcpy(ours, &known, sizeof known);
    return WEFT_OK;
}

static weft_status check_dtype(const char *name, weft_dtype dtype, weft_message *message) {
    if (!weft_dtype_name(dtype)) {
        return weft_fail(message, WEFT_INVALID, "%s %d is not WEFT_FP32, WEFT_FP16 or WEFT_BF16", name, (int)dtype);
    }
    return WEFT_OK;
}

size_t weft_dtype_bytes(weft_dtype dtype) {
    return dtype == WEFT_FP32 ? 4 : dtype == WEFT_FP16 || dtype == WEFT_BF16 ? 2 : 0;
}

/* From a tensor's first element to its last: their bytes, and the sum of a few such, fit. */
#define MOST_ELEMENTS (INT64_C(1) << 59)

/* One axis of a tensor. */
typedef struct axis {
    int64_t length, stride;
} axis;

/* The stride of an axis of length 1 says nothing, so any is taken; a vast one is lowered, since it will be multiplied. */
static void lower_stride(int64_t *stride, int64_t length) {
    if (length == 1 && *stride > MOST_ELEMENTS) {
        *stride = MOST_ELEMENTS;
    }
}

/* Elements from the first to the last of a tensor, or 0 when that is beyond what weft can address. */
static int64_t extent(const axis *axes, size_t count, int64_t innermost) {
    int64_t total = innermost;
    for (size_t i = 0; i < count; i++) {
        int64_t reach;
        if (!weft_multiply(axes[i].length - 1, axes[i].stride, &reach) || reach > MOST_ELEMENTS - total) {
            return 0;
        }
        total += reach;
    }
    return total;
}

/* An output must not write the same element twice: every axis, taken from the smallest stride up, has to step over all that
 * the axes below it reach. */
static int overlaps_itself(axis *axes, size_t count, int64_t innermost) {
    for (size_t i = 1; i < count; i++) {
        for (size_t j = i; j > 0 && axes[j - 1].stride > axes[j].stride; j--) {
            const axis swap = axes[j];
            axes[j] = axes[j - 1];
            axes[j - 1] = swap;
        }
    }
    int64_t below = innermost;
    for (size_t i = 0; i < count; i++) {
        if (axes[i].length > 1) {
            if (axes[i].stride < below) {
                return 1;
            }
            below += (axes[i].length - 1) * axes[i].stride;
        }
    }
    return 0;
}

/* Fills in packed strides and checks what the tensor spans. */
static weft_status resolve_strides(weft_strides *s, const weft_attention *p, char tensor, weft_message *message) {
    const int of_queries = tensor == 'q' || tensor == 'o';
    const int64_t seq = of_queries ? p->seq : p->kv_seq, heads = of_queries ? p->heads : p->kv_heads;
    if (s->batch < 0 || s->seq < 0 || s->head < 0) {
        return weft_fail(message, WEFT_INVALID,
                         "%c_strides are negative: batch %" PRId64 ", seq %" PRId64 ", head %" PRId64, tensor, s->batch,
                         s->seq, s->head);
    }
    if (s->batch == 0 && s->seq == 0 && s->head == 0) {
        const int64_t row = p->head_dim; /* dimensions are below 2^31 and head_dim below 2^9: these fit */
        s->seq = p->layout == WEFT_BSHD ? heads * row : row;
        s->head = p->layout == WEFT_BSHD ? row : seq * row;
        if (!weft_multiply(seq * row, heads, &s->batch)) {
            s->batch = INT64_MAX; /* refused below, unless there is one batch and it fits */
        }
    }
    lower_stride(&s->batch, p->batch);
    lower_stride(&s->seq, seq);
    lower_stride(&s->head, heads);
    axis axes[] = {{p->batch, s->batch}, {seq, s->seq}, {heads, s->head}};
    if (!extent(axes, 3, p->head_dim)) {
        return weft_fail(message, WEFT_INVALID, "%c spans more than 2^59 elements", tensor);
    }
    if (tensor == 'o' && overlaps_itself(axes, 3, p->head_dim)) {
        return weft_fail(message, WEFT_INVALID,
                         "o_strides make rows of o overlap: batch %" PRId64 ", seq %" PRId64 ", head %" PRId64, s->batch,
                         s->seq, s->head);
    }
    return WEFT_OK;
}

static weft_status resolve_mask(weft_attention *p, weft_message *message) {
    switch (p->mask) {
    case WEFT_MASK_NONE:
    case WEFT_MASK_CAUSAL_BOTTOM_RIGHT:
        if (p->offset != 0) {
            return weft_fail(message, WEFT_INVALID, "offset %" PRId64 " is only for mask WEFT_MASK_CAUSAL", p->offset);
        }
        if (p->mask == WEFT_MASK_CAUSAL_BOTTOM_RIGHT) {
            p->mask = WEFT_MASK_CAUSAL;
            p->offset = p->kv_seq - p->seq;
        }
        return WEFT_OK;
    case WEFT_MASK_CAUSAL:
        if (p->offset < -WEFT_MAX_DIMENSION || p->offset > WEFT_MAX_DIMENSION) {
            return weft_fail(message, WEFT_INVALID, "offset %" PRId64 " is not between -%" PRId64 " and %" PRId64,
                             p->offset, WEFT_MAX_DIMENSION, WEFT_MAX_DIMENSION);
        }
        return WEFT_OK;
    }
    return weft_fail(message, WEFT_INVALID, "mask %d is not a weft_mask", (int)p->mask);
}

weft_status weft_attention_resolve(weft_attention *resolved, const weft_attention *problem, weft_message *message) {
    weft_attention p = WEFT_ATTENTION_INIT;
    weft_status status = copy_struct(&p, sizeof p, sizeof p, problem, "WEFT_ATTENTION_INIT", message);
    if (status) {
        return status;
    }
    const field fields[] = {{"batch", p.batch}, {"heads", p.heads},   {"kv_heads", p.kv_heads},
                            {"seq", p.seq},     {"kv_seq", p.kv_seq}, {"head_dim", p.head_dim}};
    status = check_dimensions(fields, sizeof fields / sizeof *fields, message);
    if (status) {
        return status;
    }
    if (p.heads % p.kv_heads != 0) {
        return weft_fail(message, WEFT_INVALID, "kv_heads %" PRId64 " does not divide heads %" PRId64, p.kv_heads, p.heads);
    }
    if (p.head_dim % 8 != 0 || p.head_dim > 256) {
        return weft_fail(message, WEFT_INVALID, "head_dim %" PRId64 " is not a multiple of 8 between 8 and 256",
                         p.head_dim);
    }
    if (p.layout != WEFT_BSHD && p.layout != WEFT_BHSD) {
        return weft_fail(message, WEFT_INVALID, "layout %d is not WEFT_BSHD or WEFT_BHSD", (int)p.layout);
    }
    if (!isfinite(p.scale)) {
        return weft_fail(message, WEFT_INVALID, "scale %g is not finite", p.scale);
    }
    int64_t tiles; /* the smallest tile is one query, so this bounds every grid and the LSE */
    if (!weft_multiply(p.batch * p.heads, p.seq, &tiles)) {
        return weft_fail(message, WEFT_INVALID, "batch %" PRId64 " x heads %" PRId64 " x seq %" PRId64 " exceeds 2^62",
                         p.batch, p.heads, p.seq);
    }
    if (p.scale == 0.0) {
        p.scale = 1.0 / sqrt((double)p.head_dim);
    }
    if ((status = check_dtype("dtype", p.dtype, message)) || (status = resolve_mask(&p, message)) ||
        (status = resolve_strides(&p.q_strides, &p, 'q', message)) ||
        (status = resolve_strides(&p.k_strides, &p, 'k', message)) ||
        (status = resolve_strides(&p.v_strides, &p, 'v', message)) ||
        (status = resolve_strides(&p.o_strides, &p, 'o', message))) {
        return status;
    }
    *resolved = p;
    return WEFT_OK;
}

/* Fills in and checks the leading dimension of a rows x cols matrix. */
static weft_status resolve_leading(int64_t *ld, weft_major major, char matrix, int64_t rows, int64_t cols,
                                   weft_message *message) {
    if (major != WEFT_ROW_MAJOR && major != WEFT_COL_MAJOR) {
        return weft_fail(message, WEFT_INVALID, "%c_major %d is not WEFT_ROW_MAJOR or WEFT_COL_MAJOR", matrix, (int)major);
    }
    const int64_t inner = major == WEFT_ROW_MAJOR ? cols : rows, outer = major == WEFT_ROW_MAJOR ? rows : cols;
    if (*ld == 0) {
        *ld = inner;
    }
    if (*ld < inner) {
        return weft_fail(message, WEFT_INVALID, "ld%c %" PRId64 " is less than %" PRId64 ", the length of a %s of %c",
                         matrix, *ld, inner, major == WEFT_ROW_MAJOR ? "row" : "column", matrix);
    }
    lower_stride(ld, outer);
    const axis lines = {outer, *ld};
    if (!extent(&lines, 1, inner)) {
        return weft_fail(message, WEFT_INVALID, "%c spans more than 2^59 elements", matrix);
    }
    return WEFT_OK;
}

static size_t matrix_extent(weft_major major, int64_t ld, int64_t rows, int64_t cols) {
    return weft_matrix_index(major, ld, rows - 1, cols - 1) + 1;
}

/* Fills in and checks the distance between the matrices of a batch, each of `size` elements, at most 2^59. */
static weft_status resolve_batch(int64_t *stride, char matrix, int64_t batch, size_t size, weft_message *message) {
    if (*stride == 0 || batch == 1) {
        *stride = (int64_t)size;
    }
    if (*stride < (int64_t)size) {
        return weft_fail(message, WEFT_INVALID, "%c_stride %" PRId64 " is less than %zu, the elements of %c", matrix,
                         *stride, size, matrix);
    }
    const axis products = {batch, *stride};
    if (!extent(&products, 1, (int64_t)size)) {
        return weft_fail(message, WEFT_INVALID, "%c spans more than 2^59 elements", matrix);
    }
    return WEFT_OK;
}

weft_status weft_gemm_resolve(weft_gemm *resolved, const weft_gemm *problem, weft_message *message) {
    weft_gemm p = WEFT_GEMM_INIT;
    weft_status status = copy_struct(&p, sizeof p, sizeof p, problem, "WEFT_GEMM_INIT", message);
    if (status) {
        return status;
    }
    const field fields[] = {{"m", p.m}, {"n", p.n}, {"k", p.k}, {"batch", p.batch}};
    if ((status = check_dimensions(fields, sizeof fields / sizeof *fields, message)) ||
        (status = check_dtype("dtype", p.dtype, message)) || (status = check_dtype("c_dtype", p.c_dtype, message)) ||
        (status = resolve_leading(&p.lda, p.a_major, 'a', p.m, p.k, message)) ||
        (status = resolve_leading(&p.ldb, p.b_major, 'b', p.k, p.n, message)) ||
        (status = resolve_leading(&p.ldc, p.c_major, 'c', p.m, p.n, message))) {
        return status;
    }
    if ((status = resolve_batch(&p.a_stride, 'a', p.batch, matrix_extent(p.a_major, p.lda, p.m, p.k), message)) ||
        (status = resolve_batch(&p.b_stride, 'b', p.batch, matrix_extent(p.b_major, p.ldb, p.k, p.n), message)) ||
        (status = resolve_batch(&p.c_stride, 'c', p.batch, matrix_extent(p.c_major, p.ldc, p.m, p.n), message))) {
        return status;
    }
    if (!isfinite(p.alpha) || !isfinite(p.beta)) {
        return weft_fail(message, WEFT_INVALID, "alpha %g and beta %g must be finite", p.alpha, p.beta);
    }
    *resolved = p;
    return WEFT_OK;
}

weft_status weft_schedule_copy(weft_schedule *ours, const weft_schedule *theirs, weft_message *message) {
    const weft_schedule none = WEFT_SCHEDULE_INIT;
    *ours = none;
    return theirs ? copy_struct(ours, sizeof *ours, sizeof *ours, theirs, "WEFT_SCHEDULE_INIT", message) : WEFT_OK;
}

weft_status weft_device_copy(weft_device *ours, const weft_device *theirs, weft_message *message) {
    const weft_device none = WEFT_DEVICE_INIT;
    *ours = none;
    if (!theirs) {
        return WEFT_OK;
    }
    const size_t oldest = offsetof(weft_device, mode);
    const weft_status status = copy_struct(ours, sizeof *ours, oldest, theirs, "WEFT_DEVICE_INIT", message);
    if (status) {
        return status;
    }
    if (ours->kind != WEFT_DEVICE_CPU && ours->kind != WEFT_DEVICE_CUDA) {
        return weft_fail(message, WEFT_INVALID, "kind %d is not WEFT_DEVICE_CPU or WEFT_DEVICE_CUDA", (int)ours->kind);
    }
    if (ours->mode != WEFT_ESTIMATE && ours->mode != WEFT_MEASURE && ours->mode != WEFT_STORED) {
        return weft_fail(message, WEFT_INVALID, "mode %d is not WEFT_ESTIMATE, WEFT_MEASURE or WEFT_STORED",
                         (int)ours->mode);
    }
    if (ours->kernel && ours->kind == WEFT_DEVICE_CPU) {
        return weft_fail(message, WEFT_INVALID, "kernel %.40s: the CPU has no such knob", ours->kernel);
    }
    return WEFT_OK;
}

weft_status weft_attention_check(const weft_attention *problem, weft_message *message) {
    weft_attention resolved;
    return weft_attention_resolve(&resolved, problem, message);
}

weft_status weft_gemm_check(const weft_gemm *problem, weft_message *message) {
    weft_gemm resolved;
    return weft_gemm_resolve(&resolved, problem, message);
}

static size_t tensor_extent(const weft_attention *p, const weft_strides *s, int64_t seq, int64_t heads) {
    const axis axes[] = {{p->batch, s->batch}, {seq, s->seq}, {heads, s->head}};
    return (size_t)extent(axes, 3, p->head_dim);
}

weft_attention_extents weft_attention_sizes(const weft_attention *problem) {
    weft_attention_extents sizes = {0, 0, 0, 0, 0};
    weft_attention p;
    if (weft_attention_resolve(&p, problem, NULL) == WEFT_OK) {
        sizes.q = tensor_extent(&p, &p.q_strides, p.seq, p.heads);
        sizes.k = tensor_extent(&p, &p.k_strides, p.kv_seq, p.kv_heads);
        sizes.v = tensor_extent(&p, &p.v_strides, p.kv_seq, p.kv_heads);
        sizes.o = tensor_extent(&p, &p.o_strides, p.seq, p.heads);
        sizes.lse = (size_t)(p.batch * p.heads * p.seq);
    }
    return sizes;
}

weft_gemm_extents weft_gemm_sizes(const weft_gemm *problem) {
    weft_gemm_extents sizes = {0, 0, 0};
    weft_gemm p;
    if (weft_gemm_resolve(&p, problem, NULL) == WEFT_OK) {
        const size_t before = (size_t)p.batch - 1; /* the last product's matrices lie beyond so many strides */
        sizes.a = before * (size_t)p.a_stride + matrix_extent(p.a_major, p.lda, p.m, p.k);
        sizes.b = before * (size_t)p.b_stride + matrix_extent(p.b_major, p.ldb, p.k, p.n);
        sizes.c = before * (size_t)p.c_stride + matrix_extent(p.c_major, p.ldc, p.m, p.n);
    }
    return sizes;
}

double weft_attention_flops(const weft_attention *problem) {
    weft_attention p;
    if (weft_attention_resolve(&p, problem, NULL)) {
        return 0.0;
    }
    const double whole = 4.0 * (double)p.batch * (double)p.heads * (double)p.seq * (double)p.kv_seq * (double)p.head_dim;
    return p.mask == WEFT_MASK_NONE ? whole : whole / 2;
}

double weft_gemm_flops(const weft_gemm *problem) {
    weft_gemm p;
    return weft_gemm_resolve(&p, problem, NULL) ? 0.0 : 2.0 * (double)p.batch * (double)p.m * (double)p.n * (double)p.k;
}
