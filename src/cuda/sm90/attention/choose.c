/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/sm90/attention/choose.h"

#include <math.h>

#include "cuda/sm90/attention/costs.h"
#include "cuda/sm90/attention/time.h"
#include "problem/problem.h"

#define COST(name) weft_hopper_attention_cost.name

static const weft_hopper_attention_variant variants[] = {
#define WEFT_HOPPER_ATTENTION(...) WEFT_HOPPER_ATTENTION_VARIANT(__VA_ARGS__),
#include "cuda/sm90/attention/variants.def"
};
enum { VARIANTS = sizeof variants / sizeof *variants };

/* What a kernel is chosen for. */
typedef struct request {
    weft_attention p; /* without the keys that no query sees; a cache as it is */
    const weft_schedule *s;
    const weft_cuda_device *device;
    const weft_cuda_plan *placed; /* or null, before a kernel is loaded */
    int64_t workers;
    int64_t domains;   /* of the L2 */
    double side_bytes; /* of one of them */
    int32_t form;      /* a weft_hopper_form */
} request;

static int32_t form_of(const weft_attention *p) {
    return weft_attention_asks(p) & WEFT_HAS_CACHE                        ? WEFT_HOPPER_PAGES
           : weft_attention_has_pairs(p)                                  ? WEFT_HOPPER_PAIRS
           : p->extras & WEFT_BIAS                                        ? WEFT_HOPPER_BIAS
           : weft_attention_asks(p) & (WEFT_HAS_SOFTCAP | WEFT_HAS_ALIBI) ? WEFT_HOPPER_SCORES
           : weft_attention_has_band(p)                                   ? WEFT_HOPPER_MASKS
                                                                          : WEFT_HOPPER_PLAIN;
}

/* A draft has no machine; a Hopper has an L2 of two sides. */
static request request_of(const weft_plan *plan, const weft_cuda_device *device) {
    const weft_machine *m = &plan->machine;
    const int64_t sms = device->multiprocessors, workers = plan->schedule.workers;
    request r = {.p = plan->attention,
                 .s = &plan->schedule,
                 .device = device,
                 .placed = plan->placed,
                 .workers = workers > 0 && workers < sms ? workers : sms,
                 .domains = m->domains > 0 ? m->domains : 2,
                 .form = form_of(&plan->attention),
                 .side_bytes = m->l2_bytes > 0 ? (double)m->l2_bytes : (double)device->l2_bytes / 2};
    r.p.kv_seq = r.form == WEFT_HOPPER_PAGES ? r.p.kv_seq : weft_hopper_attention_seen_keys(&plan->attention);
    return r;
}

int64_t weft_hopper_attention_page_rows(const weft_attention *p, int64_t tile_n) {
    const int64_t page = p->cache.page;
    const int is_one = page == 0 || (page == p->kv_seq && p->sequences == 0); /* that a sequence has */
    return is_one || page % tile_n == 0 ? tile_n : tile_n % page == 0 && page % 8 == 0 ? page : 0;
}

/* Whether a variant can take the problem, with the tile that the schedule asks for. One of a larger head dim may be the
 * faster one, but not where more than a third of its work is zeros. Forms of few variants take them as they are; those with
 * pages the nearest. */
static int fits(const weft_hopper_attention_variant *v, const request *r) {
    const weft_schedule *s = r->s;
    const int is_near = r->form == WEFT_HOPPER_PAGES ? v->depth == 64 || v->depth < 2 * r->p.head_dim
                                                     : v->depth == 64 || v->depth < COST(padding) * (double)r->p.head_dim ||
                                                           s->tile_m || s->tile_n || r->form >= WEFT_HOPPER_PAIRS;
    return v->dtype == r->p.dtype && v->form == r->form && v->depth >= r->p.head_dim && is_near &&
           weft_attention_fits_blocks(&r->p, v->tile_m, v->tile_n) &&
           weft_hopper_attention_page_rows(&r->p, v->tile_n) > 0 && (s->tile_m == 0 || s->tile_m == v->tile_m) &&
           (s->tile_n == 0 || s->tile_n == v->tile_n) &&
           v->shared_bytes + WEFT_CUDA_STATIC_SHARED <= (uint32_t)r->device->shared_bytes;
}

/* Whether the sweep will alternate because K and V of a head exceed one side of the L2 by so little that most of them stay
 * there from wave to wave: then a wave that reads two heads costs as much as many others. */
static int nearly_stays(const request *r) {
    const weft_schedule *s = r->s;
    const double share = weft_hopper_attention_head_bytes(&r->p) / ((double)r->device->l2_bytes / 2);
    return r->p.mask == WEFT_MASK_NONE && r->form == WEFT_HOPPER_PLAIN &&
           (s->sweep == WEFT_SWEEP_CHOOSE || s->sweep == WEFT_SWEEP_SAWTOOTH) && s->order == WEFT_ORDER_CHOOSE &&
           s->workers == 0 && share > 1 && share < COST(nearly_stays);
}

/* Whether tiles are of unlike lengths that the plan knows. */
static int has_lengths(const weft_attention *p) {
    const weft_sequences all = weft_attention_sequences(p);
    return weft_sequences_vary(&all);
}

/* Keys of the longest sequence; of a packed batch that is yet to come, a guess. */
static double longest_of(const weft_attention *p) {
    const double mean = (double)p->kv_seq / (double)(p->sequences > 0 ? p->sequences : 1);
    return p->sequences > 0 && p->cache.page == 0 && !has_lengths(p) ? fmin((double)p->kv_seq, COST(longest_guess) * mean)
                                                                     : (double)weft_attention_longest(p);
}

/* Heads of a section of longest-first, in packs: as many as have their K and V in one side of the L2, but no fewer than it
 * takes for two tiles a worker, or the longest tiles of the last section would end late; all sections about the same. */
static int64_t section_heads(const request *r, int64_t pack, int64_t blocks) {
    const weft_attention *p = &r->p;
    const int64_t shared = p->heads / p->kv_heads / pack, kv_heads = p->batch * p->kv_heads;
    const double fit = r->side_bytes / (weft_hopper_attention_head_bytes(p) * longest_of(p) / (double)p->kv_seq);
    int64_t section = fit < (double)kv_heads ? (int64_t)fit : kv_heads;
    const int64_t least = weft_ceil_divide((int64_t)COST(section_tiles) * r->workers, blocks * shared);
    section = section < least ? least : section;
    if ((double)p->kv_seq <= COST(short_keys) && p->head_dim > 64) {
        section = (int64_t)COST(short_section);
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
static int64_t clusters_at_once(const request *r, int64_t workers, int64_t ctas) {
    const int64_t most = workers / ctas;
    const int is_loaded = r->placed && r->placed->main->ctas > 0; /* or is as good as loaded, on paper */
    const int64_t known = ctas > 1 && is_loaded ? weft_cuda_clusters(r->placed, ctas) : most;
    return known < most ? known : most;
}

/* What a problem is computed by. */
typedef struct pick {
    const weft_hopper_attention_variant *variant; /* or null */
    int64_t pack, split;
    double time; /* ns */
} pick;

/* Tiles of a head. Of packed queries over pages each sequence has its own. */
static int64_t blocks_of(const request *r, const weft_hopper_attention_variant *v, int64_t pack) {
    return weft_ceil_divide(r->p.seq, v->tile_m / pack) + (r->p.cache.page > 0 ? r->p.sequences : 0);
}

/* Whether a launch without a mask had better end with the tiles that are not whole, where the K and V of a batch easily
 * stay in the L2 from a head's first tile to its last. */
static int ends_short(const request *r, int64_t queries) {
    const double bytes = weft_hopper_attention_head_bytes(&r->p) * (double)r->p.kv_heads;
    return r->p.seq > queries && r->p.seq % queries != 0 && bytes <= COST(ends_short) * (double)r->device->l2_bytes;
}

/* The schedule with what it leaves open chosen, but for the sweep of tiles that are not split: what measured best, shape by
 * shape, in docs/kernels/attention-hopper.md. */
static weft_schedule completed(const request *r, const weft_hopper_attention_variant *v, int64_t pack, int64_t split) {
    const weft_attention *p = &r->p;
    const int64_t blocks = blocks_of(r, v, pack), tiles_of_kv = blocks * (p->heads / p->kv_heads / pack);
    weft_schedule s = *r->s;
    if (nearly_stays(r) && weft_hopper_attention_wave_fill(tiles_of_kv, r->workers) > COST(whole_waves)) {
        s.workers = weft_ceil_divide(tiles_of_kv, weft_ceil_divide(tiles_of_kv, r->workers));
    }
    if (s.order == WEFT_ORDER_CHOOSE) {
        /* Of a packed batch that is yet to come, the last tiles are the first of a sequence, and short. */
        const int grows = weft_hopper_attention_grows(p) || has_lengths(p) || p->sequences > 0 || p->block_rows > 0;
        s.order = grows                             ? WEFT_ORDER_LONGEST_FIRST
                  : ends_short(r, v->tile_m / pack) ? WEFT_ORDER_BLOCK_FIRST
                                                    : WEFT_ORDER_HEAD_FIRST;
    }
    if (s.order == WEFT_ORDER_LONGEST_FIRST && s.group == 0) {
        s.group = section_heads(r, pack, blocks);
    }
    if (v->splits) {
        s.split = split;
        s.dispatch = WEFT_DISPATCH_GRID;
        s.sweep = WEFT_SWEEP_FORWARD;
    }
    if (s.dispatch == WEFT_DISPATCH_CHOOSE) { /* a single wave needs no tickets */
        const double tiles = (double)p->batch * (double)(p->heads / pack) * (double)blocks;
        s.dispatch = tiles <= (double)r->workers ? WEFT_DISPATCH_STATIC : WEFT_DISPATCH_DYNAMIC;
    }
    return s;
}

/* What such a schedule says. A sweep that is open will be the plan's own choice. */
static weft_hopper_attention_layout layout_under(const request *r, int64_t pack, const weft_schedule *s) {
    const int alternates = weft_hopper_attention_head_bytes(&r->p) > r->side_bytes;
    const int64_t split = s->split > 0 ? s->split : 1;
    return (weft_hopper_attention_layout){
        .pack = pack,
        .split = split,
        .workers = clusters_at_once(r, s->workers > 0 && s->workers < r->workers ? s->workers : r->workers, split),
        .sms = r->device->multiprocessors,
        .order = s->order,
        .group = s->group,
        .domains = s->domains > 0 ? s->domains : r->domains,
        .sweep = s->sweep != WEFT_SWEEP_CHOOSE ? s->sweep
                 : alternates                  ? WEFT_SWEEP_SAWTOOTH
                                               : WEFT_SWEEP_FORWARD,
        .dispatch = s->dispatch,
        .l2_bytes = r->device->l2_bytes,
    };
}

/* How long the problem takes under it. A caller's own order counts as one by number here: the choice must not depend on its
 * table, which fits what is chosen. */
static double time_under(const request *r, const weft_hopper_attention_variant *v, int64_t pack, const weft_schedule *s) {
    const weft_hopper_attention_layout layout = layout_under(r, pack, s);
    return weft_hopper_attention_time(v, &r->p, &layout);
}

/* Ways to share the steps of a tile that the schedule allows, least and most; none where least is above most. A cluster
 * has to fit the GPU, and beyond a few waves of them taller tiles are always better. */
static void split_range(const request *r, const weft_hopper_attention_variant *v, int64_t pack, int64_t *least,
                        int64_t *most) {
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
    while (*most > *least && (*most > r->workers || tiles * (double)*most > COST(split_waves) * (double)r->workers)) {
        (*most)--;
    }
    if (!allowed || (s->split == 0 && s->tile_m == 0 && tiles > COST(split_waves) * (double)r->workers)) {
        *most = 0;
    }
}

/* Considers a variant with so many heads in a tile, and every number of CTAs that may share one. */
static void consider(const request *r, const weft_hopper_attention_variant *v, int64_t pack, pick *best) {
    int64_t split, most;
    for (split_range(r, v, pack, &split, &most); split <= most; split++) {
        const weft_schedule s = completed(r, v, pack, split);
        const double time = time_under(r, v, pack, &s);
        if (!best->variant || time < best->time) {
            *best = (pick){v, pack, split, time};
        }
    }
}

/* The fastest way to compute the problem by one variant, or by any where that is null. Heads are packed where the queries
 * are fewer than a tile's and it does not take longer; for long ones tiles are full anyway. */
static pick pick_best(const request *r, const weft_hopper_attention_variant *only) {
    const int64_t pack = most_in_pack(&r->p);
    const int is_apart = r->p.sequences > 0 && r->p.cache.page > 0; /* no tile has queries of two sequences */
    const int64_t queries = is_apart ? weft_ceil_divide(r->p.seq, r->p.sequences) : r->p.seq;
    pick best = {0};
    for (size_t i = 0; i < VARIANTS; i++) {
        const weft_hopper_attention_variant *v = &variants[i];
        if (!fits(v, r) || (only && v != only)) {
            continue;
        }
        if (pack > 1 && queries < v->tile_m && !(r->p.extras & (WEFT_ALIBI | WEFT_BIAS)) && r->p.block_rows == 0) {
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
    return pick_best(&r, weft_hopper_attention_variant_of(&r.placed->main->choice)).pack;
}

/* Every tile, and every number of CTAs that share one. */
size_t weft_hopper_attention_candidates(const weft_plan *plan, const weft_cuda_device *device, const weft_cuda_knobs *knobs,
                                        weft_schedule *list, size_t capacity) {
    (void)knobs; /* it has none */
    const request r = request_of(plan, device);
    size_t count = 0;
    for (size_t i = 0; i < VARIANTS; i++) {
        const weft_hopper_attention_variant *v = &variants[i];
        const pick own = pick_best(&r, v);
        int64_t split = 1, most = 0;
        if (own.variant) {
            split_range(&r, v, own.pack, &split, &most);
        }
        for (; split <= most && count < capacity; split++) {
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

void weft_hopper_attention_complete(const weft_plan *plan, const weft_cuda_device *device, const weft_cuda_choice *choice,
                                    weft_schedule *schedule) {
    const request r = request_of(plan, device);
    const weft_hopper_attention_variant *v = weft_hopper_attention_variant_of(choice);
    pick best = {.split = 1};
    if (v->splits) { /* how many clusters run at a time is known by now */
        consider(&r, v, plan->heads_in_tile, &best);
    }
    *schedule = completed(&r, v, plan->heads_in_tile, best.split);
}

double weft_hopper_attention_seconds(const weft_plan *plan, const weft_cuda_device *device) {
    const weft_cuda_plan *c = plan->placed;
    const request r = request_of(plan, device);
    weft_hopper_attention_layout layout = layout_under(&r, plan->heads_in_tile, &plan->schedule);
    layout.table = plan->walk.visits == 1 ? plan->table : NULL; /* a pair is two tiles */
    return 1e-9 * weft_hopper_attention_time(weft_hopper_attention_variant_of(&c->main->choice), &r.p, &layout);
}
