/* SPDX-License-Identifier: Apache-2.0 */
/* The copy engine on a CPU: see copies.cpp. */
#ifndef WEFT_CUDA_PTX_TMA_CUH
#define WEFT_CUDA_PTX_TMA_CUH

#include "cuda/driver/tensor_map.h"
#include "emulate.h"

static inline void tma_prefetch_map(const void *) {
}

/* Coordinates of a box, the fastest axis first. */
struct emulated_place {
    int rank;
    int32_t at[5];
};
void emulated_load(uint32_t to, const void *map, uint32_t barrier, const emulated_place &place);
void emulated_multicast(uint32_t to, const void *map, uint32_t barrier, uint32_t ctas, const emulated_place &place);
void emulated_store(const void *map, uint32_t from, const emulated_place &place);
void emulated_store_commit();
void emulated_store_wait(size_t pending);

static inline void tma_load_3d(uint32_t to, const void *map, uint32_t barrier, int32_t x, int32_t y, int32_t z,
                               uint64_t = 0) {
    emulated_load(to, map, barrier, {3, {x, y, z}});
}

static inline void tma_multicast_3d(uint32_t to, const void *map, uint32_t barrier, uint16_t ctas, int32_t x, int32_t y,
                                    int32_t z, uint64_t = 0) {
    emulated_multicast(to, map, barrier, ctas, {3, {x, y, z}});
}

static inline void tma_load_4d(uint32_t to, const void *map, uint32_t barrier, int32_t x, int32_t y, int32_t z, int32_t w,
                               uint64_t = 0) {
    emulated_load(to, map, barrier, {4, {x, y, z, w}});
}

static inline void tma_load_5d(uint32_t to, const void *map, uint32_t barrier, int32_t x, int32_t y, int32_t z, int32_t w,
                               int32_t v, uint64_t = 0) {
    emulated_load(to, map, barrier, {5, {x, y, z, w, v}});
}

static inline void tma_store_3d(const void *map, uint32_t from, int32_t x, int32_t y, int32_t z) {
    emulated_store(map, from, {3, {x, y, z}});
}

static inline void tma_store_first_3d(const void *map, uint32_t from, int32_t x, int32_t y, int32_t z) {
    emulated_store(map, from, {3, {x, y, z}});
}

static inline void tma_store_4d(const void *map, uint32_t from, int32_t x, int32_t y, int32_t z, int32_t w) {
    emulated_store(map, from, {4, {x, y, z, w}});
}

static inline void tma_store_5d(const void *map, uint32_t from, int32_t x, int32_t y, int32_t z, int32_t w, int32_t v,
                                uint64_t = 0) {
    emulated_store(map, from, {5, {x, y, z, w, v}});
}

/* Plain bytes. */
void emulated_bulk_load(uint32_t to, const void *from, uint32_t bytes, uint32_t barrier);
void emulated_bulk_store(void *to, uint32_t from, uint32_t bytes, bool add);

static inline void bulk_load(uint32_t to, const void *from, uint32_t bytes, uint32_t barrier) {
    emulated_bulk_load(to, from, bytes, barrier);
}

static inline void bulk_store(void *to, uint32_t from, uint32_t bytes) {
    emulated_bulk_store(to, from, bytes, false);
}

static inline void bulk_add(float *to, uint32_t from, uint32_t bytes) {
    emulated_bulk_store(to, from, bytes, true);
}

static inline void fence_global_for_async() {
}

static inline void tma_store_commit() {
    emulated_store_commit();
}

template <int PENDING> static inline void tma_store_wait_read() {
    emulated_store_wait(PENDING);
}

template <int PENDING> static inline void tma_store_wait() {
    emulated_store_wait(PENDING); /* stores write when they read */
}

void fence_shared_for_async();

/* Where an address is in an array whose rows, of 128, 64 or 32 bytes, are swizzled. */
static inline uint32_t emulated_swizzled(uint32_t address, uint32_t row = 128) {
    return address ^ (address >> 7 & (row / 16 - 1)) << 4;
}

bool emulated_in_shared(uint32_t address, uint32_t bytes); /* whether they are the CTA's */

/* Up to 16 bytes of shared memory that are read by who may not meet a copy there. */
const unsigned char *emulated_settled_at(uint32_t address, const char *who);

/* What another CTA stored, when this one sees so many phases of the cluster's barrier. */
void emulated_receive(uint32_t to, const void *from, uint32_t bytes, uint32_t phases);

/* Words from another CTA to this slot's shared memory: from when they are sent on, nobody may look there. */
void emulated_begin_arrival(unsigned slot, uint32_t to, uint32_t bytes);
void emulated_end_arrival(uint32_t to, const void *from, uint32_t bytes);

/* A product begins to read there (by 1), or has ended (by -1). */
void emulated_reads(uint32_t from, uint32_t bytes, int by);

/* How far a store may begin outside of its tensor: nowhere behind the next multiple of its length on each axis. */
struct emulated_edges {
    int64_t multiple[5];
};

/* Of a CTA with so many bytes of dynamic shared memory. */
void emulated_copies_begin(uint32_t shared_bytes, const emulated_edges &edges = {{1, 1, 1, 1, 1}});
void emulated_copies_turn(); /* some copies arrive */
void emulated_copies_end();

#endif
