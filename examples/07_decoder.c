/* Step 7: a decoder that generates text. Two layers, random weights and two sequences of unlike length, whose keys and
 * values lie in one paged cache. A run takes both prompts at once, later runs take a token of each sequence.
 *
 * On a GPU, plans get options.device and dtype WEFT_BF16, and products become plans as well. Every pointer in the data is
 * to memory of the device, and the loops between the calls are kernels. The caller brings both, so this program runs on the
 * CPU. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <weft/weft.h>

enum {
    FIRST = ' ', /* the character that is token 0 */
    VOCABULARY = '~' - ' ' + 1,
    LAYERS = 2,
    HEADS = 4,
    KV_HEADS = 2, /* two query heads share each kv head */
    DIM = 32,
    WIDTH = HEADS * DIM,                /* of a token's state */
    QKV = (HEADS + 2 * KV_HEADS) * DIM, /* a token's queries, keys and values, side by side */
    HIDDEN = 2 * WIDTH,
    SEQUENCES = 2,
    ROOM = 64, /* tokens of a sequence, at most */
    TOKENS = SEQUENCES * ROOM,
    STEPS = 24, /* tokens to generate */
    PAGE = 16,
    PAGES = 2 * TOKENS / PAGE /* half of them for the check */
};

typedef struct layer {
    float qkv[WIDTH * QKV], out[WIDTH * WIDTH], up[WIDTH * 2 * HIDDEN], down[HIDDEN * WIDTH];
    float k[PAGES * PAGE * KV_HEADS * DIM], v[PAGES * PAGE * KV_HEADS * DIM]; /* the cache */
} layer;

static layer layers[LAYERS];
static float embedding[VOCABULARY * WIDTH], head[WIDTH * VOCABULARY];
static float cosines[ROOM * DIM / 2], sines[ROOM * DIM / 2];
static int32_t table[PAGES]; /* ROOM / PAGE pages of each sequence, and again for the check */
static char text[SEQUENCES][ROOM + 1];
static int32_t length[SEQUENCES];

/* A linear congruential generator: the same numbers everywhere. */
static uint32_t draw(void) {
    static uint64_t state = 1;
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(state >> 32);
}

/* A matrix that keeps the variance of what it multiplies. */
static void fill(float *matrix, int rows, int columns) {
    for (int i = 0; i < rows * columns; i++) {
        matrix[i] = ((float)draw() / 2147483648.0f - 1.0f) * sqrtf(3.0f / (float)rows);
    }
}

static void make_model(void) {
    fill(embedding, 1, VOCABULARY * WIDTH);
    fill(head, WIDTH, VOCABULARY);
    for (int l = 0; l < LAYERS; l++) {
        fill(layers[l].qkv, WIDTH, QKV);
        fill(layers[l].out, WIDTH, WIDTH);
        fill(layers[l].up, WIDTH, 2 * HIDDEN);
        fill(layers[l].down, HIDDEN, WIDTH);
    }
    for (int i = 0; i < ROOM * DIM / 2; i++) {
        const float angle = (float)(i / (DIM / 2)) * powf(10000.0f, -(float)(i % (DIM / 2)) / (DIM / 2));
        cosines[i] = cosf(angle);
        sines[i] = sinf(angle);
    }
    for (int i = 0; i < PAGES; i++) { /* pages may lie anywhere: shuffle them */
        const int j = (int)(draw() % (uint32_t)(i + 1));
        table[i] = table[j];
        table[j] = i;
    }
}

/* Makes an attention over the cache. A packed one takes any number of tokens of each sequence, up to ROOM. Otherwise, a
 * batch has one token of each. Lengths come with the data, so a plan serves for all layers and steps. */
static weft_status make_attention(weft_plan **plan, int packed, weft_message *message) {
    weft_attention p = WEFT_ATTENTION_INIT;
    p.batch = packed ? 1 : SEQUENCES;
    p.sequences = packed ? SEQUENCES : 0;
    p.seq = p.cache.append = packed ? TOKENS : 1;
    p.kv_seq = p.cache.rotary_rows = ROOM;
    p.heads = HEADS;
    p.kv_heads = KV_HEADS;
    p.head_dim = p.cache.rotary_dim = DIM;
    p.mask = WEFT_MASK_CAUSAL_BOTTOM_RIGHT;
    p.q_strides = p.cache.k_new_strides = p.cache.v_new_strides = (weft_strides){p.seq * QKV, QKV, DIM};
    p.extras = WEFT_KV_USED | (packed ? WEFT_STARTS : 0);
    p.cache.page = PAGE;
    p.cache.pages = PAGES;
    return weft_plan_create(plan, &p, NULL, message);
}

/* C = A B, or C += A B, with A (m, k) and B (k, n). */
static weft_status multiply(const float *a, const float *b, float *c, int m, int k, int n, int add, weft_message *message) {
    weft_gemm p = WEFT_GEMM_INIT;
    p.m = m;
    p.n = n;
    p.k = k;
    p.beta = add;
    weft_gemm_data data = WEFT_GEMM_DATA_INIT;
    data.a = a;
    data.b = b;
    data.c = c;
    return weft_gemm_multiply(&p, &data, message);
}

/* RMS norm of each row. Its gains are taken to be 1. */
static void normalize(const float *x, float *y, int rows) {
    for (int i = 0; i < rows; i++, x += WIDTH, y += WIDTH) {
        float sum = 0;
        for (int j = 0; j < WIDTH; j++) {
            sum += x[j] * x[j];
        }
        for (int j = 0; j < WIDTH; j++) {
            y[j] = x[j] / sqrtf(sum / WIDTH + 1e-6f);
        }
    }
}

/* Runs the tokens of each sequence that its cache lacks: `used` says how many it has, and is brought up to date. The logits
 * are those of each sequence's last token. */
static weft_status forward(const weft_plan *plan, const int32_t *pages, int32_t *used, float *logits,
                           weft_message *message) {
    static float x[TOKENS * WIDTH], y[TOKENS * WIDTH], qkv[TOKENS * QKV], o[TOKENS * WIDTH];
    static float up[TOKENS * 2 * HIDDEN], gated[TOKENS * HIDDEN];
    const weft_attention *problem = weft_plan_problem(plan);
    int32_t starts[SEQUENCES + 1] = {0};
    for (int s = 0; s < SEQUENCES; s++) {
        starts[s + 1] = starts[s] + length[s] - used[s];
        for (int i = starts[s]; i < starts[s + 1]; i++) {
            memcpy(x + i * WIDTH, embedding + (text[s][used[s] + i - starts[s]] - FIRST) * WIDTH, WIDTH * sizeof *x);
        }
    }
    const int rows = starts[SEQUENCES];
    weft_status status = WEFT_OK;
    for (layer *l = layers; l < layers + LAYERS && !status; l++) {
        normalize(x, y, rows);
        status = multiply(y, l->qkv, qkv, rows, WIDTH, QKV, 0, message);

        weft_attention_data data = WEFT_ATTENTION_DATA_INIT;
        data.q = qkv;
        data.k = l->k; /* the run appends to k and v */
        data.v = l->v;
        data.o = o;
        data.lengths.q_starts = problem->sequences > 0 ? starts : NULL;
        data.lengths.kv_used = used;
        data.cache.table = pages;
        data.cache.k_new = qkv + HEADS * DIM;
        data.cache.v_new = qkv + (HEADS + KV_HEADS) * DIM;
        data.cache.cos = cosines;
        data.cache.sin = sines;
        status = status ? status : weft_plan_run(plan, &data, message);
        status = status ? status : multiply(o, l->out, x, rows, WIDTH, WIDTH, 1, message);

        normalize(x, y, rows);
        status = status ? status : multiply(y, l->up, up, rows, WIDTH, 2 * HIDDEN, 0, message);
        for (int i = 0; i < rows * HIDDEN; i++) { /* SwiGLU */
            const float *gate = up + i / HIDDEN * 2 * HIDDEN + i % HIDDEN;
            gated[i] = *gate / (1.0f + expf(-*gate)) * gate[HIDDEN];
        }
        status = status ? status : multiply(gated, l->down, x, rows, HIDDEN, WIDTH, 1, message);
    }
    for (int s = 0; s < SEQUENCES; s++) {
        normalize(x + (starts[s + 1] - 1) * WIDTH, y + s * WIDTH, 1);
        used[s] = length[s];
    }
    return status ? status : multiply(y, head, logits, SEQUENCES, WIDTH, VOCABULARY, 0, message);
}

int main(void) {
    static const char prompts[SEQUENCES][ROOM - STEPS + 1] = {"The warp holds still while the weft ", "Tiles"};
    static float logits[SEQUENCES * VOCABULARY], again[SEQUENCES * VOCABULARY];
    int32_t used[SEQUENCES] = {0}, none[SEQUENCES] = {0};
    weft_plan *prompt = NULL, *step = NULL;
    weft_message message;
    make_model();
    for (int s = 0; s < SEQUENCES; s++) {
        length[s] = (int32_t)strlen(prompts[s]);
        memcpy(text[s], prompts[s], (size_t)length[s]);
    }
    weft_status status = make_attention(&prompt, 1, &message);
    status = status ? status : make_attention(&step, 0, &message);
    status = status ? status : forward(prompt, table, used, logits, &message);
    for (int i = 0; i < STEPS && !status; i++) {
        for (int s = 0; s < SEQUENCES; s++) { /* greedy: the token of the largest logit */
            int best = 0;
            for (int t = 1; t < VOCABULARY; t++) {
                best = logits[s * VOCABULARY + t] > logits[s * VOCABULARY + best] ? t : best;
            }
            text[s][length[s]++] = (char)(FIRST + best);
        }
        status = forward(step, table, used, logits, &message);
    }
    /* The whole sequences as prompts, in other pages, must end with the same logits. */
    status = status ? status : forward(prompt, table + PAGES / 2, none, again, &message);
    weft_plan_destroy(prompt);
    weft_plan_destroy(step);
    if (status) {
        fprintf(stderr, "%s: %s\n", weft_status_name(status), message.text);
        return 1;
    }
    int differ = 0;
    for (int i = 0; i < SEQUENCES * VOCABULARY; i++) {
        differ += !(fabsf(logits[i] - again[i]) <= 1e-4f); /* also where one is NaN */
    }
    for (int s = 0; s < SEQUENCES; s++) {
        printf("%s|%s\n", prompts[s], text[s] + strlen(prompts[s]));
    }
    printf("%d of %d logits differ from those of whole prompts\n", differ, SEQUENCES * VOCABULARY);
    return differ > 0;
}
