/* Which kernels this processor can run, and which are taken. */
#include <stdlib.h>
#include <string.h>

#include "cpu/cpu.h"

#if defined(__x86_64__)
#define WEFT_CPU_X86 1
#else
#define WEFT_CPU_X86 0
#endif
#if defined(__aarch64__)
#define WEFT_CPU_AARCH64 1
#else
#define WEFT_CPU_AARCH64 0
#endif

#if WEFT_CPU_X86
extern const weft_cpu_kernels weft_cpu_avx512, weft_cpu_avx2;
#elif WEFT_CPU_AARCH64
extern const weft_cpu_kernels weft_cpu_neon;
#endif
extern const weft_cpu_kernels weft_cpu_generic;

/* The preprocessor cannot choose inside a list, so each guard has a macro that keeps or drops its rows. */
#define KEEP_1(row) row
#define KEEP_0(row)
#define KEEP(guard, row)       KEEP_AGAIN(guard, row)
#define KEEP_AGAIN(guard, row) KEEP_##guard(row)

typedef struct choice {
    const weft_cpu_kernels *kernels;
    int usable;
} choice;

static size_t list(choice *choices) {
    size_t count = 0;
#define WEFT_CPU_KERNELS(name, guard, test) KEEP(guard, choices[count++] = ((choice){&weft_cpu_##name, (test) != 0});)
#include "cpu/kernels.def"
#undef WEFT_CPU_KERNELS
    return count;
}

enum { MOST = 16 };

const weft_cpu_kernels *weft_cpu_kernels_at(size_t i, int *usable) {
    choice choices[MOST];
    const size_t count = list(choices);
    if (i >= count) {
        return NULL;
    }
    *usable = choices[i].usable;
    return choices[i].kernels;
}

const weft_cpu_kernels *weft_cpu_choose(void) {
    choice choices[MOST];
    const size_t count = list(choices);
    const char *wanted = getenv("WEFT_CPU");
    const weft_cpu_kernels *best = &weft_cpu_generic;
    for (size_t i = count; i-- > 0;) {
        if (choices[i].usable) {
            best = choices[i].kernels;
            if (wanted && strcmp(wanted, best->name) == 0) {
                return best;
            }
        }
    }
    return best;
}
