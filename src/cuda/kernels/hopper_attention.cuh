/* The Hopper attention kernel: attention forward, one tile of the walk after the other.
 *
 * A CTA is a producer warpgroup, of which one thread asks for tiles and has Q, K and V copied into shared memory, and two
 * to four consumer warpgroups of 64 queries each, which hold scores, weights and output in registers. Consumers meet only
 * at the barriers of the rings; the producer is as many blocks of keys ahead of them as the rings are deep, across tiles.
 */
#ifndef WEFT_CUDA_KERNELS_HOPPER_ATTENTION_CUH
#define WEFT_CUDA_KERNELS_HOPPER_ATTENTION_CUH

#include "cuda/kernels/hopper_attention_feed.cuh"
#include "cuda/kernels/hopper_attention_sweep.cuh"

/* Exchanges among four lanes: a lane had words of four pieces, and gets all four words of its own piece. */
static __device__ __forceinline__ void hopper_gather(uint32_t (&words)[4]) {
    const uint32_t lane = thread_index();
    const bool upper = lane & 2, odd = lane & 1;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const uint32_t got = __shfl_xor_sync(0xffffffffu, upper ? words[i] : words[i + 2], 2);
        words[i] = upper ? got : words[i];
        words[i + 2] = upper ? words[i + 2] : got;
    }
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
        const uint32_t got = __shfl_xor_sync(0xffffffffu, odd ? words[i] : words[i + 1], 1);
        words[i] = odd ? got : words[i];
        words[i + 1] = odd ? words[i + 1] : got;
    }
}

/* Divides by the sums and stores output and LSE, 16 bytes a lane. below: the tile's rows before the warpgroup's. */
template <class S>
static __device__ __forceinline__ void hopper_store(const weft_hopper_attention_params &p, const hopper_job &job,
                                                    const hopper_rows &rows, const float (&out)[S::depth / 2], int below) {
    const int thread = (int)thread_index(), lane = thread % 32;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int row = below + thread % 128 / 32 * 16 + half * 8 + lane / 4;
        const int query = job.row + (row >> p.pack_bits);
        const int head = (job.head << p.pack_bits) + (row & ((1 << p.pack_bits) - 1));
        float sum = rows.sum[half];
        sum += __shfl_xor_sync(0xffffffffu, sum, 1); /* the four lanes that share the row */
        sum += __shfl_xor_sync(0xffffffffu, sum, 2);
        const float inverse = sum == 0 ? 0 : reciprocal_flushed(sum);
        char *to = (char *)p.o + lane % 4 * 16 +
                   2 * (job.batch * p.o_strides.batch + head * p.o_strides.head + query * p.o_strides.seq);
#pragma unroll
        for (int j = 0; j < S::depth / 32; j++) {
            uint32_t words[4]; /* of pieces of 8 columns */
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int at = (4 * j + i) * 4 + 2 * half;
                words[i] = pack_halves<S::bf16>(out[at] * inverse, out[at + 1] * inverse);
            }
            hopper_gather(words);
            if (query < p.seq && 32 * j + lane % 4 * 8 < p.head_dim) {
                store_16(to + 64 * j, words, p.keep_o);
            }
        }
        if (p.lse && lane % 4 == 0 && query < p.seq) {
            const float ln2 = 0.693147181f;
            p.lse[(job.batch * p.heads + head) * p.seq + query] =
                sum == 0 ? -INFINITY : ln2 * (hopper_in_base_2<S>(rows.shift[half], p.scale_log2) + log2_flushed(sum));
        }
    }
}

/* A tile of which a warpgroup sees no key. */
template <class S>
static __device__ __forceinline__ void hopper_store_nothing(const weft_hopper_attention_params &p, const hopper_job &job,
                                                            int below) {
    const hopper_rows rows = {};
    float out[S::depth / 2];
#pragma unroll
    for (int i = 0; i < S::depth / 2; i++) {
        out[i] = 0;
    }
    hopper_store<S>(p, job, rows, out, below);
}

/* A consumer warpgroup, from tile to tile. The last step of one and the first of the next are one, where two tiles have
 * room for their queries.
 *
 * Blocks of a tile that others use and this warpgroup does not see: those of K it gives back as they come, those of V when
 * the open tile's weights have met theirs. The producer may wait for that, but has the next tile's Q and first K on their
 * way before if there are fewer such blocks than stages; otherwise the tile is closed first. */
template <class S>
static __device__ __forceinline__ void hopper_consume(const weft_hopper_attention_params &p, hopper_desk<S> &desk,
                                                      uint32_t base, uint32_t group) {
    hopper_consumer<S> consumer(p, desk, base, group);
    const int below = (int)group * 64;
    float out[S::depth / 2];
    uint32_t weights[S::keys / 4];
    hopper_rows rows, ended = {};
    bool more = consumer.next_tile(), here = true; /* whether there is a next tile, and whether it is known */
    bool open = false, add = false;
    int unseen = 0;
    while (more || open) {
        const hopper_share share = consumer.share_of();
        const bool sees = more && here && share.own > 0;
        const bool joins = S::q_slots > 1 && open && sees && unseen + share.before < S::stages;
        if (joins) {
            consumer.skip_k(share.before);
            consumer.join(out, weights, add, rows, share);
            consumer.skip_v(unseen + share.before);
        } else if (open) {
            consumer.close(out, weights, add);
            if (here) {
                consumer.skip_v(unseen);
            } else {
                consumer.skip(unseen);
            }
        }
        if (open) {
            hopper_store<S>(p, consumer.job(here ? 1 : 0), ended, out, below);
        }
        open = sees;
        if (sees) {
            if (!joins) {
                consumer.skip(share.before);
                consumer.begin(weights, rows, share);
            }
            consumer.sweep(out, weights, rows, share);
            ended = rows;
            add = share.own > 1;
            unseen = share.after;
        } else if (more && here) {
            consumer.release_q();
            consumer.skip(share.before + share.after);
            hopper_store_nothing<S>(p, consumer.job(0), below);
        }
        here = !open || (S::q_slots > 1 && unseen < S::stages);
        if (more && here) {
            consumer.skip_k(open ? unseen : 0);
            more = consumer.next_tile();
        }
    }
}

template <class S> static __device__ __forceinline__ void hopper_attention(const weft_hopper_attention_params &p) {
    extern __shared__ __align__(1024) unsigned char hopper_shared[];
    static __shared__ hopper_desk<S> desk;
    const uint32_t base = (shared_address(hopper_shared) + 1023) / 1024 * 1024;
    const uint32_t group = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0); /* the producer's is 0 */
    if (threadIdx.x == 0) {
        tma_prefetch_map(&p.q);
        tma_prefetch_map(&p.k);
        tma_prefetch_map(&p.v);
        for (int i = 0; i < S::q_slots; i++) {
            mbarrier_init(shared_address(&desk.q_full[i]), 1);
            mbarrier_init(shared_address(&desk.q_empty[i]), 4 * S::groups);
        }
        for (int i = 0; i < S::stages; i++) {
            mbarrier_init(shared_address(&desk.k_full[i]), 1);
            mbarrier_init(shared_address(&desk.v_full[i]), 1);
            mbarrier_init(shared_address(&desk.k_empty[i]), 4 * S::groups);
            mbarrier_init(shared_address(&desk.v_empty[i]), 4 * S::groups);
        }
        mbarrier_init_done();
    }
    __syncthreads();
    grid_let_next();
    grid_wait(); /* what follows reads and writes the caller's memory */
    if (group == 0) {
        registers_lower<S::producer_registers>();
        if (threadIdx.x < 32 && elect_one()) {
            hopper_producer<S> producer(p, desk, base);
            producer.run();
        }
    } else {
        registers_raise<S::consumer_registers>();
        hopper_consume<S>(p, desk, base, group - 1);
    }
}

#endif
