/* SPDX-License-Identifier: Apache-2.0 */
/* Where a rank computes: on a GPU, copies of the host's memory, which are copied back when they are given back. */
#ifndef WEFT_TESTS_DIST_LEND_H
#define WEFT_TESTS_DIST_LEND_H

#include "../cmocka_all.h"
#include "cuda/driver/driver.h"

/* gpu: null where it computes on the CPU; else its context is current. */
static inline void *lend(const weft_cuda_driver *gpu, void *host, size_t bytes) {
    uint64_t there = 0;
    if (!gpu || !host) {
        return host;
    }
    assert_int_equal(gpu->memory_new(&there, bytes ? bytes : 1), 0);
    assert_int_equal(gpu->copy_in(there, host, bytes), 0);
    return (void *)(uintptr_t)there;
}

static inline void take_back(const weft_cuda_driver *gpu, void *there, void *host, size_t bytes) {
    if (gpu && host) {
        assert_int_equal(gpu->copy_out(host, (uint64_t)(uintptr_t)there, bytes), 0);
        assert_int_equal(gpu->memory_free((uint64_t)(uintptr_t)there), 0);
    }
}

#endif
