/* SPDX-License-Identifier: Apache-2.0 */
/* The combine kernel behind the fake driver: a launch runs the kernel's own source, see emulate.h. */
#include "cuda/combine/params.h"
#include "emulate.h"

extern "C" {
#include "fake_driver.h"

void combine_parts(weft_combine_params p);
}

int fake_run_combine(unsigned grid, const void *parameters) {
    emulated_launch({[](void *argument) { combine_parts(*(const weft_combine_params *)argument); }, (void *)parameters,
                     grid, WEFT_COMBINE_THREADS, [] {}, nullptr, nullptr});
    return 0;
}
