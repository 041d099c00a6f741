/* SPDX-License-Identifier: Apache-2.0 */
/* Published scaling of attention over GPUs.
 *
 * zhuzilin/ring-flash-attention, README and benchmark/benchmark_kvpacked_func.py: 32 heads over 8, D = 128, causal, bf16,
 * 8K rows a GPU, FlashAttention-2, on 8 H800 and 8 A100. 100 % is 8 times the time of one GPU's 8K by itself. Profiles have
 * the rates of one GPU; no number of several GPUs is fitted.
 *
 * MagiAttention, docs/source/blog/cp_benchmark.md and exps/dist_attn: 64 heads over 8, D = 128, packed causal batches, 8K
 * rows a GPU, FlashAttention-3, on 8 and 64 H100; charts. Lengths are drawn as its sampler does. */
#include <math.h>

#include "base/random.h"
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

/* ---- packed batches ---- */

/* Documents by length, in tokens: the middle of each bin of the study's data, and how many there are. */
static const struct {
    int64_t length, count;
} documents[] = {{5, 30254},      {30, 391188},    {75, 699596},   {150, 1377757}, {350, 3794735},
                 {762, 3316785},  {1536, 2106566}, {3072, 988525}, {6144, 410002}, {12288, 173574},
                 {24576, 115007}, {49152, 18428},  {98304, 22513}, {163840, 18284}};

enum { DOCUMENTS = sizeof documents / sizeof *documents, MOST = 16384 };

/* Batches for each seed: the published means are of 20 in all. Ways that are simulated. */
enum { PACKS = 4, ULYSSES = 0, RING, GATHER, WAYS };

/* Draws documents until they fill the rows. Those longer than a quarter of them are cut into pieces of that, and what is
 * left of them; pieces are drawn each for itself. */
static int64_t draw(uint64_t *random, int64_t rows, int32_t starts[MOST + 1]) {
    double weights[DOCUMENTS], all = 0;
    int64_t count = 0;
    starts[0] = 0;
    const int64_t piece = rows / 4;
    for (int i = 0; i < DOCUMENTS; i++) {
        weights[i] = (double)(documents[i].count * ((documents[i].length + piece - 1) / piece));
        all += weights[i];
    }
    while (count < MOST && starts[count] < rows) {
        double at = all * weft_random_real(random);
        int i = 0;
        while (i + 1 < DOCUMENTS && at >= weights[i]) {
            at -= weights[i++];
        }
        const int64_t whole = documents[i].length / piece, rest = documents[i].length % piece;
        const int is_rest = rest > 0 && weft_random_real(random) * (double)(whole + 1) >= (double)whole;
        const int64_t length = is_rest ? rest : piece, left = rows - starts[count];
        starts[count + 1] = starts[count] + (int32_t)(length < left ? length : left);
        count++;
    }
    starts[count] = (int32_t)rows;
    return count;
}

typedef struct packed {
    weft_attention p;
    int32_t starts[MOST + 1];
} packed;

static void draw_packed(study *s, packed *b, int64_t gpus_count, int number) {
    uint64_t random = 1000 * (s->simulations.seed + s->seed_number) + (uint64_t)number;
    b->p = attention(64, gpus_count * ROWS, 0);
    b->p.sequences = draw(&random, b->p.seq, b->starts);
    b->p.lengths.q_starts = b->starts;
}

/* TFLOP/s a GPU of all ranks together. */
static double rate(const packed *b, int64_t ranks, double seconds) {
    return weft_problem_flops(&b->p) / seconds / (double)ranks / 1e12;
}

static weft_schedule flash_attention_3(void) {
    weft_schedule s = WEFT_SCHEDULE_INIT;
    s.tile_m = s.tile_n = 128;
    s.dispatch = WEFT_DISPATCH_DYNAMIC;
    return s;
}

/* Ulysses: heads are exchanged, and then one launch computes all documents of a rank's heads, where weft has a launch for
 * each document. */
static double ulysses(study *s, const packed *b, int64_t gpus_count) {
    const weft_schedule schedule = flash_attention_3();
    weft_dist_simulate_options options = WEFT_DIST_SIMULATE_INIT;
    weft_ranks exchange = WEFT_RANKS_INIT, alone = WEFT_RANKS_INIT;
    weft_attention mine = b->p;
    exchange.ranks = gpus_count;
    exchange.cut = WEFT_CUT_CONTIGUOUS;
    exchange.exchange = WEFT_EXCHANGE_HEADS;
    alone.ranks = 1;
    mine.heads = b->p.heads / gpus_count;
    mine.kv_heads = b->p.kv_heads > gpus_count ? b->p.kv_heads / gpus_count : 1;
    options.schedule = &schedule;
    const double sent = study_ranks(s, "h100", "flash-attention-3", &b->p, &exchange, options).waiting_most;
    const double computed = study_ranks(s, "h100", "flash-attention-3", &mine, &alone, options).ideal_seconds;
    return rate(b, gpus_count, sent + computed);
}

static double shared(study *s, const packed *b, int64_t gpus_count, int32_t exchange) {
    const weft_schedule schedule = flash_attention_3();
    weft_dist_simulate_options options = WEFT_DIST_SIMULATE_INIT;
    weft_ranks ranks = WEFT_RANKS_INIT;
    ranks.ranks = gpus_count;
    ranks.exchange = exchange;
    options.schedule = &schedule;
    return rate(b, gpus_count, study_ranks(s, "h100", "flash-attention-3", &b->p, &ranks, options).seconds);
}

static void magi_attention(study *s) {
    static const char section[] = "MagiAttention, H100, packed causal batches, forward, TFLOP/s a GPU";
    static const char whole[] =
        "it sends all keys to all and cuts each document among all GPUs; weft's sends what is needed";
    static const char other[] = "its kernel takes all slices of a stage in one launch; weft's all-gather has one for each";
    static const struct {
        int64_t gpus;
        double ulysses, ring, gather, magi;
    } rows[] = {{8, 278, 89, 288, 460}, {64, 163, 28, 180, 238}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const int n = (int)rows[i].gpus;
        double by[WAYS] = {0};
        for (int k = 0; k < PACKS; k++) {
            static packed b;
            draw_packed(s, &b, n, k);
            by[ULYSSES] += ulysses(s, &b, n) / PACKS;
            by[RING] += shared(s, &b, n, WEFT_EXCHANGE_RING) / PACKS;
            by[GATHER] += shared(s, &b, n, WEFT_EXCHANGE_ALL_GATHER) / PACKS;
        }
        study_add(s, STUDY_SCALING, section, rows[i].ulysses, by[ULYSSES], "Ulysses, %d GPUs", n);
        study_unjudged(s, whole, section, rows[i].ring, by[RING], "ring by point to point, %d GPUs", n);
        study_unjudged(s, whole, section, rows[i].gather, by[GATHER], "ring by all-gather, %d GPUs", n);
        study_unjudged(s, other, section, rows[i].magi, by[GATHER], "MagiAttention, %d GPUs", n);
    }
}

void study_context_parallel(study *s) {
    for (size_t i = 0; i < sizeof gpus / sizeof *gpus; i++) {
        ring_flash_attention(s, &gpus[i]);
    }
    magi_attention(s);
}
