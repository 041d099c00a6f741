/* SPDX-License-Identifier: Apache-2.0 */
/* Which kernels this processor can run, and which are taken. */
#include <pthread.h>
#include <string.h>

#include "base/environment.h"
#include "cpu/kernel/features.h"
#include "cpu/kernel/kernel.h"

/* The preprocessor cannot choose inside a list, so each guard has a macro that keeps or drops its rows. */
#define KEEP_1(row) row
#define KEEP_0(row)
#define KEEP(guard, row)       KEEP_AGAIN(guard, row)
#define KEEP_AGAIN(guard, row) KEEP_##guard(row)

#define WEFT_CPU_KERNEL(name, guard) KEEP(guard, extern const weft_cpu_kernel weft_cpu_##name;)
#include "cpu/kernel/kernels.def"
#undef WEFT_CPU_KERNEL

typedef struct choice {
    const weft_cpu_kernel *kernel;
    int usable;
} choice;

/* The processor is asked once: in a virtual machine each question takes longer than a small product. */
enum { MOST = 16 };
static choice choices[MOST];
static size_t count;

/* A kernel's name ends in two underscores and its feature. */
static const char *feature_of(const weft_cpu_kernel *kernel) {
    return strstr(kernel->name, "__") + 2;
}

static void ask(void) {
    const weft_cpu_words words = weft_cpu_ask();
#define WEFT_CPU_KERNEL(name, guard) KEEP(guard, choices[count++].kernel = &weft_cpu_##name;)
#include "cpu/kernel/kernels.def"
#undef WEFT_CPU_KERNEL
    for (size_t i = 0; i < count; i++) {
        choices[i].usable = weft_cpu_have(&words, feature_of(choices[i].kernel));
    }
}

static void ask_once(void) {
    static pthread_once_t asked = PTHREAD_ONCE_INIT;
    pthread_once(&asked, ask);
}

const weft_cpu_kernel *weft_cpu_kernel_at(size_t i, int *usable) {
    ask_once();
    if (i >= count) {
        return NULL;
    }
    *usable = choices[i].usable;
    return choices[i].kernel;
}

/* Whether WEFT_CPU means this kernel: its name, or its feature. */
static int is_wanted(const weft_cpu_kernel *kernel, const char *wanted) {
    return strcmp(wanted, kernel->name) == 0 || strcmp(wanted, feature_of(kernel)) == 0;
}

/* Rounding the weights of attention to fp16 takes longer than is gained by multiplying them so, and costs precision. */
static int is_worth_it(const weft_cpu_kernel *kernel, weft_cpu_use use) {
    return use == WEFT_CPU_PRODUCTS || kernel->dtype != WEFT_FP16;
}

const weft_cpu_kernel *weft_cpu_choose(weft_cpu_use use, weft_dtype dtype) {
    ask_once();
    const char *wanted = weft_environment(WEFT_VARIABLE_CPU);
    const weft_cpu_kernel *best = NULL;
    for (size_t i = 0; i < count; i++) {
        const weft_cpu_kernel *kernel = choices[i].kernel;
        if (choices[i].usable && (kernel->dtype == WEFT_FP32 || kernel->dtype == dtype)) {
            if (wanted && is_wanted(kernel, wanted)) {
                return kernel;
            }
            best = best || !is_worth_it(kernel, use) ? best : kernel;
        }
    }
    return best; /* the generic kernel takes every dtype */
}
