#include "cuda/hopper_attention_choose.h"

#include <math.h>

#include "cuda/hopper_attention_time.h"

static const weft_hopper_attention_variant variants[] = {
#define WEFT_HOPPER_ATTENTION(...) WEFT_HOPPER_ATTENTION_VARIANT(__VA_ARGS__),
#include "cuda/hopper_attention.def"
};
enum { VARIANTS = sizeof variants / sizeof *variants };

/* Whether a variant, one that splits or one that does not, can take the plan's problem, with the tile that its schedule
 * asks for. */
static int fits(const weft_hopper_attention_variant *v, const weft_plan *plan, const weft_cuda_device *device, int splits) {
    const weft_schedule *s = &plan->schedule;
    return v->splits == splits && v->dtype == plan->attention.dtype && v->depth >= plan->attention.head_dim &&
           (s->tile_m == 0 || s->tile_m == v->tile_m) && (s->tile_n == 0 || s->tile_n == v->tile_n) &&
           v->shared_bytes + 1024 <= (uint32_t)device->shared_bytes;
}

static int64_t workers_of(const weft_plan *plan, const weft_cuda_device *device) {
    return plan->schedule.workers > 0 ? plan->schedule.workers : device->multiprocessors;
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

/* Heads of a section of longest-first, in packs: as many as have their K and V in one side of the L2, but no fewer than it
 * takes for two tiles a worker, or the longest tiles of the last section would end late; all sections about the same. */
static int64_t section_heads(const weft_attention *p, double side_bytes, int64_t pack, int64_t blocks, int64_t workers) {
    const int64_t shared = p->heads / p->kv_heads / pack, kv_heads = p->batch * p->kv_heads;
    const double bytes = 4.0 * (double)p->kv_seq * (double)p->head_dim * (double)shared;
    const double room = side_bytes * (double)shared / bytes;
    int64_t section = room < (double)kv_heads ? (int64_t)room : kv_heads;
    const int64_t least = weft_ceil_divide(2 * workers, blocks * shared);
    section = section < least ? least : section;
    if (p->kv_seq <= 512 && p->head_dim > 64) {
        section = 32; /* measured: 32 of 512 heads 377 TFLOP/s, 48 370, 96 358, 128 354, 256 323 */
    }
    section = section < 1 ? 1 : section > kv_heads ? kv_heads : section;
    return weft_ceil_divide(kv_heads, kv_heads / section) * shared;
}

/* How long a problem takes by a variant. Where K and V nearly stay, whole waves are worth a tenth of the time:
 * docs/kernels/attention-hopper.md. */
static double time_of(const weft_hopper_attention_variant *v, const weft_plan *plan, const weft_cuda_device *device,
                      int64_t pack) {
    const weft_attention *p = &plan->attention;
    const int64_t workers = workers_of(plan, device), blocks = weft_ceil_divide(p->seq, v->tile_m / pack);
    const double time = weft_hopper_attention_time(v, p, pack, workers,
                                                   section_heads(p, (double)device->l2_bytes / 2, pack, blocks, workers));
    const double fill = wave_fill(blocks * (p->heads / p->kv_heads / pack), workers);
    return !nearly_stays(plan, device) ? time : time / (fill > 0.95 ? 1 : 0.9);
}

/* The variant that takes the least time among those that fit the head dim best and do not split, or null. */
static const weft_hopper_attention_variant *best_variant(const weft_plan *plan, const weft_cuda_device *device,
                                                         int64_t pack) {
    const weft_hopper_attention_variant *best = NULL;
    double least = 0;
    for (size_t i = 0; i < VARIANTS; i++) {
        const weft_hopper_attention_variant *v = &variants[i];
        if (fits(v, plan, device, 0) && (!best || v->depth <= best->depth)) {
            const double time = time_of(v, plan, device, pack);
            if (!best || v->depth < best->depth || time < least) {
                best = v;
                least = time;
            }
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
static int64_t whole_pack(const weft_plan *plan, const weft_cuda_device *device) {
    enum { TALLEST = 256 };
    const weft_attention *p = &plan->attention;
    const int64_t workers = workers_of(plan, device), most = most_in_pack(p);
    if (most == 1 || p->seq >= TALLEST) {
        return 1;
    }
    const weft_hopper_attention_variant *plain = best_variant(plan, device, 1), *packed = best_variant(plan, device, most);
    return plain && p->seq < plain->tile_m && row_time(packed, p, most, workers) < 0.95 * row_time(plain, p, 1, workers)
               ? most
               : 1;
}

/* What a problem is computed by. */
typedef struct pick {
    const weft_hopper_attention_variant *variant; /* or null */
    int64_t pack, split;
    double time; /* ns */
} pick;

/* How long all K and V take to come, where so many CTAs share out a tile. From memory clusters of 7 or 8 get less than
 * those of 6: a group of SMs has its own way there, and clusters fill one such group after the other. */
static double kv_time(const weft_attention *p, const weft_cuda_device *device, int64_t split) {
    const double bytes = 4.0 * (double)p->batch * (double)p->kv_heads * (double)p->kv_seq * (double)p->head_dim;
    const int from_memory = bytes > 0.6 * (double)device->l2_bytes;
    return bytes / (!from_memory ? 5500 : split <= 2 ? 4000 : split <= 6 ? 3900 : 3100); /* bytes a ns */
}

/* What computes for so long and fetches for so long, at the same time, or nearly so. */
static double together(double compute, double fetch) {
    return fmax(compute, fetch) + 0.1 * fmin(compute, fetch);
}

/* Without steps being shared out. */
static pick pick_whole(const weft_plan *plan, const weft_cuda_device *device) {
    const int64_t pack = whole_pack(plan, device);
    const weft_hopper_attention_variant *best = best_variant(plan, device, pack);
    const double time = best ? time_of(best, plan, device, pack) : 0;
    return (pick){best, pack, 1, together(time, kv_time(&plan->attention, device, 1))};
}

/* Whether the schedule lets steps be shared out. */
static int may_split(const weft_schedule *s) {
    return (s->dispatch == WEFT_CHOOSE || s->dispatch == WEFT_DISPATCH_GRID) &&
           (s->sweep == WEFT_CHOOSE || s->sweep == WEFT_SWEEP_FORWARD);
}

/* Clusters of so many CTAs that run at the same time: known once the kernel is loaded, before that at most. Single CTAs are
 * as many as there are workers, loaded or not, so that a variant that was chosen still fits. */
static int64_t clusters_at_once(const weft_plan *plan, const weft_cuda_device *device, int64_t ctas) {
    const weft_cuda_plan *c = plan->placed;
    const int64_t most = workers_of(plan, device) / ctas;
    const int64_t known = ctas > 1 && c && c->function ? weft_cuda_clusters(c, ctas) : most;
    return known < most ? known : most;
}

/* How long a variant that splits takes, with so many heads in a tile, whose 64 rows go through shared memory at the end. */
static double split_time(const weft_hopper_attention_variant *v, const weft_plan *plan, const weft_cuda_device *device,
                         int64_t pack, int64_t split) {
    const double rows_ns = 1000, cta_ns = 200;
    const weft_attention *p = &plan->attention;
    const double rows = fmin((double)p->seq * (double)pack / 64, 1);
    const double steps_ns = (time_of(v, plan, device, pack) - v->tile_ns) / (double)split;
    return v->tile_ns + rows_ns * rows + cta_ns * (double)split + together(steps_ns, kv_time(p, device, split));
}

/* Considers a variant that splits, for as many CTAs a tile as run at the same time, or for `split` of them. */
static void consider_split(const weft_hopper_attention_variant *v, const weft_plan *plan, const weft_cuda_device *device,
                           int64_t pack, int64_t split, pick *best) {
    const weft_attention *p = &plan->attention;
    const double heads = (double)p->batch * (double)(p->heads / pack);
    const double tiles = heads * (double)weft_ceil_divide(p->seq, v->tile_m / pack);
    const int64_t most = split ? split : WEFT_HOPPER_MAX_SPLIT;
    for (int64_t ctas = split ? split : 1; ctas <= most; ctas++) {
        const double time = split_time(v, plan, device, pack, ctas);
        if ((split || tiles <= (double)clusters_at_once(plan, device, ctas)) &&
            (!best->variant || v->depth < best->variant->depth || time < best->time)) {
            *best = (pick){v, pack, ctas, time};
        }
    }
}

/* The best way to share out steps, with so many heads in a tile and by so many CTAs; a 0 is chosen. */
static pick pick_split(const weft_plan *plan, const weft_cuda_device *device, int64_t pack, int64_t split) {
    const weft_attention *p = &plan->attention;
    pick best = {0};
    for (size_t i = 0; i < VARIANTS; i++) {
        const weft_hopper_attention_variant *v = &variants[i];
        if (fits(v, plan, device, 1) && (!best.variant || v->depth <= best.variant->depth)) {
            const int64_t packed = p->seq < v->tile_m ? most_in_pack(p) : 1;
            consider_split(v, plan, device, pack ? pack : packed, split, &best);
        }
    }
    return best;
}

static pick pick_best(const weft_plan *plan, const weft_cuda_device *device) {
    const int64_t asked = plan->schedule.split;
    pick split = {0}, whole = {0};
    if (may_split(&plan->schedule)) {
        split = pick_split(plan, device, 0, asked);
    }
    if (asked <= 1) {
        whole = pick_whole(plan, device);
    }
    return split.variant && (!whole.variant || split.time < 0.93 * whole.time) ? split : whole;
}

const weft_hopper_attention_variant *weft_hopper_attention_best(const weft_plan *plan, const weft_cuda_device *device) {
    return pick_best(plan, device).variant;
}

/* For the variant that was chosen. */
int64_t weft_hopper_attention_pack(const weft_plan *plan, const weft_cuda_device *device) {
    const weft_cuda_plan *c = plan->placed;
    return weft_hopper_attention_variant_of(&c->choice)->splits ? pick_split(plan, device, 0, plan->schedule.split).pack
                                                                : whole_pack(plan, device);
}

/* Those that are far from the best are left out. */
size_t weft_hopper_attention_candidates(const weft_plan *plan, const weft_cuda_device *device, weft_schedule *list,
                                        size_t room) {
    const weft_schedule *s = &plan->schedule;
    const double most_time = 1.4 * pick_best(plan, device).time;
    size_t count = 0;
    if (s->split <= 1) {
        const int64_t pack = whole_pack(plan, device);
        for (size_t i = 0; i < VARIANTS && count < room; i++) {
            if (fits(&variants[i], plan, device, 0) && time_of(&variants[i], plan, device, pack) < most_time) {
                list[count] = *s;
                list[count].tile_m = variants[i].tile_m;
                list[count++].tile_n = variants[i].tile_n;
            }
        }
    }
    const int64_t most = s->split ? s->split : WEFT_HOPPER_MAX_SPLIT;
    for (int64_t ctas = s->split ? s->split : 1; may_split(s) && ctas <= most && count < room; ctas++) {
        const pick split = pick_split(plan, device, 0, ctas);
        if (split.variant && split.time < most_time) {
            list[count] = *s;
            list[count].split = ctas;
            list[count].dispatch = WEFT_DISPATCH_GRID;
            list[count].sweep = WEFT_SWEEP_FORWARD;
            list[count].tile_m = split.variant->tile_m;
            list[count++].tile_n = split.variant->tile_n;
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
static int ends_short(const weft_attention *p, const weft_cuda_device *device, int64_t queries) {
    const double bytes = 4.0 * (double)p->kv_seq * (double)p->head_dim * (double)p->kv_heads;
    return p->seq > queries && p->seq % queries != 0 && bytes <= (double)device->l2_bytes / 4;
}

/* The default schedule: what measured best, shape by shape, in docs/kernels/attention-hopper.md. */
void weft_hopper_attention_settle(const weft_plan *plan, const weft_cuda_device *device, const weft_cuda_choice *choice,
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
        schedule->order = causal                                               ? WEFT_ORDER_LONGEST_FIRST
                          : ends_short(p, device, choice->tile_m / plan->pack) ? WEFT_ORDER_BLOCK_FIRST
                                                                               : WEFT_ORDER_HEAD_FIRST;
    }
    if (schedule->order == WEFT_ORDER_LONGEST_FIRST && schedule->group == 0) {
        schedule->group = section_heads(p, (double)plan->machine.l2_bytes, plan->pack, blocks, workers);
    }
    if (weft_hopper_attention_variant_of(choice)->splits) {
        schedule->split = pick_split(plan, device, plan->pack, schedule->split).split;
        schedule->dispatch = WEFT_DISPATCH_GRID;
        schedule->sweep = WEFT_SWEEP_FORWARD;
    }
    if (schedule->dispatch == WEFT_CHOOSE) { /* a single wave needs no tickets */
        const double tiles = (double)p->batch * (double)(p->heads / plan->pack) * (double)blocks;
        schedule->dispatch = tiles <= (double)workers ? WEFT_DISPATCH_STATIC : WEFT_DISPATCH_DYNAMIC;
    }
}
