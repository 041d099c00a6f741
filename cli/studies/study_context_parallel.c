/* SPDX-License-Identifier: Apache-2.0 */
/* Published scaling of attention over GPUs.
 *
 * zhuzilin/ring-flash-attention, README and benchmark/benchmark_kvpacked_func.py: 32 heads over 8, D = 128, causal, bf16,
 * 8K rows a GPU, FlashAttention-2, on 8 H800 and 8 A100. 100 % is 8 times the time of one GPU's 8K by itself. Profiles have
 * the rates of one GPU; no number of several GPUs is fitted.
 *
 * MagiAttention, docs/source/blog/cp_benchmark.md and exps/dist_attn: 64 heads over 8, D = 128, 8K rows a GPU,
 * FlashAttention-3, on 8 to 64 H100; charts. The batches are those that its sampler draws. */
#include <math.h>

#include "studies/study.h"

enum { GPUS = 8, ROWS = 8192 };

/* FlashAttention-2's tiles: queries x keys, forward and backward. */
static weft_schedule flash_attention_2(int back) {
    weft_schedule s = WEFT_SCHEDULE_INIT;
    s.tile_m = back ? 64 : 128;
    s.tile_n = back ? 128 : 64;
    s.order = WEFT_ORDER_HEAD_FIRST;
    s.sweep = WEFT_SWEEP_FORWARD;
    s.dispatch = WEFT_DISPATCH_GRID;
    return s;
}

static weft_attention attention(int64_t heads, int64_t rows, int back) {
    weft_attention p = WEFT_ATTENTION_INIT;
    p.operation = back ? WEFT_ATTENTION_BACKWARD : WEFT_ATTENTION;
    p.heads = heads;
    p.kv_heads = 8;
    p.seq = p.kv_seq = rows;
    p.head_dim = 128;
    p.dtype = WEFT_BF16;
    p.mask = WEFT_MASK_CAUSAL;
    return p;
}

/* ---- rings of FlashAttention-2 ---- */

typedef struct gpu {
    const char *machine, *forward, *backward; /* profiles */
    const char *fitted;                       /* what of these is fitted to `single`; null: nothing */
    const char *section[3];                   /* one GPU; eight, forward; eight, both passes */
    double single[2];                         /* published runs per second of one GPU's rows: forward; both passes */
    struct {
        int32_t cut;
        const char *name;
        double percent[2]; /* of ideal */
    } rings[3];
} gpu;

static const gpu gpus[] = {
    {"h800",
     "flash-attention-2",
     "flash-attention-2-backward",
     NULL,
     {"ring-flash-attention, one H800, runs per second", "ring-flash-attention, 8 H800, per cent of ideal, forward",
      "ring-flash-attention, 8 H800, per cent of ideal, forward and backward"},
     {591.5, 154.7},
     {{WEFT_CUT_CONTIGUOUS, "ring", {52.1, 53.9}},
      {WEFT_CUT_STRIPED, "stripe", {74.4, 82.9}},
      {WEFT_CUT_ZIGZAG, "zigzag", {85.2, 90.2}}}},
    {"a100",
     "flash-attention-2-a100",
     "flash-attention-2-a100-backward",
     "the rate of products",
     {"ring-flash-attention, one A100, runs per second", "ring-flash-attention, 8 A100, per cent of ideal, forward",
      "ring-flash-attention, 8 A100, per cent of ideal, forward and backward"},
     {373.4, 94.7},
     {{WEFT_CUT_CONTIGUOUS, "ring", {51.4, 52.5}},
      {WEFT_CUT_STRIPED, "stripe", {69.6, 82.6}},
      {WEFT_CUT_ZIGZAG, "zigzag", {81.7, 89.8}}}},
};

/* It adds results forward by operations of their own on tensors of fp32: 34 bytes of an element are moved, of which
 * weft_combine moves 10. Backward it adds as weft does. */
static const double forward_adding = 3.4;

static weft_dist_simulation over(study *s, const gpu *g, int64_t ranks, int32_t cut, int back) {
    const weft_attention p = attention(32, ranks * ROWS, back);
    const weft_schedule schedule = flash_attention_2(back);
    weft_dist_simulate_options options = WEFT_DIST_SIMULATE_INIT;
    weft_ranks r = WEFT_RANKS_INIT;
    r.ranks = ranks;
    r.cut = cut;
    r.exchange = WEFT_EXCHANGE_RING;
    r.order = WEFT_RANK_ORDER_RING;
    r.sweep = WEFT_SWEEP_FORWARD;
    options.schedule = &schedule;
    options.adding = back ? 1 : forward_adding;
    options.heads_apart = 1;
    return study_ranks(s, g->machine, back ? g->backward : g->forward, &p, &r, options);
}

static void ring_flash_attention(study *s, const gpu *g) {
    const double one[2] = {over(s, g, 1, WEFT_CUT_CONTIGUOUS, 0).ideal_seconds,
                           over(s, g, 1, WEFT_CUT_CONTIGUOUS, 1).ideal_seconds};
    study_add(s, STUDY_COUNT, g->section[0], g->single[0], 1 / one[0], "forward");
    study_fitted(s, g->fitted);
    study_add(s, STUDY_COUNT, g->section[0], g->single[1], 1 / (one[0] + one[1]), "forward and backward");
    study_fitted(s, g->fitted);
    for (int both = 0; both < 2; both++) {
        const double ideal = GPUS * (one[0] + (both ? one[1] : 0));
        for (size_t i = 0; i < sizeof g->rings / sizeof *g->rings; i++) {
            const int32_t cut = g->rings[i].cut;
            const double seconds = over(s, g, GPUS, cut, 0).seconds + (both ? over(s, g, GPUS, cut, 1).seconds : 0);
            study_add(s, STUDY_SCALING, g->section[1 + both], g->rings[i].percent[both], 100 * ideal / seconds, "%s",
                      g->rings[i].name);
        }
    }
}

/* ---- MagiAttention's benchmark ---- */

enum { MOST = 512, PIECE = 4, BATCHES = 20, EACH = BATCHES / STUDY_SEEDS }; /* EACH: batches of a seed */

/* The batches that were measured: documents that are the ends of pieces first and last, and others by their letters. */
static const struct {
    int64_t gpus;
    int32_t first;
    const char *others;
    int32_t last;
} packs[] = {
#define WEFT_PACK(gpus, first, others, last) {gpus, first, others, last},
#include "studies/packs.def"
};

/* Tokens of a document by its letter; documents longer than a quarter of the rows are cut into pieces of that, and a rest.
 */
static int32_t length_of(char letter, int64_t rows) {
    static const int32_t documents[] = {5, 30, 75, 150, 350, 762, 1536, 3072, 6144, 12288, 24576, 49152, 98304, 163840};
    const int32_t piece = (int32_t)(rows / PIECE);
    return letter == 'z' ? piece : documents[letter - 'a'] % piece;
}

typedef struct packed {
    weft_attention p;
    int32_t starts[MOST + 1];
} packed;

static void add_document(packed *b, int32_t length) {
    b->starts[b->p.sequences + 1] = b->starts[b->p.sequences] + length;
    b->p.sequences++;
}

/* The batch of a number for so many GPUs. */
static void take_packed(packed *b, int64_t gpus_count, int number) {
    size_t i = 0;
    for (int before = number; packs[i].gpus != gpus_count || before-- > 0;) {
        i++;
    }
    b->p = attention(64, gpus_count * ROWS, 0);
    b->p.lengths.q_starts = b->starts;
    b->starts[0] = 0;
    add_document(b, packs[i].first);
    for (const char *c = packs[i].others; *c; c++) {
        add_document(b, length_of(*c, b->p.seq));
    }
    add_document(b, packs[i].last);
}

/* TFLOP/s a GPU of all ranks together. */
static double rate(const weft_attention *p, int64_t ranks, double seconds) {
    return weft_problem_flops(p) / seconds / (double)ranks / 1e12;
}

static weft_schedule flash_attention_3(void) {
    weft_schedule s = WEFT_SCHEDULE_INIT;
    s.tile_m = s.tile_n = 128;
    s.dispatch = WEFT_DISPATCH_DYNAMIC;
    return s;
}

/* Ulysses as published: seconds of its copies, which the exchange waits for and the attention waits for. Q, K and V are
 * transposed before and after they are sent, gathered by index and, as O, scattered by index; O is transposed once more.
 * Measured on an H200 by bench/exchange_copies.py, where they read and write 1.2 to 1.6 TB/s: not DRAM binds. */
static const struct ulysses {
    int64_t gpus;
    double copies;
    double rate[4]; /* TFLOP/s: no mask; causal; packed, no mask; packed causal */
} ulysses_rows[] = {{8, 0.978e-3, {605, 601, 390, 278}},
                    {16, 1.107e-3, {573, 556, 305, 199}},
                    {32, 1.426e-3, {582, 580, 283, 186}},
                    {64, 1.883e-3, {619, 586, 259, 163}}};

/* Heads are exchanged, and then one launch computes all documents of a rank's heads, where weft has a launch for each. What
 * is sent does not depend on the mask. */
static double ulysses(study *s, const weft_attention *p, const struct ulysses *row) {
    const weft_schedule schedule = flash_attention_3();
    const weft_attention sent_problem = attention(64, row->gpus * ROWS, 0);
    weft_dist_simulate_options options = WEFT_DIST_SIMULATE_INIT;
    weft_ranks exchange = WEFT_RANKS_INIT, alone = WEFT_RANKS_INIT;
    weft_attention mine = *p;
    exchange.ranks = row->gpus;
    exchange.cut = WEFT_CUT_CONTIGUOUS;
    exchange.exchange = WEFT_EXCHANGE_HEADS;
    alone.ranks = 1;
    mine.heads = p->heads / row->gpus;
    mine.kv_heads = p->kv_heads > row->gpus ? p->kv_heads / row->gpus : 1;
    options.schedule = &schedule;
    const double sent = study_ranks(s, "h100", "flash-attention-3", &sent_problem, &exchange, options).waiting_most;
    const double computed = study_ranks(s, "h100", "flash-attention-3", &mine, &alone, options).ideal_seconds;
    return rate(p, row->gpus, sent + row->copies + computed);
}

static double shared(study *s, const packed *b, int64_t gpus_count, int32_t exchange) {
    const weft_schedule schedule = flash_attention_3();
    weft_dist_simulate_options options = WEFT_DIST_SIMULATE_INIT;
    weft_ranks ranks = WEFT_RANKS_INIT;
    ranks.ranks = gpus_count;
    ranks.exchange = exchange;
    options.schedule = &schedule;
    return rate(&b->p, gpus_count, study_ranks(s, "h100", "flash-attention-3", &b->p, &ranks, options).seconds);
}

static int first_pack(const study *s) {
    return (int)(s->seed_number % STUDY_SEEDS) * EACH;
}

static void magi_ulysses(study *s) {
    static const char *const sections[] = {"MagiAttention, H100, Ulysses, no mask, forward, TFLOP/s a GPU",
                                           "MagiAttention, H100, Ulysses, causal, forward, TFLOP/s a GPU",
                                           "MagiAttention, H100, Ulysses, packed batches, forward, TFLOP/s a GPU",
                                           "MagiAttention, H100, Ulysses, packed causal batches, forward, TFLOP/s a GPU"};
    for (int mask = 3; mask >= 0; mask--) {
        for (size_t i = 0; i < sizeof ulysses_rows / sizeof *ulysses_rows; i++) {
            const struct ulysses *row = &ulysses_rows[i];
            const int packed_batches = mask >= 2, count = packed_batches ? EACH : 1;
            double mean = 0;
            for (int k = 0; k < count; k++) {
                static packed b;
                take_packed(&b, row->gpus, first_pack(s) + k);
                weft_attention p = packed_batches ? b.p : attention(64, row->gpus * ROWS, 0);
                p.mask = mask % 2 ? WEFT_MASK_CAUSAL : WEFT_MASK_NONE;
                mean += ulysses(s, &p, row) / count;
            }
            study_add(s, STUDY_SCALING, sections[mask], row->rate[mask], mean, "%d GPUs", (int)row->gpus);
        }
    }
}

static void magi_attention(study *s) {
    static const char section[] = "MagiAttention, H100, packed causal batches, forward, TFLOP/s a GPU";
    static const char whole[] =
        "it sends all keys to all and cuts each document among all GPUs; weft's sends what is needed";
    static const char other[] = "its kernel takes all slices of a stage in one launch; weft's all-gather has one for each";
    static const struct {
        int64_t gpus;
        double ring, gather, magi;
    } rows[] = {{8, 89, 288, 460}, {64, 28, 180, 238}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const int n = (int)rows[i].gpus;
        double ring = 0, gather = 0;
        for (int k = 0; k < EACH; k++) {
            static packed b;
            take_packed(&b, n, first_pack(s) + k);
            ring += shared(s, &b, n, WEFT_EXCHANGE_RING) / EACH;
            gather += shared(s, &b, n, WEFT_EXCHANGE_ALL_GATHER) / EACH;
        }
        study_unjudged(s, whole, section, rows[i].ring, ring, "ring by point to point, %d GPUs", n);
        study_unjudged(s, whole, section, rows[i].gather, gather, "ring by all-gather, %d GPUs", n);
        study_unjudged(s, other, section, rows[i].magi, gather, "MagiAttention, %d GPUs", n);
    }
}

void study_context_parallel(study *s) {
    for (size_t i = 0; i < sizeof gpus / sizeof *gpus; i++) {
        ring_flash_attention(s, &gpus[i]);
    }
    magi_ulysses(s);
    magi_attention(s);
}
