#include "cuda/hopper_attention_choose.h"

#include <math.h>

#include "cuda/hopper_attention_time.h"

static const weft_hopper_attention_variant variants[] = {
#define WEFT_HOPPER_ATTENTION(...) WEFT_HOPPER_ATTENTION_VARIANT(__VA_ARGS__),
#include "cuda/hopper_attention.def"
};
enum { VARIANTS = sizeof variants / sizeof *variants };

/* What a kernel is chosen for. */
typedef struct request {
    weft_attention p; /* without the keys that no query sees */
    const weft_schedule *s;
    const weft_cuda_device *device;
    const weft_cuda_plan *placed; /* or null, before a kernel is loaded */
    int64_t workers;
} request;

static request request_of(const weft_plan *plan, const weft_cuda_device *device) {
    request r = {plan->attention, &plan->schedule, device, plan->placed,
                 plan->schedule.workers > 0 ? plan->schedule.workers : device->multiprocessors};
    r.p.kv_seq = weft_hopper_attention_seen_keys(&plan->attention);
    return r;
}

/* Bytes of K and V of a head. */
static double head_bytes(const weft_attention *p) {
    return 4.0 * (double)p->kv_seq * (double)p->head_dim;
}

/* Whether a variant can take the problem, with the tile that the schedule asks for. One of a larger head dim may be the
 * faster one, but not where more than a third of its work is zeros. */
static int fits(const weft_hopper_attention_variant *v, const request *r) {
    const weft_schedule *s = r->s;
    const int is_near = v->depth == 64 || 2 * v->depth < 3 * r->p.head_dim || s->tile_m || s->tile_n;
    return v->dtype == r->p.dtype && v->depth >= r->p.head_dim && is_near && (s->tile_m == 0 || s->tile_m == v->tile_m) &&
           (s->tile_n == 0 || s->tile_n == v->tile_n) && v->shared_bytes + 1024 <= (uint32_t)r->device->shared_bytes;
}

/* Of the workers' time, what the tiles of one K and V fill when they take whole waves, so that no wave reads two of them.
 */
static double wave_fill(int64_t tiles, int64_t workers) {
    return (double)tiles / (double)(weft_ceil_divide(tiles, workers) * workers);
}

/* Whether the sweep will alternate because K and V of a head exceed one side of the L2, half of a Hopper's, by so little
 * that most of them stay there from wave to wave: then a wave that reads two heads costs as much as many others. */
static int nearly_stays(const request *r) {
    const weft_schedule *s = r->s;
    const double share = head_bytes(&r->p) / ((double)r->device->l2_bytes / 2);
    return r->p.mask == WEFT_MASK_NONE && (s->sweep == WEFT_SWEEP_CHOOSE || s->sweep == WEFT_SWEEP_SAWTOOTH) &&
           s->order == WEFT_ORDER_CHOOSE && s->workers == 0 && share > 1 && share < 1.5;
}

/* Heads of a section of longest-first, in packs: as many as have their K and V in one side of the L2, but no fewer than it
 * takes for two tiles a worker, or the longest tiles of the last section would end late; all sections about the same. */
static int64_t section_heads(const request *r, double side_bytes, int64_t pack, int64_t blocks) {
    const weft_attention *p = &r->p;
    const int64_t shared = p->heads / p->kv_heads / pack, kv_heads = p->batch * p->kv_heads;
    const double room = side_bytes / head_bytes(p);
    int64_t section = room < (double)kv_heads ? (int64_t)room : kv_heads;
    const int64_t least = weft_ceil_divide(2 * r->workers, blocks * shared);
    section = section < least ? least : section;
    if (p->kv_seq <= 512 && p->head_dim > 64) {
        section = 32; /* measured: 32 of 512 heads 377 TFLOP/s, 48 370, 96 358, 128 354, 256 323 */
    }
    section = section < 1 ? 1 : section > kv_heads ? kv_heads : section;
    return weft_ceil_divide(kv_heads, kv_heads / section) * shared;
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

/* Clusters of so many CTAs that run at the same time: known once the kernel is loaded, before that at most. Single CTAs are
 * as many as there are workers, loaded or not, so that a variant that was chosen still fits. */
static int64_t clusters_at_once(const request *r, int64_t ctas) {
    const int64_t most = r->workers / ctas;
    const int64_t known = ctas > 1 && r->placed && r->placed->function ? weft_cuda_clusters(r->placed, ctas) : most;
    return known < most ? known : most;
}

/* What a problem is computed by. */
typedef struct pick {
    const weft_hopper_attention_variant *variant; /* or null */
    int64_t pack, split;
    double time; /* ns */
} pick;

static int64_t blocks_of(const request *r, const weft_hopper_attention_variant *v, int64_t pack) {
    return weft_ceil_divide(r->p.seq, v->tile_m / pack);
}

/* How long the problem takes. Where K and V nearly stay, whole waves are worth a tenth of the time:
 * docs/kernels/attention-hopper.md. */
static double time_of(const request *r, const weft_hopper_attention_variant *v, int64_t pack, int64_t split) {
    const int64_t blocks = blocks_of(r, v, pack);
    const weft_hopper_attention_layout layout = {
        .pack = pack,
        .split = split,
        .workers = clusters_at_once(r, split),
        .section = section_heads(r, (double)r->device->l2_bytes / 2, pack, blocks),
        .l2_bytes = r->device->l2_bytes,
    };
    const double time = weft_hopper_attention_time(v, &r->p, &layout);
    const double fill = wave_fill(blocks * (r->p.heads / r->p.kv_heads / pack), r->workers);
    return !nearly_stays(r) || fill > 0.95 ? time : time / 0.9;
}

/* Ways to share the steps of a tile that the schedule allows, least and most; none where least is above most. A cluster
 * has to fit the GPU, and beyond a few waves of them taller tiles are always better. */
static void split_range(const request *r, const weft_hopper_attention_variant *v, int64_t pack, int64_t *least,
                        int64_t *most) {
    enum { MOST_WAVES = 8 };
    const weft_schedule *s = r->s;
    const int allowed = (s->dispatch == WEFT_DISPATCH_CHOOSE || s->dispatch == WEFT_DISPATCH_GRID) &&
                        (s->sweep == WEFT_SWEEP_CHOOSE || s->sweep == WEFT_SWEEP_FORWARD);
    *least = s->split > 0 ? s->split : 1;
    *most = s->split > 0 ? s->split : v->splits ? WEFT_HOPPER_MAX_SPLIT : 1;
    if (!v->splits) {
        *most = *most == 1; /* its steps are not shared */
        return;
    }
    const double tiles = (double)r->p.batch * (double)(r->p.heads / pack) * (double)blocks_of(r, v, pack);
    while (*most > *least && (*most > r->workers || tiles * (double)*most > MOST_WAVES * (double)r->workers)) {
        (*most)--;
    }
    if (!allowed || (s->split == 0 && s->tile_m == 0 && tiles > MOST_WAVES * (double)r->workers)) {
        *most = 0;
    }
}

/* Considers a variant with so many heads in a tile, and every number of CTAs that may share one. */
static void consider(const request *r, const weft_hopper_attention_variant *v, int64_t pack, pick *best) {
    int64_t split, most;
    for (split_range(r, v, pack, &split, &most); split <= most; split++) {
        const double time = time_of(r, v, pack, split);
        if (!best->variant || time < best->time) {
            *best = (pick){v, pack, split, time};
        }
    }
}

/* The fastest way to compute the problem by one variant, or by any where that is null. Heads are packed where the queries
 * are fewer than a tile's and it does not take longer; for long ones tiles are full anyway. */
static pick pick_best(const request *r, const weft_hopper_attention_variant *only) {
    const int64_t pack = most_in_pack(&r->p);
    pick best = {0};
    for (size_t i = 0; i < VARIANTS; i++) {
        const weft_hopper_attention_variant *v = &variants[i];
        if (!fits(v, r) || (only && v != only)) {
            continue;
        }
        if (pack > 1 && r->p.seq < v->tile_m) {
            consider(r, v, pack, &best);
        }
        consider(r, v, 1, &best);
    }
    return best;
}

const weft_hopper_attention_variant *weft_hopper_attention_best(const weft_plan *plan, const weft_cuda_device *device) {
    const request r = request_of(plan, device);
    return pick_best(&r, NULL).variant;
}

/* For the variant that was chosen. */
int64_t weft_hopper_attention_pack(const weft_plan *plan, const weft_cuda_device *device) {
    const request r = request_of(plan, device);
    return pick_best(&r, weft_hopper_attention_variant_of(&r.placed->choice)).pack;
}

/* Every tile, and every number of CTAs that share one. */
size_t weft_hopper_attention_candidates(const weft_plan *plan, const weft_cuda_device *device, weft_schedule *list,
                                        size_t room) {
    const request r = request_of(plan, device);
    size_t count = 0;
    for (size_t i = 0; i < VARIANTS; i++) {
        const weft_hopper_attention_variant *v = &variants[i];
        const pick own = pick_best(&r, v);
        int64_t split = 1, most = 0;
        if (own.variant) {
            split_range(&r, v, own.pack, &split, &most);
        }
        for (; split <= most && count < room; split++) {
            list[count] = plan->schedule;
            list[count].tile_m = v->tile_m;
            list[count].tile_n = v->tile_n;
            if (v->splits) {
                list[count].split = split;
                list[count].dispatch = WEFT_DISPATCH_GRID;
                list[count].sweep = WEFT_SWEEP_FORWARD;
            }
            count++;
        }
    }
    return count;
}

const weft_hopper_attention_variant *weft_hopper_attention_variant_of(const weft_cuda_choice *choice) {
    const weft_hopper_attention_variant *v = variants;
    while (v->symbol != choice->kernel) { /* it came from here */
        v++;
    }
    return v;
}

/* Whether a launch without a mask had better end with the tiles that are not whole, where the K and V of a batch easily
 * stay in the L2 from a head's first tile to its last. */
static int ends_short(const request *r, int64_t queries) {
    const double bytes = head_bytes(&r->p) * (double)r->p.kv_heads;
    return r->p.seq > queries && r->p.seq % queries != 0 && bytes <= (double)r->device->l2_bytes / 4;
}

/* The default schedule: what measured best, shape by shape, in docs/kernels/attention-hopper.md. */
void weft_hopper_attention_settle(const weft_plan *plan, const weft_cuda_device *device, const weft_cuda_choice *choice,
                                  weft_schedule *schedule) {
    const request r = request_of(plan, device);
    const weft_attention *p = &r.p;
    const weft_hopper_attention_variant *variant = weft_hopper_attention_variant_of(choice);
    const int64_t blocks = blocks_of(&r, variant, plan->pack);
    const int64_t tiles_of_kv = blocks * (p->heads / p->kv_heads / plan->pack);
    if (nearly_stays(&r) && wave_fill(tiles_of_kv, r.workers) > 0.95) {
        schedule->workers = weft_ceil_divide(tiles_of_kv, weft_ceil_divide(tiles_of_kv, r.workers));
    }
    if (schedule->order == WEFT_ORDER_CHOOSE) {
        schedule->order = p->mask != WEFT_MASK_NONE                     ? WEFT_ORDER_LONGEST_FIRST
                          : ends_short(&r, choice->tile_m / plan->pack) ? WEFT_ORDER_BLOCK_FIRST
                                                                        : WEFT_ORDER_HEAD_FIRST;
    }
    if (schedule->order == WEFT_ORDER_LONGEST_FIRST && schedule->group == 0) {
        schedule->group = section_heads(&r, (double)plan->machine.l2_bytes, plan->pack, blocks);
    }
    if (variant->splits) {
        pick best = {0};
        consider(&r, variant, plan->pack, &best);
        schedule->split = best.split;
        schedule->dispatch = WEFT_DISPATCH_GRID;
        schedule->sweep = WEFT_SWEEP_FORWARD;
    }
    if (schedule->dispatch == WEFT_DISPATCH_CHOOSE) { /* a single wave needs no tickets */
        const double tiles = (double)p->batch * (double)(p->heads / plan->pack) * (double)blocks;
        schedule->dispatch = tiles <= (double)r.workers ? WEFT_DISPATCH_STATIC : WEFT_DISPATCH_DYNAMIC;
    }
}
