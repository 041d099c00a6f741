#include "bench/bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/random.h"
#include "base/status.h"
#include "ref/ref.h"

/* A buffer of random normal numbers. Times do not depend on which, so a few million are drawn and repeated, by a number
 * that no row divides. */
static void *make_input(weft_dtype dtype, size_t count, uint64_t *random) {
    const size_t bytes = weft_dtype_bytes(dtype), period = 1048583, drawn = count < period ? count : period;
    char *data = malloc(count * bytes);
    for (size_t i = 0; data && i < drawn; i++) {
        const double u = weft_random_real(random), v = weft_random_real(random);
        weft_ref_store(dtype, data, i, sqrt(-2.0 * log(1.0 - u)) * cos(6.283185307179586 * v));
    }
    for (size_t i = drawn; data && i < count; i += drawn) {
        memcpy(data + i * bytes, data, (count - i < drawn ? count - i : drawn) * bytes);
    }
    return data;
}

/* Where the buffers of a problem go, and what they hold. */
typedef struct part {
    void **at;
    weft_dtype dtype;
    size_t count;
} part;

static size_t list_parts(weft_bench *b, const weft_plan *plan, part parts[5]) {
    if (plan->subject == WEFT_SUBJECT_GEMM) {
        const weft_gemm_extents sizes = weft_gemm_sizes(&plan->gemm);
        parts[0] = (part){&b->in[0], plan->gemm.dtype, sizes.a};
        parts[1] = (part){&b->in[1], plan->gemm.dtype, sizes.b};
        parts[2] = (part){&b->out, plan->gemm.c_dtype, sizes.c};
        return 3;
    }
    const weft_attention_extents sizes = weft_attention_sizes(&plan->attention);
    parts[0] = (part){&b->in[0], plan->attention.dtype, sizes.q};
    parts[1] = (part){&b->in[1], plan->attention.dtype, sizes.k};
    parts[2] = (part){&b->in[2], plan->attention.dtype, sizes.v};
    parts[3] = (part){&b->out, plan->attention.dtype, sizes.o};
    parts[4] = (part){(void **)&b->lse, WEFT_FP32, sizes.lse};
    return 5;
}

weft_status weft_bench_open(weft_bench *b, const weft_plan *plan, weft_message *message) {
    part parts[5];
    const size_t count = list_parts(b, plan, parts);
    const double have = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    double need = 0;
    uint64_t random = 1;
    for (size_t i = 0; i < count; i++) {
        need += (double)parts[i].count * (double)weft_dtype_bytes(parts[i].dtype);
    }
    if (need > 0.8 * have) {
        return weft_fail(message, WEFT_NO_MEMORY, "the problem needs %.1f GiB and this host has %.1f", need / 0x1p30,
                         have / 0x1p30);
    }
    weft_status status = plan->placed ? weft_bench_cuda_open(b, plan, message) : WEFT_OK;
    for (size_t i = 0; i < count && status == WEFT_OK; i++) {
        void *data = make_input(parts[i].dtype, parts[i].count, &random);
        if (!data) {
            return weft_fail(message, WEFT_NO_MEMORY, "no memory for the problem's inputs");
        }
        if (b->driver) {
            status = weft_bench_cuda_copy(b, parts[i].at, data, parts[i].count * weft_dtype_bytes(parts[i].dtype), message);
            free(data);
        } else {
            *parts[i].at = data;
        }
    }
    return status;
}

weft_status weft_bench_run(const weft_bench *b, const weft_plan *plan, weft_message *message) {
    if (plan->subject == WEFT_SUBJECT_GEMM) {
        const weft_gemm_data data = {b->in[0], b->in[1], b->out};
        return weft_plan_enqueue_gemm(plan, &data, b->stream, message);
    }
    const weft_attention_data data = {b->in[0], b->in[1], b->in[2], b->out, b->lse};
    return weft_plan_enqueue_attention(plan, &data, b->stream, message);
}

void weft_bench_close(weft_bench *b) {
    if (b->driver) {
        weft_bench_cuda_close(b);
    } else {
        free(b->in[0]);
        free(b->in[1]);
        free(b->in[2]);
        free(b->out);
        free(b->lse);
    }
    memset(b, 0, sizeof *b);
}
