/* SPDX-License-Identifier: Apache-2.0 */
/* Step 7: a decoder that generates text, on the CPU or, called as `07_decoder cuda`, on a GPU. Random weights, and two
 * sequences of unlike length in one packed batch, whose keys and values lie in a paged cache. The first run takes both
 * prompts, later runs take a token of each sequence. Attention and products are plans of the device. Their memory is
 * managed, so that the loops between them run on the host: a server would have kernels for these, and streams. */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/weft.h>

enum { FIRST = ' ', VOCABULARY = '_' - FIRST + 1 }; /* a token is a character */
enum { LAYERS = 2, HEADS = 4, KV_HEADS = 2, DIM = 32, HALF = DIM / 2, WIDTH = HEADS * DIM, HIDDEN = 2 * WIDTH };
enum { QKV_WIDTH = (HEADS + 2 * KV_HEADS) * DIM }; /* a token's queries, keys and values, side by side */
enum { SEQUENCES = 2, ROOM = 64, TOKENS = SEQUENCES * ROOM, STEPS = 24, PAGE = 16, PAGES = TOKENS / PAGE };
enum { QKV, OUT, UP, DOWN, HEAD, ATTENTION, PLANS }; /* of a pass; the first ones are products with weights */
typedef uint16_t bf16;

/* All that plans read and write. Every array has whole 16 bytes, so the next one is aligned as a GPU wants it. */
static struct memory {
    bf16 to_qkv[LAYERS][WIDTH * QKV_WIDTH], to_out[LAYERS][WIDTH * WIDTH], to_up[LAYERS][WIDTH * HIDDEN];
    bf16 to_down[LAYERS][HIDDEN * WIDTH], to_head[WIDTH * VOCABULARY], cosines[ROOM * HALF], sines[ROOM * HALF];
    bf16 k[LAYERS][TOKENS * KV_HEADS * DIM], v[LAYERS][TOKENS * KV_HEADS * DIM]; /* the cache */
    bf16 y[TOKENS * WIDTH], qkv[TOKENS * QKV_WIDTH], o[TOKENS * WIDTH], hidden[TOKENS * HIDDEN];
    float embedding[VOCABULARY * WIDTH], x[TOKENS * WIDTH], up[TOKENS * HIDDEN], logits[SEQUENCES][VOCABULARY];
    int32_t table[PAGES], used[SEQUENCES], starts[SEQUENCES + 1]; /* used: tokens in the cache */
} * m;

static char text[SEQUENCES][ROOM + 1] = {"THE WARP HOLDS STILL WHILE THE WEFT ", "TILES"};
static weft_plan_options options = WEFT_PLAN_OPTIONS_INIT;
static weft_message message;

static void check(weft_status status) {
    if (status) {
        fprintf(stderr, "%s: %s\n", weft_status_name(status), message.text);
        exit(status == WEFT_NOT_FOUND ? 77 : 1); /* 77: there is no GPU */
    }
}

/* Memory of the host and the GPU, from the driver that the library has loaded; null: there is none. */
static void *managed(size_t bytes) {
    int (*get)(int *, int), (*retain)(void **, int), (*push)(void *), (*allocate)(void **, size_t, unsigned), device;
    const char *name = getenv("WEFT_CUDA_DRIVER");
    void *driver = dlopen(name && *name ? name : "libcuda.so.1", RTLD_NOW), *context, *memory;
    *(void **)&get = dlsym(driver, "cuDeviceGet");
    *(void **)&retain = dlsym(driver, "cuDevicePrimaryCtxRetain");
    *(void **)&push = dlsym(driver, "cuCtxPushCurrent_v2");
    *(void **)&allocate = dlsym(driver, "cuMemAllocManaged");
    const int bad = !driver || get(&device, 0) || retain(&context, device) || push(context) || allocate(&memory, bytes, 1);
    return bad ? NULL : memset(memory, 0, bytes);
}

static bf16 rounded(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return (bf16)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* Between -1 and 1, the same numbers everywhere. */
static float draw(void) {
    static uint64_t state = 1;
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (float)(state >> 40) / 0x1p23f - 1.0f;
}

static void make_model(void) {
    for (bf16 *weight = (bf16 *)m; weight < m->cosines; weight++) { /* from to_qkv to to_head */
        *weight = rounded(draw() * sqrtf(3.0f / WIDTH));            /* a product keeps the variance of what it multiplies */
    }
    for (int i = 0; i < VOCABULARY * WIDTH; i++) {
        m->embedding[i] = draw();
    }
    for (int i = 0; i < ROOM * HALF; i++) {
        const float angle = (float)(i / HALF) * powf(10000.0f, -(float)(i % HALF) / HALF);
        m->cosines[i] = rounded(cosf(angle));
        m->sines[i] = rounded(sinf(angle));
    }
    memcpy(m->table, (int32_t[PAGES]){2, 7, 4, 1, 6, 3, 0, 5}, sizeof m->table); /* pages may lie anywhere */
}

/* What a GPU has no kernel for, the CPU does: products, unless it is Hopper. */
static weft_plan *make_plan(const void *problem) {
    weft_plan *plan;
    const weft_status status = weft_plan_create(&plan, problem, &options, &message);
    check(status == WEFT_UNSUPPORTED ? weft_plan_create(&plan, problem, NULL, &message) : status);
    return plan;
}

/* Makes the plans of passes of at most so many tokens: for all layers, and all lengths, which come with the data. */
static void make_pass(weft_plan **pass, int tokens) {
    static const int k[] = {WIDTH, WIDTH, WIDTH, HIDDEN, WIDTH}, n[] = {QKV_WIDTH, WIDTH, HIDDEN, WIDTH, VOCABULARY};
    weft_attention p = WEFT_ATTENTION_INIT;
    p.sequences = SEQUENCES;
    p.seq = p.cache.append = tokens;
    p.q_most = tokens / SEQUENCES; /* a GPU has a kernel for few queries of a sequence */
    p.kv_seq = p.cache.rotary_rows = ROOM;
    p.heads = HEADS;
    p.kv_heads = KV_HEADS;
    p.head_dim = p.cache.rotary_dim = DIM;
    p.dtype = WEFT_BF16;
    p.mask = WEFT_MASK_CAUSAL_BOTTOM_RIGHT;
    p.q_strides = p.cache.k_new_strides = p.cache.v_new_strides = (weft_strides){tokens * QKV_WIDTH, QKV_WIDTH, DIM};
    p.extras = WEFT_STARTS | WEFT_KV_USED;
    p.cache.page = PAGE;
    pass[ATTENTION] = make_plan(&p);
    for (int i = QKV; i <= HEAD; i++) { /* C (m, n) = A (m, k) B (k, n), with A and B in bf16 */
        weft_gemm g = WEFT_GEMM_INIT;
        g.m = i == HEAD ? SEQUENCES : tokens;
        g.n = n[i];
        g.k = k[i];
        g.dtype = WEFT_BF16;
        g.c_dtype = i == QKV ? WEFT_BF16 : WEFT_FP32;
        g.beta = i == OUT || i == DOWN; /* 1: C += A B */
        pass[i] = make_plan(&g);
    }
}

static void multiply(const weft_plan *plan, const bf16 *a, const bf16 *b, void *c) {
    const weft_gemm_data data = {.struct_size = sizeof data, .operation = WEFT_GEMM, .a = a, .b = b, .c = c};
    check(weft_plan_run(plan, &data, &message)); /* returns when the device is done */
}

/* RMS norm of each row. */
static void normalize(const float *x, bf16 *y, int rows) {
    for (int i = 0; i < rows; i++, x += WIDTH, y += WIDTH) {
        float sum = 0;
        for (int j = 0; j < WIDTH; j++) {
            sum += x[j] * x[j];
        }
        for (int j = 0; j < WIDTH; j++) {
            y[j] = rounded(x[j] / sqrtf(sum / WIDTH + 1e-6f));
        }
    }
}

/* Runs the tokens of each sequence that the cache lacks. The logits are those of each sequence's last token. */
static void forward(weft_plan *const *pass) {
    weft_attention_data data = WEFT_ATTENTION_DATA_INIT;
    int rows = 0;
    for (int s = 0; s < SEQUENCES; s++) {
        for (const char *t = text[s] + m->used[s]; *t; t++, rows++) {
            memcpy(m->x + rows * WIDTH, m->embedding + (*t - FIRST) * WIDTH, WIDTH * sizeof *m->x);
        }
        m->starts[s + 1] = rows;
    }
    data.q = m->qkv;
    data.o = m->o;
    data.lengths.q_starts = m->starts;
    data.lengths.kv_used = m->used;
    data.cache.table = m->table;
    data.cache.k_new = m->qkv + HEADS * DIM;
    data.cache.v_new = m->qkv + (HEADS + KV_HEADS) * DIM;
    data.cache.cos = m->cosines;
    data.cache.sin = m->sines;
    for (int i = 0; i < LAYERS; i++) {
        normalize(m->x, m->y, rows);
        multiply(pass[QKV], m->y, m->to_qkv[i], m->qkv);
        data.k = m->k[i]; /* written behind what is used */
        data.v = m->v[i];
        check(weft_plan_run(pass[ATTENTION], &data, &message));
        multiply(pass[OUT], m->o, m->to_out[i], m->x);
        normalize(m->x, m->y, rows);
        multiply(pass[UP], m->y, m->to_up[i], m->up);
        for (int j = 0; j < rows * HIDDEN; j++) {
            m->hidden[j] = rounded(m->up[j] / (1.0f + expf(-m->up[j]))); /* SiLU */
        }
        multiply(pass[DOWN], m->hidden, m->to_down[i], m->x);
    }
    for (int s = 0; s < SEQUENCES; s++) {
        normalize(m->x + (m->starts[s + 1] - 1) * WIDTH, m->y + s * WIDTH, 1);
        m->used[s] += m->starts[s + 1] - m->starts[s];
    }
    multiply(pass[HEAD], m->y, m->to_head, m->logits);
}

int main(int count, char **arguments) {
    static weft_plan *prompt[PLANS], *step[PLANS];
    weft_device gpu = WEFT_DEVICE_INIT;
    gpu.kind = WEFT_DEVICE_CUDA;
    options.device = count > 1 && strcmp(arguments[1], "cuda") == 0 ? &gpu : NULL;
    make_pass(prompt, TOKENS);
    make_pass(step, SEQUENCES);
    m = options.device ? managed(sizeof *m) : calloc(1, sizeof *m);
    check(m ? WEFT_OK : WEFT_NO_MEMORY);
    make_model();
    forward(prompt);
    for (int i = 0; i < STEPS; i++) {
        for (int s = 0; s < SEQUENCES; s++) { /* greedy: the token of the largest logit */
            int best = 0;
            for (int t = 1; t < VOCABULARY; t++) {
                best = m->logits[s][t] > m->logits[s][best] ? t : best;
            }
            text[s][m->used[s]] = (char)(FIRST + best);
        }
        forward(step);
    }
    printf("%s\n%s\n", text[0], text[1]);
    printf("by %s and %s\n", weft_plan_kernel(step[ATTENTION]), weft_plan_kernel(step[QKV]));
    return 0;
}
