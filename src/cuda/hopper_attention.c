/* The Hopper attention kernel, from the host's side: which variant, which schedule, and the parameters of a launch. */
#include "cuda/hopper_attention.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "cuda/cuda.h"
#include "plan/status.h"

static const weft_hopper_attention_variant variants[] = {
#define WEFT_HOPPER_ATTENTION(...) WEFT_HOPPER_ATTENTION_VARIANT(__VA_ARGS__),
#include "cuda/hopper_attention.def"
};
enum { VARIANTS = sizeof variants / sizeof *variants };

_Static_assert(sizeof(weft_hopper_attention_params) <= WEFT_CUDA_MAX_PARAMETERS, "the parameters fit a launch");
_Static_assert((int)WEFT_HOPPER_COUNTERS <= (int)WEFT_TICKETS_WORDS, "the counters fit a slot");

/* The copy engine steps from row to row, head to head and batch to batch by multiples of 16 bytes, and not by 0. */
static weft_status check_strides(const char *name, const weft_strides *s, const weft_attention *p, int64_t seq,
                                 int64_t heads, weft_message *why) {
    if ((s->batch | s->seq | s->head) % 8 != 0) {
        return weft_fail(why, WEFT_UNSUPPORTED,
                         "strides of %s (%" PRId64 ", %" PRId64 ", %" PRId64 ") are not multiples of 8 elements", name,
                         s->batch, s->seq, s->head);
    }
    if ((s->batch == 0 && p->batch > 1) || (s->seq == 0 && seq > 1) || (s->head == 0 && heads > 1)) {
        return weft_fail(why, WEFT_UNSUPPORTED, "a stride of %s is 0", name);
    }
    return WEFT_OK;
}

static weft_status check(const weft_plan *plan, weft_message *why) {
    const weft_attention *p = &plan->attention;
    const weft_schedule *s = &plan->schedule;
    const weft_device *d = &plan->device;
    const int64_t most = WEFT_MAX_DIMENSION - 1024; /* rows of tiles over the edge are 32-bit numbers, too */
    const weft_cuda_driver *driver;
    weft_status status;
    if (p->dtype == WEFT_FP32) {
        return weft_fail(why, WEFT_UNSUPPORTED, "it takes bf16 and fp16, not fp32");
    }
    if (d->precise || d->mask_every_block || d->no_prefetch || d->ctas > 1) {
        return weft_fail(why, WEFT_UNSUPPORTED, "it has no precise math, mask_every_block, no_prefetch or CTAs that share");
    }
    if (p->scale < 1e-30 || p->scale > 1e30) {
        return weft_fail(why, WEFT_UNSUPPORTED, "it takes scales from 1e-30 to 1e30, not %g", p->scale);
    }
    if (p->seq > most || p->kv_seq > most) {
        return weft_fail(why, WEFT_UNSUPPORTED, "it takes lengths up to %" PRId64, most);
    }
    if (s->cluster_m > 1 || s->cluster_n > 1) {
        return weft_fail(why, WEFT_UNSUPPORTED, "it has no clusters");
    }
    if ((status = check_strides("q", &p->q_strides, p, p->seq, p->heads, why)) ||
        (status = check_strides("k", &p->k_strides, p, p->kv_seq, p->kv_heads, why)) ||
        (status = check_strides("v", &p->v_strides, p, p->kv_seq, p->kv_heads, why)) ||
        (status = check_strides("o", &p->o_strides, p, p->seq, p->heads, why))) {
        return status;
    }
    if ((status = weft_cuda_driver_get(&driver, why))) {
        return status;
    }
    return driver->tensor_map ? WEFT_OK : weft_fail(why, WEFT_UNSUPPORTED, "the CUDA driver has no tensor maps");
}

/* Whether a variant can take the plan's problem, with the tile that its schedule asks for. */
static int fits(const weft_hopper_attention_variant *v, const weft_plan *plan, const weft_cuda_device *device) {
    const weft_schedule *s = &plan->schedule;
    return v->dtype == plan->attention.dtype && v->depth >= plan->attention.head_dim &&
           (s->tile_m == 0 || s->tile_m == v->tile_m) && (s->tile_n == 0 || s->tile_n == v->tile_n) &&
           v->shared_bytes + 1024 <= (uint32_t)device->shared_bytes;
}

/* Queries of which the rates of short problems speak: more than a tile's, and no more than where the variants change
 * places.
 */
static int is_short(const weft_hopper_attention_variant *v, const weft_attention *p) {
    return p->seq > 256 && p->seq <= (v->depth <= 64 ? 6144 : 2048) && v->short_rate[p->mask != WEFT_MASK_NONE];
}

/* Rows of the queries' last tile, as a part of a tile, by what they cost: warpgroups without queries cost nothing, and the
 * others have fewer to overlap with. */
static double last_tile(const weft_hopper_attention_variant *v, int64_t rows) {
    const int64_t groups = weft_ceil_divide(rows % v->tile_m, 64);
    return groups ? (1.0 + (double)groups) / (1.0 + (double)v->tile_m / 64) : 0;
}

/* How long a problem takes by a variant, in no unit: its tiles come in waves of one for each worker. Without a mask tiles
 * are alike, and a wave that is not whole takes as long as one that is, which matters while there are few; one that few
 * workers have a part in is mostly last tiles, which are smaller. Under a causal mask a tile has half of the keys in the
 * mean, and the longest has all. pack: see weft_plan. */
static double time_of(const weft_hopper_attention_variant *v, const weft_plan *plan, const weft_cuda_device *device,
                      int64_t pack) {
    const weft_attention *p = &plan->attention;
    const int masked = p->mask != WEFT_MASK_NONE;
    const int64_t workers = plan->schedule.workers > 0 ? plan->schedule.workers : device->multiprocessors;
    const int64_t rows = p->seq * pack;
    double rate = v->rate[masked] ? v->rate[masked] : v->rate[0], height = v->tile_m;
    double tiles = (double)(rows / v->tile_m) + last_tile(v, rows);
    if (is_short(v, p)) { /* such rates have the last tile in them */
        rate = v->short_rate[masked];
        tiles = (double)rows / height;
    } else if (rows < v->tile_m) {
        height *= tiles;
        tiles = 1;
    }
    double waves = (double)p->batch * (double)(p->heads / pack) * tiles / (double)workers;
    if (masked) {
        waves = waves < 1.5 ? 1 : waves / 2 + 0.25;
    } else if (waves <= 4) {
        const double part = waves - floor(waves);
        waves = waves < 1 ? 1 : floor(waves) + (part == 0 ? 0 : part < 0.1 ? 0.5 : 1);
    }
    return waves * height / rate * (double)v->depth;
}

/* Of the workers' time, what the tiles of one K and V fill when they take whole waves, so that no wave reads two of them.
 */
static double wave_fill(int64_t tiles, int64_t workers) {
    return (double)tiles / (double)(weft_ceil_divide(tiles, workers) * workers);
}

/* Whether the sweep will alternate because K and V of a head exceed one side of the L2, half of a Hopper's, by so little
 * that most of them stay there from wave to wave: then a wave that reads two heads costs as much as many others. */
static int nearly_stays(const weft_plan *plan, const weft_cuda_device *device) {
    const weft_attention *p = &plan->attention;
    const weft_schedule *s = &plan->schedule;
    const double share = 4.0 * (double)p->kv_seq * (double)p->head_dim / ((double)device->l2_bytes / 2);
    return p->mask == WEFT_MASK_NONE && (s->sweep == WEFT_CHOOSE || s->sweep == WEFT_SWEEP_SAWTOOTH) &&
           s->order == WEFT_CHOOSE && s->workers == 0 && share > 1 && share < 1.5;
}

/* There, whole waves are worth 8 % of the time: docs/kernels/attention-hopper.md. */
static double local_time(const weft_hopper_attention_variant *v, const weft_plan *plan, const weft_cuda_device *device,
                         int64_t pack) {
    const weft_attention *p = &plan->attention;
    const int64_t tiles = weft_ceil_divide(p->seq, v->tile_m / pack) * (p->heads / p->kv_heads / pack);
    const double fill = wave_fill(tiles, device->multiprocessors), time = time_of(v, plan, device, pack);
    return !nearly_stays(plan, device) ? time : time / (fill > 0.95 ? fill : 0.92);
}

/* The variant that takes the least time among those that fit the head dim best, or null. */
static const weft_hopper_attention_variant *best_variant(const weft_plan *plan, const weft_cuda_device *device,
                                                         int64_t pack) {
    const weft_hopper_attention_variant *best = NULL;
    for (size_t i = 0; i < VARIANTS; i++) {
        const weft_hopper_attention_variant *v = &variants[i];
        if (fits(v, plan, device) &&
            (!best || v->depth < best->depth ||
             (v->depth == best->depth && local_time(v, plan, device, pack) < local_time(best, plan, device, pack)))) {
            best = v;
        }
    }
    return best;
}

/* The most heads that one tile can hold: a power of two, so that it divides the 64 rows of a warpgroup. */
static int64_t most_in_pack(const weft_attention *p) {
    const int64_t group = p->heads / p->kv_heads;
    int64_t pack = 1;
    while (pack < 64 && group % (2 * pack) == 0) {
        pack *= 2;
    }
    return pack;
}

/* How long a problem of short queries takes, in rows that a worker goes through all keys with: tiles come in waves; a
 * warpgroup without queries costs nothing, but one alone overlaps with no other (measured: a step of 64 rows takes 1.2 us,
 * of 128 rows 1.5). */
static double row_time(const weft_hopper_attention_variant *v, const weft_attention *p, int64_t pack, int64_t workers) {
    const int64_t blocks = weft_ceil_divide(p->seq, v->tile_m / pack);
    const int64_t rows = blocks > 1 ? v->tile_m : weft_ceil_divide(p->seq * pack, 64) * 64;
    const double waves = (double)p->batch * (double)(p->heads / pack) * (double)blocks / (double)workers;
    return (waves > 2 ? waves : ceil(waves)) * (double)(rows > 64 ? rows : 100);
}

/* Heads are packed where the queries are fewer than a tile's and it saves time; for long ones tiles are full anyway. */
static int64_t pack_of(const weft_plan *plan, const weft_cuda_device *device) {
    const weft_attention *p = &plan->attention;
    const int64_t workers = plan->schedule.workers > 0 ? plan->schedule.workers : device->multiprocessors;
    const int64_t most = most_in_pack(p);
    const weft_hopper_attention_variant *plain = best_variant(plan, device, 1), *packed = best_variant(plan, device, most);
    return plain && p->seq < plain->tile_m && row_time(packed, p, most, workers) < 0.95 * row_time(plain, p, 1, workers)
               ? most
               : 1;
}

static weft_status choose(const weft_plan *plan, const weft_cuda_device *device, weft_cuda_choice *choice,
                          weft_message *why) {
    const weft_status status = check(plan, why);
    if (status) {
        return status;
    }
    const weft_hopper_attention_variant *best = best_variant(plan, device, pack_of(plan, device));
    if (!best) {
        return weft_fail(why, WEFT_UNSUPPORTED, "it has no tiles of %" PRId64 "x%" PRId64 " for head_dim %" PRId64,
                         plan->schedule.tile_m, plan->schedule.tile_n, plan->attention.head_dim);
    }
    *choice =
        (weft_cuda_choice){best->module, best->symbol, best->tile_m, best->tile_n, best->threads, best->shared_bytes, 1};
    return WEFT_OK;
}

/* Variants that are far from the best are left out. */
static size_t candidates(const weft_plan *plan, const weft_cuda_device *device, weft_schedule *list, size_t room) {
    const int64_t pack = pack_of(plan, device);
    const weft_hopper_attention_variant *best = best_variant(plan, device, pack);
    size_t count = 0;
    for (size_t i = 0; best && i < VARIANTS && count < room; i++) {
        if (fits(&variants[i], plan, device) &&
            time_of(&variants[i], plan, device, pack) < 1.4 * time_of(best, plan, device, pack)) {
            list[count] = plan->schedule;
            list[count].tile_m = variants[i].tile_m;
            list[count++].tile_n = variants[i].tile_n;
        }
    }
    return count;
}

/* Heads of a section of longest-first, in packs: as many as have their K and V in one side of the L2, but no fewer than it
 * takes for two tiles a worker, or the longest tiles of the last section would end late; all sections about the same. */
static int64_t section_heads(const weft_attention *p, const weft_machine *machine, int64_t pack, int64_t blocks,
                             int64_t workers) {
    const int64_t shared = p->heads / p->kv_heads / pack, kv_heads = p->batch * p->kv_heads;
    const double bytes = 4.0 * (double)p->kv_seq * (double)p->head_dim * (double)shared;
    const double room = (double)machine->l2_bytes * (double)shared / bytes;
    int64_t section = room < (double)kv_heads ? (int64_t)room : kv_heads;
    const int64_t least = weft_ceil_divide(2 * workers, blocks * shared);
    section = section < least ? least : section;
    if (p->kv_seq <= 512 && p->head_dim > 64) {
        section = 32; /* measured: 32 of 512 heads 377 TFLOP/s, 48 370, 96 358, 128 354, 256 323 */
    }
    section = section < 1 ? 1 : section > kv_heads ? kv_heads : section;
    return weft_ceil_divide(kv_heads, kv_heads / section) * shared;
}

/* Tickets pay when workers take several tiles. With few, a worker's next ticket, which it takes while it has a tile in
 * hand, may be one too many: tiles that are alike are then dealt out, and those under a causal mask left to the hardware,
 * which gives the next one to who is done. */
static weft_dispatch dispatch_of(int causal, double waves) {
    if (waves <= 1) {
        return WEFT_DISPATCH_STATIC;
    }
    if (causal) {
        return waves <= 2.5 ? WEFT_DISPATCH_GRID : WEFT_DISPATCH_DYNAMIC;
    }
    return waves <= 3 ? WEFT_DISPATCH_STATIC : WEFT_DISPATCH_DYNAMIC;
}

/* The default schedule: what measured best, shape by shape, in docs/kernels/attention-hopper.md. */
static void settle(const weft_plan *plan, const weft_cuda_device *device, const weft_cuda_choice *choice,
                   weft_schedule *schedule) {
    const weft_attention *p = &plan->attention;
    const int causal = p->mask != WEFT_MASK_NONE;
    const int64_t blocks = weft_ceil_divide(p->seq, choice->tile_m / plan->pack);
    const int64_t workers = schedule->workers > 0 ? schedule->workers : device->multiprocessors;
    const int64_t tiles_of_kv = blocks * (p->heads / p->kv_heads / plan->pack);
    if (nearly_stays(plan, device) && wave_fill(tiles_of_kv, workers) > 0.95) {
        schedule->workers = weft_ceil_divide(tiles_of_kv, weft_ceil_divide(tiles_of_kv, workers));
    }
    if (schedule->order == WEFT_CHOOSE) {
        schedule->order = causal ? WEFT_ORDER_LONGEST_FIRST : WEFT_ORDER_HEAD_FIRST;
    }
    if (schedule->order == WEFT_ORDER_LONGEST_FIRST && schedule->group == 0) {
        schedule->group = section_heads(p, &plan->machine, plan->pack, blocks, workers);
    }
    if (schedule->dispatch == WEFT_CHOOSE) {
        schedule->dispatch =
            dispatch_of(causal, (double)p->batch * (double)(p->heads / plan->pack) * (double)blocks / (double)workers);
    }
}

static weft_status make_map_of_q(const weft_plan *plan, const void *data, weft_tensor_map *map, weft_message *message) {
    const weft_attention *p = &plan->attention;
    const weft_strides *strides = &p->q_strides;
    const int64_t pack = plan->pack;
    const weft_tensor_view view = {.data = data,
                                   .dtype = p->dtype,
                                   .rank = 5,
                                   .length = {p->head_dim, pack, p->seq, p->heads / pack, p->batch},
                                   .stride = {1, strides->head, strides->seq, strides->head * pack, strides->batch},
                                   .box = {64, (int32_t)pack, (int32_t)(plan->schedule.tile_m / pack), 1, 1},
                                   .swizzle = 1};
    return weft_tensor_map_make(((const weft_cuda_plan *)plan->placed)->driver, "q", &view, map, message);
}

static weft_status make_map_of_kv(const weft_plan *plan, const char *name, const void *data, const weft_strides *strides,
                                  weft_tensor_map *map, weft_message *message) {
    const weft_attention *p = &plan->attention;
    const weft_tensor_view view = {.data = data,
                                   .dtype = p->dtype,
                                   .rank = 4,
                                   .length = {p->head_dim, p->kv_seq, p->kv_heads, p->batch},
                                   .stride = {1, strides->seq, strides->head, strides->batch},
                                   .box = {64, (int32_t)plan->schedule.tile_n, 1, 1},
                                   .swizzle = 1};
    return weft_tensor_map_make(((const weft_cuda_plan *)plan->placed)->driver, name, &view, map, message);
}

static weft_status fill(const weft_plan *plan, const void *buffers, const weft_walk *walk, uint64_t *counter,
                        void *parameters, weft_message *message) {
    const weft_cuda_plan *c = plan->placed;
    const weft_attention *p = &plan->attention;
    const weft_attention_data *data = buffers;
    weft_hopper_attention_params *to = parameters;
    weft_status status;
    memset(to, 0, sizeof *to);
    if ((status = make_map_of_q(plan, data->q, &to->q, message)) ||
        (status = make_map_of_kv(plan, "k", data->k, &p->k_strides, &to->k, message)) ||
        (status = make_map_of_kv(plan, "v", data->v, &p->v_strides, &to->v, message))) {
        return status;
    }
    to->o = data->o;
    to->lse = data->lse;
    to->o_strides = p->o_strides;
    to->heads = p->heads;
    to->seq = (int32_t)p->seq;
    to->kv_seq = (int32_t)p->kv_seq;
    to->head_dim = (int32_t)p->head_dim;
    to->scale_log2 = (float)(p->scale * 1.4426950408889634);
    while (1 << to->pack_bits < plan->pack) {
        to->pack_bits++;
    }
    to->by_kv_group = weft_divisor_make((uint64_t)(p->heads / p->kv_heads / plan->pack));
    /* Turns pay where all warpgroups have the same steps to go, but at head dims near 128 the products alone keep them
     * apart.
     */
    const int apart = p->head_dim > 64 && p->head_dim <= 128;
    to->turns = !apart && (p->mask == WEFT_MASK_NONE || p->seq > 1024);
    /* A sweep that alternates lives on what the last one left in the L2: workers are to be in step, and O is not to take
     * room. Tiles have the same steps to go where there is no mask. */
    const int alternates = plan->schedule.sweep == WEFT_SWEEP_SAWTOOTH && p->mask == WEFT_MASK_NONE;
    to->keep_o = alternates ? WEFT_KEEP_FIRST : WEFT_KEEP_NORMAL;
    if (alternates && counter && walk->order.kind == WEFT_ORDER_HEAD_FIRST) {
        to->pace = (weft_hopper_pace){.steps = 32, .slack = 2};
    }
    to->counter = counter;
    to->worker_of_sm = (const uint32_t *)(uintptr_t)c->worker_of_sm;
    to->walk = *walk;
    return WEFT_OK;
}

const weft_cuda_family weft_cuda_hopper_attention = {
    .name = "hopper_attention",
    .parameter_bytes = sizeof(weft_hopper_attention_params),
    .leaves_zero = 1,
    .choose = choose,
    .pack = pack_of,
    .settle = settle,
    .fill = fill,
    .candidates = candidates,
};
