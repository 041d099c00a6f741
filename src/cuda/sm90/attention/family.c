/* SPDX-License-Identifier: Apache-2.0 */
/* The Hopper attention kernel, from the host's side: what it takes, and the parameters of a launch. */
#include "cuda/sm90/attention/params.h"

#include <inttypes.h>
#include <string.h>

#include "base/status.h"
#include "cuda/plan/backend.h"
#include "cuda/sm90/attention/choose.h"
#include "cuda/sm90/attention/costs.h"
#include "cuda/sm90/attention/time.h"
#include "cuda/study/fill.h"
#include "problem/attention.h"
#include "problem/problem.h"

_Static_assert(sizeof(weft_hopper_paged_params) <= WEFT_CUDA_MAX_PARAMETERS, "the parameters fit a launch");
_Static_assert(sizeof(weft_study_append) <= sizeof(weft_hopper_attention_params), "the parameters of all launches fit");
_Static_assert((int)WEFT_HOPPER_COUNTERS <= (int)WEFT_TICKETS_WORDS, "the counters fit a slot");
_Static_assert((int)WEFT_HOPPER_COUNTERS <= (int)WEFT_POOL_COUNTERS, "the counters fit a set of the pool");

/* Whether the bias is the same along an axis of so many. */
static int is_shared(int64_t stride, int64_t length) {
    return stride == 0 || length == 1;
}

/* The copy engine takes keys that lie side by side, and steps likewise; but where it is the same for all, one is read. */
static weft_status check_bias(const weft_attention *p, weft_message *why) {
    const weft_strides *s = &p->bias_strides;
    const int64_t bytes = (int64_t)weft_dtype_bytes(weft_attention_bias_dtype(p));
    const int64_t batch = is_shared(s->batch, p->batch) ? 0 : s->batch * bytes;
    const int64_t head = is_shared(s->head, p->heads) ? 0 : s->head * bytes,
                  row = is_shared(s->seq, p->seq) ? 0 : s->seq * bytes;
    if (weft_attention_asks(p) & (WEFT_HAS_SOFTCAP | WEFT_HAS_ALIBI | WEFT_HAS_BLOCKS | WEFT_HAS_TREE)) {
        return weft_fail(why, WEFT_UNSUPPORTED, "it has no bias beside softcap, alibi, block masks or tree masks");
    }
    if (p->bias_key_stride != 1 && p->kv_seq > 1) {
        return weft_fail(why, WEFT_UNSUPPORTED, "keys of bias are %" PRId64 " elements apart, not 1", p->bias_key_stride);
    }
    if ((batch | head | row) % 16 != 0) {
        return weft_fail(why, WEFT_UNSUPPORTED,
                         "strides of bias (%" PRId64 ", %" PRId64 ", %" PRId64 ") are not multiples of 16 bytes", s->batch,
                         s->seq, s->head);
    }
    return WEFT_OK;
}

/* The sequences of a cache's K and V, or its pages: how many, and of how many keys. */
static int64_t batches_of_kv(const weft_attention *p) {
    return p->cache.page > 0 ? p->cache.pages : p->batch;
}

static int64_t keys_of_kv(const weft_attention *p) {
    return p->cache.page > 0 ? p->cache.page : p->kv_seq;
}

static weft_status check(const weft_plan *plan, const weft_cuda_knobs *knobs, weft_message *why) {
    const weft_attention *p = &plan->attention;
    const weft_schedule *s = &plan->schedule;
    const int64_t most = WEFT_HOPPER_MAX_LENGTH;
    const weft_cuda_driver *driver;
    weft_status status;
    if (p->dtype == WEFT_FP32) {
        return weft_fail(why, WEFT_UNSUPPORTED, "it takes bf16 and fp16, not fp32");
    }
    if ((status = weft_cuda_knobs_refuse(knobs, why))) {
        return status;
    }
    const char *lacks = weft_attention_lacks(p, WEFT_HAS_WINDOW | WEFT_HAS_CHUNK | WEFT_HAS_PREFIX | WEFT_HAS_LENGTHS |
                                                    WEFT_HAS_SOFTCAP | WEFT_HAS_SINKS | WEFT_HAS_ALIBI | WEFT_HAS_BIAS |
                                                    WEFT_HAS_BLOCKS | WEFT_HAS_TREE | WEFT_HAS_CACHE);
    const int has_cache = (weft_attention_asks(p) & WEFT_HAS_CACHE) != 0;
    if (lacks) {
        return weft_fail(why, WEFT_UNSUPPORTED, "it has no %s", lacks);
    }
    if (has_cache && (weft_attention_asks(p) & (WEFT_HAS_BIAS | WEFT_HAS_BLOCKS | WEFT_HAS_TREE))) {
        return weft_fail(why, WEFT_UNSUPPORTED, "it has no bias, block masks or tree masks beside a KV cache");
    }
    if (p->scale < 1e-30 || p->scale > 1e30) {
        return weft_fail(why, WEFT_UNSUPPORTED, "it takes scales from 1e-30 to 1e30, not %g", p->scale);
    }
    if (p->seq > most || weft_attention_columns(p) > most) {
        return weft_fail(why, WEFT_UNSUPPORTED, "it takes lengths up to %" PRId64, most);
    }
    if (s->cluster_m > 1 || s->cluster_n > 1) {
        return weft_fail(why, WEFT_UNSUPPORTED, "it has no clusters");
    }
    if (s->split > WEFT_HOPPER_MAX_SPLIT) {
        return weft_fail(why, WEFT_UNSUPPORTED, "at most %d CTAs share out the steps of a tile", WEFT_HOPPER_MAX_SPLIT);
    }
    if (s->split > 1 && ((s->dispatch != WEFT_DISPATCH_CHOOSE && s->dispatch != WEFT_DISPATCH_GRID) ||
                         (s->sweep != WEFT_SWEEP_CHOOSE && s->sweep != WEFT_SWEEP_FORWARD))) {
        return weft_fail(why, WEFT_UNSUPPORTED,
                         "it shares out the steps of a tile only under grid dispatch and with a forward sweep");
    }
    if ((status = weft_tensor_check_strides("q", &p->q_strides, p->batch, p->seq, p->heads, why)) ||
        (status = weft_tensor_check_strides("k", &p->k_strides, batches_of_kv(p), keys_of_kv(p), p->kv_heads, why)) ||
        (status = weft_tensor_check_strides("v", &p->v_strides, batches_of_kv(p), keys_of_kv(p), p->kv_heads, why)) ||
        (status = weft_tensor_check_strides("o", &p->o_strides, p->batch, p->seq, p->heads, why)) ||
        (status = p->extras & WEFT_BIAS ? check_bias(p, why) : WEFT_OK)) {
        return status;
    }
    if (plan->on_paper || (status = weft_cuda_driver_get(&driver, why))) {
        return status;
    }
    return driver->tensor_map ? WEFT_OK : weft_fail(why, WEFT_UNSUPPORTED, "the CUDA driver has no tensor maps");
}

static weft_status choose(const weft_plan *plan, const weft_cuda_device *device, const weft_cuda_knobs *knobs,
                          weft_cuda_choice *choice, weft_message *why) {
    const weft_status status = check(plan, knobs, why);
    if (status) {
        return status;
    }
    const weft_hopper_attention_variant *best = weft_hopper_attention_best(plan, device);
    if (!best && plan->attention.block_rows > 0) {
        return weft_fail(why, WEFT_UNSUPPORTED,
                         "no tile for head_dim %" PRId64 " divides a mask's blocks of %" PRId64 " queries x %" PRId64
                         " keys",
                         plan->attention.head_dim, plan->attention.block_rows, plan->attention.block_columns);
    }
    if (!best && plan->attention.cache.page > 0 && plan->schedule.tile_m == 0 && plan->schedule.tile_n == 0) {
        return weft_fail(why, WEFT_UNSUPPORTED, "it has no pages of %" PRId64 " keys", plan->attention.cache.page);
    }
    if (!best) {
        return weft_fail(why, WEFT_UNSUPPORTED, "it has no tiles of %" PRId64 "x%" PRId64 " for head_dim %" PRId64 "%s",
                         plan->schedule.tile_m, plan->schedule.tile_n, plan->attention.head_dim,
                         plan->schedule.split > 1 ? " whose steps are shared out" : "");
    }
    *choice = (weft_cuda_choice){best->module,  best->symbol,       best->tile_m,  best->tile_n,
                                 best->threads, best->shared_bytes, .overlaps = 1, .ctas = 1};
    return WEFT_OK;
}

static int64_t lead(const weft_plan *plan, const weft_cuda_choice *choice) {
    const weft_hopper_attention_variant *v = weft_hopper_attention_variant_of(choice);
    return v->form != WEFT_HOPPER_PLAIN ? 0 : weft_hopper_attention_lead(v, &plan->attention, plan->heads_in_tile);
}

/* Where keys are packed as queries are, neighbouring sequences' lie together. A slope, a tree, and a list of pages, is one
 * sequence's. */
static int joins(const weft_plan *plan) {
    const weft_attention *p = &plan->attention;
    return p->sequences > 0 && p->cache.page == 0 && !p->lengths.kv_starts &&
           !(p->extras & (WEFT_KV_STARTS | WEFT_ALIBI)) && !weft_attention_has_pairs(p);
}

/* Of Q or O, in boxes of so many rows: (query, head) pairs. */
static weft_status make_map_of_q(const weft_plan *plan, const char *name, const void *data, const weft_strides *strides,
                                 int64_t rows, weft_tensor_map *map, weft_message *message) {
    const weft_attention *p = &plan->attention;
    const int64_t pack = plan->heads_in_tile;
    const weft_tensor_view view = {.data = data,
                                   .dtype = p->dtype,
                                   .rank = 5,
                                   .length = {p->head_dim, pack, p->seq, p->heads / pack, p->batch},
                                   .stride = {1, strides->head, strides->seq, strides->head * pack, strides->batch},
                                   .box = {64, (int32_t)pack, (int32_t)(rows / pack), 1, 1},
                                   .swizzle = 1};
    return weft_tensor_map_make(((const weft_cuda_plan *)plan->placed)->driver, name, &view, map, message);
}

/* Of K or V, in boxes of so many rows. */
static weft_status make_map_of_kv(const weft_plan *plan, const char *name, const void *data, const weft_strides *strides,
                                  int64_t rows, weft_tensor_map *map, weft_message *message) {
    const weft_attention *p = &plan->attention;
    const weft_tensor_view view = {.data = data,
                                   .dtype = p->dtype,
                                   .rank = 4,
                                   .length = {p->head_dim, keys_of_kv(p), p->kv_heads, batches_of_kv(p)},
                                   .stride = {1, strides->seq, strides->head, strides->batch},
                                   .box = {64, (int32_t)rows, 1, 1},
                                   .swizzle = 1};
    return weft_tensor_map_make(((const weft_cuda_plan *)plan->placed)->driver, name, &view, map, message);
}

/* The same, all columns in one box: where they are whole boxes of 64. `boxes`: that a step has room for; what the tensor
 * does not have of them is zeros. */
static weft_status make_deep_map_of_kv(const weft_plan *plan, const char *name, const void *data,
                                       const weft_strides *strides, int32_t boxes, weft_tensor_map *map,
                                       weft_message *message) {
    const weft_attention *p = &plan->attention;
    const weft_tensor_view view = {.data = data,
                                   .dtype = p->dtype,
                                   .rank = 5,
                                   .length = {64, keys_of_kv(p), p->head_dim / 64, p->kv_heads, batches_of_kv(p)},
                                   .stride = {1, strides->seq, 64, strides->head, strides->batch},
                                   .box = {64, (int32_t)plan->schedule.tile_n, boxes, 1, 1},
                                   .swizzle = 1};
    return weft_tensor_map_make(((const weft_cuda_plan *)plan->placed)->driver, name, &view, map, message);
}

static weft_status make_pages(const weft_plan *plan, const weft_hopper_attention_variant *variant,
                              const weft_attention_data *data, weft_hopper_paged_params *to, weft_message *message) {
    const weft_attention *p = &plan->attention;
    weft_hopper_pages *pages = &to->pages;
    const int32_t boxes = variant->depth / 64;
    weft_status status;
    pages->rows = (int32_t)weft_hopper_attention_page_rows(p, plan->schedule.tile_n);
    pages->copies = (int32_t)plan->schedule.tile_n / pages->rows;
    pages->deep = pages->copies == 1 && p->head_dim % 64 == 0;
    if ((status =
             pages->deep ? make_deep_map_of_kv(plan, "k", data->k, &p->k_strides, boxes, &to->all.k, message) : WEFT_OK) ||
        (status =
             pages->deep ? make_deep_map_of_kv(plan, "v", data->v, &p->v_strides, boxes, &to->all.v, message) : WEFT_OK) ||
        (status = make_map_of_kv(plan, "k", data->k, &p->k_strides, 8, &pages->k.eight, message)) ||
        (status = make_map_of_kv(plan, "k", data->k, &p->k_strides, 1, &pages->k.one, message)) ||
        (status = make_map_of_kv(plan, "v", data->v, &p->v_strides, 8, &pages->v.eight, message)) ||
        (status = make_map_of_kv(plan, "v", data->v, &p->v_strides, 1, &pages->v.one, message))) {
        return status;
    }
    pages->all = weft_cuda_pages(plan, data);
    pages->page = (int32_t)pages->all.page;
    pages->count = pages->all.page > 0 && pages->all.pages <= INT32_MAX ? (uint32_t)pages->all.pages : UINT32_C(1) << 31;
    return WEFT_OK;
}

static weft_status make_bias(const weft_plan *plan, const void *data, weft_hopper_bias *bias, weft_message *message) {
    const weft_attention *p = &plan->attention;
    const weft_strides *s = &p->bias_strides;
    const weft_dtype dtype = weft_attention_bias_dtype(p);
    const int32_t bytes = (int32_t)weft_dtype_bytes(dtype), most = 128 / bytes, keys = (int32_t)plan->schedule.tile_n;
    if ((uintptr_t)data % 16 != 0) {
        return weft_fail(message, WEFT_INVALID, "bias is not aligned to 16 bytes, which the study kernel does not ask for");
    }
    bias->type = p->bias_type;
    bias->rows = is_shared(s->seq, p->seq) ? 1 : 64;
    bias->by_head = !is_shared(s->head, p->heads);
    bias->by_batch = !is_shared(s->batch, p->batch);
    bias->keep =
        bias->by_head || p->heads == 1 ? WEFT_KEEP_FIRST : WEFT_KEEP_NORMAL; /* read once, or by other heads soon */
    bias->scale = (float)p->scale;
    const weft_tensor_view view = {
        .data = data,
        .dtype = dtype,
        .rank = 4,
        .length = {p->kv_seq, bias->rows > 1 ? p->seq : 1, bias->by_head ? p->heads : 1, bias->by_batch ? p->batch : 1},
        .stride = {1, s->seq, s->head, s->batch},
        .box = {keys < most ? keys : most, bias->rows, 1, 1},
        .swizzle = 1};
    return weft_tensor_map_make(((const weft_cuda_plan *)plan->placed)->driver, "bias", &view, &bias->map, message);
}

/* A sweep that alternates lives on what the last one left in the L2. Tiles have the same steps to go where there is no
 * mask. */
static int alternates(const weft_plan *plan) {
    return plan->schedule.sweep == WEFT_SWEEP_SAWTOOTH && plan->attention.mask == WEFT_MASK_NONE &&
           !weft_attention_has_band(&plan->attention);
}

/* Whether workers are held in step. */
static int keeps_step(const weft_plan *plan, int32_t dispatch) {
    return alternates(plan) && dispatch == WEFT_DISPATCH_DYNAMIC && plan->walk.order.kind == WEFT_ORDER_HEAD_FIRST;
}

static void facts(const weft_plan *plan, const weft_cuda_plan *placed, weft_kernel_facts *facts) {
    const weft_hopper_attention_variant *v = weft_hopper_attention_variant_of(&placed->main->choice);
    facts->launch = 1e-9 * (weft_hopper_attention_cost.launch_ns + weft_hopper_attention_cost.start_ns);
    facts->tile = 1e-9 * v->tile_ns;
    facts->step = 1e-9 * (v->splits ? 2 * v->step_ns[0] : v->step_ns[v->tile_m / 64 - 1]);
    facts->least = 1e-9 * weft_hopper_attention_power_time(v, &plan->attention);
    facts->keeps_step = keeps_step(plan, plan->walk.dispatch);
}

/* The odd polynomial of degree 5 that is nearest to tanh up to 0.4, relatively: it is off by 6e-6. */
static weft_hopper_cap small_capped(const weft_attention *p) {
    const double cap = p->scale / p->softcap, square = cap * cap, unit = p->scale * 1.4426950408889634;
    return (weft_hopper_cap){.first = (float)(0.99999391 * unit),
                             .third = (float)(-0.33263363 * unit * square),
                             .fifth = (float)(0.12132677 * unit * square * square),
                             .most = (float)(0.16 / square)};
}

/* Whether every query sees all keys of its sequence. */
static int shows_all(const weft_band *band) {
    return band->left == WEFT_BAND_OPEN && band->right == WEFT_BAND_OPEN && band->chunk == 0;
}

static weft_status fill(const weft_plan *plan, const weft_cuda_pass *pass, const void *buffers, const weft_walk *walk,
                        const weft_counters *counters, void *parameters, weft_message *message) {
    const weft_cuda_plan *c = plan->placed;
    const weft_attention *p = &plan->attention;
    const weft_attention_data *data = buffers;
    weft_hopper_attention_params *to = parameters;
    if (pass != c->main) {
        weft_study_append_fill(parameters, plan, data, walk);
        return WEFT_OK;
    }
    const weft_hopper_attention_variant *variant = weft_hopper_attention_variant_of(&c->main->choice);
    const int is_rotated = p->cache.rotary_dim > 0;
    const weft_strides q_strides = is_rotated ? weft_study_rotated_strides(p) : p->q_strides;
    const int64_t rows = weft_hopper_attention_page_rows(p, plan->schedule.tile_n);
    weft_status status;
    memset(to, 0, sizeof *to);
    if ((status = make_map_of_q(plan, "q", is_rotated ? data->workspace : data->q, &q_strides, plan->schedule.tile_m,
                                &to->q, message)) ||
        (status = make_map_of_q(plan, "o", data->o, &p->o_strides, 64, &to->o_map, message)) ||
        (status = make_map_of_kv(plan, "k", data->k, &p->k_strides, rows, &to->k, message)) ||
        (status = make_map_of_kv(plan, "v", data->v, &p->v_strides, rows, &to->v, message)) ||
        (status = variant->form == WEFT_HOPPER_PAGES ? make_pages(plan, variant, data, parameters, message) : WEFT_OK) ||
        (status = p->extras & WEFT_BIAS ? make_bias(plan, data->bias, &to->bias, message) : WEFT_OK)) {
        return status;
    }
    to->o = data->o;
    to->lse = data->lse;
    to->o_strides = p->o_strides;
    to->heads = p->heads;
    to->seq = (int32_t)p->seq;
    to->kv_seq = (int32_t)p->kv_seq;
    to->head_dim = (int32_t)p->head_dim;
    const int64_t offset = walk->reach.slice.high; /* Clamp: larger offsets change nothing. */
    to->offset = (int32_t)(offset > p->kv_seq ? p->kv_seq : offset < -p->seq ? -p->seq : offset);
    const double log2_e = 1.4426950408889634;
    to->scale_log2 = (float)((p->softcap > 0 ? p->softcap : p->scale) * log2_e);
    to->cap = p->softcap > 0 ? (float)(p->scale / p->softcap) : 0;
    to->small = p->softcap > 0 ? small_capped(p) : (weft_hopper_cap){0};
    to->sinks = data->sinks;
    to->alibi = data->alibi;
    to->alibi_stride = p->alibi_stride;
    while (1 << to->pack_bits < plan->heads_in_tile) {
        to->pack_bits++;
    }
    to->by_kv_group = weft_divisor_make((uint64_t)(p->heads / p->kv_heads / plan->heads_in_tile));
    /* Ping-pong de-phases warpgroups; three of them with steps of 64 keys at head dims near 128 or with masks de-phase
     * unaided. */
    to->ping_pong = !variant->splits && ((p->head_dim <= 64 && variant->form == WEFT_HOPPER_PLAIN) ||
                                         plan->schedule.tile_n != 64 || plan->schedule.tile_m == 128);
    to->keep_o = alternates(plan) ? WEFT_KEEP_FIRST : WEFT_KEEP_NORMAL; /* O is not to take any of the L2 */
    if (keeps_step(plan, walk->dispatch)) {
        to->pace = (weft_hopper_pace){.steps = (int32_t)weft_hopper_attention_cost.pace_steps,
                                      .slack = (int32_t)weft_hopper_attention_cost.pace_slack};
    }
    to->counter = counters->own;
    to->pool = counters->pool;
    to->worker_of_sm = (const uint32_t *)(uintptr_t)c->worker_of_sm;
    to->walk = *walk;
    if (variant->form != WEFT_HOPPER_PLAIN && !weft_reach_has_band(&walk->reach)) { /* it knows nothing else */
        weft_reach_set_band(&to->walk.reach, weft_attention_band(p), weft_attention_sequences(p), 0);
    }
    /* Slopes make near keys weigh most, and causal masks put them last. A tile that ends with them would find in every step
     * that its scores have grown. Without a mask they are in the middle, and the tile begins there. */
    to->walk.reach.turned = (p->extras & WEFT_ALIBI) != 0;
    to->rotates = to->walk.reach.turned && (variant->form == WEFT_HOPPER_SCORES || variant->form == WEFT_HOPPER_PAGES) &&
                  shows_all(&to->walk.reach.band);
    return WEFT_OK;
}

static size_t workspace(const weft_plan *plan) {
    return weft_study_rotated_bytes(&plan->attention);
}

const weft_cuda_family weft_cuda_hopper_attention = {
    .name = "hopper_attention",
    .profile = "hopper-attention",
    .parameter_bytes = sizeof(weft_hopper_attention_params),
    .leaves_zero = 1,
    .finds_counters = 1,
    .choose = choose,
    .heads_in_tile = weft_hopper_attention_pack,
    .joins = joins,
    .lead = lead,
    .complete = weft_hopper_attention_complete,
    .passes = weft_study_passes,
    .workspace = workspace,
    .fill = fill,
    .candidates = weft_hopper_attention_candidates,
    .cost = weft_hopper_attention_seconds,
    .facts = facts,
};
