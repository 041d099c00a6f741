/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/gemm/launches.h"

#include <string.h>

#include "cuda/gemm/epilogue.h"
#include "cuda/gemm/operands.h"

int weft_gemm_passes(const weft_plan *plan, const weft_cuda_choice *choice, weft_cuda_choice *list, int *main) {
    const weft_gemm *p = &plan->gemm;
    int count = weft_gemm_operands_pass(p, choice, &list[0]);
    *main = count;
    list[count++] = *choice;
    return count + weft_gemm_sums_pass(p, &list[count]);
}

size_t weft_gemm_workspace(const weft_plan *plan) {
    return weft_gemm_operands_bytes(&plan->gemm) + weft_gemm_shares_bytes(&plan->gemm);
}

void weft_gemm_computes(const weft_problem *problem, weft_problem *computed) {
    computed->gemm = weft_gemm_in_halves(&problem->gemm);
}

int weft_gemm_fill_beside(const weft_plan *plan, const weft_cuda_pass *pass, const weft_gemm_data *data, void *parameters) {
    const weft_gemm *p = &plan->gemm;
    if (weft_gemm_is_operands_pass(pass)) {
        const weft_gemm_operands_params operands = weft_gemm_operands_of(p, data);
        memcpy(parameters, &operands, sizeof operands);
        return 1;
    }
    const weft_gemm_data own = weft_gemm_data_in_halves(p, data);
    return weft_gemm_fill_sums(p, pass, &own, parameters);
}
