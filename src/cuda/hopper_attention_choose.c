#include "cuda/hopper_attention_choose.h"

#include <math.h>

static const weft_hopper_attention_variant variants[] = {
#define WEFT_HOPPER_ATTENTION(...) WEFT_HOPPER_ATTENTION_VARIANT(__VA_ARGS__),
#include "cuda/hopper_attention.def"
};
enum { VARIANTS = sizeof variants / sizeof *variants };

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
int64_t weft_hopper_attention_pack(const weft_plan *plan, const weft_cuda_device *device) {
    const weft_attention *p = &plan->attention;
    const int64_t workers = plan->schedule.workers > 0 ? plan->schedule.workers : device->multiprocessors;
    const int64_t most = most_in_pack(p);
    const weft_hopper_attention_variant *plain = best_variant(plan, device, 1), *packed = best_variant(plan, device, most);
    return plain && p->seq < plain->tile_m && row_time(packed, p, most, workers) < 0.95 * row_time(plain, p, 1, workers)
               ? most
               : 1;
}

const weft_hopper_attention_variant *weft_hopper_attention_best(const weft_plan *plan, const weft_cuda_device *device) {
    return best_variant(plan, device, weft_hopper_attention_pack(plan, device));
}

/* Variants that are far from the best are left out. */
size_t weft_hopper_attention_candidates(const weft_plan *plan, const weft_cuda_device *device, weft_schedule *list,
                                        size_t room) {
    const int64_t pack = weft_hopper_attention_pack(plan, device);
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
static int32_t dispatch_of(int causal, double waves) {
    if (waves <= 1) {
        return WEFT_DISPATCH_STATIC;
    }
    if (causal) {
        return waves <= 2.5 ? WEFT_DISPATCH_GRID : WEFT_DISPATCH_DYNAMIC;
    }
    return waves <= 3 ? WEFT_DISPATCH_STATIC : WEFT_DISPATCH_DYNAMIC;
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
