/* SPDX-License-Identifier: Apache-2.0 */
/* Timing the study kernel's variants at the shapes that attention kernels are usually compared at. */
#ifndef WEFT_TESTS_CUDA_STUDY_BENCH_CUH
#define WEFT_TESTS_CUDA_STUDY_BENCH_CUH

#include <math.h>
#include <string.h>

#include "study_launch.cuh"

static __global__ void fill_normal(uint32_t *halves, int64_t pairs, int bf16, uint32_t seed) {
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < pairs; i += (int64_t)gridDim.x * blockDim.x) {
        uint64_t z = (uint64_t)i * 0x9e3779b97f4a7c15ull + seed;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ z >> 27) * 0x94d049bb133111ebull;
        z ^= z >> 31;
        const float u = ((float)(uint32_t)z + 1) * 0x1p-32f, angle = (float)(z >> 32) * 0x1p-31f;
        const float radius = sqrtf(-2 * logf(u)), x = radius * cospif(angle), y = radius * sinpif(angle);
        uint32_t both;
        if (bf16) {
            asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(x), "f"(y));
        } else {
            asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(x), "f"(y));
        }
        halves[i] = both;
    }
}

static void *normal_on_device(int64_t elements, weft_dtype dtype, uint32_t seed) {
    uint32_t *data;
    CHECK(cudaMalloc(&data, (size_t)elements * 2));
    fill_normal<<<1024, 256>>>(data, elements / 2, dtype == WEFT_BF16, seed);
    CHECK(cudaGetLastError());
    return data;
}

static int by_value(const void *a, const void *b) {
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

typedef struct bench_options {
    const char *only; /* part of a symbol, or null */
    int64_t batch, heads, kv_heads, seq;
    int head_dim, causal, repeats;
    weft_dtype dtype;
    knobs k;
} bench_options;

/* One shape, all variants that match, in turn, `repeats` times: A B C A B C ... Prints the median of each. */
static void bench_shape(const bench_options *o, const lent *l, int sms) {
    const weft_dtype dtype = o->dtype;
    weft_attention p = WEFT_ATTENTION_INIT;
    p.batch = o->batch;
    p.heads = o->heads;
    p.kv_heads = o->kv_heads ? o->kv_heads : o->heads;
    p.seq = p.kv_seq = o->seq;
    p.head_dim = o->head_dim;
    p.dtype = dtype;
    p.mask = o->causal ? WEFT_MASK_CAUSAL : WEFT_MASK_NONE;
    p.scale = 1 / sqrt((double)p.head_dim);
    const int64_t row = p.head_dim;
    p.q_strides = p.o_strides = weft_strides{p.seq * p.heads * row, p.heads * row, row};
    p.k_strides = p.v_strides = weft_strides{p.seq * p.kv_heads * row, p.kv_heads * row, row};
    const int64_t count = p.batch * p.seq * p.heads * row, kv_count = p.batch * p.seq * p.kv_heads * row;
    void *q = normal_on_device(count, dtype, 1), *key = normal_on_device(kv_count, dtype, 2),
         *v = normal_on_device(kv_count, dtype, 3), *out;
    float *lse;
    CHECK(cudaMalloc(&out, (size_t)count * 2));
    CHECK(cudaMalloc(&lse, (size_t)(p.batch * p.heads * p.seq) * sizeof *lse));
    const weft_attention_data data = {.struct_size = sizeof(weft_attention_data),
                                      .operation = WEFT_ATTENTION,
                                      .q = q,
                                      .k = key,
                                      .v = v,
                                      .o = out,
                                      .lse = lse};
    cudaEvent_t begin, end;
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));

    static float times[VARIANTS][1000];
    const int repeats = o->repeats < 1000 ? o->repeats : 1000;
    for (int repeat = -2; repeat < repeats; repeat++) { /* the first two only warm up */
        for (int i = 0; i < VARIANTS; i++) {
            const weft_study_variant *variant = &variants[i];
            const int wants_general = o->only && strstr(o->only, "general");
            if ((variant->head_dim_v != 0) != wants_general || variant->head_dim != o->head_dim ||
                variant->dtype != dtype || (o->only && !strstr(variant->symbol, o->only)) ||
                !variant_prepare(i, o->k.more_shared)) {
                continue;
            }
            knobs k = o->k;
            if (k.workers == 0) {
                int ctas;
                CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&ctas, entries[i], variant->threads,
                                                                    variant->shared_bytes + k.more_shared));
                k.workers = (int64_t)ctas * sms;
            }
            weft_study_params s = study_params(i, &p, &data, &k, l);
            CHECK(cudaEventRecord(begin));
            study_launch(i, &s, k.more_shared);
            CHECK(cudaEventRecord(end));
            CHECK(cudaEventSynchronize(end));
            float ms;
            CHECK(cudaEventElapsedTime(&ms, begin, end));
            if (repeat < 0) {
                times[i][0] = ms;
                continue;
            }
            times[i][repeat] = ms;
            if (repeat == repeats - 1) {
                qsort(times[i], (size_t)repeats, sizeof(float), by_value);
                const double median = times[i][repeats / 2];
                const double flops = 4.0 * (double)(p.batch * p.heads * p.head_dim) * (double)p.seq * (double)p.kv_seq;
                printf("%-48s B=%-3lld H=%-3lld S=%-6lld D=%-4d causal=%d workers=%-5lld %9.4f ms %7.1f TFLOP/s\n",
                       variant->symbol, (long long)p.batch, (long long)p.heads, (long long)p.seq, o->head_dim, o->causal,
                       (long long)k.workers, median, flops / (o->causal ? 2 : 1) / median * 1e-9);
            }
        }
    }
    CHECK(cudaEventDestroy(begin));
    CHECK(cudaEventDestroy(end));
    CHECK(cudaFree(q));
    CHECK(cudaFree(key));
    CHECK(cudaFree(v));
    CHECK(cudaFree(out));
    CHECK(cudaFree(lse));
}

/* Options: --only PART, --shapes B,H,S[,KV_HEADS]:..., --dim D, --causal, --fp16, --repeats N, --order, --sweep,
 * --dispatch (numbers as in orders.def), --workers, --group, --domains, --table, --mask-every-block, --no-prefetch,
 * --more-shared BYTES. */
static int bench_main(int argc, char **argv) {
    bench_options o;
    memset(&o, 0, sizeof o);
    o.head_dim = 64;
    o.repeats = 15;
    o.dtype = WEFT_BF16;
    o.k.order = WEFT_ORDER_HEAD_FIRST;
    o.k.domains = 1;
    const char *shapes = "2,32,8192";
    for (int i = 0; i < argc; i++) {
        const char *name = argv[i];
        const char *value = i + 1 < argc ? argv[i + 1] : "0";
        int used = 1; /* the value */
        if (!strcmp(name, "--only")) {
            o.only = value;
        } else if (!strcmp(name, "--shapes")) {
            shapes = value;
        } else if (!strcmp(name, "--dim")) {
            o.head_dim = atoi(value);
        } else if (!strcmp(name, "--repeats")) {
            o.repeats = atoi(value);
        } else if (!strcmp(name, "--order")) {
            o.k.order = (weft_order_kind)atoi(value);
        } else if (!strcmp(name, "--sweep")) {
            o.k.sweep = (weft_sweep)atoi(value);
        } else if (!strcmp(name, "--dispatch")) {
            o.k.dispatch = (weft_dispatch)atoi(value);
        } else if (!strcmp(name, "--workers")) {
            o.k.workers = atoll(value);
        } else if (!strcmp(name, "--group")) {
            o.k.group = atoll(value);
        } else if (!strcmp(name, "--domains")) {
            o.k.domains = atoll(value);
        } else if (!strcmp(name, "--more-shared")) {
            o.k.more_shared = (unsigned)atoi(value);
        } else {
            used = 0;
            if (!strcmp(name, "--causal")) {
                o.causal = 1;
            } else if (!strcmp(name, "--fp16")) {
                o.dtype = WEFT_FP16;
            } else if (!strcmp(name, "--table")) {
                o.k.table = 1;
            } else if (!strcmp(name, "--mask-every-block")) {
                o.k.mask_every_block = 1;
            } else if (!strcmp(name, "--no-prefetch")) {
                o.k.no_prefetch = 1;
            } else {
                fprintf(stderr, "unknown option %s\n", name);
                return 2;
            }
        }
        i += used;
    }
    int sms;
    CHECK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
    const lent l = lend(1 << 20);
    for (const char *at = shapes; at; at = strchr(at, ':') ? strchr(at, ':') + 1 : NULL) {
        long long batch, heads, seq, kv_heads = 0;
        if (sscanf(at, "%lld,%lld,%lld,%lld", &batch, &heads, &seq, &kv_heads) < 3 || batch < 1 || heads < 1 || seq < 1) {
            fprintf(stderr, "--shapes %s is not B,H,S[,KV_HEADS]:...\n", at);
            return 2;
        }
        o.batch = batch;
        o.heads = heads;
        o.seq = seq;
        o.kv_heads = kv_heads;
        bench_shape(&o, &l, sms);
    }
    lend_back(&l);
    return 0;
}

#endif
