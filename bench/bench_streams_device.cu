/* SPDX-License-Identifier: Apache-2.0 */
/* What the two sides of a GPU's L2 hold: one CTA per SM reads buffers from end to end, again and again.
 *
 * First the sides are told apart: SM 0 touches lines, then another SM reads them in a dependent chain; from its own side
 * that is faster. Then come the streams, for a profiler to count: ncu --clock-control none --kernel-name stream_buffers
 * --metrics dram__bytes_read.sum,lts__t_sectors_lookup_miss.sum, lts__t_sectors_srcunit_ltcfabric.sum,lts__t_sectors.sum
 * bench_streams_device docs/results/h200-streams.csv was made this way.
 *
 * bench_streams_device N: only what each side reads by itself, 18 and 20 MiB, in N placements: before each, memory of a
 * random size is taken and kept, and the two buffers are allocated one by one. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { LINES = 1024, LINE_STRIDE = 4096, THREADS = 1024, MAX_SMS = 1024 };
static const size_t MIB = 1 << 20;

static void check(cudaError_t error) {
    if (error != cudaSuccess) {
        fprintf(stderr, "%s\n", cudaGetErrorString(error));
        exit(1);
    }
}

__device__ unsigned my_sm(void) {
    unsigned sm;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    return sm;
}

__device__ int read_past_l1(const char *address) {
    int value;
    asm volatile("ld.global.cg.s32 %0, [%1];" : "=r"(value) : "l"(address));
    return value;
}

__global__ void evict_all(int *data, size_t count) {
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count; i += (size_t)gridDim.x * blockDim.x) {
        data[i] = (int)i;
    }
}

/* The lines hold zeros, so each address depends on the value before and is still the next line. */
__global__ void chase_lines(const char *lines, unsigned sm, float *cycles) {
    if (my_sm() != sm || threadIdx.x != 0) {
        return;
    }
    int value = 0;
    const long long begin = clock64();
    for (int i = 0; i < LINES; i++) {
        value = read_past_l1(lines + (size_t)i * LINE_STRIDE + value);
    }
    cycles[sm] = (float)(clock64() - begin) / LINES + (float)value;
}

/* sharing 0: every SM reads both buffers; 1: each side its own; 2: pairs of SMs alternate. */
__global__ __launch_bounds__(THREADS, 1) void stream_buffers(const char *buffers, size_t bytes, size_t distance, int passes,
                                                             int sharing, const unsigned char *side, int *sink) {
    const unsigned sm = my_sm();
    const int first = sharing == 1 ? side[sm] : sharing == 2 ? (int)(sm / 2 % 2) : 0, count = sharing == 0 ? 2 : 1;
    int sum = 0;
    for (int pass = 0; pass < passes; pass++) {
        for (int b = first; b < first + count; b++) {
            for (size_t at = threadIdx.x * 16; at < bytes; at += THREADS * 16) {
                int x, y, z, w;
                asm volatile("ld.global.cg.v4.s32 {%0, %1, %2, %3}, [%4];"
                             : "=r"(x), "=r"(y), "=r"(z), "=r"(w)
                             : "l"(buffers + (size_t)b * distance + at));
                sum += x ^ y ^ z ^ w;
            }
        }
    }
    if (sum == 0x12345678) { /* keeps the loads */
        *sink = sum;
    }
}

/* Fills side[] with 0 for SM 0's side and 1 for the other. */
static void find_sides(int sms, unsigned char *side) {
    char *lines;
    int *large;
    float *cycles, host[MAX_SMS], low = 1e9f, high = 0;
    check(cudaMalloc(&lines, (size_t)LINES * LINE_STRIDE));
    check(cudaMemset(lines, 0, (size_t)LINES * LINE_STRIDE));
    check(cudaMalloc(&large, 256 * MIB));
    check(cudaMalloc(&cycles, (size_t)sms * sizeof *cycles));
    for (int sm = 0; sm < sms; sm++) {
        evict_all<<<2 * sms, 512>>>(large, 256 * MIB / sizeof *large);
        chase_lines<<<2 * sms, 32>>>(lines, 0, cycles);
        chase_lines<<<2 * sms, 32>>>(lines, (unsigned)sm, cycles);
        check(cudaGetLastError());
    }
    check(cudaMemcpy(host, cycles, (size_t)sms * sizeof *cycles, cudaMemcpyDeviceToHost));
    for (int sm = 1; sm < sms; sm++) {
        low = host[sm] < low ? host[sm] : low;
        high = host[sm] > high ? host[sm] : high;
    }
    printf("second touch: %.0f to %.0f cycles; sides by SM: ", low, high);
    for (int sm = 0; sm < sms; sm++) {
        side[sm] = sm > 0 && host[sm] > (low + high) / 2;
        putchar('0' + side[sm]);
    }
    putchar('\n');
    check(cudaFree(lines));
    check(cudaFree(large));
    check(cudaFree(cycles));
}

typedef struct bench {
    int sms, *sink;
    unsigned char *side;
} bench;

static void stream(const bench *b, const char *buffers, size_t mib, size_t distance, int sharing) {
    const int shared = 200 * 1024; /* so that an SM has room for one CTA only */
    cudaEvent_t begin, end;
    float ms;
    check(cudaFuncSetAttribute(stream_buffers, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
    check(cudaEventCreate(&begin));
    check(cudaEventCreate(&end));
    check(cudaEventRecord(begin));
    stream_buffers<<<b->sms, THREADS, shared>>>(buffers, mib * MIB, distance, sharing == 0 ? 8 : 16, sharing, b->side,
                                                b->sink);
    check(cudaEventRecord(end));
    check(cudaGetLastError());
    check(cudaEventSynchronize(end));
    check(cudaEventElapsedTime(&ms, begin, end));
    printf("sharing %d, %zu MiB, %.1f MiB apart: %.3f ms, %.2f TB/s\n", sharing, mib, (double)distance / (double)MIB, ms,
           16.0 * (double)(mib * MIB) * b->sms / ms / 1e9);
}

static void stream_sizes(const bench *b) {
    static const size_t sizes[] = {4, 14, 15, 16, 18, 20, 22, 24}, distances[] = {0, 50, 64}; /* 0: end to end */
    char *buffers;
    check(cudaMalloc(&buffers, 128 * MIB));
    check(cudaMemset(buffers, 1, 128 * MIB));
    for (int sharing = 0; sharing < 3; sharing++) {
        for (size_t d = 0; d < sizeof distances / sizeof *distances; d++) {
            for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
                stream(b, buffers, sizes[i], (distances[d] ? distances[d] : sizes[i]) * MIB, sharing);
            }
        }
    }
}

static void stream_placements(const bench *b, int placements) {
    for (int i = 0; i < placements; i++) {
        char *kept, *one, *two;
        check(cudaMalloc(&kept, (1 + (size_t)rand() % 300) * MIB));
        check(cudaMalloc(&one, 20 * MIB));
        check(cudaMalloc(&kept, (1 + (size_t)rand() % 300) * MIB));
        check(cudaMalloc(&two, 20 * MIB));
        char *first = one < two ? one : two, *second = one < two ? two : one;
        check(cudaMemset(first, 1, 20 * MIB));
        check(cudaMemset(second, 1, 20 * MIB));
        stream(b, first, 18, (size_t)(second - first), 1);
        stream(b, first, 20, (size_t)(second - first), 1);
    }
}

int main(int argc, char **argv) {
    cudaDeviceProp device;
    if (cudaGetDeviceProperties(&device, 0) != cudaSuccess) {
        puts("skipped: no GPU");
        return 0;
    }
    bench b = {device.multiProcessorCount, NULL, NULL};
    unsigned char side[MAX_SMS];
    if (b.sms > MAX_SMS) {
        return 1;
    }
    find_sides(b.sms, side);
    check(cudaMalloc(&b.side, (size_t)b.sms));
    check(cudaMemcpy(b.side, side, (size_t)b.sms, cudaMemcpyHostToDevice));
    check(cudaMalloc(&b.sink, sizeof *b.sink));
    if (argc > 1) {
        stream_placements(&b, atoi(argv[1]));
    } else {
        stream_sizes(&b);
    }
    return 0;
}
