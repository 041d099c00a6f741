/* SPDX-License-Identifier: Apache-2.0 */
/* What kernels tell of a cache's lists and lengths, which only they read: a word in pinned memory. */
#include <inttypes.h>

#include "base/status.h"
#include "cuda/plan/backend.h"
#include "problem/problem.h"

void weft_cuda_fault_new(weft_plan *plan) {
    weft_cuda_plan *c = plan->placed;
    const weft_cuda_driver *driver = c->driver;
    void *host = NULL;
    if (!plan->operation->cache || !(weft_attention_asks(&plan->attention) & WEFT_HAS_CACHE) || !driver->host_new ||
        !driver->host_free || !driver->host_device || driver->host_new(&host, sizeof *c->fault.host, WEFT_CU_HOST_MAPPED)) {
        return; /* results are the same, and nobody tells */
    }
    c->fault.host = host;
    *c->fault.host = 0;
    if (driver->host_device(&c->fault.device, host, 0)) {
        c->fault.device = 0;
    }
}

void weft_cuda_fault_free(weft_cuda_plan *c) {
    if (c->fault.host) {
        c->driver->host_free(c->fault.host);
    }
}

weft_status weft_cuda_fault_take(const weft_plan *plan, const char *when, weft_message *message) {
    const weft_cuda_plan *c = plan->placed;
    if (!c->fault.host || __atomic_load_n(c->fault.host, __ATOMIC_RELAXED) == 0) {
        return WEFT_OK;
    }
    const uint64_t word = __atomic_exchange_n(c->fault.host, 0, __ATOMIC_RELAXED);
    const weft_attention *p = &plan->attention;
    const int64_t index = (int64_t)(word >> 32 & INT32_MAX), each = weft_larger(p->cache.table_stride, 1);
    const int32_t found = (int32_t)(uint32_t)word;
    return word >> 63 ? weft_fail(message, WEFT_INVALID,
                                  "%slengths.kv_used of sequence %" PRId64 " was %d, not between 0 and %" PRId64, when,
                                  index, (int)found, p->kv_seq)
                      : weft_fail(message, WEFT_INVALID,
                                  "%scache.table of sequence %" PRId64 ", entry %" PRId64 " was %d, and there are %" PRId64
                                  " pages",
                                  when, index / each, index % each, (int)found, p->cache.pages);
}

weft_pages weft_cuda_pages(const weft_plan *plan, const weft_attention_data *data) {
    const weft_cuda_plan *c = plan->placed;
    weft_pages pages = weft_attention_pages(&plan->attention, data);
    pages.fault = (uint64_t *)(uintptr_t)c->fault.device;
    return pages;
}
