/* SPDX-License-Identifier: Apache-2.0 */
/* Shared memory: who may look at it when; and bulk copies of boxes between tensors and it.
 *
 * From the order on, the place that a load goes to is not settled: nobody may read it, or send a second copy there. What it
 * brings arrives some turns later, in a random order, and in each CTA that it is for by itself. A store reads shared memory
 * as late as its wait allows. */
#include "cuda/ptx/tma.cuh"

#include "cuda/ptx/cluster.cuh"
#include "cuda/ptx/mbarrier.cuh"
#include "orders.h"

extern "C" {
#include "fake_driver.h"
}

enum { ATOM = 1024, FLOAT_32 = 7, UINT_8 = 0 };

struct box {
    fake_tensor tensor;
    emulated_place place;
    uint32_t shared, bytes, barrier;
    int32_t element; /* bytes */
    uint32_t row;    /* bytes of the box's; 0: plain bytes */
    bool swizzled;   /* rows of 128, 64 or 32 bytes */
    bool add;        /* stores: floats are added to those that are there */
};

/* The shared memory of a CTA. What is under way is counted for every 16 bytes, products for every 1024. */
struct memory {
    uint32_t end;
    emulated_edges edges;
    std::vector<box> loads;
    emulated_orders<box> stores[EMULATED_THREADS];
    uint8_t arriving[EMULATED_SHARED / 16], leaving[EMULATED_SHARED / 16];
    uint16_t read_by_products[EMULATED_SHARED / ATOM];
    uint16_t unfenced[EMULATED_SHARED / 4];          /* words: the thread that wrote it without a fence, + 1; or 0 */
    std::vector<uint32_t> written[EMULATED_THREADS]; /* the addresses of those, of each thread */
    uint32_t read_after[EMULATED_SHARED / 16];       /* arrivals at the cluster's barrier, at most */
};
static memory memories[EMULATED_SLOTS];

static_assert(sizeof(fake_tensor) <= sizeof(weft_tensor_map), "a tensor map holds what the fake driver writes");

static memory &mine() {
    return memories[emulated_slot];
}

bool emulated_in_shared(uint32_t address, uint32_t bytes) {
    return bytes <= mine().end && address <= mine().end - bytes;
}

static box box_of(const void *map, const emulated_place &place, uint32_t shared, uint32_t barrier, const char *what) {
    box b = {{}, place, shared, 0, barrier, 2, 0, false, false};
    memcpy(&b.tensor, map, sizeof b.tensor);
    const fake_tensor &t = b.tensor;
    b.element = t.type == FLOAT_32 ? 4 : t.type == UINT_8 ? 1 : 2;
    b.row = (uint32_t)(t.box[0] * b.element);
    b.swizzled = t.swizzle != 0;
    const bool atoms = b.swizzled && (t.box[1] % 8 == 0 || t.box[1] * t.box[2] % 8 == 0);
    if (t.rank != place.rank || t.swizzle < 0 || t.swizzle > 3 || b.row % 16 != 0 ||
        (b.swizzled && b.row != 16u << t.swizzle) || shared % (atoms ? ATOM : 128) != 0) {
        emulated_fail("a %s of rank %d, by a map of rank %d, swizzle %d, rows of %d elements, at %#x", what, place.rank,
                      t.rank, t.swizzle, t.box[0], shared);
    }
    if (place.at[0] * b.element % 16 != 0) { /* an H200 calls that an illegal instruction */
        emulated_fail("a %s begins at element %d of a line, which is no multiple of 16 bytes", what, place.at[0]);
    }
    b.bytes = b.row;
    for (int i = 1; i < t.rank; i++) {
        b.bytes *= (uint32_t)t.box[i];
    }
    if (!emulated_in_shared(shared, b.bytes)) {
        emulated_fail("a %s of %u bytes at %#x is not in the CTA's shared memory", what, b.bytes, shared);
    }
    return b;
}

/* Plain bytes. */
static box bytes_of(const void *data, uint32_t shared, uint32_t bytes, uint32_t barrier, bool add, const char *what) {
    box b = {{}, {}, shared, bytes, barrier, 1, 0, false, add};
    b.tensor.data = (uint64_t)(uintptr_t)data;
    if ((uintptr_t)data % 16 != 0 || shared % 16 != 0 || bytes % 16 != 0 || bytes == 0 ||
        !emulated_in_shared(shared, bytes)) {
        emulated_fail("a %s of %u bytes at %#x is not aligned, or not in the CTA's shared memory", what, bytes, shared);
    }
    return b;
}

static void mark(uint8_t *cells, uint32_t at, uint32_t bytes, int by) {
    for (uint32_t i = at / 16; i < (at + bytes + 15) / 16; i++) {
        cells[i] = (uint8_t)(cells[i] + by);
    }
}

/* Moves 16 bytes at a time: piece(shared memory, tensor, bytes of them that are inside of it). */
template <class F> static void for_pieces(const box &b, F piece) {
    const fake_tensor &t = b.tensor;
    for (uint32_t i = 0; b.row == 0 && i < b.bytes; i += 16) {
        piece(emulated_at(b.shared + i), (char *)(uintptr_t)t.data + i, (size_t)16);
    }
    if (b.row == 0) {
        return;
    }
    int32_t at[5] = {0}; /* in the box */
    for (uint32_t row = b.shared; row < b.shared + b.bytes; row += b.row) {
        int64_t end = t.length[0] * b.element; /* of the row, in bytes */
        char *data = (char *)(uintptr_t)t.data;
        for (int i = 1; i < t.rank; i++) {
            const int64_t index = b.place.at[i] + at[i];
            end = index >= 0 && index < t.length[i] ? end : 0;
            data += index * t.stride[i];
        }
        for (int64_t i = 0; i < b.row / 16; i++) {
            const int64_t from = (int64_t)b.place.at[0] * b.element + 16 * i;
            const uint32_t to = row + (uint32_t)(16 * i);
            piece(emulated_at(b.swizzled ? emulated_swizzled(to, b.row) : to), data + from,
                  (size_t)(from < 0 ? 0 : min(max(end - from, (int64_t)0), (int64_t)16)));
        }
        for (int i = 1; i < t.rank && ++at[i] == t.box[i]; i++) {
            at[i] = 0;
        }
    }
}

/* A load, or words from another CTA, may go there. */
static void check_arrival(const memory &m, uint32_t to, uint32_t bytes) {
    for (uint32_t i = to / 16; i < (to + bytes) / 16; i++) {
        if (m.arriving[i] || m.leaving[i]) {
            emulated_fail("a load goes to %#x, where %s", i * 16,
                          m.arriving[i] ? "another is under way" : "a store has not read yet");
        }
        if (m.read_by_products[i * 16 / ATOM]) {
            emulated_fail("a load goes to %#x, which a product still reads", i * 16);
        }
    }
}

static void load(unsigned slot, const box &b) {
    memory &m = memories[slot];
    check_arrival(m, b.shared, b.bytes);
    mark(m.arriving, b.shared, b.bytes, 1);
    m.loads.push_back(b);
}

void emulated_load(uint32_t to, const void *map, uint32_t barrier, const emulated_place &place) {
    load(emulated_slot, box_of(map, place, to, barrier, "load"));
}

void emulated_bulk_load(uint32_t to, const void *from, uint32_t bytes, uint32_t barrier) {
    load(emulated_slot, bytes_of(from, to, bytes, barrier, false, "load"));
}

void emulated_multicast(uint32_t to, const void *map, uint32_t barrier, uint32_t ctas, const emulated_place &place) {
    const box b = box_of(map, place, to, barrier, "load");
    for (uint32_t i = 0; i < 16; i++) {
        if (ctas >> i & 1) {
            load(emulated_slot_of(i, "a load goes to"), b);
        }
    }
}

void emulated_copies_turn() {
    std::vector<box> &loads = mine().loads;
    for (size_t i = 0; i < loads.size();) {
        if (emulated_dice(3) != 0) {
            i++;
            continue;
        }
        const box b = loads[i];
        for_pieces(b, [](unsigned char *to, const char *from, size_t bytes) {
            memcpy(to, from, bytes);
            memset(to + bytes, 0, 16 - bytes);
        });
        mark(mine().arriving, b.shared, b.bytes, -1);
        loads[i] = loads.back();
        loads.pop_back();
        emulated_complete(b.barrier, b.bytes);
    }
}

void emulated_begin_arrival(unsigned slot, uint32_t to, uint32_t bytes) {
    if (to % bytes != 0 || !emulated_in_shared(to, bytes)) {
        emulated_fail("%u bytes are sent to %#x: not aligned, or not in the CTA's shared memory", bytes, to);
    }
    check_arrival(memories[slot], to, bytes);
    mark(memories[slot].arriving, to, bytes, 1);
}

void emulated_end_arrival(uint32_t to, const void *from, uint32_t bytes) {
    memcpy(emulated_at(to), from, bytes);
    mark(mine().arriving, to, bytes, -1);
}

/* A GPU takes a store that begins behind its tensor, and one that begins before it for an illegal instruction. */
static void check_place(const box &b) {
    for (int i = 0; i < b.tensor.rank; i++) {
        const int64_t multiple = mine().edges.multiple[i], end = (b.tensor.length[i] + multiple - 1) / multiple * multiple;
        if (b.place.at[i] < 0 || b.place.at[i] >= end) {
            emulated_fail("a store begins at %d on axis %d, outside of its tensor", b.place.at[i], i);
        }
    }
}

static void check_fenced(const box &b) {
    for (uint32_t i = b.shared / 4; i < (b.shared + b.bytes) / 4; i++) {
        if (mine().unfenced[i]) {
            emulated_fail("a store reads %#x, which thread %u wrote without a fence", i * 4, mine().unfenced[i] - 1);
        }
    }
}

void emulated_store(const void *map, uint32_t from, const emulated_place &place) {
    const box b = box_of(map, place, from, 0, "store");
    if (place.at[0] * b.element % 16 != 0) { /* a GPU takes it, but no kernel here has a use for it */
        emulated_fail("a store begins at %d on axis 0, which is not aligned", place.at[0]);
    }
    check_place(b);
    check_fenced(b);
    mark(mine().leaving, from, b.bytes, 1);
    mine().stores[emulated_thread()].open.push_back(b);
}

void emulated_bulk_store(void *to, uint32_t from, uint32_t bytes, bool add) {
    const box b = bytes_of(to, from, bytes, 0, add, "store");
    check_fenced(b);
    mark(mine().leaving, from, b.bytes, 1);
    mine().stores[emulated_thread()].open.push_back(b);
}

void emulated_store_commit() {
    mine().stores[emulated_thread()].commit();
}

void emulated_store_wait(size_t pending) {
    mine().stores[emulated_thread()].wait(pending, [](const box &b) {
        for_pieces(b, [&](const unsigned char *from, char *to, size_t bytes) {
            for (size_t i = 0; b.add && i < bytes / sizeof(float); i++) {
                ((float *)to)[i] += ((const float *)from)[i];
            }
            if (!b.add) {
                memcpy(to, from, bytes);
            }
        });
        mark(mine().leaving, b.shared, b.bytes, -1);
    });
}

const unsigned char *emulated_settled_at(uint32_t address, const char *who) {
    memory &m = mine();
    if (address >= m.end || m.arriving[address / 16]) {
        emulated_fail("%s reads %#x, %s", who, address,
                      address >= m.end ? "which is not the CTA's" : "where a load is under way");
    }
    m.read_after[address / 16] = max(m.read_after[address / 16], emulated_arrivals());
    return emulated_at(address);
}

/* A kernel that has no bulk copies does not say how much is its own. */
const unsigned char *emulated_row_at(uint32_t address) {
    return mine().end ? emulated_settled_at(address, "a warp") : emulated_at(address);
}

void emulated_reads(uint32_t from, uint32_t bytes, int by) {
    for (uint32_t i = from / ATOM; i < (from + bytes + ATOM - 1) / ATOM && i < EMULATED_SHARED / ATOM; i++) {
        mine().read_by_products[i] = (uint16_t)(mine().read_by_products[i] + by);
    }
}

static void check_aligned(const char *what, uint32_t address, uint32_t bytes) {
    if (address % bytes != 0) {
        emulated_fail("a %s of %u bytes at %#x is not aligned", what, bytes, address);
    }
}

void emulated_fetch(uint32_t from, void *to, uint32_t bytes) {
    check_aligned("load", from, bytes);
    memcpy(to, emulated_settled_at(from, "a thread"), bytes);
}

static void check_write(uint32_t to, const char *who) {
    const memory &m = mine();
    if (to >= m.end || m.arriving[to / 16] || m.leaving[to / 16]) {
        emulated_fail("%s writes to %#x, %s", who, to,
                      to >= m.end ? "which is not the CTA's" : "where a copy is under way");
    }
}

void emulated_write(uint32_t to, const void *from, uint32_t bytes) {
    check_aligned("store", to, bytes);
    check_write(to, "a thread");
    memcpy(emulated_at(to), from, bytes);
    for (uint32_t i = to; i < to + bytes; i += 4) {
        mine().unfenced[i / 4] = (uint16_t)(emulated_thread() + 1);
        mine().written[emulated_thread()].push_back(i);
    }
}

void fence_shared_for_async() {
    for (const uint32_t i : mine().written[emulated_thread()]) {
        uint16_t &by = mine().unfenced[i / 4];
        by = by == emulated_thread() + 1 ? 0 : by;
    }
    mine().written[emulated_thread()].clear();
}

/* It was stored between the last two of those phases. Whoever had arrived at the first of them had given the place away. */
void emulated_receive(uint32_t to, const void *from, uint32_t bytes, uint32_t phases) {
    check_write(to, "another CTA");
    if (mine().read_after[to / 16] + 1 >= phases) {
        emulated_fail("another CTA writes to %#x, which this one still read", to);
    }
    memcpy(emulated_at(to), from, bytes);
}

void emulated_copies_begin(uint32_t shared_bytes, const emulated_edges &edges) {
    memory &m = mine();
    m.end = shared_bytes;
    m.edges = edges;
    memset(m.read_after, 0, sizeof m.read_after);
    memset(m.unfenced, 0, sizeof m.unfenced);
    for (std::vector<uint32_t> &written : m.written) {
        written.clear();
    }
}

void emulated_copies_end() {
    if (!mine().loads.empty()) {
        emulated_fail("the CTA ended with a load under way to %#x", mine().loads[0].shared);
    }
    for (unsigned i = 0; i < EMULATED_THREADS; i++) {
        if (!mine().stores[i].none()) {
            emulated_fail("the CTA ended before the stores of thread %u had read shared memory", i);
        }
    }
}
