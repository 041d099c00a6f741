/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Weft: attention and matrix products, tile by tile, in an order of your choosing.
 *
 * Read from the top: status and messages, problems, the simple calls, then schedules and plans for those who want to
 * choose, and devices for those who have a GPU. Nothing here prints or exits. The library loads the CUDA driver and kernels
 * once and reads stored tunings once; it has no other global state. Every function may be called from any thread, and one
 * plan may run in many threads at once.
 *
 * Every struct that crosses this boundary begins with struct_size, which its _INIT macro sets. A library that is newer than
 * the caller's header takes what the caller's struct lacks as 0; one that is older refuses fields that it does not know
 * unless they are 0. A 0 in a field that is a choice means: choose for me.
 */
#ifndef WEFT_H
#define WEFT_H

#include <stddef.h>
#include <stdint.h>

#include "order.h"

#define WEFT_VERSION_MAJOR 0
#define WEFT_VERSION_MINOR 3
#define WEFT_VERSION_PATCH 0
#define WEFT_VERSION       "0.3.0"

#if defined(__GNUC__)
#define WEFT_API __attribute__((visibility("default")))
#else
#define WEFT_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------------------------------------------------------------
 * Status
 * ------------------------------------------------------------------------------------------------------------------ */

typedef enum weft_status {
    WEFT_OK = 0,
    WEFT_INVALID = 1,     /**< an argument is wrong; the message names it, its value and what is allowed */
    WEFT_UNSUPPORTED = 2, /**< the arguments are right, but this build or device cannot do it */
    WEFT_NOT_FOUND = 3,   /**< no such order, machine, file or device */
    WEFT_NO_MEMORY = 4,
    WEFT_IO = 5,    /**< a file could not be read or written */
    WEFT_FAILED = 6 /**< the device or its driver failed; the message says what it reports */
} weft_status;

/** One line about what went wrong. Every call that takes one accepts null, and leaves it alone when it succeeds. */
typedef struct weft_message {
    char text[256];
} weft_message;

/** A short name of a status: "ok", "invalid", ... Never null. */
WEFT_API const char *weft_status_name(weft_status status);

/** The version of the library in use, "0.3.0". */
WEFT_API const char *weft_version(void);

/** Features of this architecture's processors that CPU kernels are compiled for, by number from 0: "avx2". `present` gets 1
 * where this processor and system have it, else 0. Null past the last. */
WEFT_API const char *weft_cpu_feature(size_t number, int32_t *present);

/** The CUDA version that compiled this build's kernels for GPUs, 13000 for 13.0; 0: it has none. */
WEFT_API int32_t weft_cuda_version(void);

/* ---------------------------------------------------------------------------------------------------------------------
 * Problems: what to compute
 * ------------------------------------------------------------------------------------------------------------------ */

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

/* ---------------------------------------------------------------------------------------------------------------------
 * Running a problem, simply
 * ------------------------------------------------------------------------------------------------------------------ */

/** What a cache needs beside K and V, which are written where keys are appended. */
typedef struct weft_kv_cache_data {
    const int32_t *table;      /**< pages: (sequences, table_stride) numbers of pages */
    const void *k_new, *v_new; /**< append */
    const int32_t
        *new_starts;       /**< append to a packed batch: (sequences + 1) first new keys, ascending; null: the problem's */
    const void *cos, *sin; /**< rotation: (rotary_rows, rotary_dim / 2), of the problem's dtype */
    const int32_t *positions; /**< (sequences), or null */
} weft_kv_cache_data;

/** Buffers of a forward attention; the caller owns them all. lse may be null. No output may overlap anything else.
 * What the problem's `extras` does not name is null. */
typedef struct weft_attention_data {
    size_t struct_size; /**< set by WEFT_ATTENTION_DATA_INIT */
    int32_t operation;  /**< WEFT_ATTENTION */
    const void *q, *k, *v;
    void *o;
    float *lse;         /**< (batch, heads, seq): natural logarithm of each query's sum of exponentials */
    const float *sinks; /**< (heads) */
    const float *alibi; /**< (heads) */
    const void *bias;
    float *max;            /**< (batch, heads, seq): each query's largest score, sinks apart; -inf where it sees no key */
    weft_lengths lengths;  /**< those that `extras` names and the problem does not have */
    uint64_t dropout_seed; /**< which weights count as 0: a function of this, batch, head, query and key */
    weft_pairs pairs;      /**< as `lengths` */
    weft_kv_cache_data cache; /**< a cache's */
    void *workspace;          /**< as in weft_attention_gradients */
    const void *qv;           /**< (batch, seq, heads, head_dim_v), of the problem's dtype */
    int32_t prepared;         /**< 1: weft_plan_prepare() has had the same workspace and lengths, earlier on the stream */
} weft_attention_data;

/* clang-format off */
#define WEFT_ATTENTION_DATA_INIT                                                                                           \
    {sizeof(weft_attention_data), WEFT_ATTENTION, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,                    \
     {0, 0, 0, 0, 0}, 0, {0, 0, 0, 0, 0}, {NULL, NULL, NULL, NULL, NULL, NULL, NULL}, NULL, NULL, 0}
/* clang-format on */

/** Buffers of a backward attention: dO in, dQ, dK and dV out, each laid out like the tensor it belongs to. */
typedef struct weft_attention_gradients {
    size_t struct_size; /**< set by WEFT_ATTENTION_GRADIENTS_INIT */
    int32_t operation;  /**< WEFT_ATTENTION_BACKWARD */
    const void *q, *k, *v, *grad_o;
    void *grad_q, *grad_k, *grad_v;
    const void *o;              /**< what the forward pass gave, with its lse; both null: computed again, by a CPU only */
    const float *lse;           /**< as in weft_attention_data, or null */
    const float *sinks, *alibi; /**< from here on as in weft_attention_data */
    const void *bias;
    float *grad_sinks; /**< (heads), or null */
    weft_lengths lengths;
    uint64_t dropout_seed;
    weft_pairs pairs;
    void *workspace; /**< on a GPU: weft_plan_workspace() bytes that no other run uses at the same time, or null: the plan's
                          own. Nothing need be in it, and nothing of use is left there */
    float *grad_bias; /**< (batch, heads, seq, kv_seq), contiguous whatever the strides of the bias; or null. The gradient
                         of what is added to each score: whoever repeats a bias adds it up. 0 where a key is hidden */
} weft_attention_gradients;

/* clang-format off */
#define WEFT_ATTENTION_GRADIENTS_INIT                                                                                      \
    {sizeof(weft_attention_gradients), WEFT_ATTENTION_BACKWARD, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,      \
     NULL, NULL, NULL, NULL, {0, 0, 0, 0, 0}, 0, {0, 0, 0, 0, 0}, NULL, NULL}
/* clang-format on */

/** A part of a product's result: rows x cols of C from (row, col) of a product of the batch on. */
typedef struct weft_gemm_part {
    size_t struct_size;
    int64_t batch, row, col, rows, cols;
    int64_t ld;    /**< elements from a row of values to the next */
    float *values; /**< (rows, cols), as they would be stored; the function may change them */
} weft_gemm_part;

/** A caller's last word on C, for the CPU: called once for each part of C, by several threads at once. Parts do not overlap
 * and cover C; how they cut it is the schedule's. The function returns before the part is stored, and keeps no pointer. */
typedef void (*weft_gemm_function)(void *user, const weft_gemm_part *part);

/** Buffers of a GEMM. c is read only when beta is not 0. What the problem's `extras` does not name is null. */
typedef struct weft_gemm_data {
    size_t struct_size; /**< set by WEFT_GEMM_DATA_INIT */
    int32_t operation;  /**< WEFT_GEMM */
    const void *a, *b;
    void *c;
    const void *bias;          /**< (batch, n) of bias_dtype */
    const void *residual;      /**< (batch, m, columns of C) in C's layout, no part of C: that is what beta is for */
    const float *scale;        /**< (batch): one number for a product */
    const float *row_scale;    /**< (batch, m) */
    const float *column_scale; /**< (batch, n) */
    float *column_sums;        /**< (batch, columns of C) */
    weft_gemm_function function;
    void *user;      /**< what the function gets */
    void *workspace; /**< as in weft_attention_gradients */
} weft_gemm_data;

#define WEFT_GEMM_DATA_INIT                                                                                                \
    { sizeof(weft_gemm_data), WEFT_GEMM, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL }

/** Buffers of a grouped product. Of starts and counts, that of the problem's layout is read where the problem has none. A
 * CPU refuses bounds that are wrong. A GPU clamps them: it never leaves the tensors, and rows of wrong bounds hold
 * anything.
 */
typedef struct weft_grouped_gemm_data {
    size_t struct_size; /**< set by WEFT_GROUPED_GEMM_DATA_INIT */
    int32_t operation;  /**< WEFT_GROUPED_GEMM */
    const void *a, *b;
    void *c;
    const int32_t *starts; /**< (groups + 1) */
    const int32_t *counts; /**< (groups) */
} weft_grouped_gemm_data;

#define WEFT_GROUPED_GEMM_DATA_INIT                                                                                        \
    { sizeof(weft_grouped_gemm_data), WEFT_GROUPED_GEMM, NULL, NULL, NULL, NULL, NULL }

/** Buffers of a combination, of which `parts` parts and their lses are read. lse may be null, except with `into`. With
 * `sum` lses and lse are not used. */
typedef struct weft_combine_data {
    size_t struct_size; /**< set by WEFT_COMBINE_DATA_INIT */
    int32_t operation;  /**< WEFT_COMBINE */
    const void *parts[WEFT_MOST_PARTS];
    const float *lses[WEFT_MOST_PARTS]; /**< (batch, heads, seq) each, as weft_attention_data has it */
    void *o;
    float *lse; /**< (batch, heads, seq), lse_stride apart from head to head */
} weft_combine_data;

#define WEFT_COMBINE_DATA_INIT                                                                                             \
    { sizeof(weft_combine_data), WEFT_COMBINE, {NULL}, {NULL}, NULL, NULL }

/** Makes the default plan of a problem on the CPU, runs it and destroys it. weft_attention_backward() takes a problem of
 * either operation. */
WEFT_API weft_status weft_attention_forward(const weft_attention *problem, const weft_attention_data *data,
                                            weft_message *message);
WEFT_API weft_status weft_attention_backward(const weft_attention *problem, const weft_attention_gradients *data,
                                             weft_message *message);
WEFT_API weft_status weft_gemm_multiply(const weft_gemm *problem, const weft_gemm_data *data, weft_message *message);
WEFT_API weft_status weft_combine_parts(const weft_combine *problem, const weft_combine_data *data, weft_message *message);
WEFT_API weft_status weft_grouped_gemm_multiply(const weft_grouped_gemm *problem, const weft_grouped_gemm_data *data,
                                                weft_message *message);

/** Gives memory back to the system. Runs on the CPU keep up to 128 MiB of scratch memory for the next one, which then need
 * not wait for fresh pages; this frees what is kept and not in use. Any thread may call it at any time, also while others
 * run plans. Returns how many bytes it freed. */
WEFT_API size_t weft_release_memory(void);

/* ---------------------------------------------------------------------------------------------------------------------
 * Schedules, devices and plans: choosing how and where
 * ------------------------------------------------------------------------------------------------------------------ */

/** Tile shape, order, sweep, dispatch, cluster. A zero means: let the plan choose. Other structs hold schedules by value,
 * so this one never changes its size: new fields take the place of reserved ones. */
typedef struct weft_schedule {
    size_t struct_size;             /**< set by WEFT_SCHEDULE_INIT */
    int64_t tile_m, tile_n, tile_k; /**< attention: queries x keys (tile_k unused); GEMM: rows x columns x k step */
    int32_t order;                  /**< a weft_order_kind */
    int32_t sweep;                  /**< a weft_sweep */
    int32_t dispatch;               /**< a weft_dispatch */
    int32_t table;                  /**< 1: the order comes from a table built by the plan instead of being computed */
    int64_t workers;                /**< workers to use */
    int64_t group;                  /**< group size of the orders that take one */
    weft_axis axis;                 /**< the axis that groups are cut across */
    int64_t domains;                /**< L2 domains of the orders that take them */
    int64_t cluster_m, cluster_n; /**< CTAs in a cluster, over rows x columns of the grid of tiles (attention: heads x query
                                       blocks), which they must divide; a GEMM's on a GPU may reach over the edge */
    int64_t split;                /**< on a GPU: CTAs of a cluster that share the steps of a tile, under grid dispatch;
                                       attention backward: parts, 1 to 8, one for each CTA of a cluster: of the heads that
                                       share keys as far as it divides them, and then of each head's queries */
    const uint32_t *order_table;  /**< WEFT_ORDER_CUSTOM: the caller's order, see weft_order_check(); a plan copies it */
    int64_t order_count;          /**< entries of order_table */
    uint64_t order_hash;          /**< 0, or the hash that the table must have, as JSON names it; a plan fills it in */
    int64_t reserved[5];          /**< 0 */
} weft_schedule;

#define WEFT_SCHEDULE_INIT                                                                                                 \
    {                                                                                                                      \
        sizeof(weft_schedule), 0, 0, 0, 0, 0, 0, 0, 0, 0, WEFT_AXIS_CHOOSE, 0, 0, 0, 0, NULL, 0, 0, {                      \
            0                                                                                                              \
        }                                                                                                                  \
    }

typedef enum weft_device_kind {
    WEFT_DEVICE_CPU = 0,
    WEFT_DEVICE_CUDA = 1 /**< an NVIDIA GPU; its driver is libcuda.so.1, or what the variable WEFT_CUDA_DRIVER names */
} weft_device_kind;

/** How a plan chooses what its schedule leaves open: see weft/tune.h. */
typedef enum weft_mode {
    WEFT_ESTIMATE = 0, /**< by the model, in microseconds */
    WEFT_MEASURE = 1,  /**< as it was tuned before, or else by timing candidates on the device for some seconds */
    WEFT_STORED = 2,   /**< as it was tuned before; WEFT_NOT_FOUND when it was not */
    WEFT_PAPER = 3     /**< as WEFT_ESTIMATE, for the machine given, which need not be here: to be simulated, not run.
                          WEFT_UNSUPPORTED when the device's kernels were not measured on it */
} weft_mode;

/** A device, and how its kernels are to be run. Zeros choose the fastest.
 *
 * `kernel` names a family of kernels, and may add options for studies after a colon, separated by commas: "study",
 * "study:precise,ctas=2", or ":ctas=1" for any family. The CPU takes none.
 *   precise           exponentials keep denormals and divisions are exact
 *   mask-every-block  the mask is tested in every block of keys, not only where it can matter
 *   no-prefetch       a block of keys is loaded when it is needed, not ahead of that
 *   ctas=N            CTAs that share an SM, 1 to 32; otherwise as many as fit
 */
typedef struct weft_device {
    size_t struct_size; /**< set by WEFT_DEVICE_INIT */
    weft_device_kind kind;
    int32_t index;      /**< which GPU, as the driver numbers them */
    const char *kernel; /**< the family of kernels to take, and its options; null: the best that fits */
    weft_mode mode;     /**< how to choose what the schedule leaves open; WEFT_MEASURE and WEFT_STORED take no machine */
} weft_device;

/** The CPU. For a GPU: weft_device gpu = WEFT_DEVICE_INIT; gpu.kind = WEFT_DEVICE_CUDA; */
#define WEFT_DEVICE_INIT                                                                                                   \
    { sizeof(weft_device), WEFT_DEVICE_CPU, 0, NULL, WEFT_ESTIMATE }

typedef struct weft_machine weft_machine; /* weft/machine.h */

/** A problem, a machine, a schedule and a kernel, ready to run. Opaque, and never changed once it is made. */
typedef struct weft_plan weft_plan;

/** How to make a plan. A null pointer means: choose for me. What they point to is copied. */
typedef struct weft_plan_options {
    size_t struct_size;            /**< set by WEFT_PLAN_OPTIONS_INIT */
    const weft_schedule *schedule; /**< null: all chosen */
    const weft_machine *machine;   /**< null: the device's own */
    const weft_device *device;     /**< null: the CPU */
    int32_t brings_workspace;      /**< 1: every run brings its workspace, and the plan allocates none */
} weft_plan_options;

#define WEFT_PLAN_OPTIONS_INIT                                                                                             \
    { sizeof(weft_plan_options), NULL, NULL, NULL, 0 }

/** Makes a plan. On failure *plan is null.
 *
 * @param plan     where the plan goes; the caller destroys it
 * @param problem  what to compute: a weft_attention, a weft_gemm, a weft_combine or a weft_grouped_gemm; copied
 * @param options  null: all chosen, on the CPU
 * @param message  null, or where to say what is wrong
 *
 * On a GPU, the schedule's workers are persistent CTAs (0: all that fit), tiles are those that kernels were compiled for,
 * and a null machine is the GPU as its driver describes it. The plan loads its kernel. It belongs to the CUDA context that
 * is current in this thread, if that is one of the device, else to the device's primary context, which is what the CUDA
 * runtime and every framework use. The device memory that it owns is a table, if the schedule asks for one (4 bytes a
 * position), the lengths that the problem has (20 bytes a sequence) and the arrays of its masks, 13 KiB of counters for
 * dynamic dispatch, and a workspace, if its runs need one and do not bring theirs; for a cache also a word of pinned
 * memory, see weft_plan_check(). Plans may be made and destroyed while
 * other threads capture streams.
 *
 * WEFT_NOT_FOUND when there is no driver or no such device, WEFT_UNSUPPORTED when the driver is too old or no kernel fits
 * (the message says why), WEFT_FAILED when the driver fails.
 */
WEFT_API weft_status weft_plan_create(weft_plan **plan, const void *problem, const weft_plan_options *options,
                                      weft_message *message);

/** Releases a plan; null is fine. */
WEFT_API void weft_plan_destroy(weft_plan *plan);

/** Runs a plan and returns when it is done.
 *
 * @param plan     the plan
 * @param data     the struct of the plan's operation: weft_attention_data, weft_attention_gradients,
 *                 weft_gemm_data, weft_combine_data or weft_grouped_gemm_data
 * @param message  null, or where to say what is wrong
 *
 * WEFT_INVALID when the data is of another operation, a pointer is null that must not be, or an output overlaps another
 * buffer. */
WEFT_API weft_status weft_plan_run(const weft_plan *plan, const void *data, weft_message *message);

/** How far a run is: `done` tiles of `total`. */
typedef void (*weft_progress)(void *user, int64_t done, int64_t total);

/** The same, telling how far this run is: `progress` is called now and then, from the thread that made the call. Null: not
 * at all. Progress belongs to the run: several runs of one plan at once may have one each. A GPU does not say how far it
 * is. */
WEFT_API weft_status weft_plan_run_with_progress(const weft_plan *plan, const void *data, weft_progress progress,
                                                 void *user, weft_message *message);

/** Puts a run of a plan on a stream and returns at once.
 *
 * The buffers are in memory that the plan's GPU can read, aligned as weft_problem_buffer() says, and stay valid until the
 * stream has passed the run. Nothing is allocated, copied or waited for, so the call can be captured in a CUDA graph.
 * Threads may enqueue one plan on many streams at once: under dynamic dispatch on at most 256 that have runs of it in
 * flight; with the other dispatches there is no limit. It can be part of any number of captures, and what was captured may
 * run in any number of executables and branches at once. A captured run of a GEMM or of the family "study" under dynamic
 * dispatch deals out its tiles statically, and by no side of the L2; the results are the same bits. The plan must outlive
 * what was enqueued or captured.
 *
 * The stream is a CUstream or cudaStream_t of the plan's context; null is the default stream. A plan for the CPU takes only
 * null, and has run when the call returns.
 */
WEFT_API weft_status weft_plan_enqueue(const weft_plan *plan, const void *data, void *stream, weft_message *message);

/** Does once, on a stream, what runs with the same lengths have in common, and returns at once: on a GPU it deals out the
 * keys of sequences of unlike lengths to workers. Later runs on the stream with the same workspace and lengths skip that
 * with `prepared` = 1 in their data: those of all layers of a model, until a length changes. Until then the workspace is
 * for runs of this plan alone. The bits of results are the same either way.
 *
 * @param plan     the plan
 * @param data     the struct of the plan's operation, of which lengths, cache.new_starts and workspace are taken; all else
 *                 may be null
 * @param stream   as for weft_plan_enqueue()
 * @param message  null, or where to say what is wrong
 *
 * Nothing is allocated, copied or waited for, so that the call can be captured in a CUDA graph. Plans for the CPU, and all
 * others that have nothing to prepare, do nothing and take `prepared` = 1 as 0. Where there is something, a workspace that
 * is null is WEFT_INVALID, here and in a run that is prepared: the plan's own may serve others in between. */
WEFT_API weft_status weft_plan_prepare(const weft_plan *plan, const void *data, void *stream, weft_message *message);

/** What runs of a plan have found wrong in memory that only a GPU reads, since somebody was last told: an entry of a
 * cache's table that is needed and names no page, a kv_used of a cache that is below 0 or beyond kv_seq. WEFT_INVALID, and
 * a message that names the last that was found; WEFT_OK when there is nothing, and on the CPU, whose runs refuse such data.
 * Waits for nothing: what is still under way may be told later.
 *
 * weft_plan_run() tells of its own run, and weft_plan_enqueue(), before it begins another, of those before. Who replays
 * CUDA graphs asks here. Results of such a run are NaN where they would depend on such an entry; a length is held to what
 * there is. */
WEFT_API weft_status weft_plan_check(const weft_plan *plan, weft_message *message);

/** Bytes of the workspace that a run of a plan takes, in device memory aligned to 16 bytes; 0: none. The data's struct has
 * it, as `workspace`. Without it a run takes the plan's own: then runs on several streams wait for each other, and a run
 * that is captured in a CUDA graph is WEFT_INVALID, because it might run at the same time as others. */
WEFT_API size_t weft_plan_workspace(const weft_plan *plan);

/** Describes a plan, in words or as one JSON object.
 *
 * Writes at most `size` bytes with the final null, and returns the length of the whole text without it (as snprintf does),
 * or 0 when memory ran out.
 */
WEFT_API size_t weft_plan_text(const weft_plan *plan, char *text, size_t size);
WEFT_API size_t weft_plan_json(const weft_plan *plan, char *text, size_t size);

/** A schedule with every choice made as a JSON object: what weft_plan_json() has as `schedule`. As weft_plan_json(). */
WEFT_API size_t weft_schedule_json(const weft_schedule *schedule, char *text, size_t size);

/** Reads a schedule from JSON: such an object, or what the command prints with --json, of which `recommended.schedule` or
 * `schedule` counts. What it leaves out is open. `label` stands for the text in messages. The caller frees its order_table,
 * if it has one: an order of more than 65536 tiles is in JSON by its hash alone, and has to be given again.
 *
 * WEFT_INVALID, with the label and the line or key, when it is none. */
WEFT_API weft_status weft_schedule_from_json(weft_schedule *schedule, const char *text, size_t length, const char *label,
                                             weft_message *message);

/** weft_plan_text() without the kernel, for a plan that is not run; and the problem as a title: "Attention, 8 heads of 64,
 * ...". */
WEFT_API size_t weft_plan_outline(const weft_plan *plan, char *text, size_t size);
WEFT_API size_t weft_plan_title(const weft_plan *plan, char *text, size_t size);

/** The schedule with every choice made. Its order_table, if there is one, is the plan's: valid as long as the plan. */
WEFT_API weft_schedule weft_plan_schedule(const weft_plan *plan);

/** The problem with every default filled in: the struct of the plan's operation. Valid as long as the plan. */
WEFT_API const void *weft_plan_problem(const weft_plan *plan);

/** The kernel that runs the plan, and the backend that it belongs to ("cpu", "cuda"). */
WEFT_API const char *weft_plan_kernel(const weft_plan *plan);
WEFT_API const char *weft_plan_backend(const weft_plan *plan);

/** What the workers walk: pass it to a kernel by value. Valid as long as the plan.
 * @param plan  the plan
 * @param size  sizeof(weft_walk); null when the library was built with another layout of it. */
WEFT_API const weft_walk *weft_plan_walk(const weft_plan *plan, size_t size);

/* ---------------------------------------------------------------------------------------------------------------------
 * Orders of your own
 * ------------------------------------------------------------------------------------------------------------------ */

/** The most entries of a table of an order: beyond that, only computed orders. */
enum { WEFT_MOST_IN_TABLE = 1 << 28 };

/** The grid that an order of the caller's covers in a plan with these options, whatever their order: tiles, or clusters of
 * tiles where the schedule asks for clusters, or pairs of these under a sweep that pairs them. All of the grid: also what a
 * causal mask leaves without work. What is open is chosen as for a plan of WEFT_ORDER_CUSTOM, which takes clusters, split
 * tiles and domains only when the schedule asks for them. */
WEFT_API weft_status weft_plan_positions(const void *problem, const weft_plan_options *options, weft_grid *grid,
                                         weft_message *message);

/** Checks that a table visits every tile of a grid exactly once. table[position] is the number of the tile at a position:
 * (batch * rows + row) * cols + col. WEFT_INVALID, and a message that names the first tile that is visited twice or
 * missing, and the position. */
WEFT_API weft_status weft_order_check(const uint32_t *table, int64_t count, weft_grid grid, weft_message *message);

/** Reads an order from text and checks it as weft_order_check() does. Line by line, the text has the tiles in the order of
 * their visits. A tile is its number, or row and column, or batch, row and column, separated by blanks or a comma, the
 * same way in every line. A # begins a comment, and empty lines do not count.
 *
 * @param text     need not end with a null
 * @param length   bytes of text
 * @param name     of the text, for messages: "name:line: what is wrong"
 * @param grid     the tiles, at most WEFT_MOST_IN_TABLE
 * @param table    one entry for each tile of the grid
 * @param message  null, or where to say what is wrong
 */
WEFT_API weft_status weft_order_read(const char *text, size_t length, const char *name, weft_grid grid, uint32_t *table,
                                     weft_message *message);

/* ---------------------------------------------------------------------------------------------------------------------
 * Names
 * ------------------------------------------------------------------------------------------------------------------ */

typedef enum weft_field_type {
    WEFT_FIELD_INTEGER = 1, /**< int64_t */
    WEFT_FIELD_REAL = 2,    /**< double */
    WEFT_FIELD_CHOICE = 3,  /**< an enumeration, with a name for each value */
    WEFT_FIELD_FLAG = 4,    /**< an enumeration: given, it has `value` */
    WEFT_FIELD_PAIR = 5,    /**< int64_t[2]; -1 is allowed */
    WEFT_FIELD_BIT = 6,     /**< an int32_t that is a set of bits: given, it has the bit `value`, too */
    WEFT_FIELD_STARTS = 7,  /**< const int32_t *: where parts begin, and behind them where the last ends. People give
                               lengths,  each at least 0, and whoever reads them keeps the array */
    WEFT_FIELD_COUNTS = 8   /**< const int32_t *: the lengths themselves; likewise */
} weft_field_type;

/** A field of a problem, for programs that read problems from people. */
typedef struct weft_field {
    const char *name, *text; /**< "kv_heads", "key and value heads, dividing heads (as many as heads)" */
    weft_field_type type;
    size_t offset;                        /**< in the problem's struct */
    int32_t value;                        /**< of a flag or a bit. Others, 1: told only where it is not the usual one */
    const char *(*choice)(int32_t value); /**< the name of a choice; null past the last */
    double usual;                         /**< what to take when nobody gives it */
    const char *follows;                  /**< null, or the field whose value it takes when nobody gives it */
} weft_field;

/** An operation: a row of a table. */
typedef struct weft_operation_info {
    int32_t operation;              /**< a weft_operation */
    const char *name, *text;        /**< "attention-backward", a line of explanation */
    size_t problem_size, data_size; /**< of its structs */
    weft_grid_kind grid;            /**< which orders apply to its grid of tiles */
    const weft_field *fields;       /**< of the problem, `field_count` of them */
    size_t field_count;
} weft_operation_info;

/** Operations by number, from 1; null when there is no such number. */
WEFT_API const weft_operation_info *weft_operation_describe(int32_t operation);

/** An operation's number by its name; 0 when there is none. */
WEFT_API int32_t weft_operation_find(const char *name);

/** Fills a problem's struct, of problem_size bytes, with its operation's defaults. Returns 0 for an unknown operation. */
WEFT_API int weft_problem_init(void *problem, int32_t operation);

/** A row of orders.def. */
typedef struct weft_order_info {
    const char *name, *text;
    weft_grid_kind grid; /**< that it applies to */
    weft_parameter parameter;
} weft_order_info;

/** A name and a line of explanation. */
typedef struct weft_name {
    const char *name, *text;
} weft_name;

/** Rows by number, from 1 on; null when there is no such number. */
WEFT_API const weft_order_info *weft_order_describe(int32_t kind);
WEFT_API const weft_name *weft_sweep_describe(int32_t sweep);
WEFT_API const weft_name *weft_dispatch_describe(int32_t dispatch);
WEFT_API const char *weft_dtype_name(weft_dtype dtype);

/** Numbers by name; 0 when there is none, of a dtype -1. */
WEFT_API int32_t weft_order_find(const char *name);
WEFT_API int32_t weft_sweep_find(const char *name);
WEFT_API int32_t weft_dispatch_find(const char *name);
WEFT_API int32_t weft_dtype_find(const char *name);

#ifdef __cplusplus
}
#endif

#endif
