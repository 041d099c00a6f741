/* SPDX-License-Identifier: Apache-2.0 */
/* Counters of kernels whose traffic is known, on a GPU.
 *
 *     counters_device          measures every case and holds it to what must be; one line of JSON a case
 *     counters_device CASE     runs one case once, for ncu
 *     counters_device --ncu    prints the command that reads the same counters from outside, but for the CASE at its end */
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern "C" {
#include "counters/counters.h"
}

enum { SKIPPED = 77, THREADS = 512, CTAS_PER_SM = 2 };
static const size_t MIB = (size_t)1 << 20, SPAN = 256 * MIB; /* of each buffer, several times an L2 */

typedef enum kind { STREAM, SHARED, COPY } kind;
static const struct {
    const char *name;
    kind what;
    size_t bytes; /* that are read; COPY writes as many */
} cases[] = {{"stream", STREAM, 256 * MIB}, {"shared", SHARED, 8 * MIB}, {"copy", COPY, 64 * MIB}};
enum { CASES = sizeof cases / sizeof *cases };

/* 16 bytes from the L2, past the L1. */
static __device__ uint4 load(const uint4 *p) {
    uint4 v;
    asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p));
    return v;
}

/* STREAM: all CTAs together read `in` once. SHARED: each CTA reads all of it. COPY: as STREAM, and writes to `out`. */
extern "C" __global__ void traffic(const uint4 *in, uint4 *out, size_t count, kind what) {
    const size_t first = what == SHARED ? threadIdx.x : (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    const size_t step = what == SHARED ? blockDim.x : (size_t)gridDim.x * blockDim.x;
    uint32_t sum = 0;
    for (size_t i = first; i < count; i += step) {
        const uint4 v = load(in + i);
        sum += v.x ^ v.y ^ v.z ^ v.w;
        if (what == COPY) {
            out[i] = v;
        }
    }
    if (sum == 0xdeadbeef) { /* never, but the compiler does not know */
        out[0].x = sum;
    }
}

/* Reads what no case reads, so that nothing of it is left in the L2, and no line there waits to be written. */
extern "C" __global__ void empty_cache(const uint4 *in, uint32_t *out, size_t count) {
    uint32_t sum = 0;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += (size_t)gridDim.x * blockDim.x) {
        sum += load(in + i).x;
    }
    if (sum == 0xdeadbeef) {
        *out = sum;
    }
}

typedef struct bench {
    uint4 *in, *out, *other;
    int ctas, number, fail; /* number of the case */
} bench;

static weft_status finished(weft_message *message) {
    const cudaError_t error = cudaDeviceSynchronize();
    if (error != cudaSuccess) {
        snprintf(message->text, sizeof message->text, "%s", cudaGetErrorString(error));
    }
    return error == cudaSuccess ? WEFT_OK : WEFT_IO;
}

static weft_status prepare(void *user, weft_message *message) {
    const bench *b = (const bench *)user;
    empty_cache<<<b->ctas, THREADS>>>(b->other, &b->out->x, SPAN / sizeof(uint4));
    return finished(message);
}

static weft_status launch(void *user, weft_message *message) {
    const bench *b = (const bench *)user;
    traffic<<<b->ctas, THREADS>>>(b->in, b->out, cases[b->number].bytes / sizeof(uint4), cases[b->number].what);
    const weft_status status = finished(message);
    return b->fail ? WEFT_INVALID : status;
}

static int expect(const char *name, const char *what, double value, double low, double high) {
    if (value >= low && value <= high) {
        return 0;
    }
    fprintf(stderr, "%s: %s is %.0f, not %.0f to %.0f\n", name, what, value, low, high);
    return 1;
}

static int judge(const bench *b, const double *v) {
    const char *name = cases[b->number].name;
    const double read = (double)cases[b->number].bytes, sectors = read / 32;
    const double written = cases[b->number].what == COPY ? sectors : 0;
    const double asked = sectors * (cases[b->number].what == SHARED ? b->ctas : 1) + written;
    const double delivered = v[WEFT_COUNTER_SM_READ_SECTORS] + v[WEFT_COUNTER_SM_WRITE_SECTORS];
    int bad = expect(name, "sectors of SMs", delivered, 0.999 * asked, 1.01 * asked + 10000);
    /* Requests of several SMs for one sector may be merged on their way to the L2. */
    bad += expect(name, "sectors from SMs", v[WEFT_COUNTER_L2_SECTORS_FROM_SM], 0.999 * (sectors + written),
                  1.01 * asked + 10000);
    bad += expect(name, "L1 hits", v[WEFT_COUNTER_L1_HITS], 0, 0.01 * asked);
    bad += expect(name, "L2 misses", v[WEFT_COUNTER_L2_MISSES], 0.99 * sectors, 2.2 * sectors + 100000);
    bad += expect(name, "DRAM bytes read", v[WEFT_COUNTER_DRAM_READ_BYTES], 0.97 * read, 1.05 * read + 4e6);
    bad += expect(name, "DRAM bytes written", v[WEFT_COUNTER_DRAM_WRITE_BYTES], 0, 32 * written + 8e6);
    bad += expect(name, "ns", v[WEFT_COUNTER_DURATION], read / 6e3, 1e8);
    return bad;
}

static int measure_all(weft_counters *session, bench *b) {
    int bad = 0;
    for (b->number = 0; b->number < CASES; b->number++) {
        double values[WEFT_COUNTERS];
        weft_message message = {""};
        const weft_counters_work work = {prepare, launch, b};
        /* A failed launch must leave the session as it was. */
        b->fail = 1;
        bad += weft_counters_measure(session, &work, values, &message) != WEFT_INVALID;
        b->fail = 0;
        if (weft_counters_measure(session, &work, values, &message) != WEFT_OK) {
            fprintf(stderr, "%s\n", message.text);
            return bad + 1;
        }
        printf("{\"case\": \"%s\", \"passes\": %zu", cases[b->number].name, weft_counters_passes(session));
        for (int i = 0; i < WEFT_COUNTERS; i++) {
            printf(", \"%s\": %.6f", weft_counter_describe(i)->key, isnan(values[i]) ? -1.0 : values[i]);
        }
        printf("}\n");
        bad += judge(b, values);
    }
    return bad;
}

/* The runtime's own context; the driver is in the process already. */
static void *current_context(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *context = NULL;
    int (*get)(void **) = driver ? (int (*)(void **))dlsym(driver, "cuCtxGetCurrent") : NULL;
    return get && get(&context) == 0 ? context : NULL;
}

int main(int count, char **words) {
    if (count > 1 && strcmp(words[1], "--ncu") == 0) {
        char text[4096];
        weft_counters_ncu(NULL, 0, "^traffic", words[0], text, sizeof text);
        puts(text);
        return 0;
    }
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
        fprintf(stderr, "skipped: no GPU\n");
        return SKIPPED;
    }
    bench b = {};
    cudaDeviceProp properties;
    if (cudaGetDeviceProperties(&properties, 0) || cudaMalloc((void **)&b.in, SPAN) || cudaMalloc((void **)&b.out, SPAN) ||
        cudaMalloc((void **)&b.other, SPAN) || cudaMemset(b.in, 1, SPAN) || cudaMemset(b.other, 2, SPAN)) {
        fprintf(stderr, "the GPU gave no memory\n");
        return 1;
    }
    b.ctas = CTAS_PER_SM * properties.multiProcessorCount;
    weft_message message = {""};
    for (b.number = 0; count > 1 && b.number < CASES; b.number++) {
        if (strcmp(words[1], cases[b.number].name) == 0) {
            return prepare(&b, &message) || launch(&b, &message);
        }
    }
    if (count > 1) {
        fprintf(stderr, "no case %s: stream, shared and copy are\n", words[1]);
        return 2;
    }
    void *context = current_context();
    weft_counters *session = NULL;
    const weft_counters_request request = {context, 0, NULL, 0, NULL};
    if (weft_counters_open(&session, &request, &message) != WEFT_OK) {
        fprintf(stderr, "%s\n", message.text);
        return 1;
    }
    const int bad = measure_all(session, &b);
    weft_counters_close(session);
    return bad ? 1 : 0;
}
