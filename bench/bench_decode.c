/* SPDX-License-Identifier: Apache-2.0 */
/* Decode on the CPU beside a plain loop that reads the same K and V: GB/s of each, the best of turns that alternate.
 *   bench_decode [--seconds S] [--threads N] [WORDS...]    only rows whose text has each of WORDS
 * One JSON object a row. */
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <weft/weft.h>

#include "base/clock.h"

typedef struct row {
    weft_dtype dtype;
    weft_layout layout;
    int64_t batch, heads, kv_heads, keys, head_dim, page;
} row;

static const row rows[] = {
    {WEFT_BF16, WEFT_BSHD, 1, 64, 8, 32 << 10, 128, 0}, {WEFT_BF16, WEFT_BSHD, 1, 32, 8, 32 << 10, 128, 0},
    {WEFT_BF16, WEFT_BSHD, 1, 8, 8, 32 << 10, 128, 0},  {WEFT_FP32, WEFT_BSHD, 1, 64, 8, 16 << 10, 128, 0},
    {WEFT_FP32, WEFT_BSHD, 1, 32, 8, 16 << 10, 128, 0}, {WEFT_FP32, WEFT_BSHD, 1, 8, 8, 16 << 10, 128, 0},
    {WEFT_FP16, WEFT_BSHD, 1, 8, 8, 32 << 10, 128, 0},  {WEFT_BF16, WEFT_BHSD, 1, 64, 8, 32 << 10, 128, 0},
    {WEFT_BF16, WEFT_BHSD, 1, 8, 8, 32 << 10, 128, 0},  {WEFT_FP32, WEFT_BHSD, 1, 8, 8, 16 << 10, 128, 0},
    {WEFT_BF16, WEFT_BSHD, 4, 64, 8, 8 << 10, 128, 0},  {WEFT_BF16, WEFT_BSHD, 4, 64, 8, 8 << 10, 128, 16},
    {WEFT_BF16, WEFT_BSHD, 4, 8, 8, 8 << 10, 128, 16},
};
enum { ROWS = sizeof rows / sizeof *rows };

/* Seconds; of one thread those that it had the processor, since others may use the machine. */
static double now(int threads) {
    struct timespec at;
    clock_gettime(threads > 1 ? CLOCK_MONOTONIC : CLOCK_PROCESS_CPUTIME_ID, &at);
    return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

/* Memory that is there, with small numbers in it. */
static void *filled(size_t bytes, weft_dtype dtype) {
    char *data = aligned_alloc(64, (bytes + 63) / 64 * 64);
    uint32_t random = 1;
    for (size_t i = 0; data && i < bytes / 4; i++) {
        random = random * 1664525u + 1013904223u;
        const float number = (float)(random >> 8) / 0x1p24f - 0.5f;
        uint32_t word;
        memcpy(&word, &number, sizeof word);
        const uint16_t half = dtype == WEFT_BF16 ? (uint16_t)(word >> 16) : (uint16_t)(0x2c00 | (random >> 20 & 0x83ff));
        word = dtype == WEFT_FP32 ? word : half * 0x10001u;
        memcpy(data + 4 * i, &word, sizeof word);
    }
    return data;
}

/* A word of each line, and prefetches: nothing but reading binds. */
static uint64_t read_all(const void *data, size_t bytes, int threads) {
    enum { LINE = 64 / sizeof(uint64_t), AHEAD = 64 * LINE };
    const uint64_t *words = data;
    const int64_t count = (int64_t)(bytes / sizeof *words) / LINE / 8;
    uint64_t any = 0;
#pragma omp parallel for num_threads(threads) schedule(static, 1) reduction(| : any)
    for (int t = 0; t < threads; t++) {
        uint64_t sum[8] = {0};
        for (int64_t i = count * t / threads * 8; i < count * (t + 1) / threads * 8; i += 8) {
            for (int k = 0; k < 8; k++) {
                __builtin_prefetch(words + (i + k) * LINE + AHEAD);
                sum[k] |= words[(i + k) * LINE];
            }
        }
        for (int k = 0; k < 8; k++) {
            any |= sum[k];
        }
    }
    return any;
}

static void name_of(const row *r, char *text, size_t size) {
    static const char *const dtypes[] = {[WEFT_FP32] = "fp32", [WEFT_FP16] = "fp16", [WEFT_BF16] = "bf16"};
    snprintf(text, size, "%s %s %lldx%lld %lld over %lld D=%lld page=%lld", dtypes[r->dtype],
             r->layout == WEFT_BSHD ? "bshd" : "bhsd", (long long)r->batch, (long long)r->keys, (long long)r->heads,
             (long long)r->kv_heads, (long long)r->head_dim, (long long)r->page);
}

static int time_row(const row *r, double seconds, int threads) {
    const size_t bytes = weft_dtype_bytes(r->dtype), queries = (size_t)(r->batch * r->heads * r->head_dim);
    const size_t kv = (size_t)(r->batch * r->keys * r->kv_heads * r->head_dim) * bytes;
    weft_attention p = WEFT_ATTENTION_INIT;
    weft_schedule schedule = WEFT_SCHEDULE_INIT;
    weft_plan_options options = WEFT_PLAN_OPTIONS_INIT;
    weft_attention_data data = WEFT_ATTENTION_DATA_INIT;
    weft_message message = {""};
    weft_plan *plan = NULL;
    char text[128];
    p.batch = r->batch;
    p.heads = r->heads;
    p.kv_heads = r->kv_heads;
    p.seq = 1;
    p.kv_seq = r->keys;
    p.head_dim = r->head_dim;
    p.dtype = r->dtype;
    p.layout = r->layout;
    p.cache.page = r->page;
    schedule.workers = threads;
    options.schedule = &schedule;
    const int64_t pages = r->page ? r->batch * r->keys / r->page : 0;
    int32_t *table = malloc((size_t)(pages + 1) * sizeof *table);
    void *k = filled(kv, r->dtype), *v = filled(kv, r->dtype), *q = filled(queries * bytes, r->dtype);
    void *o = filled(queries * bytes, r->dtype);
    int status = !table || !k || !v || !q || !o;
    for (int64_t i = 0; !status && i < pages; i++) { /* every page once, in a scattered order */
        table[i] = (int32_t)((i * 7919 + 13) % pages);
    }
    data.q = q;
    data.k = k;
    data.v = v;
    data.o = o;
    data.cache.table = table;
    status = status || weft_plan_create(&plan, &p, &options, &message);
    double read = INFINITY, decode = INFINITY;
    uint64_t any = 0;
    const double end = weft_now() + seconds;
    while (!status && weft_now() < end) {
        const double begin = now(threads);
        any |= read_all(k, kv, threads) | read_all(v, kv, threads);
        const double middle = now(threads);
        status = (int)weft_plan_run(plan, &data, &message);
        const double last = now(threads);
        read = fmin(read, middle - begin);
        decode = fmin(decode, last - middle);
    }
    name_of(r, text, sizeof text);
    if (status) {
        fprintf(stderr, "bench_decode: %s: %s\n", text, message.text);
    } else {
        const double gb = 2e-9 * (double)kv;
        printf("{\"row\": \"%s\", \"threads\": %d, \"read_gbs\": %.2f, \"decode_gbs\": %.2f, \"share\": %.3f%s}\n", text,
               threads, gb / read, gb / decode, read / decode, any ? "" : ", \"empty\": true");
        fflush(stdout);
    }
    weft_plan_destroy(plan);
    free(table);
    free(k);
    free(v);
    free(q);
    free(o);
    return status;
}

int main(int count, char **words) {
    double seconds = 2;
    int threads = 1, first = 1;
    for (; first + 1 < count && strncmp(words[first], "--", 2) == 0; first += 2) {
        if (strcmp(words[first], "--seconds") == 0) {
            seconds = atof(words[first + 1]);
        } else if (strcmp(words[first], "--threads") == 0) {
            threads = atoi(words[first + 1]);
        }
    }
    threads = threads > 0 ? threads : 1;
    omp_set_num_threads(threads);
    int status = 0;
    for (int i = 0; i < ROWS; i++) {
        char text[128];
        int asked = 1;
        name_of(&rows[i], text, sizeof text);
        for (int w = first; w < count; w++) {
            asked &= strstr(text, words[w]) != NULL;
        }
        status |= asked ? time_row(&rows[i], seconds, threads) : 0;
    }
    return status;
}
