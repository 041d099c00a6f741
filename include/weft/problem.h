/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Problems: what to compute. Each operation has a struct, and its _INIT macro.
 */
#ifndef WEFT_PROBLEM_H
#define WEFT_PROBLEM_H

#include "order.h"
#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

/** What kind of work a problem is. A problem's struct and its data's struct both say so, behind struct_size. */
typedef enum weft_operation {
    WEFT_ATTENTION = 1,          /**< weft_attention and weft_attention_data */
    WEFT_ATTENTION_BACKWARD = 2, /**< weft_attention and weft_attention_gradients */
    WEFT_GEMM = 3,               /**< weft_gemm and weft_gemm_data */
    WEFT_COMBINE = 4,            /**< weft_combine and weft_combine_data */
    WEFT_GROUPED_GEMM = 5        /**< weft_grouped_gemm and weft_grouped_gemm_data */
} weft_operation;

typedef enum weft_dtype {
    WEFT_FP32 = 0,
    WEFT_FP16 = 1,
    WEFT_BF16 = 2,
    WEFT_FP8 = 3 /**< e4m3 or e5m2, which cost the same: for the simulator; no kernel takes it yet */
} weft_dtype;

/** What buffers may hold beside: lengths and lists, masks of a byte each, and masks of 32 or 64 bits. */
#define WEFT_INT32 ((weft_dtype)4)
#define WEFT_BOOL  ((weft_dtype)5)
#define WEFT_INT64 ((weft_dtype)6)

/** Order of the dimensions in memory, the last one contiguous. */
typedef enum weft_layout {
    WEFT_BSHD = 0, /**< (batch, seq, heads, head_dim) */
    WEFT_BHSD = 1  /**< (batch, heads, seq, head_dim) */
} weft_layout;

typedef enum weft_mask {
    WEFT_MASK_NONE = 0,
    WEFT_MASK_CAUSAL = 1,              /**< query i sees keys 0 .. i + offset */
    WEFT_MASK_CAUSAL_BOTTOM_RIGHT = 2, /**< the last query sees the last key: offset is kv_seq - seq */
    WEFT_MASK_WINDOW = 3,              /**< query i sees keys i + offset - left .. i + offset + right */
    WEFT_MASK_WINDOW_BOTTOM_RIGHT = 4  /**< the same with an offset of kv_seq - seq */
} weft_mask;

/** Distances in elements. All zero: packed, in the problem's layout. A zero beside non-zeros repeats an input, and the
 * gradients of what it repeats add up. */
typedef struct weft_strides {
    int64_t batch, seq, head;
} weft_strides;

/** What the data of an attention has beside Q, K, V and O: a set of bits. */
typedef enum weft_attention_extras {
    WEFT_SINKS = 1,       /**< data.sinks: a score for each head that takes weight and has no value */
    WEFT_ALIBI = 2,       /**< data.alibi: slopes; a score falls by slope * distance of query and key */
    WEFT_BIAS = 4,        /**< data.bias: what is added to scores, or which of them count */
    WEFT_STARTS = 8,      /**< lengths.q_starts: a packed batch */
    WEFT_Q_USED = 16,     /**< lengths.q_used */
    WEFT_KV_USED = 32,    /**< lengths.kv_used */
    WEFT_KV_PAD = 64,     /**< lengths.kv_pad */
    WEFT_MAX = 256,       /**< data.max is written */
    WEFT_KV_STARTS = 128, /**< lengths.kv_starts, where keys are packed unlike queries; only with WEFT_STARTS */
    WEFT_BLOCKS = 512,    /**< pairs.block_starts, block_list, block_bits_at and block_bits: a block mask */
    WEFT_TREE = 1024,     /**< pairs.tree: a tree mask */
    WEFT_QV = 2048        /**< data.qv: queries for the values, whose products with V count as scores, too */
} weft_attention_extras;

/** What a bias is made of. */
typedef enum weft_bias_type {
    WEFT_BIAS_DTYPE = 0, /**< added to scores, of the problem's dtype */
    WEFT_BIAS_FP32 = 1,  /**< the same in fp32 */
    WEFT_BIAS_BOOL = 2   /**< bytes: a key is seen where it is not 0 and the mask shows it */
} weft_bias_type;

/** K and V as a cache of sequences that grow: in pages, with new keys to append, rotated. Zeros: they are tensors like any
 * other.
 *
 * In pages, K and V are (pages, page, kv_heads, head_dim), and the batch strides of K and V go from page to page. Key i of
 * a sequence is row i % page of page table[i / page] of its list, of which kv_seq / page entries count. A cache whose
 * sequences are picked by number is one with a page for each.
 *
 * A run appends before queries see anything: sequence s has kv_used keys, or kv_seq - append without lengths, and as many
 * more behind them as it has new ones, at most `append`: all, or in a packed batch those between its new_starts. Its keys
 * then are both. Rotation turns pairs of Q's and the new keys' first rotary_dim elements by their position: that of a new
 * key among the keys, or counted from data.cache.positions; query i of a sequence has that of new key i, or, where no mask
 * goes by positions, of the first. */
typedef struct weft_kv_cache {
    int64_t page;         /**< keys of a page; 0: none */
    int64_t pages;        /**< that K and V have; 0: as many as data.cache.table has entries */
    int64_t table_stride; /**< entries of data.cache.table from sequence to sequence; 0: kv_seq / page */
    int64_t append;       /**< new keys of each sequence, at most; a packed batch: of all together; 0: none */
    weft_strides k_new_strides, v_new_strides; /**< of (batch, append, kv_heads, head_dim); all 0: in the layout */
    int64_t rotary_dim;                        /**< even, at most head_dim; 0: nothing is rotated */
    int64_t rotary_rows;                       /**< positions that cos and sin have */
    int32_t rotary_interleaved;                /**< 1: pairs are neighbours; 0: rotary_dim / 2 apart */
    int32_t dtype;             /**< 0, or 1 + the weft_dtype of K and V in the cache, which must be the problem's as yet */
    const int32_t *new_starts; /**< as data.cache.new_starts, where they are known now; in the host's memory, copied */
} weft_kv_cache;

/** An attention: O = softmax(scores) V with scores = scale * Q K^T, for each batch and head; or its gradients, when
 * operation is WEFT_ATTENTION_BACKWARD.
 *
 * Q is (batch, seq, heads, head_dim), K (batch, kv_seq, kv_heads, head_dim), V as K and O as Q but with head_dim_v; query
 * head h reads kv head h / (heads / kv_heads). A query that sees no key gets zeros and an LSE of -inf, or its sink where
 * there is one.
 *
 * With WEFT_QV scores are scale * (Q K^T + QV V^T), and QV is (batch, seq, heads, head_dim_v): multi-head latent attention
 * with the projections of keys absorbed. A cache of latent vectors then is K and V in one: K is the part that has been
 * rotated, V the rest, and both are views of the same memory, with the same strides. Rotation leaves QV and V as they are.
 *
 * Scores are scaled, then capped, then biased, then masked. Query i of a sequence stands at position i + offset among its
 * keys, under a bottom-right mask and under none at i + keys - queries.
 *
 * A packed batch is one batch of seq queries and kv_seq keys in which `sequences` sequences lie one behind the other.
 * Lengths that are known now are given here, in the host's memory, and are copied; those that are known only when the plan
 * runs come with its data, in memory of the device, and `extras` says which: a plan then fits all lengths that its tensors
 * hold. On a GPU, what K and V hold that does not count must be finite.
 *
 * A block mask hides all pairs of query and key but those of the blocks that its lists name, and those whose bit is 0: see
 * weft_pairs. The queries block_rows * i and those behind them have list batch * block_batch_stride + head *
 * block_head_stride + i. A tree mask hides pairs of the last keys, for up to 64 queries of a sequence, as speculative
 * decoding has them. Of what the mask above shows, a query sees what both leave. As lengths are, they are given here, or
 * `extras` says that the data has them.
 */
typedef struct weft_attention {
    size_t struct_size; /**< set by WEFT_ATTENTION_INIT */
    int32_t operation;  /**< WEFT_ATTENTION or WEFT_ATTENTION_BACKWARD */
    int64_t batch;
    int64_t heads, kv_heads; /**< kv_heads divides heads */
    int64_t seq, kv_seq;     /**< queries and keys */
    int64_t head_dim;        /**< of Q and K, at most WEFT_MAX_HEAD_DIM */
    weft_dtype dtype;        /**< of Q, K, V and O, where o_dtype says no other */
    weft_mask mask;
    int64_t offset; /**< WEFT_MASK_CAUSAL and WEFT_MASK_WINDOW: position of the first query among the keys; 0 otherwise */
    double scale; /**< 0: 1 / sqrt(head_dim), with WEFT_QV 1 / sqrt(head_dim + head_dim_v); else of 1e-30 to 1e30 in size */
    weft_layout layout;
    weft_strides q_strides, k_strides, v_strides, o_strides;
    int64_t left, right; /**< windows: keys before and behind a query's own position; below 0: all. Else 0 or below */
    int64_t chunk;       /**< above 0: of what the mask shows, a query sees the keys whose position / chunk is its own */
    int64_t prefix;      /**< above 0: every query sees the first so many keys, too; not with a left edge or chunks */
    int64_t head_dim_v;  /**< of V, QV and O, at most WEFT_MAX_HEAD_DIM, with WEFT_QV less head_dim; 0: head_dim */
    double softcap;      /**< above 0: scores become softcap * tanh(score / softcap); as scale of 1e-30 to 1e30 */
    double dropout;      /**< probability that a weight counts as 0, below 1; the others are divided by 1 - dropout */
    int32_t extras;      /**< what the data has beside Q, K, V and O: weft_attention_extras */
    int32_t bias_type;   /**< a weft_bias_type */
    weft_strides bias_strides; /**< of data.bias, (batch, heads, seq, kv_seq) where all four are 0 */
    int64_t bias_key_stride;
    int64_t alibi_stride;  /**< of data.alibi from batch to batch (packed: sequence to sequence); 0: all have the same */
    int64_t sequences;     /**< above 0: packed, batch is 1 */
    weft_lengths lengths;  /**< those that are known now */
    int64_t block_rows;    /**< block mask: queries of a block, a multiple of 16; 0: there is none */
    int64_t block_columns; /**< keys of a block, a multiple of 32; 0 with block_rows */
    int64_t block_batch_stride, block_head_stride; /**< in lists; 0: batches, or heads, share theirs */
    int64_t block_entries, block_bitmaps;          /**< of block_list and of block_bits: as many as there are, or more */
    weft_pairs pairs;                              /**< those that are known now */
    weft_kv_cache cache;
    weft_strides qv_strides; /**< of data.qv */
    int64_t q_most;  /**< packed: queries of a sequence, at most; 0: not known. Few of them may take other kernels. On
                          a GPU, queries beyond it of lengths that the data brings may be left out */
    int32_t o_dtype; /**< 0: O is of dtype. Else 1 + its weft_dtype, which is dtype or WEFT_FP32. Backward: of O, which is
                          an input, and of dQ, dK and dV; dO is of dtype */
} weft_attention;

#define WEFT_MAX_HEAD_DIM 576

/** One batch, one head, fp32, no mask, packed (batch, seq, heads, head_dim). Set at least seq, kv_seq and head_dim. */
/* clang-format off */
#define WEFT_ATTENTION_INIT                                                                                                \
    {sizeof(weft_attention), WEFT_ATTENTION, 1, 1, 1, 0, 0, 0, WEFT_FP32, WEFT_MASK_NONE, 0, 0.0, WEFT_BSHD, {0, 0, 0},    \
     {0, 0, 0}, {0, 0, 0}, {0, 0, 0}, 0, 0, 0, 0, 0, 0.0, 0.0, 0, 0, {0, 0, 0}, 0, 0, 0, {0, 0, 0, 0, 0}, 0, 0, 0, 0, 0, 0, \
     {0, 0, 0, 0, 0}, {0, 0, 0, 0, {0, 0, 0}, {0, 0, 0}, 0, 0, 0, 0, NULL}, {0, 0, 0}, 0, 0}
/* clang-format on */

typedef enum weft_major { WEFT_ROW_MAJOR = 0, WEFT_COL_MAJOR = 1 } weft_major;

/** What a product's result passes through, element by element. */
typedef enum weft_activation {
    WEFT_IDENTITY = 0,
    WEFT_RELU = 1,      /**< max(z, 0); NaN stays NaN */
    WEFT_GELU = 2,      /**< z (1 + erf(z / sqrt(2))) / 2 */
    WEFT_GELU_TANH = 3, /**< z (1 + tanh(sqrt(2 / pi) (z + 0.044715 z^3))) / 2 */
    WEFT_SILU = 4       /**< z / (1 + exp(-z)) */
} weft_activation;

/** What the data of a product has beside A, B and C: a set of bits. */
typedef enum weft_gemm_extras {
    WEFT_GEMM_BIAS = 1,          /**< data.bias */
    WEFT_GEMM_RESIDUAL = 2,      /**< data.residual */
    WEFT_GEMM_SCALE = 4,         /**< data.scale */
    WEFT_GEMM_ROW_SCALE = 8,     /**< data.row_scale */
    WEFT_GEMM_COLUMN_SCALE = 16, /**< data.column_scale */
    WEFT_GEMM_COLUMN_SUMS = 32,  /**< data.column_sums is written */
    WEFT_GEMM_FUNCTION = 64      /**< data.function, on the CPU */
} weft_gemm_extras;

/** How exactly a GPU multiplies elements of fp32, which its tensor cores do not take as they are. Products are added as
 * tensor cores add those of bf16. A device may be more exact than it is asked to be: the CPU always multiplies in fp32. */
typedef enum weft_precision {
    WEFT_PRECISION_FP32 = 0, /**< six products of bf16, of three parts of each element: a b is off by at most 2^-24 |a b| */
    WEFT_PRECISION_BF16X3 = 1, /**< three products, of two parts: by at most 2^-15 |a b| */
    WEFT_PRECISION_TF32 = 2    /**< one product of TF32, whose elements have 11 bits: by less than 2^-9 |a b| */
} weft_precision;

/** Matrix products: C = alpha A B + beta C, with A (m, k), B (k, n) and C (m, n); `batch` of them.
 *
 * What else becomes of A B before it is stored, its epilogue, in this order and in fp32:
 *   1. z[i][j] = alpha scale row_scale[i] column_scale[j] (A B)[i][j] + bias[j]
 *   2. y[i][j] = activation(z[i][j]); gated: y[i][j] = activation(z[i][j]) z[i][j + n / 2], and y and C are (m, n / 2)
 *   3. C[i][j] = y[i][j] + beta C[i][j] + residual[i][j]
 *   4. the caller's function may change C[i][j]
 *   5. column_sums[j] = sum over i of C[i][j], before C is rounded to its dtype; the same bits each time
 * Of scales, bias, residual, function and sums, only those take part that `extras` names. Each product of a batch has its
 * own, one behind the other; the residual is a matrix like C, with strides of its own. With beta 0 the old C is not read.
 */
typedef struct weft_gemm {
    size_t struct_size; /**< set by WEFT_GEMM_INIT */
    int32_t operation;  /**< WEFT_GEMM */
    int64_t m, n, k;
    weft_dtype dtype;   /**< of A and B */
    weft_dtype c_dtype; /**< of C and the residual */
    weft_major a_major, b_major, c_major;
    int64_t lda, ldb, ldc; /**< leading dimensions in elements; 0: packed. A GPU stores lines of C in whole 16 bytes: it may
                                write the padding of a line up to there, which must not hold anything */
    double alpha, beta;
    int64_t batch;
    int64_t a_stride, b_stride, c_stride; /**< elements from one product's matrix to the next; 0: packed */
    int32_t extras;                       /**< weft_gemm_extras */
    int32_t activation;                   /**< a weft_activation */
    int32_t gated;                        /**< 1: the first half of B's columns, n / 2, is the gate, the second the value */
    weft_dtype bias_dtype;                /**< of the bias */
    int64_t ld_residual, residual_stride; /**< as ldc and c_stride; 0: as C's */
    int32_t precision;                    /**< a weft_precision, for A and B of fp32; others are multiplied exactly */
} weft_gemm;

/** One product C = A B in fp32, all row-major and packed. Set m, n and k. */
/* clang-format off */
#define WEFT_GEMM_INIT                                                                                                     \
    {sizeof(weft_gemm), WEFT_GEMM, 0, 0, 0, WEFT_FP32, WEFT_FP32, WEFT_ROW_MAJOR, WEFT_ROW_MAJOR, WEFT_ROW_MAJOR, 0, 0, 0, \
     1.0, 0.0, 1, 0, 0, 0, 0, WEFT_IDENTITY, 0, WEFT_FP32, 0, 0, WEFT_PRECISION_FP32}
/* clang-format on */

/** How the rows of a grouped product lie. */
typedef enum weft_group_layout {
    WEFT_GROUPS_CONTIGUOUS = 0, /**< A (rows, k), C (rows, n): group g has the rows starts[g] .. starts[g + 1] - 1 */
    WEFT_GROUPS_MASKED = 1      /**< A (groups, rows, k), C (groups, rows, n): group g has its first counts[g] rows */
} weft_group_layout;

/** Products of unlike numbers of rows, as a mixture of experts has them: C_g = alpha A_g B_g for each of `groups` groups,
 * with B (groups, k, n). A and C are row-major. Rows of no group do not count and are not written; a group may have none.
 *
 * Bounds, starts or counts, that are known now are given here, in the host's memory, and are copied. Those that are known
 * only when the plan runs come with its data, in memory of the device: a plan then fits all bounds that its tensors hold.
 * The bits of a group's results do not depend on the other groups, for a given tile and a forward sweep. */
typedef struct weft_grouped_gemm {
    size_t struct_size; /**< set by WEFT_GROUPED_GEMM_INIT */
    int32_t operation;  /**< WEFT_GROUPED_GEMM */
    int64_t groups;     /**< at most WEFT_MOST_GROUPS */
    int64_t rows;       /**< of A; masked: of each group's A, and groups * rows at most 2^30 */
    int64_t n, k;
    weft_dtype dtype;   /**< of A and B */
    weft_dtype c_dtype; /**< of C */
    weft_group_layout layout;
    weft_major b_major;
    int64_t lda, ldb, ldc;      /**< as in weft_gemm; 0: packed */
    int64_t b_stride;           /**< from group to group; 0: packed */
    int64_t a_stride, c_stride; /**< masked: likewise; else 0 */
    double alpha;
    const int32_t *starts; /**< contiguous: (groups + 1) ascending numbers from 0 to rows; or null: the data's */
    const int32_t *counts; /**< masked: (groups) numbers from 0 to rows; or null: the data's */
} weft_grouped_gemm;

#define WEFT_MOST_GROUPS 1048576

/** Contiguous groups in fp32, packed, B row-major. Set groups, rows, n and k. */
/* clang-format off */
#define WEFT_GROUPED_GEMM_INIT                                                                                             \
    {sizeof(weft_grouped_gemm), WEFT_GROUPED_GEMM, 0, 0, 0, 0, WEFT_FP32, WEFT_FP32, WEFT_GROUPS_CONTIGUOUS,               \
     WEFT_ROW_MAJOR, 0, 0, 0, 0, 0, 0, 1.0, NULL, NULL}
/* clang-format on */

/** One attention out of parts of it, each of the same queries over other keys: context in parts, or a prefix that sequences
 * share and what follows it. O = sum of w_i O_i, with w_i = exp(LSE_i) / sum of exp(LSE_j), and LSE is the logarithm of
 * that sum.
 *
 * A part whose LSE is -inf has seen no key and counts nothing, whatever its output holds. A query that no part has seen a
 * key for gets zeros and -inf. NaN stays NaN. Parts are added in their order, so that results are the same bits each time.
 *
 * With `into` O and its LSE are a running result: they hold a part themselves, which is the first. With `sum` the outputs
 * have no LSEs and are added up: gradients of what several parts share.
 */
typedef struct weft_combine {
    size_t struct_size; /**< set by WEFT_COMBINE_INIT */
    int32_t operation;  /**< WEFT_COMBINE */
    int64_t parts;      /**< 1 to WEFT_MOST_PARTS; who has more combines some of them first */
    int64_t batch, heads, seq, head_dim;
    weft_dtype dtype;   /**< of the parts' outputs */
    weft_dtype o_dtype; /**< of O */
    weft_layout layout;
    weft_strides part_strides, o_strides; /**< of the output of each part, and of O */
    int32_t into; /**< 1: O and data.lse hold a part before the run, beside `parts` others; both are read and written */
    int32_t sum;  /**< 1: O is the sum of the parts, with `into` also of what it held; data has no LSEs */
    int64_t lse_stride; /**< of data.lse from head to head, at least seq; from batch to batch heads as much. 0: seq. O and
                             its LSE then may be some rows of a longer tensor. With `sum` 0 */
} weft_combine;

#define WEFT_MOST_PARTS 16

/** Two parts in fp32, one batch, one head, packed (batch, seq, heads, head_dim). Set at least seq and head_dim. */
#define WEFT_COMBINE_INIT                                                                                                  \
    { sizeof(weft_combine), WEFT_COMBINE, 2, 1, 1, 0, 0, WEFT_FP32, WEFT_FP32, WEFT_BSHD, {0, 0, 0}, {0, 0, 0}, 0, 0, 0 }

/** The largest value of any dimension. Products of dimensions are checked beyond that. */
#define WEFT_MAX_DIMENSION INT64_C(2147483647)

/** Bytes of one element; 0 for a value that is not a dtype. */
WEFT_API size_t weft_dtype_bytes(weft_dtype dtype);

/** Checks a problem, the struct of any operation: WEFT_OK, or WEFT_INVALID and a message such as "kv_heads 3 does not
 * divide heads 8". */
WEFT_API weft_status weft_problem_check(const void *problem, weft_message *message);

/** Floating-point operations by the usual count; 0 for a problem that does not pass its check. Attention: 2 batch heads seq
 * kv_seq (head_dim + head_dim_v), with WEFT_QV head_dim_v more, halved when causal, and 2.5 times that backward; GEMM: 2
 * batch m n k; combine: 2 parts batch heads seq head_dim, with `into` as of one part more, halved with `sum`; grouped GEMM:
 * 2 n k for each row of a group, all rows where the bounds are not known. */
WEFT_API double weft_problem_flops(const void *problem);

/** A buffer that a run takes. */
typedef struct weft_buffer {
    size_t struct_size; /**< set by WEFT_BUFFER_INIT */
    const char *name;   /**< of the field of the data's struct: "q" */
    size_t offset;      /**< of that field, a pointer, in the data's struct */
    weft_dtype dtype;
    size_t elements;    /**< strides included */
    size_t alignment;   /**< in bytes, that a GPU needs */
    int32_t is_read;    /**< 1: an input */
    int32_t is_written; /**< 1: an output */
    int32_t optional;   /**< 1: may be null */
} weft_buffer;

#define WEFT_BUFFER_INIT                                                                                                   \
    { sizeof(weft_buffer), NULL, 0, WEFT_FP32, 0, 0, 0, 0, 0 }

/** The index-th buffer of a problem, in the order of the fields of its data's struct. WEFT_NOT_FOUND past the last;
 * WEFT_INVALID for a problem that does not pass its check. */
WEFT_API weft_status weft_problem_buffer(const void *problem, size_t index, weft_buffer *buffer, weft_message *message);

#ifdef __cplusplus
}
#endif

#endif
