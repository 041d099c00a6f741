/* SPDX-License-Identifier: Apache-2.0 */
/* Lengths of sequences, bounds of groups, and the arrays of block masks and tree masks, where kernels read them: those that
 * a plan knows in memory of its own, those that a run brings in the caller's. */
#include "base/status.h"
#include "cuda/plan/backend.h"
#include "problem/problem.h"

weft_status weft_cuda_place_lengths(weft_plan *plan, weft_message *message) {
    weft_cuda_plan *c = plan->placed;
    const size_t bytes = plan->operation->kept_bytes ? plan->operation->kept_bytes(&plan->problem) : 0;
    if (bytes == 0) {
        return WEFT_OK;
    }
    weft_cu_result result = c->driver->memory_new(&c->lengths, bytes);
    if (result) {
        c->lengths = 0;
        return weft_cuda_fail(c->driver, result, "no memory on the GPU for a plan's lengths", message);
    }
    result = weft_cuda_copy_in(c->driver, c->lengths, plan->kept, bytes);
    for (int i = 0; i < c->pass_count && plan->operation->lengths; i++) {
        weft_sequences *all = &c->passes[i].walk.reach.sequences;
        weft_pairs *pairs = &c->passes[i].walk.reach.blocks.pairs;
        *all = weft_sequences_move(*all, plan->kept, (uintptr_t)c->lengths);
        *pairs = weft_pairs_move(*pairs, plan->kept, (uintptr_t)c->lengths);
    }
    return result ? weft_cuda_fail(c->driver, result, "the plan's lengths cannot be copied", message) : WEFT_OK;
}

weft_walk weft_cuda_walk_with(const weft_plan *plan, const weft_cuda_pass *pass, const void *data) {
    weft_walk walk = pass->walk;
    weft_sequences *all = &walk.reach.sequences;
    weft_pairs *pairs = &walk.reach.blocks.pairs;
    if (plan->operation->lengths) {
        const void *brought = (const char *)data + plan->operation->lengths;
        const void *more = (const char *)data + plan->operation->pairs;
        all->lengths = weft_attention_join_lengths(&plan->attention, all->lengths, brought);
        *pairs = weft_attention_join_pairs(&plan->attention, *pairs, more);
    }
    if (plan->operation->cache) {
        const void *cache = (const char *)data + plan->operation->cache;
        all->new_starts = weft_attention_join_new_starts(&plan->attention, all->new_starts, cache);
    }
    return walk;
}
