/* SPDX-License-Identifier: Apache-2.0 */
/* Narrow, where the host does not know how long tiles are: one CTA makes their timetable, see weft_hopper_backward_dealing.
 *
 * The longest tiles of a section come first. Positions go to whoever would be free first if every step took equally long,
 * as src/order/timetable.c deals them; but in rounds, of which each deals as many positions as there are workers, or nearly
 * so. A tile begins where it is apart from the others of its head, by a formula in place of that file's search. */
#ifndef WEFT_CUDA_SM90_BACKWARD_DEAL_CUH
#define WEFT_CUDA_SM90_BACKWARD_DEAL_CUH

#include "cuda/sm90/backward/shape.cuh"

/* What the threads share. */
struct backward_dealer {
    int32_t free_at[WEFT_HOPPER_BACKWARD_DEALT_WORKERS]; /* of each worker; and its last position, */
    int32_t last[WEFT_HOPPER_BACKWARD_DEALT_WORKERS];    /* or below 0 */
    int32_t sorted_free[WEFT_HOPPER_BACKWARD_DEALT_WORKERS], sorted_worker[WEFT_HOPPER_BACKWARD_DEALT_WORKERS];
    int32_t warp_least[WEFT_HOPPER_BACKWARD_DEALT_WORKERS / 32], warp_count[WEFT_HOPPER_BACKWARD_DEALT_WORKERS / 32];
    int32_t kept; /* positions of those being sorted whose tiles have keys */
};

/* A tile's part of its span: all of it where tiles are not cut. */
static __device__ __forceinline__ weft_hopper_backward_span backward_span_of(const weft_hopper_backward_params &p,
                                                                             const weft_tile &tile) {
    weft_hopper_backward_span span = p.dealing.spans[tile.batch * p.walk.cols + tile.col];
    if (span.steps > 0 && p.line_parts > 1) {
        const int64_t part = weft_walk_part(&p.walk, tile.row);
        const int begin = (int)weft_part_begin(&p.walk.reach, span.steps, part);
        const int end = (int)weft_part_begin(&p.walk.reach, span.steps, part + 1);
        span.begin += begin;
        span.steps = end - begin;
    }
    return span;
}

/* Steps of a tile for the member-th of its heads, by its list. */
static __device__ __forceinline__ int backward_listed_steps(const weft_hopper_backward_params &p, const weft_tile &tile,
                                                            int member) {
    return backward_list(p, (int)tile.batch, (int)tile.row / p.line_parts * p.group + member, (int)tile.col).count();
}

/* The tile of the rank-th row of a position's cluster. */
static __device__ __forceinline__ weft_tile backward_tile_in(const weft_hopper_backward_params &p, weft_tile first,
                                                             int rank) {
    first.row = first.row * p.splits + rank;
    return first;
}

/* How long a tile takes; below 0: it has no key. */
static __device__ __forceinline__ int backward_time_of(const weft_hopper_backward_params &p, const weft_tile &tile) {
    const weft_hopper_backward_span span = backward_span_of(p, tile);
    int steps = span.steps * p.group;
    if (span.steps >= 0 && p.lists.main) {
        steps = 0;
        for (int member = 0; member < p.group; member++) {
            steps += backward_listed_steps(p, tile, member);
        }
    }
    return span.steps < 0 ? -1 : steps + WEFT_HOPPER_BACKWARD_BESIDE;
}

/* The same of a position: its cluster ends with the longest of its tiles. */
static __device__ __forceinline__ int backward_time_at(const weft_hopper_backward_params &p, int position) {
    const weft_tile first = weft_order_tile(&p.walk.order, position);
    int time = -1;
    for (int rank = 0; rank < p.splits; rank++) {
        time = max(time, backward_time_of(p, backward_tile_in(p, first, rank)));
    }
    return time;
}

static __device__ __forceinline__ void backward_find_spans(const weft_hopper_backward_params &p) {
    const int tiles = (int)p.walk.cols;
    for (int i = (int)threadIdx.x; i < (int)p.walk.order.grid.batch * tiles; i += WEFT_HOPPER_BACKWARD_DEAL_THREADS) {
        weft_visit visit = {};
        visit.tile = weft_tile_at(i / tiles, 0, i % tiles);
        visit.direction = 1;
        weft_visit_range_of(&p.walk, &visit, 0, WEFT_REACH_BAND);
        const bool has_keys = visit.cut.rows.begin < visit.cut.rows.end;
        p.dealing.spans[i] = {(int32_t)visit.first, has_keys ? (int32_t)visit.steps : -1};
    }
    __syncthreads();
}

/* Sorts a power of two of numbers: a bitonic sort. */
static __device__ __forceinline__ void backward_sort(uint64_t *keys, int count) {
    for (int run = 2; run <= count; run *= 2) {
        for (int apart = run / 2; apart > 0; apart /= 2) {
            __syncthreads();
            for (int i = (int)threadIdx.x; i < count / 2; i += WEFT_HOPPER_BACKWARD_DEAL_THREADS) {
                const int low = 2 * i - (i & (apart - 1)), high = low + apart;
                const uint64_t a = keys[low], b = keys[high];
                if ((a > b) == ((low & run) == 0)) {
                    keys[low] = b;
                    keys[high] = a;
                }
            }
        }
    }
    __syncthreads();
}

/* What positions are sorted by: those whose tiles have no key come last; the section, of those at hand; how long they take,
 * from the longest on; and their own number, of those at hand. */
static __device__ __forceinline__ uint64_t backward_key_of(int section, int time, int number) {
    static_assert(WEFT_HOPPER_BACKWARD_DEALT_TIME <= 1 << 30 && WEFT_HOPPER_BACKWARD_DEALT_SORTED <= 1 << 13, "bits");
    return (uint64_t)(time < 0) << 63 | (uint64_t)section << 43 | (uint64_t)((1 << 30) - 1 - time) % (1 << 30) << 13 |
           (uint64_t)number;
}

/* Fills the table, and `times` with how long each position takes. Returns how many have keys: those of the first
 * positions. */
static __device__ __forceinline__ int backward_sort_positions(const weft_hopper_backward_params &p, backward_dealer &dealer,
                                                              int32_t *times, uint64_t *keys) {
    constexpr int threads = WEFT_HOPPER_BACKWARD_DEAL_THREADS, room_of_all = WEFT_HOPPER_BACKWARD_DEALT_SORTED;
    const weft_order &order = p.walk.order;
    const int all = (int)order.count, thread = (int)threadIdx.x;
    const int section = (int)weft_smaller((int64_t)order.by_band.value, room_of_all),
              most = room_of_all / section * section;
    int kept = 0;
    for (int begin = 0; begin < all; begin += most) {
        const int count = min(most, all - begin);
        int room = 1;
        while (room < count) {
            room *= 2;
        }
        for (int i = thread; i < room; i += threads) {
            const int time = i < count ? backward_time_at(p, begin + i) : -1;
            keys[i] = backward_key_of(i / section, time, i);
        }
        if (thread == 0) {
            dealer.kept = 0;
        }
        backward_sort(keys, room);
        const auto has_keys = [&](int i) -> bool { return i < count && keys[i] >> 63 == 0; };
        for (int i = thread; i < count; i += threads) {
            if (has_keys(i) && !has_keys(i + 1)) {
                dealer.kept = i + 1;
            }
        }
        __syncthreads();
        const int now = dealer.kept;
        for (int i = thread; i < count; i += threads) {
            const int to = i < now ? kept + i : all - 1 - (begin - kept) - (i - now);
            const int number = (int)(keys[i] % (1 << 13)), time = (1 << 30) - 1 - (int)((keys[i] >> 13) % (1 << 30));
            p.dealing.table[to] = (uint32_t)weft_tile_index(&order, weft_order_tile(&order, begin + number));
            if (i < now) {
                times[to] = time;
            }
        }
        __syncthreads();
        kept += now;
    }
    return kept;
}

/* Gives all positions to workers, and leaves in `times` when each begins. Two threads for each worker.
 *
 * Workers are sorted by when they are free, and take the next positions one after the other as long as none who has taken
 * one would be free again before the next in line is: as if positions were given to whoever is free first, one by one. */
static __device__ __forceinline__ void backward_deal_positions(const weft_hopper_backward_params &p,
                                                               backward_dealer &dealer, int32_t *times, int count) {
    const int all = (int)p.walk.order.count, workers = (int)weft_smaller(p.walk.workers, all);
    const int thread = (int)threadIdx.x, worker = thread / 2, warp = thread / 32, lane = thread % 32;
    if (thread < workers) {
        dealer.free_at[thread] = 0;
        dealer.last[thread] = -1;
    }
    for (int begin = 0; begin < count;) {
        __syncthreads();
        const int mine = worker < workers ? dealer.free_at[worker] : 0;
        int rank = 0;
        for (int i = thread % 2; i < workers; i += 2) {
            rank += dealer.free_at[i] < mine + (i < worker);
        }
        rank += __shfl_xor_sync(0xffffffffu, rank, 1);
        if (thread % 2 == 0 && worker < workers) {
            dealer.sorted_free[rank] = mine;
            dealer.sorted_worker[rank] = worker;
        }
        __syncthreads();
        /* From here on a thread is who is the thread-th to be free. */
        const int position = begin + thread;
        const bool has = thread < workers && position < count;
        const int start = has ? dealer.sorted_free[thread] : 0, end = has ? start + times[position] : INT32_MAX;
        int least = end; /* of this warp, up to this thread */
        for (int apart = 1; apart < 32; apart *= 2) {
            const int other = __shfl_up_sync(0xffffffffu, least, apart);
            least = lane >= apart ? min(least, other) : least;
        }
        if (lane == 31 && thread < WEFT_HOPPER_BACKWARD_DEALT_WORKERS) {
            dealer.warp_least[warp] = least;
        }
        least = __shfl_up_sync(0xffffffffu, least, 1);
        least = lane > 0 ? least : INT32_MAX;
        __syncthreads();
        for (int i = 0; has && i < warp; i++) {
            least = min(least, dealer.warp_least[i]);
        }
        const bool takes = has && start <= least;
        const uint32_t taken = __ballot_sync(0xffffffffu, takes);
        if (lane == 0 && thread < WEFT_HOPPER_BACKWARD_DEALT_WORKERS) {
            dealer.warp_count[warp] = __popc(taken);
        }
        if (takes) {
            const int who = dealer.sorted_worker[thread], before = dealer.last[who];
            if (before >= 0) {
                p.dealing.next[before] = (uint32_t)position;
            }
            dealer.last[who] = position;
            dealer.free_at[who] = end;
            times[position] = start;
        }
        __syncthreads();
        for (int i = 0; i < WEFT_HOPPER_BACKWARD_DEALT_WORKERS / 32; i++) {
            begin += dealer.warp_count[i];
        }
    }
    __syncthreads();
    if (thread < workers && dealer.last[thread] >= 0) {
        p.dealing.next[dealer.last[thread]] = (uint32_t)all;
    }
    for (int i = count + thread; i < all; i += WEFT_HOPPER_BACKWARD_DEAL_THREADS) { /* some worker may begin with it */
        p.dealing.next[i] = (uint32_t)all;
    }
}

/* When the tile of a position comes by, which begins at `time`. */
static __device__ __forceinline__ weft_coming backward_coming_of(const weft_hopper_backward_params &p,
                                                                 const weft_tile &tile, int32_t time) {
    const weft_hopper_backward_span span = backward_span_of(p, tile);
    const int steps = p.lists.main ? backward_listed_steps(p, tile, 0) : span.steps;
    const int32_t number =
        steps > 0 ? (int32_t)((uint32_t)(time + WEFT_HOPPER_BACKWARD_APART * (int)tile.col) % (uint32_t)steps) : 0;
    if (p.lists.main) {
        return {time, 0, number, 1};
    }
    return {time - span.begin - number, span.steps, span.begin + number, 1};
}

static __device__ __forceinline__ void backward_deal(const weft_hopper_backward_params &p) {
    extern __shared__ __align__(1024) unsigned char hopper_shared[];
    static __shared__ backward_dealer dealer;
    uint64_t *keys = (uint64_t *)hopper_shared;
    int32_t *times = (int32_t *)(hopper_shared + 8 * WEFT_HOPPER_BACKWARD_DEALT_SORTED);
    backward_find_spans(p);
    const int count = backward_sort_positions(p, dealer, times, keys);
    backward_deal_positions(p, dealer, times, count);
    for (int i = (int)threadIdx.x; i < count; i += WEFT_HOPPER_BACKWARD_DEAL_THREADS) {
        const weft_tile first = weft_tile_of_index(&p.walk.order, p.dealing.table[i]);
        for (int rank = 0; rank < p.splits; rank++) {
            const weft_tile tile = backward_tile_in(p, first, rank);
            const int64_t line = weft_walk_line(&p.walk, tile.batch, tile.row);
            p.dealing.comings[line * p.walk.cols + tile.col] = backward_coming_of(p, tile, times[i]);
        }
    }
}

#endif
