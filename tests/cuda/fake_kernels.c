/* SPDX-License-Identifier: Apache-2.0 */
/* What the fake driver does when a kernel is launched, by the kernel's name. */
#include <string.h>

#include "cuda/l2/sides_params.h"
#include "fake_driver.h"

/* A chip whose SMs 2, 3, 6, 7, ... are on the second side; the numbers of its SMs have gaps. */
static int side_of(uint32_t sm) {
    return fake_script("sides", 2) == 1 ? 0 : sm / 2 % 2 != 0;
}

static void run_sides(unsigned grid, const weft_sides_params *p) {
    if (fake_script("late", 0)) {
        p->counts->late = 1;
        return;
    }
    for (unsigned cta = 0; cta < grid; cta++) {
        p->sm_of_cta[cta] = cta < grid / 2 ? cta : cta + 4;
    }
    if (p->second != UINT32_MAX) {
        p->counts->clocks[0] = 700 * WEFT_SIDES_LINES;
        p->counts->clocks[1] =
            (uint64_t)((side_of(p->first) == side_of(p->second) ? 300u : 390u) + p->second % 5) * WEFT_SIDES_LINES;
    }
}

void fake_begin(uint64_t *counter) {
    if (counter && fake_script("twice", 0)) {
        (*counter)++; /* the other one was faster with the first tile */
    }
}

int fake_run(const char *kernel, unsigned grid, void **parameters) {
    if (strncmp(kernel, "attention_backward_", 19) == 0 && strstr(kernel, "__hopper_")) {
        return fake_run_hopper_backward(kernel, grid, parameters[0]);
    }
    if (strncmp(kernel, "attention_backward_", 19) == 0) {
        return fake_run_backward(kernel, grid, parameters[0]);
    }
    if (strncmp(kernel, "attention_", 10) == 0) {
        return fake_run_attention(kernel, grid, parameters);
    }
    if (strncmp(kernel, "decode_", 7) == 0) {
        return fake_run_decode(kernel, grid, parameters[0]);
    }
    if (strncmp(kernel, "mla_", 4) == 0) {
        return fake_run_mla(kernel, grid, parameters[0]);
    }
    if (strncmp(kernel, "study_append_", 13) == 0) {
        return fake_run_append(kernel, grid, parameters[0]);
    }
    if (strcmp(kernel, "combine_parts") == 0) {
        return fake_run_combine(grid, parameters[0]);
    }
    if (strncmp(kernel, "grouped_", 8) == 0 && strstr(kernel, "__sm90a")) {
        return fake_run_hopper_grouped(kernel, grid, parameters[0]);
    }
    if (strncmp(kernel, "grouped_", 8) == 0) {
        return fake_run_portable_grouped(kernel, grid, parameters[0]);
    }
    if (strcmp(kernel, "gemm_column_sums") == 0) {
        return fake_run_gemm_sums(grid, parameters[0]);
    }
    if (strcmp(kernel, "gemm_operands") == 0) {
        return fake_run_gemm_operands(grid, parameters[0]);
    }
    if (strncmp(kernel, "gemm_", 5) == 0 && strstr(kernel, "__portable")) {
        return fake_run_portable_gemm(kernel, grid, parameters[0]);
    }
    if (strncmp(kernel, "gemm_", 5) == 0) {
        return fake_run_gemm(kernel, grid, parameters[0]);
    }
    if (strcmp(kernel, "sides_measure") == 0) {
        run_sides(grid, parameters[0]);
    }
    return 0;
}
