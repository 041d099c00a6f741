/* SPDX-License-Identifier: Apache-2.0 */
/* Attention over KV caches on the CPU: pages, appended keys, rotation, lengths of any kind. What a batch of sequences gives
 * is what each gives alone; lists of pages and lengths that lead nowhere are refused, and nothing is written. */
#include "draw.h"

#include "../caches.h"

/* Puts a wrong page into a list, or a wrong length where there are any; returns whether it may be there: pages of keys that
 * no query sees are not looked at. */
enum { RIGHT, UNSEEN, WRONG };

static int spoil(uint64_t *seed, cache_case *c) {
    const int64_t sequence = random_between(seed, 0, c->sequences - 1);
    const int32_t wrong = (int32_t)random_between(seed, INT32_MIN, INT32_MAX);
    if (c->p.cache.page > 0 && case_keys(c, sequence) > 0 && random_between(seed, 0, 1)) {
        const int64_t entry = random_between(seed, 0, (case_keys(c, sequence) - 1) / c->p.cache.page);
        c->table[sequence * c->p.cache.table_stride + entry] = wrong;
        return wrong < 0 || wrong >= c->p.cache.pages ? UNSEEN : RIGHT;
    }
    const int has = c->p.lengths.kv_used || c->data.lengths.kv_used;
    const int64_t room = case_room(c, sequence);
    c->used[sequence] = has ? wrong : c->used[sequence];
    return has && (wrong < 0 || wrong > room) ? WRONG : RIGHT;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint64_t seed = draw_from(data, size);
    const int round = (int)random_between(&seed, 0, 5), is_wrong = random_between(&seed, 0, 3) == 0;
    weft_message message = {""};
    cache_case c;
    case_new_random(&seed, round, &c);
    const weft_schedule s = case_schedule(&seed, &c);
    if (!is_wrong) {
        require(case_run(&c, &s, &message) == WEFT_OK);
        check_case(&seed, &c);
    } else {
        const int kind = spoil(&seed, &c);
        const weft_status status = kind == RIGHT ? WEFT_OK : case_run(&c, &s, &message);
        require(status == WEFT_INVALID || (status == WEFT_OK && kind != WRONG));
        if (status) {
            require(message.text[0] && memcmp(c.kv, c.kv_before, c.kv_bytes) == 0);
            require(memcmp(c.v_own, c.v_before, c.v_bytes) == 0);
            guarded_check(c.data.o, c.size.o * weft_dtype_bytes(c.p.dtype), NULL);
        }
    }
    case_free(&c);
    return 0;
}
