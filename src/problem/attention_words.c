/* SPDX-License-Identifier: Apache-2.0 */
/* Attention in words: a line, a title, the class that a tuning is for. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "problem/attention.h"
#include "problem/problem.h"

/* Adds words to a text, as far as there is room. */
static void add(char *text, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void add(char *text, size_t size, const char *format, ...) {
    const size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, size - used, format, arguments);
    va_end(arguments);
}

/* What queries see: "causal, offset 3", "window 128,0, from the end of each sequence, chunks of 512". */
static void add_mask(const weft_attention *p, char *text, size_t size) {
    const int from_end = p->mask == WEFT_MASK_CAUSAL_BOTTOM_RIGHT || p->mask == WEFT_MASK_WINDOW_BOTTOM_RIGHT;
    const int windowed = p->mask == WEFT_MASK_WINDOW || p->mask == WEFT_MASK_WINDOW_BOTTOM_RIGHT;
    if (p->mask == WEFT_MASK_NONE) {
        add(text, size, ", no mask");
    } else if (!windowed) {
        add(text, size, ", causal");
    } else if (p->left >= 0 || p->right >= 0) {
        add(text, size, ", window %" PRId64 ",%" PRId64, p->left, p->right);
    }
    if (p->chunk > 0) {
        add(text, size, ", chunks of %" PRId64, p->chunk);
    }
    if (p->prefix > 0) {
        add(text, size, ", prefix %" PRId64, p->prefix);
    }
    if (p->block_rows > 0) {
        add(text, size, ", blocks of %" PRId64 "x%" PRId64, p->block_rows, p->block_columns);
    }
    if (weft_attention_asks(p) & WEFT_HAS_TREE) {
        add(text, size, ", tree");
    }
    if (from_end) {
        add(text, size, ", bottom right");
    } else if (p->mask != WEFT_MASK_NONE) {
        add(text, size, ", offset %" PRId64, p->offset);
    }
}

/* How the sequences of a batch differ: "packed, 3 sequences of 37 to 2000, 17 to 4096 keys each". */
static void add_lengths(const weft_attention *p, char *text, size_t size) {
    const int32_t *starts = p->lengths.q_starts, *used = p->lengths.kv_used;
    int64_t least = WEFT_MAX_DIMENSION, most = 0;
    for (int64_t i = 0; i < p->sequences && starts; i++) {
        least = weft_smaller(least, starts[i + 1] - starts[i]);
        most = weft_larger(most, starts[i + 1] - starts[i]);
    }
    if (p->sequences > 0) {
        add(text, size, ", packed, %" PRId64 " sequence%s", p->sequences, p->sequences == 1 ? "" : "s");
    }
    if (starts && least < most) {
        add(text, size, " of %" PRId64 " to %" PRId64, least, most);
    } else if (starts) {
        add(text, size, " of %" PRId64, most);
    }
    least = used ? used[0] : 0;
    most = 0;
    for (int64_t i = 0; used && i < (p->sequences > 0 ? p->sequences : p->batch); i++) {
        least = weft_smaller(least, used[i]);
        most = weft_larger(most, used[i]);
    }
    if (used) {
        add(text, size, ", %" PRId64 " to %" PRId64 " keys each", least, most);
    }
    if (p->lengths.q_used || p->lengths.kv_pad || (p->extras & (WEFT_Q_USED | WEFT_KV_USED | WEFT_KV_PAD))) {
        add(text, size, ", padded");
    }
}

/* How keys lie and grow: "pages of 16, append 1, rotary 64". */
static void add_cache(const weft_attention *p, char *text, size_t size) {
    if (p->cache.page > 0) {
        add(text, size, ", pages of %" PRId64, p->cache.page);
    }
    if (p->cache.append > 0) {
        add(text, size, ", append %" PRId64, p->cache.append);
    }
    if (p->cache.rotary_dim > 0) {
        add(text, size, ", rotary %" PRId64 "%s", p->cache.rotary_dim, p->cache.rotary_interleaved ? " interleaved" : "");
    }
}

/* What becomes of scores: "softcap 30, sinks". */
static void add_scores(const weft_attention *p, char *text, size_t size) {
    static const struct {
        int32_t bit;
        const char *name;
    } extras[] = {{WEFT_SINKS, "sinks"}, {WEFT_ALIBI, "alibi"}, {WEFT_BIAS, "bias"}, {WEFT_QV, "qv"}};
    if (p->softcap > 0) {
        add(text, size, ", softcap %g", p->softcap);
    }
    for (size_t i = 0; i < sizeof extras / sizeof *extras; i++) {
        if (p->extras & extras[i].bit) {
            add(text, size, ", %s", extras[i].name);
        }
    }
    if (p->dropout > 0) {
        add(text, size, ", dropout %g", p->dropout);
    }
}

int weft_attention_line(const char *name, const weft_attention *p, char *text, size_t size) {
    char words[320] = "", of_v[40] = "";
    if (p->head_dim_v != p->head_dim) {
        snprintf(of_v, sizeof of_v, " (V %" PRId64 ")", p->head_dim_v);
    }
    if (p->o_dtype) {
        add(words, sizeof words, ", %s out", weft_dtype_name(weft_attention_out_dtype(p)));
    }
    add_mask(p, words, sizeof words);
    add_lengths(p, words, sizeof words);
    add_cache(p, words, sizeof words);
    add_scores(p, words, sizeof words);
    return snprintf(text, size,
                    "%s  batch %" PRId64 ", heads %" PRId64 " over %" PRId64 " kv heads, %" PRId64 " queries x %" PRId64
                    " keys, head dim %" PRId64 "%s, %s%s\n",
                    name, p->batch, p->heads, p->kv_heads, p->seq, p->kv_seq, p->head_dim, of_v, weft_dtype_name(p->dtype),
                    words);
}

/* "Causal attention", after what narrows it most. */
static const char *kind_of(const weft_attention *p) {
    return p->chunk > 0                                                              ? "Chunked attention"
           : p->mask == WEFT_MASK_NONE                                               ? "Attention"
           : p->mask == WEFT_MASK_CAUSAL || p->mask == WEFT_MASK_CAUSAL_BOTTOM_RIGHT ? "Causal attention"
                                                                                     : "Windowed attention";
}

int weft_attention_caption(const char *pass, const weft_attention *p, char *text, size_t size) {
    char queries[24], key_count[24], batch[48] = "", over[40] = "", keys[48] = " and keys";
    if (p->sequences > 0) {
        snprintf(batch, sizeof batch, "%" PRId64 " packed sequence%s, ", p->sequences, p->sequences == 1 ? "" : "s");
    } else if (p->batch > 1) {
        snprintf(batch, sizeof batch, "batch %" PRId64 ", ", p->batch);
    }
    if (p->kv_heads != p->heads) {
        snprintf(over, sizeof over, " over %" PRId64, p->kv_heads);
    }
    if (p->kv_seq != p->seq) {
        snprintf(keys, sizeof keys, ", %s keys", weft_size_text(p->kv_seq, key_count, sizeof key_count));
    }
    return snprintf(text, size, "%s%s, %s%" PRId64 " head%s%s of %" PRId64 ", %s queries%s, %s", kind_of(p), pass, batch,
                    p->heads, p->heads == 1 ? "" : "s", over, p->head_dim, weft_size_text(p->seq, queries, sizeof queries),
                    keys, weft_dtype_name(p->dtype));
}

/* A packed batch of few queries each: other kernels take it. */
static int few_each(const weft_attention *p) {
    const int64_t most = weft_attention_most_queries(p);
    return most > 0 && most <= 64;
}

/* What a key's eight numbers do not say. Windows are among these numbers, so their bit says that a batch is packed, and
 * that of the maximum that its sequences have few queries each. */
enum { KEY_FEATURES = ~(WEFT_HAS_WINDOW | WEFT_HAS_ODD_DIM | WEFT_HAS_LARGE_DIM | WEFT_HAS_MAX) };

/* The mask of a key: whether positions count from the end does not change what is fast. */
static int64_t key_mask(const weft_attention *p) {
    return p->mask == WEFT_MASK_CAUSAL_BOTTOM_RIGHT   ? WEFT_MASK_CAUSAL
           : p->mask == WEFT_MASK_WINDOW_BOTTOM_RIGHT ? WEFT_MASK_WINDOW
                                                      : p->mask;
}

/* Names of the features that a key has, numbers beside those that have some. */
static void add_features(const weft_attention *p, const int64_t *n, char *text, size_t size) {
    if (p->head_dim_v != p->head_dim) {
        add(text, size, ", V of %" PRId64, n[9]);
    }
    if (n[10] > 0) {
        add(text, size, ", %s %" PRId64, p->chunk > 0 ? "chunks of" : "prefix", n[10]);
    }
    if (p->sequences > 0) {
        add(text, size, few_each(p) ? ", packed, few queries each" : ", packed");
    }
    if (n[11] > 0) {
        add(text, size, ", lengths to %" PRId64, n[11]);
    }
    if (p->cache.page > 0) {
        add(text, size, ", pages of %" PRId64, n[12]);
    }
    for (int32_t bit = WEFT_HAS_SOFTCAP; bit <= WEFT_HAS_FP32_OUT; bit *= bit == WEFT_HAS_DROPOUT ? 32 : 2) { /* no dims */
        const char *name = n[8] & ~WEFT_HAS_PAGES & bit ? weft_attention_lacks(p, ~bit) : NULL;
        if (name) {
            add(text, size, ", %s", name);
        }
    }
}

size_t weft_attention_key(const char *name, const weft_attention *p, int64_t *n, char *text, size_t size) {
    const int32_t features = weft_attention_asks(p) & KEY_FEATURES, packed = p->sequences > 0 ? WEFT_HAS_WINDOW : 0;
    const int64_t numbers[] = {p->dtype,
                               p->head_dim,
                               key_mask(p),
                               p->heads / p->kv_heads,
                               weft_bucket(p->batch * p->heads),
                               weft_bucket(p->seq),
                               weft_bucket(p->kv_seq),
                               weft_bucket(weft_most_seen(p)),
                               features | packed | (packed && few_each(p) ? WEFT_HAS_MAX : 0),
                               p->head_dim_v,
                               p->chunk + p->prefix > 0 ? weft_bucket(p->chunk + p->prefix) : 0,
                               features & WEFT_HAS_LENGTHS ? weft_bucket(weft_attention_longest(p)) : 0,
                               weft_bucket(p->cache.page)};
    const size_t count = features & WEFT_HAS_PAGES ? 13 : features ? 12 : 8;
    char seen[256] = "";
    for (size_t i = 0; i < count; i++) {
        n[i] = numbers[i];
    }
    if (n[2]) {
        add(seen, sizeof seen, ", %s %" PRId64, n[2] == WEFT_MASK_CAUSAL ? "causal to" : "window of", n[7]);
    }
    if (features) {
        add_features(p, n, seen, sizeof seen);
    }
    snprintf(text, size,
             "%s %s, head dim %" PRId64 ", heads %" PRId64 " by %" PRId64 ", queries %" PRId64 ", keys %" PRId64 "%s", name,
             weft_dtype_name(p->dtype), n[1], n[4], n[3], n[5], n[6], seen);
    return count;
}
