/* The study kernel's host side: which variant, and its parameters. */
#include "cuda/study/params.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "cuda/plan/backend.h"
#include "problem/problem.h"

static const weft_study_variant variants[] = {
#define WEFT_STUDY(...) WEFT_STUDY_VARIANT(__VA_ARGS__),
#include "cuda/study/variants.def"
};
enum { VARIANTS = sizeof variants / sizeof *variants };

_Static_assert(sizeof(weft_study_params) <= WEFT_CUDA_MAX_PARAMETERS, "the parameters fit a launch");

/* Static shared memory that a CTA has beside the variant's, at most. */
enum { STATIC_SHARED_BYTES = 1024 };

static const struct study_costs {
#define WEFT_COST(name, value, unit, source, meaning) double name;
#include "cuda/study/costs.def"
} cost = {
#define WEFT_COST(name, value, unit, source, meaning) value,
#include "cuda/study/costs.def"
};

static const int32_t preferred[][3] = {
#define WEFT_PREFERRED(head_dim, tile_m, tile_n) {head_dim, tile_m, tile_n},
#include "cuda/study/costs.def"
};
enum { PREFERRED = sizeof preferred / sizeof *preferred };

/* The tile's keys, 0 open. */
static int tile_fits(const weft_study_variant *v, const weft_schedule *s) {
    return (s->tile_m == 0 || s->tile_m == v->tile_m) && (s->tile_n == 0 || s->tile_n == v->tile_n);
}

/* How early a tile comes among the preferred ones: less is earlier. */
static size_t rank(const weft_study_variant *v) {
    size_t i = 0;
    while (i < PREFERRED && ((preferred[i][0] != 0 && preferred[i][0] != v->head_dim) || preferred[i][1] != v->tile_m ||
                             preferred[i][2] != v->tile_n)) {
        i++;
    }
    return i;
}

/* Adds " text" to a list of words, as far as there is room. */
static void append(char *list, size_t size, const char *text) {
    const size_t length = strlen(list);
    snprintf(list + length, size - length, " %s", text);
}

/* Says what there would be: head dims when none fits, else tiles. */
static weft_status explain(const weft_plan *plan, const weft_cuda_device *device, const weft_cuda_knobs *knobs,
                           weft_message *why) {
    const weft_attention *p = &plan->attention;
    const weft_schedule *s = &plan->schedule;
    const char *math = knobs->precise ? "precise" : "fast";
    char dims[64] = "", tiles[120] = "", word[32];
    int32_t last = 0;
    int too_large = 0;
    for (size_t i = 0; i < VARIANTS; i++) {
        const weft_study_variant *v = &variants[i];
        if (v->dtype == p->dtype && v->head_dim != last) {
            snprintf(word, sizeof word, "%d", (int)v->head_dim);
            append(dims, sizeof dims, word);
            last = v->head_dim;
        }
        if (v->dtype == p->dtype && v->head_dim == p->head_dim && v->math == (weft_study_math)knobs->precise) {
            snprintf(word, sizeof word, "%dx%d", (int)v->tile_m, (int)v->tile_n);
            append(tiles, sizeof tiles, word);
            too_large |= tile_fits(v, s) && v->shared_bytes + STATIC_SHARED_BYTES > (uint32_t)device->shared_bytes;
        }
    }
    if (!dims[0]) {
        return weft_fail(why, WEFT_UNSUPPORTED, "dtype %s is not fp16 or bf16", weft_dtype_name(p->dtype));
    }
    if (!tiles[0]) {
        return weft_fail(why, WEFT_UNSUPPORTED, "head_dim %" PRId64 " with %s math is not compiled; head dims are%s",
                         p->head_dim, math, dims);
    }
    return weft_fail(why, WEFT_UNSUPPORTED,
                     too_large ? "tile %" PRId64 "x%" PRId64 " needs more shared memory than this GPU has (%s math:%s)"
                               : "tile %" PRId64 "x%" PRId64 " is not compiled; with %s math there are%s",
                     s->tile_m, s->tile_n, math, tiles);
}

static weft_status check_strides(const char *name, const weft_strides *s, weft_message *why) {
    return (s->batch | s->seq | s->head) % 8 == 0
               ? WEFT_OK
               : weft_fail(why, WEFT_UNSUPPORTED,
                           "strides of %s (%" PRId64 ", %" PRId64 ", %" PRId64 ") are not multiples of 8 elements", name,
                           s->batch, s->seq, s->head);
}

/* Whether a variant can take the plan's problem, with the tile that its schedule asks for, on this device. */
static int fits(const weft_study_variant *v, const weft_plan *plan, const weft_cuda_device *device,
                const weft_cuda_knobs *knobs) {
    const weft_attention *p = &plan->attention;
    return v->dtype == p->dtype && v->head_dim == p->head_dim && v->math == (weft_study_math)knobs->precise &&
           tile_fits(v, &plan->schedule) && v->shared_bytes + STATIC_SHARED_BYTES <= (uint32_t)device->shared_bytes;
}

static weft_status choose(const weft_plan *plan, const weft_cuda_device *device, const weft_cuda_knobs *knobs,
                          weft_cuda_choice *choice, weft_message *why) {
    const weft_attention *p = &plan->attention;
    const weft_schedule *s = &plan->schedule;
    const weft_study_variant *best = NULL;
    weft_status status;
    for (size_t i = 0; i < VARIANTS; i++) {
        const weft_study_variant *v = &variants[i];
        if (fits(v, plan, device, knobs) && (!best || rank(v) < rank(best))) {
            best = v;
        }
    }
    if (!best) {
        return explain(plan, device, knobs, why);
    }
    if (s->cluster_m > 1 || s->cluster_n > 1 || s->split > 1) {
        return weft_fail(why, WEFT_UNSUPPORTED, "it has no clusters");
    }
    const char *lacks = weft_attention_lacks(p, 0);
    if (lacks) {
        return weft_fail(why, WEFT_UNSUPPORTED, "it has no %s", lacks);
    }
    if ((status = check_strides("q", &p->q_strides, why)) || (status = check_strides("k", &p->k_strides, why)) ||
        (status = check_strides("v", &p->v_strides, why)) || (status = check_strides("o", &p->o_strides, why))) {
        return status;
    }
    *choice =
        (weft_cuda_choice){best->module, best->symbol, best->tile_m, best->tile_n, best->threads, best->shared_bytes, 0, 0};
    return WEFT_OK;
}

static void complete(const weft_plan *plan, const weft_cuda_device *device, const weft_cuda_choice *choice,
                     weft_schedule *schedule) {
    (void)device;
    (void)choice;
    if (plan->attention.mask == WEFT_MASK_NONE || schedule->order != WEFT_ORDER_CHOOSE) {
        return;
    }
    const int is_short = plan->attention.head_dim == 64 && (double)plan->attention.kv_seq < cost.short_keys;
    const int32_t dispatch = is_short ? WEFT_DISPATCH_DYNAMIC : WEFT_DISPATCH_GRID;
    schedule->order = is_short ? WEFT_ORDER_LONGEST_FIRST : WEFT_ORDER_REVERSE;
    schedule->dispatch = schedule->dispatch == WEFT_DISPATCH_CHOOSE ? dispatch : schedule->dispatch;
}

static size_t candidates(const weft_plan *plan, const weft_cuda_device *device, const weft_cuda_knobs *knobs,
                         weft_schedule *list, size_t capacity) {
    size_t count = 0;
    for (size_t i = 0; i < VARIANTS && count < capacity; i++) {
        if (fits(&variants[i], plan, device, knobs)) {
            list[count] = plan->schedule;
            list[count].tile_m = variants[i].tile_m;
            list[count++].tile_n = variants[i].tile_n;
        }
    }
    return count;
}

static weft_status fill(const weft_plan *plan, const void *buffers, const weft_walk *walk, const weft_counters *counters,
                        void *parameters, weft_message *message) {
    (void)message;
    const weft_cuda_plan *c = plan->placed;
    const weft_attention_data *data = buffers;
    const weft_attention *p = &plan->attention;
    weft_study_params *to = parameters;
    memset(to, 0, sizeof *to);
    to->q = data->q;
    to->k = data->k;
    to->v = data->v;
    to->o = data->o;
    to->lse = data->lse;
    to->q_strides = p->q_strides;
    to->k_strides = p->k_strides;
    to->v_strides = p->v_strides;
    to->o_strides = p->o_strides;
    to->heads = p->heads;
    to->seq = (int32_t)p->seq;
    to->kv_seq = (int32_t)p->kv_seq;
    to->by_kv_group = weft_divisor_make((uint64_t)(p->heads / p->kv_heads));
    weft_study_set_scale(to, p->scale);
    to->mask_every_block = c->knobs.mask_every_block;
    to->no_prefetch = c->knobs.no_prefetch;
    to->counter = counters->own;
    to->worker_of_sm = (const uint32_t *)(uintptr_t)c->worker_of_sm;
    to->walk = *walk;
    return WEFT_OK;
}

const weft_cuda_family weft_cuda_study = {
    .name = "study",
    .profile = "study",
    .parameter_bytes = sizeof(weft_study_params),
    .choose = choose,
    .complete = complete,
    .fill = fill,
    .candidates = candidates,
};
