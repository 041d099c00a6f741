/* Bulk copies of boxes between tensors and shared memory.
 *
 * From the order on, the place that a load goes to is not settled: nobody may read it, or send a second copy there. What it
 * brings arrives some turns later, in a random order. A store reads shared memory as late as its wait allows. */
#include "cuda/ptx/tma.cuh"

#include "cuda/ptx/cluster.cuh"
#include "cuda/ptx/mbarrier.cuh"
#include "orders.h"

extern "C" {
#include "fake_driver.h"
}

enum { ATOM = 1024, SWIZZLE_128 = 3 };

struct box {
    fake_tensor tensor;
    emulated_place place;
    uint32_t shared, bytes, barrier;
};
struct word {
    uint32_t to, value;
};

static thread_local std::vector<box> loads;
static thread_local emulated_orders<box> stores[EMULATED_THREADS];
static thread_local std::vector<word> unfenced[EMULATED_THREADS];
static thread_local uint8_t arriving[EMULATED_SHARED / ATOM], leaving[EMULATED_SHARED / ATOM]; /* boxes under way there */
static thread_local uint32_t shared_end;
static thread_local uint32_t read_after[EMULATED_SHARED / 16]; /* arrivals at the cluster's barrier, at most */

static_assert(sizeof(fake_tensor) <= sizeof(weft_tensor_map), "a tensor map holds what the fake driver writes");

bool emulated_in_shared(uint32_t address, uint32_t bytes) {
    return bytes <= shared_end && address <= shared_end - bytes;
}

static box box_of(const void *map, const emulated_place &place, uint32_t shared, uint32_t barrier, const char *what) {
    box b = {{}, place, shared, 2, barrier};
    memcpy(&b.tensor, map, sizeof b.tensor);
    const fake_tensor &t = b.tensor;
    if (t.rank != place.rank || t.swizzle != SWIZZLE_128 || t.box[0] != 64 || shared % ATOM != 0) {
        emulated_fail("a %s of rank %d, by a map of rank %d, swizzle %d, rows of %d elements, at %#x", what, place.rank,
                      t.rank, t.swizzle, t.box[0], shared);
    }
    for (int i = 0; i < t.rank; i++) {
        b.bytes *= (uint32_t)t.box[i];
        if (place.at[i] < 0) { /* of a load, what lies before a tensor would be zeros; no kernel here has a use for it */
            emulated_fail("a %s begins at %d on axis %d, before its tensor", what, place.at[i], i);
        }
    }
    if (!emulated_in_shared(shared, b.bytes)) {
        emulated_fail("a %s of %u bytes at %#x is not in the CTA's shared memory", what, b.bytes, shared);
    }
    return b;
}

static void mark(const box &b, uint8_t *atoms, int by) {
    for (uint32_t i = b.shared / ATOM; i < (b.shared + b.bytes + ATOM - 1) / ATOM; i++) {
        atoms[i] = (uint8_t)(atoms[i] + by);
    }
}

/* Moves 16 bytes at a time: piece(shared memory, tensor, elements inside of it). */
template <class F> static void for_pieces(const box &b, F piece) {
    const fake_tensor &t = b.tensor;
    int32_t at[5] = {0}; /* in the box */
    for (uint32_t row = b.shared; row < b.shared + b.bytes; row += 128) {
        int64_t columns = t.length[0] - b.place.at[0];
        char *data = (char *)(uintptr_t)t.data + 2 * b.place.at[0];
        for (int i = 1; i < t.rank; i++) {
            columns = b.place.at[i] + at[i] < t.length[i] ? columns : 0;
            data += (b.place.at[i] + at[i]) * t.stride[i];
        }
        for (uint32_t i = 0; i < 8; i++) {
            piece(emulated_at(emulated_swizzled(row + 16 * i)), data + 16 * i,
                  (size_t)min(max(columns - 8 * i, (int64_t)0), (int64_t)8));
        }
        for (int i = 1; i < t.rank && ++at[i] == t.box[i]; i++) {
            at[i] = 0;
        }
    }
}

void emulated_load(uint32_t to, const void *map, uint32_t barrier, const emulated_place &place) {
    const box b = box_of(map, place, to, barrier, "load");
    for (uint32_t i = to / ATOM; i < (to + b.bytes) / ATOM; i++) {
        if (arriving[i] || leaving[i]) {
            emulated_fail("a load goes to %#x, where %s", i * ATOM,
                          arriving[i] ? "another is under way" : "a store has not read yet");
        }
    }
    mark(b, arriving, 1);
    loads.push_back(b);
}

void emulated_copies_turn() {
    for (size_t i = 0; i < loads.size();) {
        if (emulated_dice(3) != 0) {
            i++;
            continue;
        }
        const box b = loads[i];
        for_pieces(b, [](unsigned char *to, const char *from, size_t elements) {
            memcpy(to, from, 2 * elements);
            memset(to + 2 * elements, 0, 16 - 2 * elements);
        });
        mark(b, arriving, -1);
        loads[i] = loads.back();
        loads.pop_back();
        emulated_complete(b.barrier, b.bytes);
    }
}

void emulated_store(const void *map, uint32_t from, const emulated_place &place) {
    const box b = box_of(map, place, from, 0, "store");
    for (int i = 0; i < b.tensor.rank; i++) {
        if (place.at[i] >= b.tensor.length[i]) { /* a GPU calls that an illegal instruction */
            emulated_fail("a store begins at %d on axis %d, outside of its tensor", place.at[i], i);
        }
    }
    mark(b, leaving, 1);
    stores[emulated_thread()].open.push_back(b);
}

void emulated_store_commit() {
    stores[emulated_thread()].commit();
}

void emulated_store_wait(size_t pending) {
    stores[emulated_thread()].wait(pending, [](const box &b) {
        for_pieces(b, [](const unsigned char *from, char *to, size_t elements) { memcpy(to, from, 2 * elements); });
        mark(b, leaving, -1);
    });
}

const unsigned char *emulated_settled_at(uint32_t address, const char *who) {
    if (address >= shared_end || arriving[address / ATOM]) {
        emulated_fail("%s reads %#x, %s", who, address,
                      address >= shared_end ? "which is not the CTA's" : "where a load is under way");
    }
    read_after[address / 16] = max(read_after[address / 16], emulated_arrivals());
    return emulated_at(address);
}

static void check_write(uint32_t to, const char *who) {
    if (to >= shared_end || arriving[to / ATOM] || leaving[to / ATOM]) {
        emulated_fail("%s writes to %#x, %s", who, to,
                      to >= shared_end ? "which is not the CTA's" : "where a copy is under way");
    }
}

void emulated_write(uint32_t to, uint32_t value) {
    check_write(to, "a thread");
    unfenced[emulated_thread()].push_back({to, value});
}

/* It was stored between the last two of those phases. Whoever had arrived at the first of them had given the place away. */
void emulated_receive(uint32_t to, const void *from, uint32_t bytes, uint32_t phases) {
    check_write(to, "another CTA");
    if (read_after[to / 16] + 1 >= phases) {
        emulated_fail("another CTA writes to %#x, which this one still read", to);
    }
    memcpy(emulated_at(to), from, bytes);
}

void fence_shared_for_async() {
    for (const word &w : unfenced[emulated_thread()]) {
        memcpy(emulated_at(w.to), &w.value, 4);
    }
    unfenced[emulated_thread()].clear();
}

void emulated_copies_begin(uint32_t shared_bytes) {
    shared_end = shared_bytes;
    memset(read_after, 0, sizeof read_after);
}

void emulated_copies_end() {
    if (!loads.empty()) {
        emulated_fail("the CTA ended with a load under way to %#x", loads[0].shared);
    }
    for (unsigned i = 0; i < EMULATED_THREADS; i++) {
        if (!stores[i].none()) {
            emulated_fail("the CTA ended before the stores of thread %u had read shared memory", i);
        }
        if (!unfenced[i].empty()) {
            emulated_fail("thread %u wrote to shared memory without a fence", i);
        }
    }
}
