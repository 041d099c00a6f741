/* What the two sides of a GPU's L2 hold: one CTA per SM reads buffers from end to end, again and again.
 *
 * First the sides are told apart: SM 0 touches lines, then another SM reads them in a dependent chain; from its own side
 * that is faster. Then come the streams, for a profiler to count: ncu --clock-control none --kernel-name stream_buffers
 * --metrics dram__bytes_read.sum,lts__t_sectors_lookup_miss.sum, lts__t_sectors_srcunit_ltcfabric.sum,lts__t_sectors.sum
 * bench_streams_device docs/results/h200-streams.csv was made this way. */
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

int main(void) {
    cudaDeviceProp device;
    if (cudaGetDeviceProperties(&device, 0) != cudaSuccess) {
        puts("skipped: no GPU");
        return 0;
    }
    const int sms = device.multiProcessorCount;
    if (sms > MAX_SMS) {
        return 1;
    }
    unsigned char side[MAX_SMS], *device_side;
    char *buffers;
    int *sink;
    find_sides(sms, side);
    check(cudaMalloc(&device_side, (size_t)sms));
    check(cudaMemcpy(device_side, side, (size_t)sms, cudaMemcpyHostToDevice));
    check(cudaMalloc(&buffers, 128 * MIB));
    check(cudaMemset(buffers, 1, 128 * MIB));
    check(cudaMalloc(&sink, sizeof *sink));
    const int shared = 200 * 1024; /* so that an SM has room for one CTA only */
    check(cudaFuncSetAttribute(stream_buffers, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
    static const size_t sizes[] = {4, 14, 15, 16, 18, 20, 22, 24}, distances[] = {0, 50, 64}; /* 0: end to end */
    for (int sharing = 0; sharing < 3; sharing++) {
        for (size_t d = 0; d < sizeof distances / sizeof *distances; d++) {
            for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
                const size_t bytes = sizes[i] * MIB, distance = distances[d] ? distances[d] * MIB : bytes;
                cudaEvent_t begin, end;
                float ms;
                check(cudaEventCreate(&begin));
                check(cudaEventCreate(&end));
                check(cudaEventRecord(begin));
                stream_buffers<<<sms, THREADS, shared>>>(buffers, bytes, distance, sharing == 0 ? 8 : 16, sharing,
                                                         device_side, sink);
                check(cudaEventRecord(end));
                check(cudaGetLastError());
                check(cudaEventSynchronize(end));
                check(cudaEventElapsedTime(&ms, begin, end));
                printf("sharing %d, %zu MiB, %zu MiB apart: %.3f ms, %.2f TB/s\n", sharing, sizes[i], distance / MIB, ms,
                       16.0 * (double)bytes * sms / ms / 1e9);
            }
        }
    }
    return 0;
}
