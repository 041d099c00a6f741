/* SPDX-License-Identifier: Apache-2.0 */
/* The decode kernel behind the fake driver: a launch runs the kernel's own source, see emulate.h. */
#include "cuda/decode/params.h"
#include "cuda/ptx/cp_async.cuh"

extern "C" {
#include "fake_driver.h"

#define WEFT_DECODE(symbol, ...)                                                                                           \
    void symbol##_main(weft_decode_params p);                                                                              \
    void symbol##_alike(weft_decode_params p);                                                                             \
    void symbol##_listed(weft_decode_params p);                                                                            \
    void symbol##_append(weft_decode_params p);                                                                            \
    void symbol##_merge(weft_decode_params p);
#include "cuda/decode/variants.def"
void decode_deal_runs(weft_decode_params p);
}

/* Copies that nobody waited for end with their CTA. */
static void begin() {
    for (emulated_orders<emulated_copy> &copies : emulated_copies_of) {
        copies = {};
    }
}

template <void (*ENTRY)(weft_decode_params)> static int run(unsigned grid, unsigned warps, const void *parameters) {
    emulated_launch({[](void *argument) { ENTRY(*(const weft_decode_params *)argument); }, (void *)parameters, grid,
                     32 * warps, begin, nullptr, nullptr});
    return 0;
}

/* The list has every leaf of every sequence and tile once, a place of its own for each run, and longer runs first. */
static void check_list(const weft_decode_params &p) {
    const int count = p.list_head->count, tiles = (int)p.runs.tiles;
    std::vector<int64_t> leaves(p.runs.sequences.count * tiles), runs(leaves.size());
    std::vector<char> taken(count);
    for (int i = 0; i < count; i++) {
        const weft_decode_listed &run = p.list[i];
        const weft_decode_dealt &dealt = p.dealt[run.sequence];
        const int within = run.place - dealt.place;
        const bool is_sorted = i == 0 || run.end - run.begin <= p.list[i - 1].end - p.list[i - 1].begin;
        if (!is_sorted || run.place < 0 || run.place >= count || taken[run.place]++ || run.count != dealt.count ||
            within < 0 || within >= dealt.count * tiles || within % tiles != run.tile) {
            emulated_fail("run %d of the list, of sequence %d, is wrong", i, run.sequence);
        }
        leaves[run.sequence * tiles + run.tile] += run.end - run.begin;
        runs[run.sequence * tiles + run.tile]++;
    }
    for (size_t i = 0; i < runs.size(); i++) {
        const weft_rows all = weft_run_leaves(&p.runs, (int64_t)i / tiles);
        if (runs[i] != p.dealt[i / tiles].count || leaves[i] != all.end - all.begin) {
            emulated_fail("sequence %d has not all its leaves in the list", (int)i / tiles);
        }
    }
}

int fake_run_decode(const char *kernel, unsigned grid, const void *parameters) {
    if (strcmp(kernel, "decode_deal_runs") == 0) {
        run<decode_deal_runs>(grid, WEFT_DECODE_DEAL_WARPS, parameters);
        check_list(*(const weft_decode_params *)parameters);
        return 0;
    }
#define WEFT_DECODE(symbol, ...)                                                                                           \
    if (strcmp(kernel, #symbol "_main") == 0) {                                                                            \
        return run<symbol##_main>(grid, WEFT_DECODE_WARPS, parameters);                                                    \
    }                                                                                                                      \
    if (strcmp(kernel, #symbol "_alike") == 0) {                                                                           \
        return run<symbol##_alike>(grid, WEFT_DECODE_WARPS, parameters);                                                   \
    }                                                                                                                      \
    if (strcmp(kernel, #symbol "_listed") == 0) {                                                                          \
        return run<symbol##_listed>(grid, WEFT_DECODE_WARPS, parameters);                                                  \
    }                                                                                                                      \
    if (strcmp(kernel, #symbol "_append") == 0) {                                                                          \
        return run<symbol##_append>(grid, WEFT_DECODE_WARPS, parameters);                                                  \
    }                                                                                                                      \
    if (strcmp(kernel, #symbol "_merge") == 0) {                                                                           \
        return run<symbol##_merge>(grid, WEFT_DECODE_MERGE_WARPS, parameters);                                             \
    }
#include "cuda/decode/variants.def"
    return 1;
}
