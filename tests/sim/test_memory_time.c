/* SPDX-License-Identifier: Apache-2.0 */
/* How long the memory takes: hits behind misses, writes that wait for an idle DRAM, requests for the same lines. */
#include "problems.h"
#include "sim/memory.h"

enum { PIECES = 256, WEIGHT = 64, SECTOR = 32 };

/* A sector takes DRAM a second, a hit 1/16 and a miss one second more. */
static weft_memory memory_with_trips(int64_t queue, double waiting, double trips) {
    weft_machine m = machine_named("gb10");
    weft_profile profile = WEFT_PROFILE_INIT;
    weft_memory memory;
    profile.trips = trips;
    m.clock = 16;
    m.near_latency = 1;
    m.dram_latency = 16;
    m.dram_bandwidth = SECTOR;
    m.l2_sector = SECTOR;
    m.l2_queue = queue;
    m.l2_waiting = waiting;
    assert_true(weft_memory_init(&memory, &m, &profile, PIECES, 1));
    memory.room = memory.fetched = 1;
    return memory;
}

static weft_memory memory_with(int64_t queue, double waiting) {
    return memory_with_trips(queue, waiting, 0);
}

static double read_at(weft_memory *memory, uint32_t piece, double now) {
    return weft_memory_read(memory, 0, piece, WEIGHT, now);
}

/* With no more than the queue ahead of it, or no queue, a hit is a hit; with more it waits as long as a miss would. */
static void hits_wait_behind_misses(void **state) {
    (void)state;
    static const int64_t queues[] = {0, 2 * WEIGHT * SECTOR, 4 * WEIGHT * SECTOR};
    for (size_t i = 0; i < sizeof queues / sizeof *queues; i++) {
        weft_memory memory = memory_with(queues[i], 0);
        assert_true(read_at(&memory, 0, 0) == WEIGHT + 1);
        for (uint32_t piece = 1; piece <= 3; piece++) {
            assert_true(read_at(&memory, piece, 1000) == 1000 + piece * WEIGHT + 1);
        }
        const int waits = i == 1;
        assert_true(read_at(&memory, 0, 1000) == (waits ? 1000 + 3 * WEIGHT + 1 : 1000 + 1.0 / 16));
        assert_true(read_at(&memory, 0, 1000 + WEIGHT) == (waits ? 1000 + 3 * WEIGHT + 1 : 1000 + WEIGHT + 1.0 / 16));
        assert_true(read_at(&memory, 0, 2000) == 2000 + 1.0 / 16);
        weft_memory_release(&memory);
    }
}

/* Without a queue DRAM takes a write at once, and a read waits; with one it takes it while nothing is read, all of it in
 * the end, and what is more than an eighth of the L2 at once. */
static void writes_wait_for_an_idle_dram(void **state) {
    (void)state;
    weft_memory memory = memory_with(0, 0);
    weft_memory_write(&memory, 0, 100, WEIGHT, 0);
    assert_true(read_at(&memory, 0, 0) == 2 * WEIGHT + 1);
    weft_memory_release(&memory);

    memory = memory_with(1, 0);
    weft_memory_write(&memory, 0, 100, WEIGHT, 0);
    assert_true(read_at(&memory, 0, 0) == WEIGHT + 1);
    assert_true(read_at(&memory, 1, WEIGHT + 16) == WEIGHT + 16 + WEIGHT + 1); /* 16 of the 64 sectors have been written */
    assert_true(memory.dram.unwritten == WEIGHT - 16);
    assert_true(read_at(&memory, 2, 10000) == 10000 + WEIGHT + 1);
    assert_true(memory.dram.unwritten == 0);
    for (int i = 1; i <= 3; i++) { /* each idle second is used once */
        weft_memory_write(&memory, 0, 100, WEIGHT, 11000 + 16 * i);
        assert_true(memory.dram.unwritten == WEIGHT * i - 16 * (i - 1));
    }
    assert_true(read_at(&memory, 3, 12000) == 12000 + WEIGHT + 1);

    const double kept = memory.dram.kept;
    assert_true(kept == 24.0 * 1024 * 1024 / 8 / SECTOR);
    weft_memory_write(&memory, 0, 101, (uint32_t)kept + 5, 20000);
    assert_true(memory.dram.unwritten == kept && memory.dram.free_at == 20005);
    assert_int_equal(weft_memory_traffic(&memory, 0).dram_write_bytes, (4 * WEIGHT + (uint64_t)kept + 5) * SECTOR);
    weft_memory_release(&memory);
}

/* A piece from DRAM waits behind the requests for lines that others are being given, one of each other worker at most. */
static void misses_wait_for_crowds(void **state) {
    (void)state;
    static const double waiting = 4 * SECTOR; /* a quarter of a second for each sector */
    for (int others = 0; others <= 100; others += 20) {
        weft_memory memory = memory_with(0, waiting);
        read_at(&memory, 0, 0);
        for (int i = 0; i < others; i++) {
            read_at(&memory, 0, 0);
        }
        const double waits = (others < 47 ? others : 47) * WEIGHT / 4.0;
        assert_true(read_at(&memory, 1, 1000) == 1000 + WEIGHT + 1 + waits);
        assert_true(read_at(&memory, 2, 2000) == 2000 + WEIGHT + 1); /* nobody has met since */
        weft_memory_release(&memory);
    }
}

/* A kernel that loads a piece in parts waits for each. */
static void trips_come_one_after_the_other(void **state) {
    (void)state;
    for (int trips = 1; trips <= 5; trips += 2) {
        weft_memory memory = memory_with_trips(0, 0, trips);
        assert_true(read_at(&memory, 0, 0) == WEIGHT + trips);
        assert_true(read_at(&memory, 0, 1000) == 1000 + trips / 16.0);
        weft_memory_release(&memory);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hits_wait_behind_misses),
        cmocka_unit_test(writes_wait_for_an_idle_dram),
        cmocka_unit_test(misses_wait_for_crowds),
        cmocka_unit_test(trips_come_one_after_the_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
