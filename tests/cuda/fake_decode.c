/* SPDX-License-Identifier: Apache-2.0 */
/* What the fake driver does when the decode kernel is launched: the same, in plain C, from the same parameters. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_decode.h"

int fake_run_decode(const char *kernel, unsigned grid, const void *parameters) {
    const weft_decode_params *p = parameters;
    const char *launch = strrchr(kernel, '_');
    char dtype[8];
    int depth, rows;
    if (strcmp(kernel, "decode_deal_runs") == 0) {
        *p->list_head = (weft_decode_list_head){.count = 1};
        return grid == 1 && p->dealt && !p->alike && !p->q ? 0 : 1;
    }
    if (p->list && p->list_head->count != 1) { /* it was not prepared there */
        return 1;
    }
    if (sscanf(kernel, "decode_%7[a-z0-9]_d%d_%d_", dtype, &depth, &rows) != 3 || p->head_dim > depth || grid == 0 ||
        p->group * p->kv_heads != p->heads || p->tiles * rows < p->most * p->group) {
        return 1;
    }
    if (strcmp(launch, "_merge") == 0) {
        return grid == (unsigned)(p->runs.sequences.count * p->runs.tiles * rows) && p->sums ? 0 : 1;
    }
    const char *wanted = p->k_new || p->rotary_dim ? "_append" : p->alike ? "_alike" : p->list ? "_listed" : "_main";
    if (strcmp(launch, wanted) != 0) {
        return 1;
    }
    const weft_attention problem = fake_decode_problem(p, (weft_dtype)weft_dtype_find(dtype));
    const weft_attention_data data = fake_decode_data(p);
    fake_tell(&p->pages, &p->runs.sequences, &p->runs.band);
    return weft_ref_attention(&problem, &data, NULL) == WEFT_OK ? 0 : 1;
}
