/* SPDX-License-Identifier: Apache-2.0 */
/* A warp's blocks of K and V: 16 keys at a time from the cache, or, where keys are appended, from what is new. */
#ifndef WEFT_CUDA_DECODE_LOAD_CUH
#define WEFT_CUDA_DECODE_LOAD_CUH

#include "cuda/decode/deal.cuh"

/* Where the keys of a sequence and kv head are. Keys are counted from the sequence's origin. */
struct decode_keys {
    const char *k, *v; /* of the kv head, in bytes from here on */
    int64_t k_page, v_page, k_row, v_row;
    int batch;
    int origin;                /* column of key 0 */
    int begin, end;            /* keys that count */
    int fresh;                 /* the first that is appended, or end */
    const char *k_new, *v_new; /* as if key 0 were there */
    int64_t k_new_row, v_new_row;
    int position; /* of key 0, for rotation: keys from `fresh` on only */
    bool writes;  /* appended keys are stored by this CTA */
    bool by_row;  /* pages are not of whole blocks */
    bool whole;   /* rows are as long as the variant's */
};

template <class S>
static __device__ __forceinline__ decode_keys decode_keys_of(const weft_decode_params &p, const weft_sequence &s,
                                                             int sequence, int kv_head, bool writes) {
    decode_keys keys;
    const weft_sequences *all = &p.runs.sequences;
    keys.batch = all->packed ? 0 : sequence;
    keys.origin = (int)weft_sequence_origin(all, sequence);
    keys.begin = (int)(s.columns.begin - keys.origin);
    keys.end = keys.fresh = (int)(s.columns.end - keys.origin);
    keys.k = (const char *)p.k + 2 * kv_head * p.k_strides.head;
    keys.v = (const char *)p.v + 2 * kv_head * p.v_strides.head;
    keys.k_page = 2 * p.k_strides.batch;
    keys.v_page = 2 * p.v_strides.batch;
    keys.k_row = 2 * p.k_strides.seq;
    keys.v_row = 2 * p.v_strides.seq;
    keys.k_new = keys.v_new = 0;
    keys.k_new_row = 2 * p.k_new_strides.seq;
    keys.v_new_row = 2 * p.v_new_strides.seq;
    keys.position = 0;
    keys.writes = writes;
    keys.by_row = p.pages.page > 0 && (p.pages.page % WEFT_DECODE_BLOCK != 0 || keys.origin % WEFT_DECODE_BLOCK != 0);
    keys.whole = p.head_dim == S::depth && p.head_dim_v == S::depth;
    if (S::fresh && p.k_new) {
        const int32_t *starts = all->new_starts ? all->new_starts : all->lengths.q_starts;
        keys.fresh = min((int)weft_sequence_added(all, sequence).begin - keys.origin, keys.end);
        /* Packed, starts may be wrong: hold them to what there is. */
        const int64_t row = starts ? weft_between(starts[sequence], 0, all->append - (keys.end - keys.fresh)) : 0;
        const int64_t first = row - keys.fresh;
        keys.k_new = (const char *)p.k_new + 2 * (keys.batch * p.k_new_strides.batch + first * p.k_new_strides.seq +
                                                  kv_head * p.k_new_strides.head);
        keys.v_new = (const char *)p.v_new + 2 * (keys.batch * p.v_new_strides.batch + first * p.v_new_strides.seq +
                                                  kv_head * p.v_new_strides.head);
    }
    if (S::fresh) {
        keys.begin = min(keys.begin, keys.fresh); /* a new key is stored even if it counts as padding */
    }
    if (S::fresh && p.rotary_dim && p.positions) {
        keys.position = p.positions[sequence] - keys.fresh;
    }
    return keys;
}

/* Where a block of 16 keys begins. Where pages are of whole blocks all its rows are in one, and
 * every lane has the same; else each lane has that of its own key, key + lane % 16. */
struct decode_where {
    int page, row;
};

/* Page -1: there is none of that number. */
static __device__ __forceinline__ decode_where decode_find(const weft_decode_params &p, const decode_keys &keys, int key) {
    decode_where at = {keys.batch, keys.origin + key};
    if (p.pages.page > 0) {
        key += keys.by_row ? (int)(threadIdx.x % 16) : 0;
        at.page = 0;
        at.row = 0;
        if (key + (keys.by_row ? 0 : WEFT_DECODE_BLOCK - 1) >= keys.begin && key < keys.end) {
            const weft_page_row found = weft_page_of(&p.pages, keys.batch, keys.origin + key);
            at.page = (int)found.page;
            at.row = (int)found.row;
        }
    }
    return at;
}

/* The keys of a block whose page there is none of, a bit each. */
static __device__ __forceinline__ uint32_t decode_wrong(decode_where where) {
    return __ballot_sync(~0u, where.page < 0) & 0xffff;
}

/* Two neighbours, or an element and its partner rotary_dim / 2 further on, turned. */
template <class S>
static __device__ __forceinline__ float decode_turned(const weft_decode_params &p, float x, float partner, int element,
                                                      int position) {
    const int half = p.rotary_dim / 2, row = min(max(position, 0), p.rotary_rows - 1);
    const int pair = p.rotary_interleaved ? element / 2 : element % half;
    const bool second = p.rotary_interleaved ? element % 2 : element >= half;
    const float c = half_to_float<S::bf16>(((const uint16_t *)p.cos)[(int64_t)row * half + pair]);
    const float s = half_to_float<S::bf16>(((const uint16_t *)p.sin)[(int64_t)row * half + pair]);
    return second ? x * c + partner * s : x * c - partner * s;
}

/* Elements `element` and the next of a row that is to be turned, as they are in memory. */
template <class S>
static __device__ __forceinline__ uint32_t decode_turn_two(const weft_decode_params &p, const char *row, int element,
                                                           int position) {
    const uint32_t two = *(const uint32_t *)(row + 2 * element);
    if (element >= p.rotary_dim) {
        return two;
    }
    const int half = p.rotary_dim / 2;
    const uint16_t *all = (const uint16_t *)row;
    const float low = half_to_float<S::bf16>(two & 0xffff), high = half_to_float<S::bf16>(two >> 16);
    float other_low = high, other_high = low; /* neighbours */
    if (!p.rotary_interleaved) {
        other_low = half_to_float<S::bf16>(all[element < half ? element + half : element - half]);
        other_high = half_to_float<S::bf16>(all[element + 1 < half ? element + 1 + half : element + 1 - half]);
    }
    /* With an odd half a pair of words may hold the last of the first half and the first of the second. */
    const float a = decode_turned<S>(p, low, other_low, element, position);
    const float b = element + 1 < p.rotary_dim ? decode_turned<S>(p, high, other_high, element + 1, position) : high;
    return pack_halves<S::bf16>(a, b);
}

/* Appended keys of a block: turned, put to shared memory and, by one CTA for each key, to the cache. */
template <class S>
static __device__ __noinline__ void decode_append(const weft_decode_params &p, const decode_keys &keys, int key,
                                                  unsigned char *to) {
    const int lane = (int)(threadIdx.x % 32);
    for (int i = 0; i < WEFT_DECODE_BLOCK; i++) {
        if (key + i < keys.fresh || key + i >= keys.end) {
            continue;
        }
        const char *k = keys.k_new + (key + i) * keys.k_new_row, *v = keys.v_new + (key + i) * keys.v_new_row;
        const weft_page_row at = weft_page_of(&p.pages, keys.batch, keys.origin + key + i);
        char *k_to = (char *)keys.k + at.page * keys.k_page + at.row * keys.k_row;
        char *v_to = (char *)keys.v + at.page * keys.v_page + at.row * keys.v_row;
        const bool writes = keys.writes && at.page >= 0;
        for (int two = lane; two < S::depth / 2; two += 32) {
            uint32_t k_two = 0, v_two = 0;
            if (2 * two < p.head_dim) {
                k_two = decode_turn_two<S>(p, k, 2 * two, keys.position + key + i);
                if (writes) {
                    *(uint32_t *)(k_to + 4 * two) = k_two;
                }
            }
            if (2 * two < p.head_dim_v) {
                v_two = *(const uint32_t *)(v + 4 * two);
                if (writes) {
                    *(uint32_t *)(v_to + 4 * two) = v_two;
                }
            }
            const uint32_t place = decode_place<S>(i, two / 4) + 4 * (two % 4);
            *(uint32_t *)(to + place) = k_two;
            *(uint32_t *)(to + S::block_bytes + place) = v_two;
        }
    }
}

/* Starts copying the block of keys key .. key + 15 to `to`. */
template <class S>
static __device__ __forceinline__ void decode_load(const weft_decode_params &p, const decode_keys &keys, int key,
                                                   decode_where where, uint32_t to, unsigned char *shared) {
    constexpr int lanes = S::chunks % 16 ? 8 : 16, at_once = 32 / lanes; /* chunks of a row, and rows, at a time */
    const int lane = (int)(threadIdx.x % 32), first = lane / lanes, chunk = lane % lanes;
    const bool whole =
        key >= keys.begin && key + WEFT_DECODE_BLOCK <= keys.fresh && keys.whole && where.page >= 0 && !keys.by_row;
    if (whole) {
        const char *k = keys.k + (where.page * keys.k_page + (where.row + first) * keys.k_row + 16 * chunk);
        const char *v = keys.v + (where.page * keys.v_page + (where.row + first) * keys.v_row + 16 * chunk);
#pragma unroll
        for (int row = 0; row < WEFT_DECODE_BLOCK; row += at_once) {
#pragma unroll
            for (int i = 0; i < S::chunks; i += lanes) {
                const uint32_t place = to + decode_place<S>(row + first, chunk + i);
                cp_async_16_kept(place, k + 16 * i, p.keep);
                cp_async_16_kept(place + S::block_bytes, v + 16 * i, p.keep);
            }
            k += at_once * keys.k_row;
            v += at_once * keys.v_row;
        }
        return;
    }
#pragma unroll 1
    for (int row = first; row < WEFT_DECODE_BLOCK; row += at_once) {
        const int page = keys.by_row ? __shfl_sync(~0u, where.page, row) : where.page;
        const int in = keys.by_row ? __shfl_sync(~0u, where.row, row) : where.row + row;
        const bool there = page >= 0 && key + row >= keys.begin && key + row < keys.fresh;
        const char *k = keys.k + (there ? page * keys.k_page + in * keys.k_row : 0);
        const char *v = keys.v + (there ? page * keys.v_page + in * keys.v_row : 0);
        for (int i = chunk; i < S::chunks; i += lanes) {
            const uint32_t place = to + decode_place<S>(row, i);
            if (!S::fresh || key + row < keys.fresh ||
                key + row >= keys.end) { /* what is appended is put there otherwise */
                cp_async_16(place, k + 16 * i, there && 8 * i < p.head_dim);
                cp_async_16(place + S::block_bytes, v + 16 * i, there && 8 * i < p.head_dim_v);
            }
        }
    }
    if (S::fresh && keys.fresh < keys.end && key + WEFT_DECODE_BLOCK > keys.fresh && key < keys.end) {
        decode_append<S>(p, keys, key, shared);
    }
}

#endif
