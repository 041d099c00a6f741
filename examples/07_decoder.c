/* Step 7: a decoder that generates text, on the CPU or, called as `07_decoder cuda`, on a GPU. Two layers, random weights
 * and two sequences of unlike length, whose keys and values lie in one paged cache. A run takes both prompts at once, later
 * runs take a token of each sequence.
 *
 * Attention and products are plans of the device. Their memory is managed, so that the host's loops between the runs, and
 * the CPU's plans, read and write it, too. A server would have kernels for these loops, and streams. */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/weft.h>

enum {
    FIRST = ' ', /* the character that is token 0 */
    VOCABULARY = '~' - ' ' + 1,
    LOGITS = VOCABULARY + 1, /* a GPU takes rows of whole 16 bytes: the last column counts nothing */
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

typedef uint16_t bf16;

typedef struct layer {
    bf16 qkv[WIDTH * QKV], out[WIDTH * WIDTH], up[WIDTH * 2 * HIDDEN], down[HIDDEN * WIDTH];
    bf16 k[PAGES * PAGE * KV_HEADS * DIM], v[PAGES * PAGE * KV_HEADS * DIM]; /* the cache */
} layer;

/* All that plans read and write. Every array has whole 16 bytes, so the next one is aligned as a GPU wants it. */
static struct memory {
    layer layers[LAYERS];
    bf16 embedding[VOCABULARY * WIDTH], head[WIDTH * LOGITS], cosines[ROOM * DIM / 2], sines[ROOM * DIM / 2];
    float x[TOKENS * WIDTH], logits[SEQUENCES * LOGITS]; /* x: the tokens' states */
    bf16 y[TOKENS * WIDTH], qkv[TOKENS * QKV], o[TOKENS * WIDTH], up[TOKENS * 2 * HIDDEN], gated[TOKENS * HIDDEN];
    int32_t table[PAGES]; /* ROOM / PAGE pages of each sequence, and again for the check */
    int32_t starts[SEQUENCES + 1], used[SEQUENCES];
} * m;

static char text[SEQUENCES][ROOM + 1];
static int32_t length[SEQUENCES];

static float value(bf16 x) {
    const uint32_t bits = (uint32_t)x << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static bf16 rounded(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return (bf16)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* A function of the CUDA driver that the library has loaded; null: there is none. */
static void *driver(const char *function) {
    const char *name = getenv("WEFT_CUDA_DRIVER");
    void *library = dlopen(name && *name ? name : "libcuda.so.1", RTLD_NOW);
    return library ? dlsym(library, function) : NULL;
}

/* Memory that both the host and the GPU read and write; null: there is none. */
static void *managed(size_t bytes) {
    int (*get)(int *, int), (*retain)(void **, int), (*push)(void *), (*allocate)(uint64_t *, size_t, unsigned), device;
    uint64_t pointer;
    void *context;
    *(void **)&get = driver("cuDeviceGet");
    *(void **)&retain = driver("cuDevicePrimaryCtxRetain");
    *(void **)&push = driver("cuCtxPushCurrent_v2");
    *(void **)&allocate = driver("cuMemAllocManaged");
    if (!get || !retain || !push || !allocate || get(&device, 0) || retain(&context, device) || push(context) ||
        allocate(&pointer, bytes, 1)) { /* 1: for all streams */
        return NULL;
    }
    return memset((void *)(uintptr_t)pointer, 0, bytes);
}

/* A linear congruential generator: the same numbers everywhere. */
static uint32_t draw(void) {
    static uint64_t state = 1;
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(state >> 32);
}

/* A matrix that keeps the variance of what it multiplies. */
static void fill(bf16 *matrix, int rows, int columns) {
    for (int i = 0; i < rows * columns; i++) {
        matrix[i] = rounded(((float)draw() / 2147483648.0f - 1.0f) * sqrtf(3.0f / (float)rows));
    }
}

static void make_model(void) {
    fill(m->embedding, 1, VOCABULARY * WIDTH);
    fill(m->head, WIDTH, LOGITS);
    for (layer *l = m->layers; l < m->layers + LAYERS; l++) {
        fill(l->qkv, WIDTH, QKV);
        fill(l->out, WIDTH, WIDTH);
        fill(l->up, WIDTH, 2 * HIDDEN);
        fill(l->down, HIDDEN, WIDTH);
    }
    for (int i = 0; i < ROOM * DIM / 2; i++) {
        const float angle = (float)(i / (DIM / 2)) * powf(10000.0f, -(float)(i % (DIM / 2)) / (DIM / 2));
        m->cosines[i] = rounded(cosf(angle));
        m->sines[i] = rounded(sinf(angle));
    }
    for (int i = 0; i < PAGES; i++) { /* pages may lie anywhere: shuffle them */
        const int j = (int)(draw() % (uint32_t)(i + 1));
        m->table[i] = m->table[j];
        m->table[j] = i;
    }
}

/* The plans of a pass. They serve for all layers and steps: lengths come with the data. */
typedef struct pass {
    weft_plan *attention, *qkv, *out, *up, *down, *head;
} pass;

/* C = A B, or C += A B, with A (m, k) and B (k, n) in bf16. Weft has products for Hopper; on other GPUs the CPU's will do.
 */
static weft_status make_product(weft_plan **plan, int rows, int k, int n, weft_dtype c, int add, const weft_device *device,
                                weft_message *message) {
    weft_gemm p = WEFT_GEMM_INIT;
    weft_plan_options options = WEFT_PLAN_OPTIONS_INIT;
    options.device = device;
    p.m = rows;
    p.n = n;
    p.k = k;
    p.dtype = WEFT_BF16;
    p.c_dtype = c;
    p.beta = add;
    const weft_status status = weft_plan_create(plan, &p, &options, message);
    return status == WEFT_UNSUPPORTED ? weft_plan_create(plan, &p, NULL, message) : status;
}

/* A packed pass takes any number of tokens of each sequence, up to ROOM. Otherwise, a batch has one token of each. */
static weft_status make_pass(pass *to, int packed, const weft_device *device, weft_message *message) {
    const int rows = packed ? TOKENS : SEQUENCES;
    weft_attention p = WEFT_ATTENTION_INIT;
    weft_plan_options options = WEFT_PLAN_OPTIONS_INIT;
    options.device = device;
    p.batch = packed ? 1 : SEQUENCES;
    p.sequences = packed ? SEQUENCES : 0;
    p.seq = p.cache.append = packed ? TOKENS : 1;
    p.kv_seq = p.cache.rotary_rows = ROOM;
    p.heads = HEADS;
    p.kv_heads = KV_HEADS;
    p.head_dim = p.cache.rotary_dim = DIM;
    p.dtype = WEFT_BF16;
    p.mask = WEFT_MASK_CAUSAL_BOTTOM_RIGHT;
    p.q_strides = p.cache.k_new_strides = p.cache.v_new_strides = (weft_strides){p.seq * QKV, QKV, DIM};
    p.extras = WEFT_KV_USED | (packed ? WEFT_STARTS : 0);
    p.cache.page = PAGE;
    p.cache.pages = PAGES;
    weft_status s = weft_plan_create(&to->attention, &p, &options, message);
    s = s ? s : make_product(&to->qkv, rows, WIDTH, QKV, WEFT_BF16, 0, device, message);
    s = s ? s : make_product(&to->out, rows, WIDTH, WIDTH, WEFT_FP32, 1, device, message);
    s = s ? s : make_product(&to->up, rows, WIDTH, 2 * HIDDEN, WEFT_BF16, 0, device, message);
    s = s ? s : make_product(&to->down, rows, HIDDEN, WIDTH, WEFT_FP32, 1, device, message);
    return s ? s : make_product(&to->head, SEQUENCES, WIDTH, LOGITS, WEFT_FP32, 0, device, message);
}

static weft_status multiply(const weft_plan *plan, const bf16 *a, const bf16 *b, void *c, weft_message *message) {
    weft_gemm_data data = WEFT_GEMM_DATA_INIT;
    data.a = a;
    data.b = b;
    data.c = c;
    return weft_plan_run(plan, &data, message); /* returns when the device is done */
}

/* RMS norm of each row. Its gains are taken to be 1. */
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

/* Runs the tokens of each sequence that its cache lacks: `used` says how many it has, and is brought up to date. The logits
 * are those of each sequence's last token. */
static weft_status forward(const pass *p, const int32_t *pages, int32_t *used, weft_message *message) {
    const weft_attention *problem = weft_plan_problem(p->attention);
    memset(m->x, 0, sizeof m->x);
    for (int s = 0; s < SEQUENCES; s++) {
        m->used[s] = used[s];
        m->starts[s + 1] = m->starts[s] + length[s] - used[s];
        for (int i = m->starts[s]; i < m->starts[s + 1]; i++) {
            for (int j = 0; j < WIDTH; j++) {
                m->x[i * WIDTH + j] = value(m->embedding[(text[s][used[s]] - FIRST) * WIDTH + j]);
            }
            used[s]++;
        }
    }
    const int rows = m->starts[SEQUENCES];
    weft_status status = WEFT_OK;
    for (layer *l = m->layers; l < m->layers + LAYERS && !status; l++) {
        normalize(m->x, m->y, rows);
        status = multiply(p->qkv, m->y, l->qkv, m->qkv, message);

        weft_attention_data data = WEFT_ATTENTION_DATA_INIT;
        data.q = m->qkv;
        data.k = l->k; /* the run appends to k and v */
        data.v = l->v;
        data.o = m->o;
        data.lengths.q_starts = problem->sequences > 0 ? m->starts : NULL;
        data.lengths.kv_used = m->used;
        data.cache.table = pages;
        data.cache.k_new = m->qkv + HEADS * DIM;
        data.cache.v_new = m->qkv + (HEADS + KV_HEADS) * DIM;
        data.cache.cos = m->cosines;
        data.cache.sin = m->sines;
        status = status ? status : weft_plan_run(p->attention, &data, message);
        status = status ? status : multiply(p->out, m->o, l->out, m->x, message);

        normalize(m->x, m->y, rows);
        status = status ? status : multiply(p->up, m->y, l->up, m->up, message);
        for (int i = 0; i < rows * HIDDEN; i++) { /* SwiGLU */
            const bf16 *up = m->up + i / HIDDEN * 2 * HIDDEN + i % HIDDEN;
            const float gate = value(*up);
            m->gated[i] = rounded(gate / (1.0f + expf(-gate)) * value(up[HIDDEN]));
        }
        status = status ? status : multiply(p->down, m->gated, l->down, m->x, message);
    }
    for (int s = 0; s < SEQUENCES; s++) {
        normalize(m->x + (m->starts[s + 1] - 1) * WIDTH, m->y + s * WIDTH, 1);
    }
    return status ? status : multiply(p->head, m->y, m->head, m->logits, message);
}

int main(int count, char **arguments) {
    static const char prompts[SEQUENCES][ROOM - STEPS + 1] = {"The warp holds still while the weft ", "Tiles"};
    static float found[SEQUENCES * LOGITS];
    int32_t used[SEQUENCES] = {0}, none[SEQUENCES] = {0};
    pass prompt = {0}, step = {0}, whole = {0};
    weft_device gpu = WEFT_DEVICE_INIT, *device = count > 1 && strcmp(arguments[1], "cuda") == 0 ? &gpu : NULL;
    weft_message message = {"there is no managed memory"};
    gpu.kind = WEFT_DEVICE_CUDA;
    weft_status status = make_pass(&prompt, 1, device, &message);
    status = status ? status : make_pass(&step, 0, device, &message);
    status = status ? status : make_pass(&whole, 1, NULL, &message);
    m = status ? NULL : device ? managed(sizeof *m) : calloc(1, sizeof *m);
    status = status || m ? status : WEFT_NO_MEMORY;
    if (status) {
        fprintf(stderr, "%s: %s\n", weft_status_name(status), message.text);
        return status == WEFT_NOT_FOUND ? 77 : 1; /* 77: there is no GPU */
    }
    make_model();
    for (int s = 0; s < SEQUENCES; s++) {
        length[s] = (int32_t)strlen(prompts[s]);
        memcpy(text[s], prompts[s], (size_t)length[s]);
    }
    status = forward(&prompt, m->table, used, &message);
    for (int i = 0; i < STEPS && !status; i++) {
        for (int s = 0; s < SEQUENCES; s++) { /* greedy: the token of the largest logit */
            const float *logits = m->logits + s * LOGITS;
            int best = 0;
            for (int t = 1; t < VOCABULARY; t++) {
                best = logits[t] > logits[best] ? t : best;
            }
            text[s][length[s]++] = (char)(FIRST + best);
        }
        status = forward(&step, m->table, used, &message);
    }
    memcpy(found, m->logits, sizeof found);
    /* The whole sequences as prompts, in other pages and by the CPU, must end with the same logits. */
    status = status ? status : forward(&whole, m->table + PAGES / 2, none, &message);
    if (status) {
        fprintf(stderr, "%s: %s\n", weft_status_name(status), message.text);
        return 1;
    }
    float most = 0;
    for (int i = 0; i < SEQUENCES * LOGITS; i++) {
        const float apart = fabsf(found[i] - m->logits[i]);
        most = apart > most || isnan(apart) ? apart : most;
    }
    for (int s = 0; s < SEQUENCES; s++) {
        printf("%s|%s\n", prompts[s], text[s] + strlen(prompts[s]));
    }
    printf("by %s and %s: logits differ by up to %.3f from those of whole prompts\n", weft_plan_kernel(step.attention),
           weft_plan_kernel(step.qkv), (double)most);
    return !(most <= 0.1f); /* also where one is NaN */
}
