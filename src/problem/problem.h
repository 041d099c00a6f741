/* SPDX-License-Identifier: Apache-2.0 */
/* Resolved problems, whose every default is filled in: strides and leading dimensions are never all zero, scale is set, and
 * mask is WEFT_MASK_NONE, WEFT_MASK_CAUSAL or WEFT_MASK_WINDOW with the offset that applies; a window that hides nothing on
 * a side is one of the other two, unless lengths vary or positions count beside the mask, as for slopes. Only where lengths
 * vary may it be a bottom-right one. An o_dtype that is the problem's is 0. Kernels see only these. */
#ifndef WEFT_PROBLEM_PROBLEM_H
#define WEFT_PROBLEM_PROBLEM_H

#include <weft/order.h>
#include <weft/weft.h>

/* Elements that buffers of a resolved problem must hold, strides included. */
typedef struct weft_attention_extents {
    size_t q, k, v, o, qv; /* elements; of qv 0 where there is none */
    size_t lse;            /* floats: batch * heads * seq */
} weft_attention_extents;
typedef struct weft_gemm_extents {
    size_t a, b, c;  /* elements of dtype, dtype and c_dtype */
    size_t residual; /* of c_dtype; 0 where there is none */
} weft_gemm_extents;
weft_attention_extents weft_attention_sizes(const weft_attention *resolved);
weft_gemm_extents weft_gemm_sizes(const weft_gemm *resolved);

/* attention_mask.c. What queries see, of resolved problems: the sequences; the band; whether these are more than a slice
 * says (weft_attention_slice): lengths that vary, chunks, a prefix. */
weft_sequences weft_attention_sequences(const weft_attention *p);
weft_band weft_attention_band(const weft_attention *p);
int weft_attention_has_band(const weft_attention *p);

/* Whether a block mask or a tree mask hides pairs. */
static inline int weft_attention_has_pairs(const weft_attention *p) {
    return p->block_rows > 0 || p->pairs.tree || (p->extras & WEFT_TREE);
}

/* Whether tiles of so many queries and steps of so many keys do not cross the blocks of a block mask, if there is one. */
static inline int weft_attention_fits_blocks(const weft_attention *p, int64_t tile_m, int64_t tile_n) {
    return p->block_rows == 0 || ((p->block_rows % tile_m == 0 || p->seq <= p->block_rows) &&
                                  (p->block_columns % tile_n == 0 || p->kv_seq <= p->block_columns));
}

/* The number of the sequence that has a row of a batch. */
int64_t weft_attention_sequence_of(const weft_attention *p, int64_t batch, int64_t row);

/* The keys that query `row` of a batch sees: begin .. end - 1. Both grow from row to row of a batch. */
weft_rows weft_seen_keys(const weft_attention *p, int64_t batch, int64_t row);

/* Rows of a batch that are written: all but those behind the last sequence of a packed one. Of queries, and of the
 * gradients of keys. */
static inline int64_t weft_attention_rows(const weft_attention *p) {
    return p->lengths.q_starts ? p->lengths.q_starts[p->sequences] : p->seq;
}

static inline int64_t weft_attention_keys(const weft_attention *p) {
    const int32_t *starts = p->lengths.kv_starts ? p->lengths.kv_starts : p->lengths.q_starts;
    return starts ? starts[p->sequences] : p->kv_seq;
}

/* The dtype of results: of O, and backward of dQ, dK and dV. */
static inline weft_dtype weft_attention_out_dtype(const weft_attention *p) {
    return p->o_dtype ? (weft_dtype)(p->o_dtype - 1) : p->dtype;
}

/* Queries of a sequence, at most; 0: not known. */
int64_t weft_attention_most_queries(const weft_attention *p);

/* Keys of the longest sequence, as far as lengths are known. */
int64_t weft_attention_longest(const weft_attention *p);

/* The pairs of query and key of one head that see each other, as the field counts them. */
double weft_attention_pairs(const weft_attention *p);

/* Elements that a score is the sum of products of. */
static inline int64_t weft_attention_score_dim(const weft_attention *p) {
    return p->head_dim + (p->extras & WEFT_QV ? p->head_dim_v : 0);
}

/* The most keys that a query sees, at most. */
int64_t weft_most_seen(const weft_attention *p);

/* What an attention may ask for that not every kernel has. */
enum {
    WEFT_HAS_WINDOW = 1, /* a left edge */
    WEFT_HAS_CHUNK = 2,
    WEFT_HAS_PREFIX = 4,
    WEFT_HAS_LENGTHS = 8, /* that vary: packed batches, used lengths, padding */
    WEFT_HAS_SOFTCAP = 16,
    WEFT_HAS_SINKS = 32,
    WEFT_HAS_ALIBI = 64,
    WEFT_HAS_BIAS = 128,
    WEFT_HAS_DROPOUT = 256,
    WEFT_HAS_MAX = 512,
    WEFT_HAS_ODD_DIM = 1024,    /* a head dim that is no multiple of 8 */
    WEFT_HAS_LARGE_DIM = 2048,  /* a head dim above 256 */
    WEFT_HAS_OTHER_DIM = 4096,  /* V of another head dim than K */
    WEFT_HAS_BLOCKS = 8192,     /* a block mask */
    WEFT_HAS_TREE = 16384,      /* a tree mask */
    WEFT_HAS_UNCACHED = 32767,  /* all of these: what there is to K and V that are no cache */
    WEFT_HAS_PAGES = 32768,     /* keys in pages */
    WEFT_HAS_APPEND = 65536,    /* new keys */
    WEFT_HAS_ROTARY = 131072,   /* queries and new keys are rotated */
    WEFT_HAS_QV = 262144,       /* queries for the values */
    WEFT_HAS_FP32_OUT = 524288, /* results in fp32 of inputs in another dtype */
    WEFT_HAS_CACHE = WEFT_HAS_PAGES | WEFT_HAS_APPEND | WEFT_HAS_ROTARY
};
int32_t weft_attention_asks(const weft_attention *p);

/* The first thing that it asks for and that is not among `known`, in words: "windows"; null when there is none. */
const char *weft_attention_lacks(const weft_attention *p, int32_t known);

/* Whether the lengths that a run brings are within the problem's tensors. The data's lengths are in the host's memory. On
 * return `lengths` are those that count: the problem's and the data's. */
weft_status weft_attention_take_lengths(const weft_attention *p, const weft_lengths *data, weft_lengths *lengths,
                                        weft_message *message);

/* The same where nothing can be read: `known` are the problem's lengths, wherever they are. */
weft_lengths weft_attention_join_lengths(const weft_attention *p, weft_lengths known, const weft_lengths *data);

/* attention_cache.c. The same of a cache: p is the run's own, with the lengths that count, and gets new_starts. The table,
 * too, is in the host's memory: its every entry that is needed must be a page. */
weft_status weft_attention_take_cache(weft_attention *p, const weft_kv_cache_data *data, weft_message *message);
const int32_t *weft_attention_join_new_starts(const weft_attention *p, const int32_t *known,
                                              const weft_kv_cache_data *data);

/* The pages of K and V, for weft_page_of(): none where there are none. */
weft_pages weft_attention_pages(const weft_attention *p, const weft_attention_data *data);

/* Columns of a batch: keys, or, in a packed batch with pages, those of the lists of all sequences. */
int64_t weft_attention_columns(const weft_attention *p);

/* The keys that a run appends to a sequence: rows `first` to first + count - 1 of `batch` of k_new and v_new become columns
 * from `column` on, behind `used` keys of the sequence. Those without room are not among them. */
typedef struct weft_new_keys {
    int64_t batch, first, column, count, used;
} weft_new_keys;
weft_new_keys weft_attention_new_keys(const weft_attention *p, const weft_sequences *all, int64_t number);

/* The row of cos and sin for new key i of a sequence, and for a row of Q. */
int64_t weft_attention_position(const weft_attention *p, const weft_sequences *all, const int32_t *positions,
                                int64_t number, int64_t i);
int64_t weft_attention_query_position(const weft_attention *p, const weft_sequences *all, const int32_t *positions,
                                      int64_t number, int64_t row);

/* attention_pairs.c. The same of block masks and tree masks. The checks of a tree mask need the lengths: those of the
 * problem must be all that count. */
weft_status weft_attention_take_pairs(const weft_attention *p, const weft_pairs *data, weft_pairs *pairs,
                                      weft_message *message);
weft_pairs weft_attention_join_pairs(const weft_attention *p, weft_pairs known, const weft_pairs *data);

/* The block mask and the tree mask of a resolved problem, for weft_reach_set_blocks() or weft_blocks_word(). */
weft_blocks weft_attention_blocks(const weft_attention *p);

/* Whether a query of a head sees a key that its band shows. The reference asks so, pair by pair. */
int weft_attention_shows(const weft_attention *p, const weft_blocks *blocks, int64_t batch, int64_t head, int64_t row,
                         int64_t key);

/* Lengths and pairs in memory at `from`, which a plan keeps, when it has been copied to `to`. */
weft_sequences weft_sequences_move(weft_sequences all, const void *from, uintptr_t to);
weft_pairs weft_pairs_move(weft_pairs pairs, const void *from, uintptr_t to);

/* Index of the first element of a (batch, position in the sequence, head) row of a tensor. */
static inline size_t weft_row_index(const weft_strides *s, int64_t batch, int64_t position, int64_t head) {
    return (size_t)(batch * s->batch + position * s->seq + head * s->head);
}

/* Scores of all pairs, (batch, heads, seq, kv_seq): how many, at most what a size holds, and the index of one. */
static inline size_t weft_attention_all_scores(const weft_attention *p) {
    const double all = (double)p->batch * (double)p->heads * (double)p->seq * (double)p->kv_seq;
    return all < 0x1p60 ? (size_t)(p->batch * p->heads * p->seq * p->kv_seq) : (size_t)1 << 60;
}

static inline size_t weft_attention_score_at(const weft_attention *p, int64_t batch, int64_t head, int64_t row,
                                             int64_t key) {
    return (size_t)(((batch * p->heads + head) * p->seq + row) * p->kv_seq + key);
}

/* Index of element (row, col) of a matrix with leading dimension ld. */
static inline size_t weft_matrix_index(weft_major major, int64_t ld, int64_t row, int64_t col) {
    return (size_t)(major == WEFT_ROW_MAJOR ? row * ld + col : col * ld + row);
}

/* Columns of C, and of B from the gate to the value: half of B's where they are gated. */
static inline int64_t weft_gemm_columns(const weft_gemm *p) {
    return p->gated ? p->n / 2 : p->n;
}

/* Whether a product is more than C = alpha A B + beta C. */
static inline int weft_gemm_is_fused(const weft_gemm *p) {
    return p->extras != 0 || p->activation != WEFT_IDENTITY || p->gated;
}

/* The data of one product of a batch. */
weft_gemm_data weft_gemm_product(const weft_gemm *p, const weft_gemm_data *all, int64_t product);

#endif
